#!/usr/bin/env python3
"""Measure laya-cli against the published Python package (PyTorch) and an ONNX Runtime export of the same checkpoint.

    python scripts/bench_peers.py --make-checkpoints --laya-cli target/release/laya-cli
        everything from nothing: two synthetic checkpoints of the real shapes, their GGUF files, their ONNX exports
    python scripts/bench_peers.py --checkpoint DIR [--checkpoint DIR=MODEL.gguf] --laya-cli PATH --out bench.json
    python scripts/bench_peers.py ... --prepare           only convert, export and choose the fastest export
    python scripts/bench_peers.py ... --cases 1x220,5x220 --rounds 9 --peers ours,onnx

All peers run in one session, each a process that loads once and answers one request a line; one computes at a time.
A round asks every case of every peer, in rotated order, about a text that no round before had; ratios are of one round.
The first round warms up, and counts only where it takes long (COUNT_FIRST). Rounds are spent where they cost least
until --minutes is over. Probabilities must agree within 1e-3 and token counts exactly, or nothing is reported.

The exports are the forms of bench_onnx.py; --prepare times each on CALIBRATION, and every case then takes the fastest
one of its nearest calibration case. The GGUF file of DIR is DIR-f16.gguf beside it, else made in --work.

Linux only (/proc). Needs scripts/requirements-bench.txt. Run it on an otherwise idle machine: it says when it was not.
"""

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_cases import Case, Requests, default_cases, parse_case, request
from bench_process import Meter, Peer, PeerError, cpu_name, environment, run
from bench_report import Disagreement, compare, markdown, summary
from bench_tool import Tool, one_shot, resident, stream

SCRIPTS = Path(__file__).resolve().parent
PEERS = ("python", "onnx", "ours")
SYNTHETIC = (("mmbert-base", 1), ("modernbert-large", 2))
VARIANTS = ("plain", "plain-optimizer", "fused", "fused-optimizer", "unpadded")
CALIBRATION = (Case(1, 220), Case(1, 1024), Case(5, 220))
CALIBRATION_REPEATS = 3
# A case whose round takes longer than this (all peers together, seconds) counts its first round too.
COUNT_FIRST = 15.0
# Between the answer of one peer and the question to the next: threads of the first go to sleep.
SETTLE_SECONDS = 0.03


@dataclass
class Model:
    """A checkpoint and what was made of it."""

    name: str
    checkpoint: Path
    gguf: Path
    work: Path

    @property
    def onnx(self) -> Path:
        """Directory of the exports."""
        return self.work / "onnx"

    def weight(self) -> float:
        """Roughly the cost of a token."""
        config = json.loads((self.checkpoint / "encoder" / "config.json").read_text(encoding="utf-8"))
        width = config["hidden_size"]
        return config["num_hidden_layers"] * width * (4 * width + 3 * config["intermediate_size"])


@dataclass
class Samples:
    """What a case showed."""

    case: Case
    meter: Meter
    seconds: dict[str, list[float]]
    tokens: list[int] = field(default_factory=list)
    # Seconds of a round of all peers.
    cost: float = 0.0

    def rounds(self) -> int:
        """Rounds that count."""
        return len(next(iter(self.seconds.values())))

    def add(self, seconds: dict[str, float]) -> None:
        """A round."""
        for name, value in seconds.items():
            self.seconds[name].append(value)


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


class Session:
    """The peers of one checkpoint."""

    def __init__(self, model: Model, tool: Tool, arguments: argparse.Namespace) -> None:
        self.model, self.arguments = model, arguments
        self.peers: dict[str, Peer] = {}
        self.versions: dict[str, str] = {}
        self.about: dict[str, Any] = {}
        self.choice: dict[str, str] = {}
        self.largest = 0.0
        for name in arguments.peers:
            say(f"{model.name}: starting {name}")
            if name == "ours":
                self.peers[name] = tool.serve(model.gguf)
                continue
            self.peers[name] = self.worker(model, name, arguments)
            ready = self.peers[name].ready(probe=False)["ready"]
            self.versions |= ready.pop("versions")
            self.about[name] = ready

    @staticmethod
    def worker(model: Model, name: str, arguments: argparse.Namespace) -> Peer:
        """A Python peer, not loaded yet."""
        argv = [sys.executable, str(SCRIPTS / "bench_worker.py"), "torch" if name == "python" else "onnx"]
        argv += [str(model.checkpoint), "--threads", str(arguments.threads)]
        if name == "onnx":
            argv += ["--models", str(model.onnx)]
        elif arguments.torch_compile:
            argv.append("--compile")
        return Peer(name, argv, model.work / f"{name}.log", environment(arguments.threads, arguments.malloc))

    def close(self) -> None:
        """End the peers."""
        for peer in self.peers.values():
            peer.close()

    def variant(self, case: Case) -> str:
        """The export that a case takes: that of the nearest calibration case with as many rows."""
        alike = [known for known in CALIBRATION if (known.n_questions > 1) == (case.n_questions > 1)]
        nearest = min(alike, key=lambda known: abs(math.log(known.n_tokens / case.n_tokens)))
        return self.choice[nearest.name]

    def ask(self, name: str, case: Case, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """One timed answer."""
        peer = self.peers[name]
        if name == "onnx":
            peer.ask({"use": self.variant(case)})
        time.sleep(SETTLE_SECONDS)
        return peer.ask(body)

    def round(self, samples: Samples, requests: Requests, index: int) -> dict[str, float]:
        """Seconds of every peer, in rotated order; their answers compared."""
        case, names = samples.case, list(self.peers)
        turn = (index + case.n_questions + case.n_tokens) % len(names)
        body = requests.make(case, index)
        seconds: dict[str, float] = {}
        answers: dict[str, dict[str, Any]] = {}
        samples.meter.begin()
        for name in names[turn:] + names[:turn]:
            seconds[name], answers[name] = self.ask(name, case, body)
        samples.meter.end()
        reference = answers[names[0]]
        for name, answer in answers.items():
            gap = compare(f"{self.model.name} {case.name}, {names[0]} and {name}", reference, answer)
            self.largest = max(self.largest, gap)
        samples.tokens.append(reference["usage"]["input_tokens"])
        return {name: seconds[name] for name in names}

    def measure(self, cases: list[Case], requests: Requests, seconds: float) -> tuple[list[Samples], list[str]]:
        """All cases within about `seconds`; also the names of those left out."""
        end = time.monotonic() + seconds
        done: list[Samples] = []
        skipped: list[str] = []
        for case in sorted(cases, key=lambda case: case.n_questions * case.n_tokens):
            meter = Meter(list(self.peers.values()))
            samples = Samples(case, meter, {name: [] for name in self.peers})
            if done and time.monotonic() + done[-1].cost * (size(case) / size(done[-1].case)) ** 1.1 > end:
                skipped.append(case.name)
                continue
            first = self.round(samples, requests, 0)
            samples.cost = sum(first.values())
            if samples.cost > COUNT_FIRST:
                samples.add(first)
            else:
                samples.meter.reset()
                samples.tokens.clear()
            say(
                f"{self.model.name} {case.name}: "
                + ", ".join(f"{name} {s * 1e3:.0f}" for name, s in first.items())
                + " ms"
            )
            done.append(samples)
        wanted = plan(done, end - time.monotonic(), self.arguments.rounds)
        for index in range(1, self.arguments.rounds + 1):
            for samples in done:
                # What the plan took for granted may have become slower; one sample there must be.
                in_time = time.monotonic() + samples.cost < end + COUNT_FIRST
                if index <= wanted[samples.case] and (in_time or not samples.rounds()):
                    samples.add(self.round(samples, requests, index))
        return done, skipped


def size(case: Case) -> int:
    """Tokens of a request."""
    return case.n_questions * case.n_tokens


def plan(done: list[Samples], seconds: float, most: int) -> dict[Case, int]:
    """Rounds still to go: one where there is none, then as near to equal time for every case as whole rounds allow."""
    wanted = {samples.case: 0 if samples.rounds() else 1 for samples in done}
    left = seconds - sum(samples.cost * wanted[samples.case] for samples in done)
    while True:
        possible = [samples for samples in done if wanted[samples.case] < most and samples.cost <= left]
        if not possible:
            return wanted
        chosen = min(possible, key=lambda samples: (wanted[samples.case] + samples.rounds()) * samples.cost)
        wanted[chosen.case] += 1
        left -= chosen.cost


def calibrate(model: Model, arguments: argparse.Namespace, head_tokens: dict[int, int]) -> dict[str, Any]:
    """Time every export on the calibration cases, in turn; the best of a few, and the fastest."""
    peer = Session.worker(model, "onnx", arguments)
    try:
        about = peer.ready(probe=False)["ready"]
        requests = Requests(model.checkpoint, head_tokens, arguments.seed)
        best: dict[str, dict[str, float]] = {}
        for case in CALIBRATION:
            # Rows of several questions have different lengths.
            variants = [variant for variant in VARIANTS if variant != "unpadded" or case.n_questions == 1]
            times: dict[str, list[float]] = {variant: [] for variant in variants}
            for index in range(CALIBRATION_REPEATS + 1):
                body = requests.make(case, index)
                answers = []
                for variant in variants:
                    peer.ask({"use": variant})
                    seconds, answer = peer.ask(body)
                    answers.append(answer)
                    compare(f"{model.name} {case.name}, {variants[0]} and {variant}", answers[0], answer)
                    if index > 0:
                        times[variant].append(seconds)
            best[case.name] = {variant: min(values) for variant, values in times.items()}
            say(
                f"{model.name} {case.name}: "
                + ", ".join(f"{name} {s * 1e3:.0f}" for name, s in best[case.name].items())
            )
    finally:
        peer.close()
    return {
        "key": calibration_key(model, arguments),
        "versions": about["versions"],
        "best_s": best,
        "choice": {case: min(values, key=lambda name: values[name]) for case, values in best.items()},
    }


def calibration_key(model: Model, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a choice depends on."""
    export = json.loads((model.onnx / "export.json").read_text(encoding="utf-8"))
    return {"cpu": cpu_name(), "threads": arguments.threads, "malloc": arguments.malloc, "export": export["versions"]}


def prepare_onnx(model: Model, tool: Tool, arguments: argparse.Namespace) -> dict[str, Any]:
    """Export and choose, unless it is done already; returns the calibration."""
    record = model.work / "calibration.json"
    if not (model.onnx / "export.json").exists():
        say(f"{model.name}: exporting to ONNX (minutes)")
        run(
            [sys.executable, str(SCRIPTS / "bench_onnx.py"), str(model.checkpoint), str(model.onnx)],
            model.work / "export.log",
        )
    if record.exists() and not arguments.recalibrate:
        known = json.loads(record.read_text(encoding="utf-8"))
        if known["key"] == calibration_key(model, arguments):
            return known
    served = tool.serve(model.gguf)
    try:
        head_tokens = heads(served, CALIBRATION)
    finally:
        served.close()
    known = calibrate(model, arguments, head_tokens)
    record.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    return known


def heads(peer: Peer, cases: Iterable[Case]) -> dict[int, int]:
    """Tokens that the questions of the cases take without a state."""
    counts = {}
    for n_questions in sorted({case.n_questions for case in cases}):
        answer = peer.ask(request("", n_questions))[1]
        if "usage" not in answer:
            raise PeerError(f"{peer.name}: {answer}")
        counts[n_questions] = answer["usage"]["input_tokens"]
    return counts


def models(arguments: argparse.Namespace, tool: Tool) -> list[Model]:
    """The checkpoints, with what is missing made."""
    converter = tool.path.with_name("laya-convert")
    given = list(arguments.checkpoint)
    if arguments.make_checkpoints:
        for shape, seed in SYNTHETIC:
            path = arguments.work / shape
            given.append(str(path))
            if not path.exists():
                say(f"making {path}")
                tokenizer = arguments.tokenizer.get(shape)
                more = ["--tokenizer", tokenizer] if tokenizer else []
                argv = [str(converter), "synth", "--arch", shape, "--seed", str(seed), *more, "-o", str(path)]
                run(argv, arguments.work / "make.log")
    result = []
    for text in given:
        directory, _, gguf = text.partition("=")
        checkpoint = Path(directory).resolve()
        if not (checkpoint / "rl_agent_config.json").exists():
            raise PeerError(f"{checkpoint.name} is not a checkpoint directory")
        name = arguments.name.get(checkpoint.name, checkpoint.name)
        work = arguments.work / f"{checkpoint.name}-bench"
        work.mkdir(parents=True, exist_ok=True)
        path = Path(gguf) if gguf else checkpoint.with_name(f"{checkpoint.name}-f16.gguf")
        if not gguf and not path.exists():
            path = work / f"{checkpoint.name}-f16.gguf"
        if not path.exists():
            say(f"converting {checkpoint}")
            run([str(converter), str(checkpoint), "-o", str(path), "--outtype", "f16"], work / "convert.log")
        result.append(Model(name, checkpoint, path, work))
    return result


def bench_model(model: Model, tool: Tool, arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Everything about one checkpoint."""
    calibration = prepare_onnx(model, tool, arguments) if "onnx" in arguments.peers else None
    session = Session(model, tool, arguments)
    try:
        if calibration is not None:
            session.choice = calibration["choice"]
        loads = {name: {"seconds": peer.load_seconds, "memory": peer.memory()} for name, peer in session.peers.items()}
        head_tokens = heads(session.peers.get("ours") or next(iter(session.peers.values())), arguments.cases)
        requests = Requests(model.checkpoint, head_tokens, arguments.seed)
        done, skipped = session.measure(arguments.cases, requests, seconds)
        idle = {name: peer.idle_cpu() for name, peer in session.peers.items()}
    finally:
        session.close()
    return {
        "name": model.name,
        "gguf": {"name": model.gguf.name, "bytes": model.gguf.stat().st_size},
        "peer_load": loads,
        "peer_about": session.about,
        "versions": session.versions,
        "calibration": calibration,
        "idle_cores": idle,
        "largest_difference": session.largest,
        "skipped": skipped,
        "cases": [
            {
                "name": samples.case.name,
                "tokens_read": sum(samples.tokens) / len(samples.tokens),
                "rounds": samples.rounds(),
                "variant": session.variant(samples.case) if calibration is not None else None,
                "foreign_cores": samples.meter.cores(),
                "samples_s": samples.seconds,
                **summary(samples.seconds),
            }
            for samples in sorted(done, key=lambda samples: samples.case)
        ],
    }


def bench_tool(model: Model, tool: Tool, arguments: argparse.Namespace, first: bool) -> dict[str, Any]:
    """What concerns laya-cli alone."""
    served = tool.serve(model.gguf)
    try:
        head_tokens = heads(served, (Case(1, 220),))
    finally:
        served.close()
    requests = Requests(model.checkpoint, head_tokens, arguments.seed)
    say(f"{model.name}: one-shot, memory")
    result: dict[str, Any] = {
        "one_shot": one_shot(tool, model.gguf, requests, 5),
        "memory": {"F16": resident(tool, model.gguf, requests)},
    }
    if first and arguments.q8 is not None:
        result["memory"]["Q8_0"] = resident(tool, arguments.q8, requests)
    if first and arguments.jsonl_items and tool.has_plans():
        say(f"{model.name}: {arguments.jsonl_items} items with each plan")
        result["stream"] = stream(tool, model.gguf, requests, arguments.jsonl_items)
    elif first and arguments.jsonl_items:
        say("this laya-cli has no --plan: the stream is not measured")
    return result


def pair(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not (name and separator and value):
        raise argparse.ArgumentTypeError(f"{text}: expected NAME=VALUE")
    return name, value


def cases_of(text: str) -> list[Case]:
    """Cases from their names."""
    try:
        return sorted({parse_case(name) for name in text.split(",")})
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def peers_of(text: str) -> list[str]:
    """Peers from their names, in the usual order."""
    names = text.split(",")
    unknown = sorted(set(names) - set(PEERS))
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown peer {unknown[0]}; they are {', '.join(PEERS)}")
    return [name for name in PEERS if name in names]


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", action="append", default=[], metavar="DIR[=GGUF]")
    parser.add_argument("--make-checkpoints", action="store_true", help="synthesize both shapes in --work")
    parser.add_argument(
        "--tokenizer",
        action="append",
        default=[],
        type=pair,
        metavar="SHAPE=FILE",
        help="tokenizer.json for --make-checkpoints [default: a generated vocabulary]",
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        type=pair,
        metavar="DIR=NAME",
        help="how the report calls a checkpoint directory",
    )
    parser.add_argument(
        "--laya-cli", type=Path, default=Path("target/release/laya-cli"), help="laya-convert is expected beside it"
    )
    parser.add_argument("--q8", type=Path, help="Q8_0 file of the first checkpoint, for its memory")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cases",
        type=cases_of,
        default=default_cases(),
        metavar="QxTOKENS,...",
        help="[default: 1 and 5 questions of 64 to 4096 tokens, without 5x4096]",
    )
    parser.add_argument("--peers", type=peers_of, default=list(PEERS), metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=9, help="most rounds of a case [default: 9]")
    parser.add_argument("--minutes", type=float, default=10.0, help="for the rounds of all checkpoints [default: 10]")
    parser.add_argument("--jsonl-items", type=int, default=1000, help="0: leave the stream out [default: 1000]")
    parser.add_argument("--no-tool", action="store_true", help="leave out what concerns laya-cli alone")
    parser.add_argument(
        "--malloc",
        choices=("tuned", "default"),
        default="tuned",
        help="allocator of the Python peers: tuned keeps large blocks [default: tuned]",
    )
    parser.add_argument("--torch-compile", action="store_true", help="let the package compile its model")
    parser.add_argument("--recalibrate", action="store_true", help="choose the ONNX export again")
    parser.add_argument("--prepare", action="store_true", help="make what is missing and stop")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("target/bench-peers"))
    parser.add_argument("--out", type=Path, help="JSON record")
    arguments = parser.parse_args()
    if not arguments.checkpoint and not arguments.make_checkpoints:
        parser.error("--checkpoint or --make-checkpoints is needed")
    if arguments.threads < 1 or arguments.rounds < 1 or arguments.minutes <= 0 or arguments.jsonl_items < 0:
        parser.error("--threads, --rounds and --minutes start at 1, --jsonl-items at 0")
    arguments.tokenizer, arguments.name = dict(arguments.tokenizer), dict(arguments.name)
    return arguments


def bench(arguments: argparse.Namespace) -> int:
    """Prepare, measure, write, print."""
    arguments.work.mkdir(parents=True, exist_ok=True)
    tool = Tool(arguments.laya_cli.resolve(), arguments.threads, arguments.work / "laya-cli.log")
    measured = models(arguments, tool)
    if arguments.prepare:
        for model in measured:
            known = prepare_onnx(model, tool, arguments)
            say(f"{model.name}: " + ", ".join(f"{case} {variant}" for case, variant in known["choice"].items()))
        return 0
    # Large models cost more a token: by the root of that, so that small ones are not starved of rounds.
    weights = [math.sqrt(model.weight()) for model in measured]
    record: dict[str, Any] = {
        "tool": "bench_peers",
        "cpu": cpu_name(),
        "python": platform.python_version(),
        "laya_cli": tool.version(),
        "threads": arguments.threads,
        "seed": arguments.seed,
        "malloc": arguments.malloc,
        "versions": {},
        "models": [],
    }
    for index, model in enumerate(measured):
        entry = bench_model(model, tool, arguments, arguments.minutes * 60 * weights[index] / sum(weights))
        if not arguments.no_tool:
            entry |= bench_tool(model, tool, arguments, index == 0)
        record["versions"] |= entry["versions"]
        record["models"].append(entry)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(markdown(record), end="")
    return 0


def main() -> int:
    """Exit status 0, or 1 with a line that says why nothing is reported."""
    try:
        return bench(parse_arguments())
    except (PeerError, Disagreement, OSError) as error:
        print(f"bench_peers: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
