#!/usr/bin/env python3
"""Writes golden/request/cases.jsonl: request bodies and what laya 0.3.21 reads in them.

Run it with a Python that has `laya==0.3.21` installed. The package's own checks run on every body; nothing is loaded
and no model is needed. With --check the file is compared instead of written.

One case a line: `name`, `body` (the exact text) and either
  `state` (the text a model reads) and `questions` (id, type, instructions, options, keys of the answer), or
  `refused` (the start of the package's message, up to its first explanation) and `error` (the exception's name).
record.json beside it holds the versions and the sha256.
"""

import json
import pathlib
import random

from laya.agent import Agent
from laya.common import render_options, serialize_state

from golden_record import run

PATH = pathlib.Path(__file__).resolve().parent.parent / "golden" / "request" / "cases.jsonl"


class Read(Exception):
    """Carries what the package made of a body out of it, before any model is needed."""


class Reader(Agent):
    """The package's agent with every check and no model."""

    def __init__(self):
        self.hooks, self.hooks_raise, self.hooks_timeout = [], False, None
        self._hooks_lock, self.model_id = None, "none"

    def __del__(self):
        pass

    def _encode_state(self, state, ids, internal, **budgets):
        raise Read(state, [(i, internal[i]) for i in ids])


def json_key(label):
    return next(iter(json.loads(json.dumps({label: 0}))))


def core(message):
    for mark in ("; ", ". "):
        message = message.split(mark)[0]
    return message.replace(" (either or both, and omitted is fine)", "")


def expectation(text):
    body = json.loads(text)
    state = body.get("state")
    try:
        Reader().predict_batch([state], body.get("questions"))
    except Read as read:
        state, questions = read.args
        return {
            "state": serialize_state(state),
            "questions": [
                {
                    "id": i,
                    "type": q["t"],
                    "instructions": q["ins"],
                    "options": render_options(q),
                    "keys": {
                        "choice": lambda: [json_key(label) for label in q["crit"]],
                        "score": lambda: [str(level) for level in range(len(q["crit"]))],
                        "noul": lambda: ["false", "true"],
                    }[q["t"]](),
                }
                for i, q in questions
            ],
        }
    except (TypeError, ValueError) as refusal:
        return {"refused": core(str(refusal)), "error": type(refusal).__name__}
    return {"state": serialize_state(state), "questions": []}


def cases():
    """Yields (name, body text)."""

    def ask(name, state='"s"', **questions):
        inner = ", ".join(f"{json.dumps(i, ensure_ascii=False)}: {d}" for i, d in questions.items())
        return name, f'{{"state": {state}, "questions": {{{inner}}}}}'

    def one(name, kind, rest, state='"s"'):
        return ask(name, state, q=f'{{"type": "{kind}", "instructions": "Which?"{", " + rest if rest else ""}}}')

    noul = '{"type": "noul", "instructions": "Holds?"}'
    for state in ['""', '" "', '"Привет\\nмир"', "[]", "{}", "0", "-0", "1.0", "1e16", "1e-7", "123456789012345680.0", "5e-324",
                  "-0.0", "true", "false", "18446744073709551615", '[{"role": "user", "text": "é\\u2028\\u007f"}, null]',
                  '{"b": 1, "a": 2, "b": 3}', '{"[MASK]": "<mask>"}', '{"amount": 1234567.5, "tiny": 1e-7, "d": 532.0}',
                  '"\\ud83d\\ude00 \\u0000 \\" \\\\ \\/"', '{"k": "\\u0000\\b\\f\\n\\r\\t\\u001f"}', "null"]:
        yield ask(f"state {state}", state, q=noul)
    yield "no state", '{"questions": {"q": ' + noul + "}}"
    yield "no questions", '{"state": "s"}'
    for questions in ["null", "[]", '"q"', "3", "true", "{}"]:
        yield f"questions {questions}", f'{{"state": "s", "questions": {questions}}}'
    yield "null state and bad questions", '{"state": null, "questions": []}'
    yield "null state and no question", '{"state": null, "questions": {}}'
    yield "other keys", '{"seed": 1, "model": "m", "state": "s", "questions": {"q": ' + noul + "}}"
    yield "question twice", '{"state": "s", "questions": {"q": 1, "r": ' + noul + ', "q": ' + noul + "}}"
    for definition in ["null", "[]", '"text"', "1", "1.5", "false", "{}", '{"type": null}', '{"type": "Noul"}', '{"type": "bool"}',
                       '{"type": 1}', '{"type": 1.0}', '{"type": true}', '{"type": ["noul"]}', '{"type": {"a": 1}}',
                       '{"type": "it\'s \\"x\\"\\n\\u0000\\u00e9\\u200b"}', '{"type": "noul"}',
                       '{"type": "noul", "criteria": 1}', '{"type": "noul", "Instructions": "x"}']:
        yield ask(f"definition {definition}", q=definition)
    for i in ["", "it's", 'a"b', "both ' \"", "tab\t", "é\u2028", "q.r[0]", "\u0000"]:
        yield ask(f"id {i!r}", **{i: "0"})
        yield ask(f"good id {i!r}", **{i: noul})
    for ins in ["null", '""', '" "', "7", "1.0", "true", "[]", '{"q": "é?", "n": 1e22}']:
        yield ask(f"instructions {ins}", q=f'{{"type": "noul", "instructions": {ins}}}')
    yield ask("first of two faults", a=noul, b='{"type": "x"}', c="1")
    yield ask("two questions", a=noul, b='{"type": "score", "instructions": "How?", "criteria": ["low", "high"]}')

    for criteria in ["null", '"a"', "1", "{}", "[]", '["a"]', '{"a": null}', '{"a": ""}', '{"a": " "}', '{"": "x"}', '[""]',
                     '["a", "a"]', '["a", "A"]', "[1, 1.0]", "[1, true]", "[0, false]", "[false, 0.0]", "[-0.0, 0]", "[true, 1.0]",
                     "[1.5, 1.5]", '["1", 1]', '["true", true]', '["2.5", 2.5]', "[1e400]", "[1, 2, 3]", "[1e22, 1e16, 1e-7, 2.0]",
                     "[18446744073709551615, -9223372036854775808]", "[9007199254740993, 9007199254740992.0]",
                     "[9007199254740992, 9007199254740992.0]", "[null]", '["a", null]', '["a", ["b"]]', '["a", {"b": 1}]',
                     '[[], "a"]', '[null, []]', '["a", "a", null]', '["a", "a", ["x"]]', "[true, false]", '[true, "True"]',
                     '{"a": 0, "b": false, "c": [], "d": {}, "e": null, "f": ""}', '{"a": {"x": [1, 2.0, null]}, "b": "é"}',
                     '{"a": "x", "b": "y", "a": "z"}', '{"a: b": "c"}', '["[MASK]", "<mask> x"]',
                     json.dumps([f"option {i}" for i in range(64)]), json.dumps({str(i): None for i in range(300)})]:
        if "1e400" not in criteria:  # an infinity for Python, refused by our reader
            yield one(f"choice {criteria[:60]}", "choice", f'"criteria": {criteria}')
    yield one("choice without criteria", "choice", "")
    yield one("choice with labels", "choice", '"criteria": ["a"], "labels": null')
    yield one("choice with labels and bad criteria", "choice", '"criteria": [], "labels": null')
    for criteria in ["null", '"a"', "{}", '{"a": "b"}', "[]", '["low"]', '[""]', "[null]", '["a", null, "b"]', '["a", "a"]',
                     '[1, 2.0, true, {"a": "b"}, ["c"], "d"]', '["é", " x ", "\\n"]', "[false]", "[0]"]:
        yield one(f"score {criteria}", "score", f'"criteria": {criteria}')
    yield one("score without criteria", "score", "")
    yield one("score with labels", "score", '"criteria": ["a"], "labels": {"true": "a", "false": "b"}')
    for criteria in ["null", "[]", '["a"]', '"a"', "1", "false", "{}", '{"true": "t"}', '{"false": "f"}', '{"true": "", "false": null}',
                     '{"TRUE": "t"}', '{"True": "a", "true": "b", "FALSE": "c"}', '{"true": "a", "TRUE": "b"}', '{"true": "a", "TRUE": null}',
                     '{"yes": "x"}', '{"Yes": "x", "no": "y", "YES": 1}', '{"true": "a", "other": "b"}', '{"": "x"}', '{"tru\\u0435": 1}',
                     '{"\\u0130": 1, "\\u03a3": 2, "a\\u03a3": 3}', '{"true": 0, "false": false}', '{"true": [], "false": {"a": 1.0}}',
                     '{" true": 1}']:
        yield one(f"noul {criteria}", "noul", f'"criteria": {criteria}')
    for labels in ["null", "{}", "[]", '"x"', "1", '{"true": "a"}', '{"true": "a", "false": "b"}', '{"false": "b", "true": "a", "x": "c"}',
                   '{"true": "a", "false": "a"}', '{"true": " a", "false": "a\\u0085"}', '{"true": "", "false": "b"}',
                   '{"true": "\\u2028\\u00a0", "false": "b"}', '{"true": "\\u001c\\u001fa\\u3000", "false": "\\u200bb"}',
                   '{"true": 1, "false": "b"}', '{"true": null, "false": "b"}', '{"True": "a", "False": "b"}', '{"true": "Да", "false": "Нет"}']:
        yield one(f"noul labels {labels}", "noul", f'"labels": {labels}')
    yield one("noul labels and criteria", "noul", '"criteria": {"true": "paid"}, "labels": {"true": "yes ", "false": "no"}')
    yield one("noul bad criteria and bad labels", "noul", '"criteria": {"x": 1}, "labels": 1')
    yield from drawn(40)


def drawn(count):
    """Random bodies, the same ones every time."""
    rng = random.Random(20240607)
    words = ["refund", "billing", "é", "中文", "a b", "", " x ", "[SEP]", "<mask>", "it's", '"', "\n", "1"]

    def scalar():
        return rng.choice([rng.choice(words), rng.randint(-3, 3), round(rng.uniform(-9, 9), 2), True, False, None, 1e17])

    def nested(depth=0):
        if depth == 2 or rng.random() < 0.6:
            return scalar()
        if rng.random() < 0.5:
            return [nested(depth + 1) for _ in range(rng.randint(0, 3))]
        return {rng.choice(words): nested(depth + 1) for _ in range(rng.randint(0, 3))}

    def question():
        kind = rng.choice(["choice", "score", "noul"])
        q = {"type": kind, "instructions": nested()}
        if kind == "choice":
            q["criteria"] = rng.choice([
                lambda: {rng.choice(words): nested() for _ in range(rng.randint(1, 5))},
                lambda: [scalar() for _ in range(rng.randint(1, 4))],
            ])()
        elif kind == "score":
            q["criteria"] = [nested() for _ in range(rng.randint(1, 5))]
        elif rng.random() < 0.7:
            q["criteria"] = {rng.choice(["true", "True", "false", "FALSE"]): nested() for _ in range(rng.randint(0, 3))}
        if rng.random() < 0.1:
            q["labels"] = {"true": rng.choice(words), "false": rng.choice(words)}
        return q

    for n in range(count):
        body = {"state": nested(), "questions": {f"q{i}": question() for i in range(rng.randint(1, 3))}}
        yield f"drawn {n}", json.dumps(body, ensure_ascii=False)


if __name__ == "__main__":
    run(
        __doc__.splitlines()[0],
        PATH,
        lambda: ({"name": name, "body": text, **expectation(text)} for name, text in cases()),
    )
