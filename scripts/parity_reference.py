#!/usr/bin/env python3
"""Run the published package (laya 0.3.21, PyTorch, CPU, fp32) over a corpus, in the run format of parity-gate.

    python scripts/parity_reference.py run CHECKPOINT CORPUS.jsonl -o RUN.jsonl [--subset english] [--threads N]
                                           [--shard I/N] [--resume]
    python scripts/parity_reference.py merge -o RUN.jsonl SHARD.jsonl...
    parity-gate compare RUN.jsonl CANDIDATE.jsonl --gate strict-f32

CHECKPOINT is a directory as it is published; an F16 one is fair, because the package widens it into float32 parameters.
Answers are those of `Agent.system_one`; ids, markers, logits and act logits are taken from the very pass that gave them
(an item's questions in one padded batch). With --resume a run that was interrupted goes on where it stopped. Shards,
items I, I+N, I+2N ..., may run at the same time; `merge` makes one run of them.

The file: a header with the identity of the run, one line an item, and a seal, the SHA-256 of all bytes before it.

Needs scripts/requirements.txt.
"""

import argparse
import hashlib
import json
import platform
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

FORMAT = "laya-parity-run/1"
IDENTITY = "laya-parity-identity/1"
# Values hashed together; the digest of a tensor is that of the digests of its pieces.
PIECE = 1 << 20
# Not a weight: it is calibration, which model files keep among their keys.
NOT_WEIGHTS = ("temperature",)

Item = dict[str, Any]


def dumps(value: Any) -> str:
    """JSON on one line without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def is_english(item: Item) -> bool:
    """Whether every letter of the state and the questions is ASCII."""
    text = json.dumps([item.get("state"), item["questions"]], ensure_ascii=False)
    return all(c.isascii() for c in text if c.isalpha())


def read_corpus(path: Path, subset: str) -> tuple[str, list[Item]]:
    """The sha256 of the whole file, and the items of the subset."""
    data = path.read_bytes()
    items = [json.loads(line) for line in data.decode().split("\n") if line.strip()]
    return hashlib.sha256(data).hexdigest(), [item for item in items if subset == "all" or is_english(item)]


def values_sha256(checkpoint: Path) -> str:
    """What the weights are as float32 values, whatever they are stored as and called: each tensor is the digest of its
    length and the digests of its pieces, and all of them are hashed in sorted order."""
    import torch
    from safetensors import safe_open

    digests = []
    for path in sorted(checkpoint.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():
                if name in NOT_WEIGHTS:
                    continue
                values = file.get_tensor(name).flatten()
                digest = hashlib.sha256(len(values).to_bytes(8, "little"))
                for start in range(0, len(values), PIECE):
                    piece = values[start : start + PIECE].to(torch.float32).numpy().astype("<f4", copy=False)
                    digest.update(hashlib.sha256(piece.tobytes()).digest())
                digests.append(digest.digest())
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def package_sha256() -> str:
    """A digest of the package's own source files as they are installed."""
    files = sorted((str(file), file.locate()) for file in distribution("laya").files or [] if str(file).endswith(".py"))
    return hashlib.sha256(
        "".join(f"{name}\0{hashlib.sha256(Path(path).read_bytes()).hexdigest()}\n" for name, path in files).encode()
    ).hexdigest()


def processor() -> str:
    """The name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def identity(checkpoint: Path, sha256: str, items: list[Item], subset: str, threads: int, shard: str | None) -> Item:
    """The record of what runs."""
    config = json.loads((checkpoint / "encoder" / "config.json").read_text())
    revision = checkpoint.resolve().name
    is_revision = len(revision) == 40 and all(c in "0123456789abcdef" for c in revision)
    packages = " ".join(f"{name} {version(name).partition('+')[0]}" for name in ("laya", "torch", "transformers"))
    return {
        "schema": IDENTITY,
        "kind": "reference",
        "host": {"os": platform.system().lower(), "machine": platform.machine(), "cpu": processor()},
        "build": {"version": packages, "sha256": None, "source_sha256": package_sha256()},
        "model": {
            "name": checkpoint.name,
            "sha256": None,
            "values_sha256": values_sha256(checkpoint),
            "architecture": config.get("model_type"),
            "weights": "f32",
            "revision": revision if is_revision else None,
        },
        "corpus": {
            "sha256": sha256,
            "subset": subset if shard is None else f"{subset} {shard}",
            "n_items": len(items),
            "n_questions": sum(len(item["questions"]) for item in items),
        },
        "runtime": {
            "backend": "pytorch",
            "device": "cpu",
            "kernels": "sdpa",
            "isa": None,
            "plan": "packed",
            "n_threads": threads,
            "numeric_contract": None,
            "activations": "f32",
            "calibration": None,
            "spec_sha256": None,
        },
    }


class Recorder:
    """Keeps the inputs and outputs of the model's passes."""

    def __init__(self, agent: Any) -> None:
        self.passes: list[tuple[Any, Any]] = []
        agent.model.register_forward_hook(lambda _model, inputs, outputs: self.passes.append((inputs, outputs)))

    def rows(self) -> Iterator[Item]:
        """The rows of the passes since the last call, without their padding."""
        for (ids, mask, positions, is_marker, _), (logits, act) in self.passes:
            for row in range(len(ids)):
                n_tokens, n_options = int(mask[row].sum()), int(is_marker[row].sum())
                yield {
                    "ids": ids[row, :n_tokens].tolist(),
                    "markers": positions[row, :n_options].tolist(),
                    "logits": logits[row, :n_options].double().tolist(),
                    "act_logits": act[row].double().tolist(),
                }
        self.passes.clear()


def answer(agent: Any, recorder: Recorder, item: Item) -> Item:
    """The record of one item."""
    try:
        answers = agent.system_one(item.get("state"), item["questions"])["answers"]
    except (TypeError, ValueError) as error:
        recorder.passes.clear()
        facts = {"null_state": item.get("state") is None, "n_questions": len(item["questions"])}
        return {"id": item["id"], "refused": {"message": str(error), **facts}}
    rows = list(recorder.rows())
    if len(rows) != len(answers):
        raise SystemExit(f"{item['id']}: {len(rows)} rows for {len(answers)} answers")
    questions = {}
    for (name, given), row in zip(answers.items(), rows, strict=True):
        questions[name] = {"type": given["type"], **row, "answer": given}
    return {"id": item["id"], "questions": questions}


def open_run(path: Path, header: bytes, resume: bool) -> int:
    """Makes the file hold the header and whole lines of items only; how many items are done."""
    if not path.exists():
        path.write_bytes(header)
        return 0
    if not resume:
        raise SystemExit(f"{path}: is there already; --resume goes on with it")
    data = path.read_bytes()
    if not data.startswith(header):
        raise SystemExit(f"{path}: is a run of something else, or with other settings")
    whole = data[: data.rfind(b"\n") + 1]
    lines = whole[len(header) :].split(b"\n")[:-1]
    if lines and lines[-1].startswith(b'{"seal"'):
        raise SystemExit(f"{path}: is complete")
    path.write_bytes(whole)
    return len(lines)


def seal_line(body: bytes, n_items: int) -> bytes:
    """The line that makes a run complete."""
    return (dumps({"seal": {"n_items": n_items, "sha256": hashlib.sha256(body).hexdigest()}}) + "\n").encode()


def seal(path: Path, n_items: int) -> None:
    """Appends that line."""
    line = seal_line(path.read_bytes(), n_items)
    with path.open("ab") as out:
        out.write(line)


def read_sealed(path: Path) -> tuple[Item, list[bytes]]:
    """The identity and the item lines of a complete run that nobody changed."""
    data = path.read_bytes()
    body = data[: data.rfind(b"\n", 0, -1) + 1]
    header, *lines = body.split(b"\n")[:-1]
    if data[len(body) :] != seal_line(body, len(lines)):
        raise SystemExit(f"{path}: is not complete, or was changed after it was written")
    return json.loads(header)["identity"], lines


def run(args: argparse.Namespace) -> None:
    """Answers every item of the corpus."""
    import torch

    from gen_golden import load_agent

    torch.set_num_threads(args.threads)
    sha256, items = read_corpus(args.corpus, args.subset)
    if args.shard:
        index, count = map(int, args.shard.split("/"))
        items = items[index::count]
    record = identity(args.checkpoint, sha256, items, args.subset, args.threads, args.shard)
    header = (dumps({"run": FORMAT, "identity": record}) + "\n").encode()
    done = open_run(args.output, header, args.resume)
    with tempfile.TemporaryDirectory() as temp, args.output.open("ab") as out:
        agent = load_agent(args.checkpoint, Path(temp) / args.checkpoint.name)
        recorder = Recorder(agent)
        for i, item in enumerate(items[done:], done + 1):
            out.write((dumps(answer(agent, recorder, item)) + "\n").encode())
            out.flush()
            if i % 25 == 0 or i == len(items):
                print(f"{i} of {len(items)} items", file=sys.stderr, flush=True)
    seal(args.output, len(items))


def merge(args: argparse.Namespace) -> None:
    """Makes one run of all shards of a run."""
    if args.output.exists():
        raise SystemExit(f"{args.output}: is there already")
    shards: dict[int, list[bytes]] = {}
    heads = []
    for path in args.shards:
        head, lines = read_sealed(path)
        subset, _, shard = head["corpus"]["subset"].partition(" ")
        index, _, count = shard.partition("/")
        if not count:
            raise SystemExit(f"{path}: is no shard")
        head["corpus"]["subset"] = subset
        if int(index) in shards or int(count) != len(args.shards):
            raise SystemExit(f"{path}: shard {shard} does not belong to these {len(args.shards)}")
        shards[int(index)] = lines
        heads.append(head)
    total = {key: sum(head["corpus"][key] for head in heads) for key in ("n_items", "n_questions")}
    for head in heads:
        head["corpus"] |= total
        if head != heads[0]:
            raise SystemExit("the shards are of different runs")
    rows = [shards[i % len(shards)][i // len(shards)] for i in range(total["n_items"])]
    body = b"\n".join([dumps({"run": FORMAT, "identity": heads[0]}).encode(), *rows]) + b"\n"
    args.output.write_bytes(body + seal_line(body, len(rows)))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("run")
    command.add_argument("checkpoint", type=Path)
    command.add_argument("corpus", type=Path)
    command.add_argument("-o", "--output", type=Path, required=True)
    command.add_argument("--subset", choices=("all", "english"), default="all")
    command.add_argument("--shard", metavar="I/N")
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--resume", action="store_true")
    command.set_defaults(run=run)
    command = commands.add_parser("merge")
    command.add_argument("shards", type=Path, nargs="+")
    command.add_argument("-o", "--output", type=Path, required=True)
    command.set_defaults(run=merge)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
