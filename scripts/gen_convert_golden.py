#!/usr/bin/env python3
"""Writes golden/convert/: checkpoints, changes of them, and what each must become as a GGUF file.

    python scripts/gen_convert_golden.py               write golden/convert
    python scripts/gen_convert_golden.py --check       compare with it; also checks the published digests, where they are
    python scripts/gen_convert_golden.py --files DIR   write the GGUF files themselves, to look at a difference

bases/NAME/   three checkpoints (convert_bases.py)
cases.jsonl   one case a line: `name`; `base`; `dir`, the name of the directory, which a conversion reads; `remove`, files
              taken away; `write`, files put in place, by name; `edit`, by name a list of [line, n_lines, text] that
              replace lines of the base's file; `outtype`; `model_name` or null; `bytes` and `sha256` of the GGUF file
record.json   versions and the sha256 of every file

The bytes come from convert_rules.py, which has gguf-py write and quantize. Run it with a Python that has the packages of
scripts/requirements.txt installed.
"""

import argparse
import difflib
import hashlib
import json
import logging
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import convert_rules
from convert_bases import BASES, Files, dumps
from convert_cases import CASES, Case

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "golden" / "convert"
PUBLISHED = ROOT.parent / "shared" / "conformance" / "engine" / "convert"
PACKAGES = ("gguf", "numpy", "safetensors", "tokenizers", "transformers", "PyYAML")


def files_of(case: Case, base: Files) -> Files:
    """The checkpoint of a case."""
    files = {name: data for name, data in base.items() if name not in case.remove}
    for name, change in case.edit.items():
        value = json.loads(files[name])
        changed = change(value)
        files[name] = dumps(value if changed is None else changed)
        if files[name] == base[name]:
            sys.exit(f"{case.name}: the edit of {name} changes nothing")
    for name, data in case.write.items():
        files[name] = data.encode() if isinstance(data, str) else dumps(data)
    return files


def line_edits(before: str, after: str) -> list[list]:
    """[line, n_lines, text] for each run of lines that differs."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    runs = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [[a, b - a, "".join(new[c:d])] for kind, a, b, c, d in runs if kind != "equal"]


def put(folder: Path, files: Files) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def converted(folder: Path, out: Path, outtype: str, model_name: str | None) -> bytes:
    convert_rules.convert(folder, out, outtype, model_name)
    return out.read_bytes()


def line(case: Case, files: Files, base: Files, data: bytes) -> dict[str, Any]:
    edit = {name: line_edits(base[name].decode(), files[name].decode()) for name in case.edit}
    return {
        "name": case.name,
        "base": case.base,
        "dir": case.dir,
        "remove": case.remove,
        "write": {name: files[name].decode() for name in case.write},
        "edit": edit,
        "outtype": case.outtype,
        "model_name": case.model_name,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def golden(files_dir: Path | None) -> Files:
    """Everything in golden/convert but the record."""
    bases = {name: build() for name, build in BASES.items()}
    lines, names = [], set()
    with tempfile.TemporaryDirectory() as temp:
        for n, case in enumerate(CASES):
            if case.name in names:
                sys.exit(f"two cases are named {case.name}")
            names.add(case.name)
            files = files_of(case, bases[case.base])
            folder = Path(temp) / str(n) / case.dir
            put(folder, files)
            out = (files_dir or Path(temp)) / f"{case.name.replace(' ', '-')}.gguf"
            try:
                data = converted(folder, out, case.outtype, case.model_name)
            except Exception as error:
                sys.exit(f"{case.name}: {error!r}")
            lines.append(json.dumps(line(case, files, bases[case.base], data), ensure_ascii=False) + "\n")
    golden = {f"bases/{name}/{file}": data for name, files in bases.items() for file, data in files.items()}
    return golden | {"cases.jsonl": "".join(lines).encode()}


def record(files: Files, n_cases: int) -> bytes:
    oracle = {package: version(package) for package in PACKAGES} | {"python": platform.python_version()}
    hashes = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}
    return (json.dumps({"oracle": oracle, "cases": n_cases, "sha256": hashes}, indent=2) + "\n").encode()


def published() -> int:
    """Checks the rules against the published digests; says how many there are."""
    rows = [row.split() for row in (PUBLISHED / "golden.sha256").read_text().splitlines() if not row.startswith("#")]
    with tempfile.TemporaryDirectory() as temp:
        for file, checkpoint, outtype, name, size, digest in rows:
            data = converted(PUBLISHED / checkpoint, Path(temp) / file, outtype, None if name == "-" else name)
            if (str(len(data)), hashlib.sha256(data).hexdigest()) != (size, digest):
                sys.exit(f"{file}: the rules do not give the published bytes")
    return len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    parser.add_argument("--files", type=Path, metavar="DIR", help="write the GGUF files into DIR, and nothing else")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    pinned = dict(row.split("==") for row in (ROOT / "scripts" / "requirements.txt").read_text().split())
    for package in PACKAGES:
        if version(package) != pinned[package]:
            sys.exit(f"{package} {version(package)} is installed; this golden is made with {pinned[package]}")
    if arguments.files:
        arguments.files.mkdir(parents=True, exist_ok=True)
    files = golden(arguments.files)
    n_cases = files["cases.jsonl"].count(b"\n")
    if arguments.files:
        print(f"{n_cases} files in {arguments.files}")
        return
    if not arguments.check:
        put(GOLDEN, files | {"record.json": record(files, n_cases)})
    kept = {path.relative_to(GOLDEN).as_posix(): path.read_bytes() for path in GOLDEN.rglob("*") if path.is_file()}
    kept.pop("record.json", None)
    wrong = sorted(name for name in kept.keys() | files.keys() if kept.get(name) != files.get(name))
    if wrong:
        sys.exit(f"{', '.join(wrong)}: not what this script writes; run it without --check and look at the difference")
    print(f"golden/convert: {n_cases} cases, {sum(map(len, files.values()))} bytes, up to date")
    if PUBLISHED.is_dir():
        print(f"published digests: {published()} of {published()} reproduced")
    else:
        print("published digests: skipped, no ../shared")


if __name__ == "__main__":
    main()
