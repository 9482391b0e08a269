"""The requests of bench_peers.py: how many questions about how many tokens, the same text for every peer."""

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Rows may be this long: the models' own windows (1024 and 512) would cut the long cases.
MAX_LEN = 8192
LENGTHS = (64, 220, 480, 1024, 4096)
# Cost of five rows of 4096 tokens: over a minute a peer and round on two cores, so only when asked for.
NOT_BY_DEFAULT = ("5x4096",)

QUESTIONS: dict[str, Any] = {
    "queue": {
        "type": "choice",
        "instructions": "Which team should take this?",
        "criteria": ["billing", "delivery", "access", "hardware"],
    },
    "urgency": {
        "type": "score",
        "instructions": "How urgent is it for the customer?",
        "criteria": ["not at all", "this week", "today", "right now"],
    },
    "refund": {
        "type": "noul",
        "instructions": "Does the customer ask for money back?",
        "criteria": {"false": "no refund is asked for", "true": "a refund is asked for"},
    },
    "tone": {
        "type": "choice",
        "instructions": "What is the tone of the text?",
        "criteria": {"calm": None, "worried": None, "angry": "insults or threatens", "grateful": None},
    },
    "deadline": {
        "type": "noul",
        "instructions": "Does the text name a day by which it must be done?",
        "criteria": {"false": "no day", "true": "a day or an hour"},
    },
}
# A short item of the JSONL comparison: about thirty tokens with its state.
SHORT_QUESTION: dict[str, Any] = {
    "type": "noul",
    "instructions": "Money back?",
    "criteria": {"false": "no", "true": "yes"},
}

SUBJECTS = (
    "the parcel", "my subscription", "the second invoice", "the router in the hall", "your colleague",
    "the replacement part", "the login page", "the courier", "our account", "the warranty form",
)  # fmt: skip
EVENTS = (
    "was charged twice", "never arrived", "has been blinking red", "did not call back", "was left at the wrong door",
    "asks for a code that nobody sends", "shows last year's address", "stopped after the update", "came back empty",
)  # fmt: skip
TIMES = (
    "since Monday", "three days ago", "at 03:12 in the night", "again this morning", "two weeks before the holidays",
    "right after the payment of 19.50", "while I was on the phone", "for the second time in order 4471-B",
)  # fmt: skip
ENDINGS = (
    "so please answer before Friday", "and nobody could tell me why", "which is not what was agreed",
    "but I would still like to keep it", "and the rent comes out of the same account", "so I took a photo of it",
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Case:
    """Questions of a request, and about how many tokens each of their rows has."""

    n_questions: int
    n_tokens: int

    @property
    def name(self) -> str:
        """Such as 5x220."""
        return f"{self.n_questions}x{self.n_tokens}"


def parse_case(text: str) -> Case:
    """A case from its name; raises ValueError."""
    match = re.fullmatch(r"([1-5])x(\d{2,4})", text)
    if match is None or not 48 <= int(match[2]) <= MAX_LEN:
        raise ValueError(f"{text}: a case is QUESTIONSxTOKENS, 1 to 5 questions and 48 to {MAX_LEN} tokens a row")
    return Case(int(match[1]), int(match[2]))


def default_cases() -> list[Case]:
    """Every length with one and five questions, except what takes too long."""
    cases = [Case(n_questions, n_tokens) for n_questions in (1, 5) for n_tokens in LENGTHS]
    return [case for case in cases if case.name not in NOT_BY_DEFAULT]


def sentences(seed: str) -> Iterable[str]:
    """Endless sentences; the same seed gives the same ones."""
    rng = random.Random(seed)
    while True:
        parts = (rng.choice(SUBJECTS), rng.choice(EVENTS), rng.choice(TIMES), rng.choice(ENDINGS))
        text = " ".join(parts[:3]) + f", {parts[3]}."
        yield text[0].upper() + text[1:]


def text_of(tokenizer: Any, n_tokens: int, seed: str) -> str:
    """The longest prefix of whole words that has at most `n_tokens` tokens."""
    words: list[str] = []
    for sentence in sentences(seed):
        words.extend(sentence.split())
        # A word is at least one token, so this many words are enough.
        if len(words) >= n_tokens:
            break

    def count(n_words: int) -> int:
        return len(tokenizer.encode(" ".join(words[:n_words]), add_special_tokens=False).ids)

    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(middle) <= n_tokens else (low, middle - 1)
    return " ".join(words[:low])


def questions(n: int) -> dict[str, Any]:
    """The first `n` questions."""
    return dict(list(QUESTIONS.items())[:n])


def request(state: str, n_questions: int) -> dict[str, Any]:
    """A request body that no peer cuts."""
    return {"state": state, "questions": questions(n_questions), "max_len": MAX_LEN}


class Requests:
    """Makes the requests of a checkpoint: a different text every round, of the same number of tokens."""

    def __init__(self, checkpoint: Path, head_tokens: dict[int, int], seed: int) -> None:
        """`head_tokens`: tokens that `n` questions take together without any state, for every `n` used."""
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer" / "tokenizer.json"))
        self.head_tokens = head_tokens
        self.seed = seed

    def make(self, case: Case, index: int) -> dict[str, Any]:
        """Request `index` of a case: its rows have `case.n_tokens` tokens on average, a word more or less."""
        head = round(self.head_tokens[case.n_questions] / case.n_questions)
        state = text_of(self.tokenizer, max(1, case.n_tokens - head), f"{self.seed} {case.name} {index}")
        return request(state, case.n_questions)

    def short(self, index: int) -> dict[str, Any]:
        """A short item of the JSONL comparison."""
        state = text_of(self.tokenizer, 12, f"{self.seed} short {index}")
        return {"id": index, "state": state, "questions": {"refund": SHORT_QUESTION}}
