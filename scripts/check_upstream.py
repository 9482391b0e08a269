#!/usr/bin/env python3
"""Compares laya-cli with llama.cpp's llama-server, each answering from the same files of llama.cpp's layout.

The files are made by `laya-convert --layout modern-bert` from the tiny checkpoints of golden/, changed in two numbers:
one attention head for 64 columns (llama.cpp gives the head's layers the encoder's number, the published package this
one) and a longest row nothing is cut at (llama.cpp never cuts the state). Every golden request that both programs take
and read the same (see `differs`) is asked. Compared are:

- the tokens of each row, where nothing was cut: llama-server's /tokenize of the row's text, and the number of all tokens;
- the probabilities, where both use the same temperature (llama.cpp uses any as it is, the published package moves it
  into 0.5 to 5), within what llama.cpp's arithmetic asks for: its GELU is the tanh form read from a table of half precision,
  where the published package has the exact one, and with Q8_0 weights it rounds the other factor of every product to
  eight bits too. Its flash attention, which would round keys and values to half precision, is off.

A llama-server is needed (build b11434 or later), and laya-cli and laya-convert in --bin. Run by hand: it starts servers.
Other checkpoints are taken as they are, with --checkpoint.

usage: check_upstream.py --server PATH/llama-server [--bin target/release] [--checkpoint DIR ...]
"""

import argparse
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unicodedata
import urllib.error
import urllib.request
from typing import Self

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAMILIES = ("tiny-mmbert", "tiny-modernbert")
# Output types, and the largest difference of a probability. Random weights make much of every rounding.
OUTTYPES = {"f32": 0.02, "f16": 0.02, "q8_0": 0.3}
# Texts whose tokens are compared beside those of the rows.
PROBES = [
    "charged twice",
    "  two   runs    of spaces     ",
    " leading and trailing ",
    "\n\n\n a\tb\t\tc",
    "<td><b>x</b></td>",
    "Ünïcödé, こんにちは, 😀 and 1,234.5!",
    "don't we'll I'm",
    "a\u00a0b\u2003c",
]


class Server:
    """A llama-server with one model, until the end of a `with`."""

    def __init__(self, program: pathlib.Path, model: pathlib.Path, log: pathlib.Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        with log.open("wb") as out:
            sizes = ["-c", "4096", "-b", "4096", "-ub", "4096", "-t", "1"]
            command = [program, "-m", model, "--port", str(self.port), *sizes, "--flash-attn", "off"]
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        self.log = log

    def __enter__(self) -> Self:
        for _ in range(600):
            if self.process.poll() is not None:
                sys.exit(f"llama-server stopped:\n{self.log.read_text(errors='replace')[-2000:]}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                    return self
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        sys.exit("llama-server does not get ready")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()

    def post(self, path: str, body: dict) -> tuple[int, dict]:
        data = json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def tokens(self, text: str) -> list[int]:
        return self.post("/tokenize", {"content": text, "add_special": False, "parse_special": True})[1]["tokens"]


def checkpoint(family: str, folder: pathlib.Path) -> pathlib.Path:
    """A copy of the golden checkpoint with the two numbers changed."""
    copy = folder / family
    shutil.copytree(ROOT / "golden" / family / "checkpoint", copy)

    def change(name: str, **numbers: object) -> None:
        path = copy / name
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | numbers), encoding="utf-8")

    width = json.loads((copy / "encoder/config.json").read_text(encoding="utf-8"))["hidden_size"]
    change("encoder/config.json", num_attention_heads=max(1, width // 64))
    change("rl_agent_config.json", max_len=4096)
    return copy


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for item in inner for text in strings(item)]


def numbers(value: object) -> list[object]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [number for item in inner for number in numbers(item)]


def differs(body: dict) -> bool:
    """Whether llama-server is known to read a request as another one.

    It writes floats with six digits and without `.0`, and integers only up to 64 bits; it does not bring text to the form
    NFC; it takes U+2581 in a text for a space; it has no `labels` and no other spelling of `true` and `false`; and it
    tokenizes a row in one piece, so that blanks at the end of an option are swallowed by the next marker.
    """
    texts = strings(body)
    if any("\u2581" in text or unicodedata.normalize("NFC", text) != text for text in texts):
        return True
    if any(isinstance(number, float) or abs(number) >= 2**53 for number in numbers(body)):
        return True
    for question in body["questions"].values():
        criteria = question.get("criteria")
        labels = criteria if isinstance(criteria, dict) else {}
        if "labels" in question or (question.get("type") == "noul" and not set(labels) <= {"true", "false"}):
            return True
        ends = [label if words in (None, "") else text(words) for label, words in labels.items()]
        ends += map(text, criteria) if isinstance(criteria, list) else []
        if any(end != end.rstrip() or not end for end in ends):
            return True
    return False


def requests() -> list[dict]:
    """The golden requests in the one form both programs read: criteria of a choice are an object."""
    bodies = []
    lines = (ROOT / "golden" / FAMILIES[0] / "items.jsonl").read_text(encoding="utf-8").split("\n")
    for body in (json.loads(line)["body"] for line in lines if line):
        questions = body.get("questions")
        if not isinstance(questions, dict) or not all(isinstance(question, dict) for question in questions.values()):
            continue
        for question in questions.values():
            labels = question.get("criteria")
            listed = question.get("type") == "choice" and isinstance(labels, list)
            if listed and all(isinstance(label, str) for label in labels):
                question["criteria"] = dict.fromkeys(labels)
        asked = {"state": body.get("state"), "questions": questions}
        if not differs(asked):
            bodies.append(asked)
    return bodies


def answers(program: pathlib.Path, model: pathlib.Path, bodies: list[dict]) -> list[dict]:
    lines = "".join(json.dumps(body) + "\n" for body in bodies).encode()
    run = subprocess.run([program, "-m", model, "--jsonl", "-"], input=lines, capture_output=True, check=False)
    return [json.loads(line) for line in run.stdout.splitlines()]


def probabilities(answer: dict) -> dict[str, float]:
    return answer.get("probabilities") or {"true": answer["noul"], "false": 1 - answer["noul"]}


def text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def row(question: dict, ours: dict, state: object, special: dict[str, str]) -> str:
    """The text of a row, to be tokenized in one piece."""
    parts = (text(question["instructions"]), text(state), *ours["options"])
    instructions, state, *options = (part.replace(special["mask"], " ") for part in parts)
    options = "".join(f"{special['mask']} {option}" for option in options)
    head = f"{special['cls']}{ours['qtype']} question: {instructions}{special['sep']}"
    return f"{head}{options}{special['sep']}{state}{special['sep']}"


def special_tokens(source: pathlib.Path) -> dict[str, str]:
    config = json.loads((source / "tokenizer" / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokens = {name: config[f"{name}_token"] for name in ("cls", "sep", "mask")}
    return {name: token if isinstance(token, str) else token["content"] for name, token in tokens.items()}


def temperature(agent: dict, kind: str, n_options: int) -> float:
    size = "2" if n_options <= 2 else "3-5" if n_options <= 5 else "6-10" if n_options <= 10 else "11+"
    of_kind = dict(zip(("choice", "score", "noul"), agent.get("temperature", []), strict=False)).get(kind, 1.0)
    return agent.get("temperature_by_options", {}).get(f"{kind}:{size}", of_kind)


def compare(server: Server, cli: pathlib.Path, model: pathlib.Path, source: pathlib.Path) -> dict:
    special = special_tokens(source)
    agent = json.loads((source / "rl_agent_config.json").read_text(encoding="utf-8"))
    counts = dict.fromkeys(("requests", "refused", "questions", "rows", "compared"), 0)
    found = counts | {"other rows": [], "other counts": [], "worst": (0.0, "")}
    probes = "".join(probe.replace("\n", " ") + "\n" for probe in PROBES)
    run = subprocess.run([cli, "-m", model, "--tokenize", "-"], input=probes.encode(), capture_output=True, check=True)
    for probe, line in zip(PROBES, run.stdout.splitlines(), strict=True):
        if server.tokens(probe.replace("\n", " ")) != json.loads(line):
            found["other rows"].append(("probe", probe))
    bodies = requests()
    for body, ours in zip(bodies, answers(cli, model, bodies), strict=True):
        status, theirs = server.post("/v1/systemone", body)
        if status != 200 or "error" in ours or not ours.get("answers"):
            found["refused"] += 1
            continue
        found["requests"] += 1
        if theirs["usage"]["input_tokens"] != ours["usage"]["input_tokens"]:
            found["other counts"].append((theirs["usage"], ours["usage"], body))
            continue
        for name, answer in ours["answers"].items():
            found["questions"] += 1
            evidence = ours["per_question"][name]
            ids = server.tokens(row(body["questions"][name], evidence, body["state"], special))
            if len(ids) == len(evidence["input_ids"]):
                found["rows"] += 1
                if ids != evidence["input_ids"]:
                    found["other rows"].append((name, body))
            if not 0.5 <= temperature(agent, evidence["qtype"], len(evidence["options"])) <= 5:
                continue
            found["compared"] += 1
            expected, given = probabilities(answer), probabilities(theirs["answers"][name])
            for key, value in expected.items():
                where = f"{name} {key} of {json.dumps(body)[:200]}"
                found["worst"] = max(found["worst"], (abs(value - given[key]), where))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, type=pathlib.Path, metavar="PATH", help="llama-server")
    parser.add_argument("--bin", default=ROOT / "target/release", type=pathlib.Path, metavar="DIR", help="our programs")
    parser.add_argument("--checkpoint", action="append", type=pathlib.Path, metavar="DIR", help="not the tiny ones")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for source in arguments.checkpoint or [checkpoint(family, folder) for family in FAMILIES]:
            for outtype, tolerance in OUTTYPES.items():
                model = folder / f"{source.name}-{outtype}.gguf"
                convert = [arguments.bin / "laya-convert", source, "-o", model, "--layout", "modern-bert"]
                subprocess.run([*convert, "--outtype", outtype], check=True, stderr=subprocess.DEVNULL)
                with Server(arguments.server, model, folder / "server.log") as server:
                    found = compare(server, arguments.bin / "laya-cli", model, source)
                model.unlink()
                worst, where = found["worst"]
                print(
                    f"{source.name} {outtype}: {found['requests']} requests ({found['refused']} one of the two refuses), "
                    f"{found['questions']} questions, {found['rows']} uncut rows, "
                    f"{len(found['other rows'])} with other tokens, "
                    f"{len(found['other counts'])} requests with another number of tokens; "
                    f"largest |dp| of {found['compared']} answers {worst:.2e}"
                )
                for kind in ("other rows", "other counts"):
                    for case in found[kind][:3]:
                        print(f"  {kind}: {str(case)[:400]}")
                if worst > tolerance:
                    print(f"  {where}")
                failed |= worst > tolerance or bool(found["other rows"] or found["other counts"])
    if failed:
        sys.exit("laya-cli and llama-server differ")


if __name__ == "__main__":
    main()
