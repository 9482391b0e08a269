#!/usr/bin/env python3
"""Writes golden/q8_0/cases.jsonl: values and the Q8_0 blocks that gguf-py 0.19.0 makes of them.

Run it with a Python that has the packages of scripts/requirements.txt installed. With --check the file is compared
instead of written.

One case a line: `name`, `values` (little-endian 32-bit floats) and `blocks` (34 bytes for every 32 values), both in hex.
record.json beside it holds the versions and the sha256.
"""

import pathlib
import random
import struct
from collections.abc import Iterator

import numpy as np
from gguf import GGMLQuantizationType, quants

from golden_record import run

PATH = pathlib.Path(__file__).resolve().parent.parent / "golden" / "q8_0" / "cases.jsonl"
BLOCK = 32


def f32(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def finite(rng: random.Random) -> float:
    """A float of any size, each exponent as likely as the others."""
    return f32(rng.getrandbits(1) << 31 | rng.randrange(255) << 23 | rng.getrandbits(23))


def bell(rng: random.Random, size: float) -> float:
    """About normal with deviation `size`, in arithmetic that is the same on every machine."""
    return size * (sum(rng.random() for _ in range(12)) - 6.0)


def spread(rng: random.Random, size: float) -> list[float]:
    return [rng.uniform(-size, size) for _ in range(BLOCK)]


def led(rng: random.Random, most: float) -> list[float]:
    """A block whose largest magnitude is `most`, somewhere and of either sign."""
    block = [rng.choice([0.0, -0.0, rng.uniform(-most, most)]) for _ in range(BLOCK)]
    block[rng.randrange(BLOCK)] = rng.choice([most, -most])
    return block


def cases() -> Iterator[tuple[str, list[float]]]:
    rng = random.Random(20240609)
    yield "zeros of both signs", [0.0] * BLOCK + [-0.0] * BLOCK + [0.0, -0.0] * (BLOCK // 2)
    yield "one value", [0.0] * 31 + [1e-3] + [-3.5] + [0.0] * 31 + [7.25] * BLOCK
    # The scale is a power of two, so every quotient is exact: halves go away from zero.
    ties = [127.0, *(i + 0.5 for i in range(-127, 127)), *(i + 0.5 - 2**-17 for i in range(127))]
    for shift in (0, -9, 30):
        rows = [[127.0, *ties[at : at + BLOCK - 1]] for at in range(0, len(ties) - BLOCK, BLOCK - 1)]
        yield f"ties at 2^{shift}", [value * 2.0**shift for row in rows for value in row]
    yield "nearly ties", [x for _ in range(24) for x in led(rng, rng.uniform(64, 128))]
    # The scale as F16: subnormal, zero, a tie between two, the largest, infinite.
    scales = [2**-24, 2**-25, 2**-25 * 1.0001, 3 * 2**-25, 2**-14, 2**-14 - 2**-25]
    scales += [1 + 2**-11, 1 + 3 * 2**-11, 65504.0, 65519.0]
    yield "scales at the edges of F16", [x for scale in scales for x in led(rng, 127 * scale)]
    yield "scales beyond F16", [x for most in (8321039.5, 8321040.0, 1e9, f32(0x7F7FFFFF)) for x in led(rng, most)]
    # The inverse of the scale: the last finite ones, infinite, and a scale that is itself zero.
    smallest = [127 * 2.0**-k for k in (125, 126, 127, 128, 129, 140, 149)]
    smallest += [126.5 * 2.0**-128, 127.5 * 2.0**-128, f32(1), f32(63), f32(64), f32(127), f32(0x7FFFFF)]
    yield "scales at the edges of F32", [x for most in smallest for x in led(rng, most)]
    yield "subnormals", [f32(rng.getrandbits(1) << 31 | rng.getrandbits(23)) for _ in range(8 * BLOCK)]
    yield "floats of every size", [finite(rng) for _ in range(16 * BLOCK)]
    yield "weights", [bell(rng, 0.02) for _ in range(64 * BLOCK)]
    yield "weights of every size", [x for _ in range(64) for x in spread(rng, rng.uniform(1, 2) * 2.0 ** rng.randrange(-27, 14))]
    halves = np.array([bell(rng, 0.05) for _ in range(64 * BLOCK)], dtype=np.float16)
    yield "weights in F16", [float(x) for x in halves]


def lines() -> Iterator[dict]:
    for name, values in cases():
        array = np.array(values, dtype=np.float32).reshape(-1, BLOCK)
        assert np.isfinite(array).all()
        # Casting an infinite scale to F16 and a not-a-number to a byte is what some of the cases are about.
        with np.errstate(over="ignore", invalid="ignore"):
            blocks = quants.quantize(array, GGMLQuantizationType.Q8_0)
        yield {"name": name, "values": array.astype("<f4").tobytes().hex(), "blocks": blocks.tobytes().hex()}


if __name__ == "__main__":
    run(__doc__.splitlines()[0], PATH, lines, packages=("gguf", "numpy"))
