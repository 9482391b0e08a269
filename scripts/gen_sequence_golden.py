#!/usr/bin/env python3
"""Writes golden/sequence/cases.jsonl: rows that laya 0.3.21 builds under budgets small enough to cut everything.

Run it with a Python that has `laya==0.3.21` installed. The tokenizer is a toy (one token a character), so the rows show
the cutting rules and nothing else, and no model is needed. With --check the file is compared instead of written.

One case a line: `state`, `question`, `max_len`, `head_max_len` and either `row` (the tokens as characters: `<` starts
the row, `|` separates, `*` marks an option), `markers`, and the option statistics, or `refused` (the message).
record.json beside it holds the versions and the sha256.
"""

import pathlib
import random

from laya.agent import Agent

from golden_record import run

PATH = pathlib.Path(__file__).resolve().parent.parent / "golden" / "sequence" / "cases.jsonl"


class Letters:
    """One token a character, its code point. The special tokens are characters no text of the cases has."""

    cls_token_id, sep_token_id, mask_token_id = ord("<"), ord("|"), ord("*")
    mask_token = "[M]"

    def __call__(self, text, add_special_tokens, truncation=False, max_length=None):
        ids = [ord(c) for c in text]
        return {"input_ids": ids[:max_length] if truncation else ids}


class Rows(Agent):
    """The package's agent with its row building and no model."""

    def __init__(self):
        self.tok, self.cfg = Letters(), {}

    def __del__(self):
        pass


def expectation(state, question, max_len, head_max_len):
    agent = Rows()
    agent._check_question("q", question)
    try:
        (item,) = agent._encode_state(state, ["q"], {"q": agent._to_internal(question)}, max_len, head_max_len)
    except ValueError as refusal:
        return {"refused": str(refusal)}
    return {"row": "".join(map(chr, item["ids"])), "markers": item["markers"], "options": item["options"]}


def cases():
    rng = random.Random(20240608)

    def words(most):
        return " ".join(rng.choice(["a", "bb", "ccc", "[M]", "é", "[M", "M]", "[[M]M]"]) for _ in range(rng.randint(0, most)))

    for _ in range(160):
        kind = rng.choice(["choice", "choice", "score", "noul"])
        question = {"type": kind, "instructions": words(rng.choice([2, 8, 30]))}
        n = rng.choice([1, 2, 3, 5, 9, 21])
        if kind == "choice":
            question["criteria"] = {f"{words(1)}{i}": words(rng.choice([0, 3, 25])) for i in range(n)}
        elif kind == "score":
            question["criteria"] = [words(rng.choice([0, 3, 25])) for _ in range(n)]
        state = words(rng.choice([0, 5, 40, 120]))
        if rng.random() < 0.5:
            state = rng.choice([lambda: [state, words(4)], lambda: {"k": state, "[M]": words(4)}, lambda: [], lambda: {}])()
        max_len = rng.choice([8, 30, 64, 100, 150, 200, 300, 512, 512])
        head_max_len = rng.choice([1, 8, 15, 16, 17, 30, 40, 64, 100, 192])
        yield state, question, max_len, head_max_len


def lines():
    for state, question, max_len, head_max_len in cases():
        case = {"state": state, "question": question, "max_len": max_len, "head_max_len": head_max_len}
        yield case | expectation(state, question, max_len, head_max_len)


if __name__ == "__main__":
    run(__doc__.splitlines()[0], PATH, lines)
