#!/usr/bin/env python3
"""How far the answers of one run of laya-cli are from those of another: argmax flips, and probabilities.

    laya-cli -m f32.gguf --jsonl items.jsonl > f32.jsonl
    laya-cli -m mixed.gguf --jsonl items.jsonl > mixed.jsonl
    python scripts/compare_answers.py f32.jsonl mixed.jsonl [--out FILE.json]

Both files are `laya-cli --jsonl` output for the same lines. Only questions whose rows have the same tokens and markers
count; a line that is an error in one run must be one in the other. Probabilities are softmax of the raw logits, so that
the four digits of the answers hide nothing. Prints, and writes as JSON, by question type and in all:

- questions, and how many have another most probable option (a flip), with the largest lead of the first run among them;
- mean and largest difference of a probability, mean and largest of the act probability.

Needs Python 3.11 and nothing else.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path


def softmax(logits: list[float]) -> list[float]:
    top = max(logits)
    exps = [math.exp(logit - top) for logit in logits]
    total = math.fsum(exps)
    return [value / total for value in exps]


class Differences:
    """What the questions of one kind add up to."""

    def __init__(self) -> None:
        self.questions = self.flips = self.probabilities = 0
        self.total = self.largest = self.lead = self.act_total = self.act_largest = 0.0

    def add(self, first: dict, second: dict) -> None:
        a, b = softmax(first["raw_logits"]), softmax(second["raw_logits"])
        self.questions += 1
        if a.index(max(a)) != b.index(max(b)):
            self.flips += 1
            top, next_one = sorted([*a, 0.0], reverse=True)[:2]
            self.lead = max(self.lead, top - next_one)
        for x, y in zip(a, b, strict=True):
            self.probabilities += 1
            self.total += abs(x - y)
            self.largest = max(self.largest, abs(x - y))
        act = abs((first.get("act_probability") or 0.0) - (second.get("act_probability") or 0.0))
        self.act_total += act
        self.act_largest = max(self.act_largest, act)

    def summary(self) -> dict:
        return {
            "questions": self.questions,
            "flips": self.flips,
            "largest_lead_flipped": self.lead,
            "mean_abs_dp": self.total / max(self.probabilities, 1),
            "max_abs_dp": self.largest,
            "mean_abs_dp_act": self.act_total / max(self.questions, 1),
            "max_abs_dp_act": self.act_largest,
        }


def lines(path: Path) -> Iterator[dict]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--out", type=Path, help="write the summary as JSON")
    arguments = parser.parse_args()
    by_type: dict[str, Differences] = {}
    refused = other_rows = 0
    for number, (a, b) in enumerate(zip_longest(lines(arguments.first), lines(arguments.second)), 1):
        if a is None or b is None:
            sys.exit(f"line {number}: one file ends before the other")
        if ("error" in a) != ("error" in b):
            sys.exit(f"line {number}: an error in one run alone")
        if "error" in a:
            refused += 1
            continue
        for name, first in a["per_question"].items():
            second = b["per_question"][name]
            if any(first[key] != second[key] for key in ("qtype", "input_ids", "marker_pos")):
                other_rows += 1
                continue
            for kind in (first["qtype"], "all"):
                by_type.setdefault(kind, Differences()).add(first, second)
    result = {
        "lines": number,
        "refused_by_both": refused,
        "questions_with_other_rows": other_rows,
        "by_type": {kind: by_type[kind].summary() for kind in sorted(by_type)},
    }
    for kind, found in result["by_type"].items():
        print(
            f"{kind:7} {found['questions']:5} questions  {found['flips']:3} flips (lead at most"
            f" {found['largest_lead_flipped']:.4f})  |dp| mean {found['mean_abs_dp']:.2e} max {found['max_abs_dp']:.2e}"
        )
    print(f"{refused} of {number} lines refused by both, {other_rows} questions with other rows")
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
