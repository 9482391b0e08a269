#!/usr/bin/env python3
"""Writes golden/temperature/cases.jsonl: logits with truths, and the temperature that minimises their negative
log-likelihood, found in 40-digit decimal arithmetic by golden-section search on the likelihood itself.

It needs no package: no derivative, no Newton, no binary floating point, nothing the fitted code shares. With --check the
file is compared instead of written. record.json beside it holds the version of Python and the sha256.

One case a line: `name`, `known` (the temperature the truths were drawn with, or null), `questions` ([logits, truth] each;
a logit is a 32-bit float), `temperature`, `nll` (their mean negative log-likelihood at it) and `nll_at_1`.
"""

import decimal
import pathlib
import random
import struct
from collections.abc import Iterator
from decimal import Decimal

from golden_record import run

PATH = pathlib.Path(__file__).resolve().parent.parent / "golden" / "temperature" / "cases.jsonl"
decimal.getcontext().prec = 40
# The temperatures of the search, and how near it comes to the optimum.
LOW, HIGH, WIDTH = Decimal("0.05"), Decimal(20), Decimal("1e-17")

Question = tuple[list[float], int]


def f32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bell(rng: random.Random, size: float) -> float:
    """About normal with deviation `size`, in arithmetic that is the same on every machine."""
    return size * (sum(rng.random() for _ in range(12)) - 6.0)


def probabilities(logits: list[float], temperature: Decimal) -> list[Decimal]:
    largest = max(logits)
    weights = [((Decimal(z) - Decimal(largest)) / temperature).exp() for z in logits]
    return [weight / sum(weights) for weight in weights]


def drawn(rng: random.Random, logits: list[float], temperature: float) -> int:
    """An option, drawn with its probability at `temperature`."""
    at = Decimal(rng.random())
    for i, p in enumerate(probabilities(logits, Decimal(temperature))):
        at -= p
        if at < 0:
            return i
    return len(logits) - 1


def nll(questions: list[Question], temperature: Decimal) -> Decimal:
    total = Decimal(0)
    for logits, truth in questions:
        exponents = [(Decimal(z) - Decimal(max(logits))) / temperature for z in logits]
        total += sum(x.exp() for x in exponents).ln() - exponents[truth]
    return total / len(questions)


def optimum(questions: list[Question]) -> Decimal:
    ratio = (Decimal(5).sqrt() - 1) / 2
    low, high = LOW, HIGH
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = nll(questions, a), nll(questions, b)
    while high - low > WIDTH:
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = nll(questions, a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = nll(questions, b)
    best = (low + high) / 2
    # A coarse grid finds nothing better.
    least = nll(questions, best)
    step = (HIGH / LOW).ln() / 60
    assert all(nll(questions, LOW * (step * i).exp()) >= least for i in range(61))
    assert LOW * 2 < best < HIGH / 2, best
    return best


def cases() -> Iterator[dict]:
    rng = random.Random(20240717)

    def made(n: int, sizes: list[int], spread: float, known: float) -> list[Question]:
        questions = []
        for _ in range(n):
            logits = [f32(bell(rng, spread)) for _ in range(rng.choice(sizes))]
            questions.append((logits, drawn(rng, logits, known)))
        return questions

    given: list[tuple[str, float | None, list[Question]]] = [
        ("noul", 1.7, made(240, [2], 2.0, 1.7)),
        ("noul, sharper than the model", 0.7, made(240, [2], 2.0, 0.7)),
        ("three to five options", 1.3, made(200, [3, 4, 5], 3.0, 1.3)),
        ("eleven options and more", 2.5, made(120, [11, 12, 20], 5.0, 2.5)),
        ("every number of options", 1.0, made(150, [2, 3, 5, 6, 10, 11], 2.0, 1.0)),
        ("far apart", 4.0, made(150, [2, 4], 15.0, 4.0)),
        ("hardly apart", 1.0, made(300, [2, 3], 0.5, 1.0)),
        ("on a large offset", 1.7, [([f32(z + 4096.0) for z in logits], t) for logits, t in made(120, [3], 2.0, 1.7)]),
        ("one question many times", None, [([0.0, 1.5, -0.25], t) for t in [1] * 5 + [0] * 2 + [2]]),
        ("one surprise among certain ones", None, [([0.0, 12.0], 1)] * 40 + [([11.0, 0.0], 1)]),
    ]
    for name, known, questions in given:
        temperature = optimum(questions)
        yield {
            "name": name,
            "known": known,
            "questions": [[logits, truth] for logits, truth in questions],
            "temperature": float(temperature),
            "nll": float(nll(questions, temperature)),
            "nll_at_1": float(nll(questions, Decimal(1))),
        }


if __name__ == "__main__":
    run(__doc__.splitlines()[0], PATH, cases, packages=())
