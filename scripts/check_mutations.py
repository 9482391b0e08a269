#!/usr/bin/env python3
"""Damages checkpoints in 1,000 ways and checks what laya-convert makes of each. A long check, run by hand:

    python scripts/check_mutations.py target/debug/laya-convert [--rounds 1000] [--seed 1] [--keep DIR]

Each round takes a case of golden/convert, changes one file of it (the weights' header, length or data, a JSON file, the
tokenizer, the model card) and converts. The exit code must be 0 or 1, within the time limit; a refusal must be one line
on stderr that names the file or the tensor at fault, and leave no file; an accepted checkpoint must give the bytes that
convert_rules.py gives. Where the rules refuse what laya-convert accepts, because one of their libraries checks something
that is not read, the reason is listed. --keep has the checkpoints of failures and of these copied into DIR.

Needs the packages of scripts/requirements.txt.
"""

import argparse
import collections
import json
import logging
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import convert_rules
from convert_bases import BASES, Files
from convert_cases import CASES, Case
from gen_convert_golden import files_of, put

TIME_LIMIT_S = 60
LENGTHS = [0, 1, 2, 7, 8, 9, 127, 255, 2**16, 2**31, 2**32 - 1, 2**32, 2**61, 2**63 - 1, 2**63, 2**64 - 1]
# Values that stand where others belong.
VALUES = [None, True, False, 0, 1, -1, 2, 3, 4, 32, 127, 2**31, 2**32, 2**63, 2**64, 1.5, 1e-5, 1e39, "", "x", "0.5"]
VALUES += [
    "\u2581",
    " ",
    "<pad>",
    "[CLS]",
    [],
    {},
    [1],
    ["a", "b"],
    {"a": 1},
    [[]],
    {"content": "<eos>"},
    "yes",
    "a\nb",
]
KEYS = ["rope_scaling", "is_causal", "head_dim", "num_key_value_heads", "layer_types", "id2label", "n_layers", "n_ctx"]
KEYS += ["rms_norm_eps", "chat_template", "add_eos_token", "auto_map", "extra_special_tokens", "unk_token", "eos_token"]
KEYS += ["temperature_by_options", "act_costs", "normalizer", "decoder", "post_processor", "lstrip", "special", "id"]
# Lines for model cards.
LINES = [
    "- no",
    "- a",
    "  - b",
    "name: x",
    "license: [a, b]",
    "tags:",
    "  # c",
    "\t- d",
    "version: 1.0",
    "version: '1.0'",
]
LINES += [
    "x: |",
    'x: "a',
    '  b"',
    "x: {a: b",
    "}",
    "author: it's # c",
    'description: "a \\"b\\" # c"',
    "base_model: a/b-v1",
]
LINES += [
    "language: [en, no]",
    "datasets: [https://huggingface.co/a/b, 'c']",
    "? a",
    "a: b: c",
    "...",
    "--- x",
    "- - a",
]
LINES += [
    "name: - no",
    "author: &x A",
    "author: *x",
    "name: !t x",
    "name: a\u00a0",
    "name: -",
    "tags: [a?b, :c]",
    "<<: {name: y}",
]
LINES += [
    "organization: \u00df\u00e9",
    "name:\tA  B",
    "    deep",
    "license: ",
    "license: ~",
    "x: >-",
    "x: [a, 'b",
    "c: d']",
    "\u2028",
]
CHARACTERS = "\"'[]{}:,#-|>&*!? \n\t\\/0123456789eE+._~%@`ab\u00e9\u2581\u0120\u0000\ufeff\u0085"


def text_mutated(text: str, rng: random.Random) -> str:
    """One to three characters or pieces changed."""
    for _ in range(rng.randint(1, 3)):
        if not text:
            break
        at = rng.randrange(len(text))
        match rng.randrange(5):
            case 0:
                text = text[:at] + rng.choice(CHARACTERS) + text[at + 1 :]
            case 1:
                text = text[:at] + rng.choice(CHARACTERS) + text[at:]
            case 2:
                text = text[:at] + text[at + rng.randint(1, 4) :]
            case 3:
                piece = rng.randrange(len(text))
                text = text[:at] + text[piece : piece + rng.randint(1, 40)] + text[at:]
            case _:
                text = text[:at] if rng.random() < 0.2 else text[:at] + text[at].swapcase() + text[at + 1 :]
    return text


def lines_mutated(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(min(len(lines), 12))
        match rng.randrange(4):
            case 0:
                lines[at] = rng.choice(["", " ", "  "]) + rng.choice(LINES)
            case 1:
                del lines[at]
                lines = lines or [""]
            case 2:
                lines[at] = rng.choice(["  ", "\t", "- "]) + lines[at]
            case _:
                lines.insert(rng.randint(min(1, len(lines)), min(len(lines), 12)), rng.choice(LINES))
    return "\n".join(lines)


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything inside a value; long lists and objects count for a few of their members."""
    found, todo = [], [value]
    while todo:
        node = todo.pop()
        keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
        for key in keys if len(keys) < 40 else keys[:12] + keys[-12:]:
            found.append((node, key))
            todo.append(node[key])
    return found


def value_mutated(value: Any, rng: random.Random) -> Any:
    for _ in range(rng.choice([1, 1, 1, 2])):
        inside = places(value)
        if not inside:
            return rng.choice(VALUES)
        node, key = rng.choice(inside)
        match rng.randrange(6):
            case 0 | 1:
                node[key] = rng.choice(VALUES)
            case 2:
                del node[key]
            case 3:
                other, name = rng.choice(inside)
                node[key] = (
                    json.loads(json.dumps(other[name]))
                    if name in other or isinstance(other, list) and name < len(other)
                    else 0
                )
            case 4 if isinstance(node, dict):
                node[rng.choice([*KEYS, key + "x"])] = node.pop(key)
            case 5 if isinstance(node[key], int | float) and not isinstance(node[key], bool):
                node[key] += rng.choice([-1, 1, 0.5, 2**31])
            case _:
                target = value if isinstance(value, dict) else node
                if isinstance(target, dict):
                    target[rng.choice(KEYS)] = rng.choice(VALUES)
    return value


def json_mutated(data: bytes, rng: random.Random) -> bytes:
    text = data.decode()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if value is None or rng.random() < 0.3:
        return text_mutated(text, rng).encode("utf-8", "surrogatepass")
    text = json.dumps(value_mutated(value, rng), ensure_ascii=rng.random() < 0.2, indent=rng.choice([None, 1]))
    if rng.random() < 0.05:
        text = text.replace("1", rng.choice(["NaN", "Infinity", "1e400", "1" * 30]), 1)
    return text.encode("utf-8", "surrogatepass")


def weights_mutated(data: bytes, rng: random.Random) -> bytes:
    n = int.from_bytes(data[:8], "little")
    length, header, rest = data[:8], data[8 : 8 + n], data[8 + n :]
    match rng.randrange(6):
        case 0:
            length = rng.choice([*LENGTHS, n - 1, n + 1, n + 8]).to_bytes(8, "little")
        case 1:
            return data[: rng.randrange(len(data))]
        case 2:
            at = rng.randrange(len(rest))
            size = rng.randint(1, 8)
            rest = rest[:at] + rng.randbytes(size) + rest[at + size :]
        case 3:
            rest += rng.randbytes(rng.randint(1, 64))
        case _:
            header = json_mutated(header, rng)
            length = len(header).to_bytes(8, "little")
    return length + header + rest


def mutated(name: str, data: bytes, rng: random.Random) -> bytes:
    if name.endswith(".safetensors"):
        return weights_mutated(data, rng)
    if name.endswith(".json"):
        return json_mutated(data, rng)
    text = data.decode()
    return (lines_mutated if rng.random() < 0.7 else text_mutated)(text, rng).encode("utf-8", "surrogatepass")


def run(tool: Path, folder: Path, out: Path, case: Case) -> subprocess.CompletedProcess:
    command = [tool, folder, "-o", out, "--outtype", case.outtype]
    if case.model_name is not None:
        command += ["--model-name", case.model_name]
    return subprocess.run(command, capture_output=True, timeout=TIME_LIMIT_S, check=False)


class Report:
    def __init__(self, keep: Path | None, stricter: bool) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.reasons: collections.Counter[str] = collections.Counter()
        # Refusals of what the rules write.
        self.stricter: collections.Counter[str] | None = collections.Counter() if stricter else None
        self.keep = keep

    def failed(self, round_: int, what: str, folder: Path) -> None:
        self.counts["FAILED"] += 1
        self.failures.append(f"round {round_}: {what}")
        print(self.failures[-1], flush=True)
        if self.keep:
            shutil.copytree(folder, self.keep / str(round_) / folder.name, dirs_exist_ok=True)


def check(round_: int, tool: Path, case: Case, name: str, folder: Path, report: Report) -> None:
    out, want = folder.parent / "out.gguf", folder.parent / "want.gguf"
    kind = "weights" if name.endswith(".safetensors") else Path(name).name
    try:
        result = run(tool, folder, out, case)
    except subprocess.TimeoutExpired:
        return report.failed(round_, f"{name}: no end after {TIME_LIMIT_S} s", folder)
    error = result.stderr.decode(errors="replace").strip()
    if result.returncode not in (0, 1) or "panicked" in error:
        return report.failed(round_, f"{name}: exit code {result.returncode}: {error[:300]}", folder)
    if result.returncode == 1:
        last = error.splitlines()[-1] if error else ""
        if folder.name not in last and str(folder) not in last:
            return report.failed(round_, f"{name}: the refusal names no file: {last[:300]}", folder)
        if list(folder.parent.glob("out*")):
            return report.failed(round_, f"{name}: the refusal left a file", folder)
        report.counts[f"{kind}: refused"] += 1
        if report.stricter is not None:
            try:
                convert_rules.convert(folder, want, case.outtype, case.model_name)
            except Exception:
                return None
            report.stricter[f"{kind}: {last.split(folder.name)[-1][:140]}"] += 1
        return None
    try:
        convert_rules.convert(folder, want, case.outtype, case.model_name)
    except Exception as reason:
        text = f"{kind}: {type(reason).__name__}: {str(reason)[:110]}"
        report.counts[f"{kind}: accepted, the rules refuse"] += 1
        report.reasons[text] += 1
        if report.keep:
            shutil.copytree(folder, report.keep / f"only-{round_}" / folder.name, dirs_exist_ok=True)
        return None
    if out.read_bytes() != want.read_bytes():
        return report.failed(round_, f"{name}: other bytes than the rules give (case {case.name})", folder)
    report.counts[f"{kind}: identical"] += 1
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", type=Path)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="mutate only files whose name ends so")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--stricter", action="store_true", help="list refusals of what the rules would write")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    tool = arguments.tool.resolve()
    bases: dict[str, Files] = {name: build() for name, build in BASES.items()}
    report = Report(arguments.keep, arguments.stricter)
    for round_ in range(arguments.rounds):
        rng = random.Random(arguments.seed * 1_000_003 + round_)
        case = rng.choice(CASES)
        files = files_of(case, bases[case.base])
        names = [name for name in files if not arguments.only or name.endswith(arguments.only)]
        names = [name for name in names if name.endswith((".json", ".safetensors", ".md", ".jinja"))]
        if not names:
            continue
        name = rng.choice(sorted(names))
        files[name] = mutated(name, files[name], rng)
        with tempfile.TemporaryDirectory() as temp:
            folder = Path(temp) / case.dir
            put(folder, files)
            check(round_, tool, case, name, folder, report)
    for what, count in sorted(report.counts.items()):
        print(f"{count:6} {what}")
    for reason, count in report.reasons.most_common():
        print(f"{count:6} only the rules refuse: {reason}")
    for reason, count in (report.stricter or {}).items():
        print(f"{count:6} only laya-convert refuses: {reason}")
    if report.failures:
        sys.exit(f"{len(report.failures)} failures")


if __name__ == "__main__":
    main()
