#!/usr/bin/env python3
"""A Python peer of bench_peers.py: loads once, then answers one request a line on standard output.

    python bench_worker.py torch CHECKPOINT --threads 2 [--compile]     laya.Agent, float32
    python bench_worker.py onnx CHECKPOINT --threads 2 --models DIR     laya.ONNXAgent on exports of bench_onnx.py

The first line says {"ready": ...}. The onnx peer takes {"use": VARIANT} between requests.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = {
    "torch": ("laya", "torch", "transformers", "tokenizers", "numpy"),
    "onnx": ("laya", "onnxruntime", "onnx", "onnxscript", "torch", "transformers", "tokenizers", "numpy"),
}


def private_copy(checkpoint: Path, copy_to: Path) -> Path:
    """A copy whose tokenizer_config.json the package may rewrite; the weights are only read, so they are linked."""
    shutil.copytree(checkpoint, copy_to, ignore=shutil.ignore_patterns("*.safetensors"))
    (copy_to / "model.safetensors").symlink_to((checkpoint / "model.safetensors").resolve())
    return copy_to


class Torch:
    """The published package as it is."""

    def __init__(self, checkpoint: Path, threads: int, compiled: bool) -> None:
        import laya
        import torch

        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        self.inference_mode = torch.inference_mode
        self.agent = laya.Agent(str(checkpoint), device="cpu", compile=compiled)
        attention = self.agent.model.encoder.config._attn_implementation
        dtypes = {parameter.dtype for parameter in self.agent.model.parameters()}
        if attention != "sdpa" or self.agent.amp_enabled or dtypes != {torch.float32}:
            raise SystemExit(f"expected SDPA attention and float32, found {attention}, {dtypes}")
        self.about = {"cpu_capability": torch.backends.cpu.get_cpu_capability(), "compile": compiled}

    def control(self, message: dict[str, Any]) -> dict[str, Any]:
        """Nothing to control."""
        raise ValueError(f"unknown message {sorted(message)}")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request."""
        with self.inference_mode():
            return self.agent.system_one(request["state"], request["questions"], max_len=request.get("max_len"))


class Sessions:
    """In place of the session of an ONNXAgent: the variant in use, refusing what it cannot compute."""

    def __init__(self, models: Path, threads: int) -> None:
        import onnxruntime

        self.runtime = onnxruntime
        self.models, self.threads = models, threads
        self.loaded: dict[str, Any] = {}
        self.current = ""

    def use(self, variant: str) -> None:
        """Load a variant and take it from now on."""
        if variant not in self.loaded:
            self.loaded[variant] = self.session(self.models / f"{variant}.onnx")
        self.current = variant

    def session(self, path: Path) -> Any:
        """A session with the settings that serve it best."""
        options = self.runtime.SessionOptions()
        options.graph_optimization_level = self.runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = self.runtime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = True
        # Threads spin within a run, and sleep as soon as it is over.
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return self.runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, names: list[str], inputs: dict[str, Any]) -> list[Any]:
        """What the package calls."""
        if self.current.startswith("unpadded") and not inputs["attention_mask"].all():
            raise ValueError(f"{self.current} takes rows of one length only")
        return self.loaded[self.current].run(names, inputs)


class Onnx:
    """The package's own ONNX runtime around our sessions: its tokenizing, padding and decoding."""

    def __init__(self, checkpoint: Path, threads: int, models: Path) -> None:
        import onnxruntime
        import torch

        # PyTorch only fills the input arrays here.
        torch.set_num_threads(1)
        self.sessions = Sessions(models, threads)
        original = onnxruntime.InferenceSession
        onnxruntime.InferenceSession = lambda *_args, **_kwargs: None
        try:
            from laya.onnx_agent import ONNXAgent

            # Any file that exists will do as the graph: the sessions are put in place of what it would load.
            self.agent = ONNXAgent(str(checkpoint), onnx_path=str(checkpoint / "rl_agent_config.json"))
        finally:
            onnxruntime.InferenceSession = original
        self.agent.session = self.sessions
        self.about = {"build": onnxruntime.get_build_info(), "providers": ["CPUExecutionProvider"]}

    def control(self, message: dict[str, Any]) -> dict[str, Any]:
        """Choose a variant, loading it when it is not."""
        self.sessions.use(message["use"])
        return {"ok": sorted(self.sessions.loaded)}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request."""
        return self.agent.system_one(request["state"], request["questions"], max_len=request.get("max_len"))


def main() -> int:
    """Load, say so, answer until the end of input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=tuple(PACKAGES))
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    # The protocol has standard output for itself: what libraries print goes to standard error.
    protocol = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def reply(value: dict[str, Any]) -> None:
        protocol.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")
        protocol.flush()

    with tempfile.TemporaryDirectory() as temp, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        checkpoint = private_copy(arguments.checkpoint, Path(temp) / "checkpoint")
        if arguments.kind == "torch":
            peer: Torch | Onnx = Torch(checkpoint, arguments.threads, arguments.compile)
        else:
            peer = Onnx(checkpoint, arguments.threads, arguments.models)
        versions = {name: version(name).partition("+")[0] for name in PACKAGES[arguments.kind]}
        reply({"ready": {"versions": versions, **peer.about}})
        for line in sys.stdin.buffer:
            message = json.loads(line)
            reply(peer.answer(message) if "questions" in message else peer.control(message))
    return 0


if __name__ == "__main__":
    sys.exit(main())
