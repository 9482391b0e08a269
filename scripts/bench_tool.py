"""What bench_peers.py measures of laya-cli alone: loading, one-shot use, memory, and a stream packed or not."""

import json
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_cases import Case, Requests
from bench_process import Peer, PeerError, memory

ONE_SHOT_CASE = Case(1, 220)
MEMORY_CASES = (Case(1, 64), Case(1, 1024))
# The two plans take turns over parts of the stream, so that a change of the machine's speed meets both.
JSONL_PARTS = 4
PLANS = ("packed", "sequential")


@dataclass
class Tool:
    """laya-cli with its threads."""

    path: Path
    threads: int
    log: Path

    def argv(self, gguf: Path, *more: str) -> list[str]:
        """Its command line."""
        return [str(self.path), "-m", str(gguf), "-t", str(self.threads), *more]

    def wall(self, gguf: Path, *more: str) -> tuple[float, bytes]:
        """Seconds of a whole run, and what it printed."""
        with self.log.open("ab") as log:
            start = time.perf_counter()
            done = subprocess.run(self.argv(gguf, *more), stdout=subprocess.PIPE, stderr=log, check=False)
            seconds = time.perf_counter() - start
        if done.returncode != 0:
            raise PeerError(f"laya-cli {more[0]} ended with status {done.returncode}; see {self.log}")
        return seconds, done.stdout

    def serve(self, gguf: Path) -> Peer:
        """A long-lived process that answers lines, loaded."""
        peer = Peer("ours", self.argv(gguf, "--jsonl", "-"), self.log)
        peer.ready(probe=True)
        return peer

    def version(self) -> str:
        """What --version prints."""
        return subprocess.run([str(self.path), "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def has_plans(self) -> bool:
        """Whether --plan exists."""
        text = subprocess.run([str(self.path), "--help"], capture_output=True, text=True, check=True).stdout
        return "--plan" in text


def median(values: list[float]) -> float:
    """In the unit of the values."""
    return statistics.median(values)


def one_shot(tool: Tool, gguf: Path, requests: Requests, rounds: int) -> dict[str, Any]:
    """Wall of one request by file beside loading alone and the same request of a loaded process, in turn."""
    body = requests.make(ONE_SHOT_CASE, 0)
    samples: dict[str, list[float]] = {"load": [], "pass": [], "one_shot": []}
    with tempfile.TemporaryDirectory() as temp:
        request, empty = Path(temp) / "request.json", Path(temp) / "empty.jsonl"
        request.write_text(json.dumps(body, ensure_ascii=False), encoding="utf-8")
        empty.touch()
        served = tool.serve(gguf)
        try:
            served.ask(body)
            for _ in range(rounds):
                samples["load"].append(tool.wall(gguf, "--jsonl", str(empty))[0])
                samples["pass"].append(served.ask(body)[0])
                samples["one_shot"].append(tool.wall(gguf, "-f", str(request))[0])
        finally:
            served.close()
    load, alone, whole = (median(samples[name]) for name in ("load", "pass", "one_shot"))
    return {
        "case": ONE_SHOT_CASE.name,
        "samples_s": samples,
        "median_s": {"load": load, "pass": alone, "one_shot": whole},
        "over_load_and_pass_s": whole - load - alone,
    }


def resident(tool: Tool, gguf: Path, requests: Requests) -> dict[str, Any]:
    """Resident memory after loading and after each of the memory cases."""
    served = tool.serve(gguf)
    try:
        result = {"file_mib": round(gguf.stat().st_size / 2**20, 1), "loaded": memory(served.process.pid)}
        for case in MEMORY_CASES:
            served.ask(requests.make(case, 0))
            result[f"after {case.name}"] = memory(served.process.pid)
    finally:
        served.close()
    return result


def stream(tool: Tool, gguf: Path, requests: Requests, n_items: int) -> dict[str, Any]:
    """Seconds of `n_items` short items with each plan, whole runs less loading; the answers must be the same bytes."""
    parts = min(JSONL_PARTS, n_items)
    samples: dict[str, list[float]] = {plan: [] for plan in PLANS}
    loads: list[float] = []
    with tempfile.TemporaryDirectory() as temp:
        empty = Path(temp) / "empty.jsonl"
        empty.touch()
        tool.wall(gguf, "--jsonl", str(empty))
        for part in range(parts):
            items = [requests.short(index) for index in range(part * n_items // parts, (part + 1) * n_items // parts)]
            path = Path(temp) / f"part-{part}.jsonl"
            path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
            answers = {}
            for plan in PLANS if part % 2 == 0 else PLANS[::-1]:
                load = tool.wall(gguf, "--jsonl", str(empty))[0]
                seconds, answers[plan] = tool.wall(gguf, "--jsonl", str(path), "--plan", plan)
                loads.append(load)
                samples[plan].append(seconds)
            if answers[PLANS[0]] != answers[PLANS[1]]:
                raise PeerError(f"the plans {PLANS[0]} and {PLANS[1]} give different answers")
            tokens = [json.loads(line)["usage"]["input_tokens"] for line in answers[PLANS[0]].splitlines()]
    load = median(loads)
    net = {plan: [seconds - load for seconds in samples[plan]] for plan in PLANS}
    return {
        "items": n_items,
        "tokens_an_item": statistics.fmean(tokens),
        "load_s": load,
        "samples_s": samples,
        "items_a_second": {plan: n_items / sum(net[plan]) for plan in PLANS},
        "ratios": [slow / fast for fast, slow in zip(net["packed"], net["sequential"], strict=True)],
        "ratio": sum(net["sequential"]) / sum(net["packed"]),
    }
