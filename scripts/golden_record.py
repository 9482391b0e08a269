"""record.json beside a golden: which oracle wrote it, and the sha256 of every file (see tests/golden_record.rs)."""

import hashlib
import json
import pathlib
import platform

import laya


def write_golden(path: pathlib.Path, text: str, counts: dict[str, int]) -> None:
    """Writes `text` to `path`, alone in its folder, and the record of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    record = {
        "oracle": {"laya": laya.__version__, "python": platform.python_version()},
        **counts,
        "sha256": {path.name: hashlib.sha256(text.encode()).hexdigest()},
    }
    (path.parent / "record.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
