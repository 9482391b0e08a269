"""Child processes of bench_peers.py: one line in, one line out, timed; and what Linux says about them."""

import contextlib
import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
# glibc returns and faults in again every large block of a pass; kept, a long pass of the Python peers is faster.
TUNED_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "THP_MEM_ALLOC_ENABLE": "1",
}


class PeerError(Exception):
    """A child process did not do its part."""


def environment(threads: int, malloc: str) -> dict[str, str]:
    """The environment of the Python peers: `threads` everywhere, nothing inherited that would change it."""
    inherited = ("OMP_", "MKL_", "KMP_", "GOMP_", "MALLOC_", "LAYA_", "ORT_", "TORCH")
    env = {name: value for name, value in os.environ.items() if not name.startswith(inherited)}
    env |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    env |= {"HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
    return env | (TUNED_MALLOC if malloc == "tuned" else {})


def process_cpu(pid: int | str) -> float:
    """CPU seconds of a process and its finished children."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(int(fields[index]) for index in (11, 12, 13, 14)) / TICKS


def machine_cpu() -> float:
    """CPU seconds that the whole machine has been busy, what the hypervisor took included."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
    values = [int(value) for value in fields]
    return (sum(values) - values[3] - values[4]) / TICKS


def memory(pid: int) -> dict[str, float]:
    """Resident memory of a process in MiB: now, its peak, and which part is files."""
    names = {"VmRSS": "rss", "VmHWM": "peak", "RssAnon": "anonymous", "RssFile": "file"}
    result = {}
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name in names:
            result[names[name]] = round(int(value.split()[0]) / 1024, 1)
    return result


@dataclass
class Peer:
    """A long-lived process that answers a line with a line."""

    name: str
    argv: list[str]
    log: Path
    env: dict[str, str] | None = None
    load_seconds: float = 0.0
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        """Start it."""
        self.started = time.perf_counter()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=self.env
            )

    def line(self) -> bytes:
        """The next line; raises when the process has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise PeerError(f"{self.name} ended with status {self.process.wait()}; see {self.log}")
        return line

    def send(self, line: bytes) -> None:
        """Write a line."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"{self.name} ended with status {self.process.wait()}; see {self.log}") from None

    def ask(self, message: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Seconds from the write to the whole answer line, and the answer."""
        line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        start = time.perf_counter()
        self.send(line)
        answer = self.line()
        seconds = time.perf_counter() - start
        return seconds, json.loads(answer)

    def ready(self, probe: bool) -> dict[str, Any]:
        """Wait until it is loaded: it says so itself, or (`probe`) refuses an empty request without computing."""
        if probe:
            self.send(b"{}\n")
        answer = json.loads(self.line())
        if ("error" in answer) != probe:
            raise PeerError(f"{self.name}: unexpected first line {answer}")
        self.load_seconds = time.perf_counter() - self.started
        return answer

    def cpu(self) -> float:
        """CPU seconds used until now."""
        return process_cpu(self.process.pid)

    def memory(self) -> dict[str, float]:
        """See `memory`."""
        return memory(self.process.pid)

    def idle_cpu(self, seconds: float = 0.5) -> float:
        """Cores that it keeps busy while nothing is asked."""
        before = self.cpu()
        time.sleep(seconds)
        return (self.cpu() - before) / seconds

    def close(self) -> None:
        """End of input, then wait."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Meter:
    """Cores that processes other than ours kept busy: above a few hundredths the figures are not to be trusted."""

    def __init__(self, peers: list[Peer]) -> None:
        self.peers = peers
        self.reset()

    def reset(self) -> None:
        """Forget the stretches so far."""
        self.foreign = self.wall = 0.0

    def begin(self) -> None:
        """Start of a stretch."""
        self.mark = (time.perf_counter(), machine_cpu(), self.own())

    def end(self) -> None:
        """End of a stretch."""
        start, busy, own = self.mark
        self.wall += time.perf_counter() - start
        self.foreign += max(0.0, machine_cpu() - busy - (self.own() - own))

    def own(self) -> float:
        """CPU seconds of this process and of the peers."""
        return process_cpu("self") + sum(peer.cpu() for peer in self.peers)

    def cores(self) -> float:
        """Foreign cores over the stretches so far."""
        return self.foreign / self.wall if self.wall else 0.0


def cpu_name() -> str:
    """The processor's model name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "unknown"


def run(argv: list[str], log: Path, env: dict[str, str] | None = None) -> None:
    """A command that must succeed; its output goes to the log."""
    with log.open("ab") as file:
        status = subprocess.run(argv, stdout=file, stderr=file, env=env, check=False).returncode
    if status != 0:
        raise PeerError(f"{Path(argv[0]).name} failed with status {status}; see {log}")
