#!/usr/bin/env python3
"""Measure laya-convert against a plain copy of the bytes, and against a conversion with gguf-py.

    python scripts/bench_convert.py CHECKPOINT --laya-convert target/release/laya-convert [--rounds 7] [--python]
                                    [--out bench.json] [--work DIR]

A round runs every command once, in rotated order, on files that the system's cache holds; medians over the rounds, and
ratios of one round. Each writes to a new file, and what it wrote is removed and the disk synced before the next starts.

- convert, convert unproven: laya-convert --outtype f16, the second with --no-verify
- copy, copy and sync: model*.safetensors copied by the system's cp, the second followed by sync of the copy, which is
  what a conversion does before it renames
- tokenizer: the tokenizer parse alone: an unproven dry run of a checkpoint with the same tokenizer.json and an embedding
  64 or 128 wide, which adds a few hundredths of a second
- tokenizers (with --python): the tokenizers library reads the same tokenizer.json, in the interpreter that runs this
  script; its own start is part of it, some hundredths of a second
- gguf-py (with --python): scripts/convert_rules.py, once, with the interpreter that runs this script

Peak memory is what the system reports for the process. Linux only.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_process import cpu_name


def timed(command: list[str]) -> tuple[float, int]:
    """Seconds and peak resident KiB of one run."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: {message.decode(errors='replace')}")
    return seconds, usage.ru_maxrss


def tokenizer_only(checkpoint: Path, work: Path, laya_convert: str) -> Path:
    """A checkpoint with the tokenizer of `checkpoint` and as few weights as a vocabulary of its size allows."""
    agent = json.loads((checkpoint / "rl_agent_config.json").read_text(encoding="utf-8"))
    arch = "tiny-mmbert" if "mmBERT" in str(agent["encoder"]) else "tiny-modernbert"
    small = work / "tokenizer-only"
    tokenizer = checkpoint / "tokenizer" / "tokenizer.json"
    timed([laya_convert, "synth", "--arch", arch, "--tokenizer", str(tokenizer), "-o", str(small)])
    return small


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--laya-convert", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--python", action="store_true", help="measure gguf-py too")
    parser.add_argument("--work", type=Path, help="where files are written [default: a temporary directory]")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        work = Path(folder)
        out = work / "out"
        weights = sorted(str(path) for path in arguments.checkpoint.glob("model*.safetensors"))
        convert = [arguments.laya_convert, str(arguments.checkpoint), "-o", str(out), "--outtype", "f16"]
        small = tokenizer_only(arguments.checkpoint, work, arguments.laya_convert)
        commands = {
            "convert": convert,
            "convert unproven": [*convert, "--no-verify"],
            "copy": ["cp", *weights, str(out)],
            "copy and sync": ["sh", "-c", 'cp "$@" "$0" && sync "$0"', str(out), *weights],
            "tokenizer": [arguments.laya_convert, str(small), "--dry-run", "--no-verify"],
        }
        if arguments.python:
            read = "import sys, tokenizers; tokenizers.Tokenizer.from_file(sys.argv[1])"
            tokenizer = arguments.checkpoint / "tokenizer" / "tokenizer.json"
            commands["tokenizers"] = [sys.executable, "-c", read, str(tokenizer)]
            script = Path(__file__).with_name("convert_rules.py")
            commands["gguf-py"] = [sys.executable, str(script), str(arguments.checkpoint), str(out)]
        names = list(commands)
        samples: dict[str, list[float]] = {name: [] for name in names}
        peaks: dict[str, int] = {}
        for round_number in range(arguments.rounds + 1):
            turn = round_number % len(names)
            for name in names[turn:] + names[:turn]:
                if name == "gguf-py" and round_number != 1:
                    continue
                seconds, peak = timed(commands[name])
                if out.exists():
                    out.unlink()
                os.sync()
                if round_number > 0:
                    samples[name].append(seconds)
                    peaks[name] = max(peaks.get(name, 0), peak)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    result = {
        "machine": {"cpu": cpu_name(), "cores": os.cpu_count(), "system": platform.platform()},
        "checkpoint_bytes": sum(os.path.getsize(path) for path in weights),
        "rounds": arguments.rounds,
        "seconds": {name: {"median": medians[name], "samples": samples[name]} for name in names},
        "peak_kib": peaks,
    }
    for parse in ("tokenizer", "tokenizers"):
        for copy in ("copy", "copy and sync"):
            for name in ("convert", "convert unproven"):
                if parse in samples:
                    ratios = [a / (b + c) for a, b, c in zip(samples[name], samples[copy], samples[parse], strict=True)]
                    result.setdefault("ratio", {})[f"{name} / ({copy} + {parse})"] = statistics.median(ratios)
    for name in names:
        print(f"{name:17} {medians[name]:7.3f} s  {peaks[name] / 1024:6.0f} MiB")
    for name, ratio in result["ratio"].items():
        print(f"{name}: {ratio:.2f}")
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
