"""What the generators of one-file goldens share: the command line, and record.json beside the golden, which says which
oracle wrote it and the sha256 of the file (see tests/golden_record.rs)."""

import argparse
import hashlib
import json
import pathlib
import platform
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version

# The packages that goldens are made with.
ORACLE = {"laya": "0.3.21", "gguf": "0.19.0", "numpy": "2.4.6"}


def run(
    description: str, path: pathlib.Path, cases: Callable[[], Iterable[dict]], packages: tuple[str, ...] = ("laya",)
) -> None:
    """Writes one line per case to `path`, or with --check says whether that is what the file holds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    check = parser.parse_args().check
    for package in packages:
        if version(package) != ORACLE[package]:
            sys.exit(f"{package} {version(package)} is installed; this golden is made with {package} {ORACLE[package]}")
    lines = [json.dumps(case, ensure_ascii=False) + "\n" for case in cases()]
    text = "".join(lines)
    if check:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is not what this script writes; run it without --check and look at the difference")
        print(f"{path.name}: {len(lines)} cases, up to date")
        return
    n_refused = sum('"refused"' in line for line in lines)
    write_golden(path, text, {"cases": len(lines), "refused": n_refused}, packages)
    print(f"{path.name}: {len(lines)} cases, {n_refused} of them refused")


def write_golden(path: pathlib.Path, text: str, counts: dict[str, int], packages: tuple[str, ...]) -> None:
    """Writes `text` to `path`, alone in its folder, and the record of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    record = {
        "oracle": {package: ORACLE[package] for package in packages} | {"python": platform.python_version()},
        **counts,
        "sha256": {path.name: hashlib.sha256(text.encode()).hexdigest()},
    }
    (path.parent / "record.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
