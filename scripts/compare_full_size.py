#!/usr/bin/env python3
"""Compare laya-cli with the published package (laya 0.3.21, PyTorch, CPU, fp32, SDPA) on a full-size checkpoint.

    python scripts/compare_full_size.py items ITEMS.jsonl [--n 20]
        write request bodies: every question type, states from empty to longer than the window
    python scripts/compare_full_size.py ref CHECKPOINT ITEMS.jsonl REF.jsonl [--threads 2]
        answer them with the package (a header line, then one line per request)
    laya-cli -m MODEL.gguf --jsonl ITEMS.jsonl > OURS.jsonl
    python scripts/compare_full_size.py compare REF.jsonl OURS.jsonl --record FILE.json
        judge by the tier strict-f32, print a table, write the record; exit 0 pass, 1 fail, 2 the files do not belong
        together

The checkpoint is usually a synthetic one of the real shape around a real tokenizer:
    laya-convert synth --arch mmbert-base --seed 1 --tokenizer tokenizer.json -o CHECKPOINT
An F16 checkpoint is fair: the package widens it into float32 parameters, and an F16 GGUF holds the same values.

Tier strict-f32: options, ids, markers and usage identical; the same best option by raw logits; the same labels; every
public number within 1e-4 at 4 digits (a score's error divided by its levels less one); act logits within 2e-4 of
max(|a|, |b|, 1), and beyond the tier raw logits within the same. Raw logits are each row alone (batch 1), answers are `Agent.system_one` (one padded batch).

Needs scripts/requirements.txt.
"""

import argparse
import json
import math
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

TIER = "strict-f32"
PUBLIC_TOLERANCE = 1e-4
ACT_TOLERANCE = 2e-4
# Beyond the tier: a saturated softmax hides a wrong logit from every public number.
LOGIT_TOLERANCE = 2e-4

SENTENCES = (
    "The customer writes that the parcel was marked as delivered but never arrived at the house.",
    "Two charges of 19.50 appear on the same day, and only one of them belongs to the monthly plan.",
    "At 03:12 the connection to the replica was lost; five retries later the pool gave up.",
    "Der Zähler im Keller zeigt seit Donnerstag einen Wert, der nicht stimmen kann.",
    "La puerta de la cámara frigorífica estuvo abierta siete minutos y la temperatura subió a 9,8 °C.",
    "请帮我查一下订单为什么还没有发货，我已经等了两个星期。",
    "मेरे खाते से पैसे कट गए लेकिन टिकट नहीं मिला।",
    "لم يصل الطرد بعد، وأرجو إعادة المبلغ إلى الحساب نفسه.",
    '{"level": "warn", "host": "node-17", "free_mb": 412.0, "retry": [1, 2, 4]}',
    "Please answer before Friday, otherwise the order has to be cancelled and shipped again 🙏.",
)
# Sentences in the state of each request; the real windows are 512 and 1024 tokens, about 20 tokens a sentence.
STATE_SENTENCES = (0, 1, 1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 22, 26, 30, 36, 42, 50, 60, 90)


def questions(i: int) -> dict[str, Any]:
    """The questions of request `i`: the types take turns, every fifth request asks all three."""
    labels = ["billing", "delivery", "access", "hardware", "praise", "complaint", "spam", "other"]
    n_labels = (1, 2, 3, 4, 5, 6, 8, 12, 16, 20)[i % 10]
    names = labels + [f"queue {n}" for n in range(len(labels), 20)]
    choice = {"type": "choice", "instructions": "Which queue should take this?", "criteria": names[:n_labels]}
    if i % 3 == 1:
        choice["criteria"] = {name: f"everything about {name}, {{{i}}}" for name in names[:n_labels]}
    levels = ["not at all", {"level": "a little"}, "clearly", "very much", "as much as possible"]
    score = {"type": "score", "instructions": "How urgent is it?", "criteria": levels[: 2 + i % 4]}
    noul: dict[str, Any] = {"type": "noul", "instructions": f"Does the text ask for an answer within {i} days?"}
    if i % 2:
        noul["labels"] = {"false": "no", "true": "yes"}
    if i % 5 == 4:
        return {"queue": choice, "urgency": score, "answer": noul}
    return [{"queue": choice}, {"urgency": score}, {"answer": noul, "urgency": score}][i % 3]


def request(i: int) -> dict[str, Any]:
    """Request `i`: string, object and list states in turn."""
    count = STATE_SENTENCES[i % len(STATE_SENTENCES)]
    texts = [SENTENCES[(i + 3 * n) % len(SENTENCES)] for n in range(count)]
    state: Any = " ".join(texts)
    if i % 4 == 2:
        state = {"case": 1000 + i, "weight": i / 8, "notes": texts}
    elif i % 4 == 3:
        state = [{"role": "user" if n % 2 == 0 else "assistant", "text": text} for n, text in enumerate(texts)]
    return {"id": f"full-{i:02}", "state": state, "questions": questions(i)}


def write_items(path: Path, n: int) -> None:
    """The request bodies, one a line."""
    with path.open("w", encoding="utf-8") as out:
        for i in range(n):
            out.write(json.dumps(request(i), ensure_ascii=False) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def write_reference(checkpoint: Path, items: Path, out: Path, threads: int) -> None:
    """Answer every request with the package."""
    import torch

    from gen_golden import PACKAGES, build_rows, load_agent, model_inputs, sha256, widen

    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as temp, out.open("w", encoding="utf-8") as file, torch.no_grad():
        agent = load_agent(checkpoint, Path(temp) / "checkpoint")
        config = agent.model.encoder.config
        shape = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "vocab_size")
        header = {
            "oracle": {name: version(name).partition("+")[0] for name in PACKAGES},
            "python": platform.python_version(),
            "threads": threads,
            "checkpoint": {name: getattr(config, name) for name in shape}
            | {name: agent.cfg.get(name) for name in ("encoder", "head_layers", "max_len", "head_max_len")}
            | {
                "dtype": str(next(iter(agent.model.parameters())).dtype).removeprefix("torch."),
                "model.safetensors": sha256(checkpoint / "model.safetensors"),
                "tokenizer.json": sha256(checkpoint / "tokenizer" / "tokenizer.json"),
            },
            "items_sha256": sha256(items),
        }
        file.write(json.dumps({"header": header}) + "\n")
        for item in read_lines(items):
            line: dict[str, Any] = {"id": item["id"]}
            try:
                result = agent.system_one(item["state"], item["questions"])
            except (TypeError, ValueError) as error:
                line["error"] = str(error)
            else:
                line["per_question"] = {}
                for qid, row in build_rows(agent, item).items():
                    logits, act = agent.model(**model_inputs(row))
                    line["per_question"][qid] = {
                        "options": row["options"],
                        "input_ids": row["input_ids"],
                        "marker_pos": row["marker_pos"],
                        "raw_logits": widen(logits[0]),
                        "act_raw_logits": widen(act[0]),
                    }
                line |= {"answers": result["answers"], "usage": result["usage"]}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            print(f"{item['id']}: {line.get('usage', {}).get('input_tokens', 'refused')} tokens", file=sys.stderr)


class Incomparable(Exception):
    """The comparison cannot be made: exit status 2."""


@dataclass
class Item:
    """What one request showed."""

    name: str
    n_questions: int = 0
    n_tokens: int = 0
    max_dlogit: float = 0.0
    act_max_rel: float = 0.0
    min_gap: float = math.inf
    errors: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def public(self, where: str, kind: str, error: float) -> None:
        """Count one public number."""
        self.errors[kind] = max(self.errors.get(kind, 0.0), error)
        if not within(error, PUBLIC_TOLERANCE):
            self.failures.append(f"{where}: off by {error:.2e}")

    def exact(self, where: str, reference: Any, ours: Any) -> None:
        """Count one value that must be the same, type included."""
        if json.dumps(reference) != json.dumps(ours):
            self.failures.append(f"{where}: {shorten(ours)} instead of {shorten(reference)}")


def within(error: float, tolerance: float) -> bool:
    """`error` <= `tolerance`, with slack for the decimal spelling of numbers; false for NaN."""
    return error <= tolerance or math.isclose(error, tolerance, rel_tol=1e-9, abs_tol=1e-12)


def shorten(value: Any) -> str:
    """A value for a message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def compare_answer(item: Item, where: str, reference: dict[str, Any], ours: dict[str, Any]) -> None:
    """The public part of one question."""
    item.exact(f"{where} keys", list(reference), list(ours))
    for key in ("type", "choice", "legend"):
        if key in reference:
            item.exact(f"{where}.{key}", reference[key], ours.get(key))
    for key, kind in (("noul", "prob"), ("confidence", "confidence"), ("answer_confidence", "prob")):
        if key in reference:
            item.public(f"{where}.{key}", kind, gap(reference[key], ours.get(key)))
    if "probabilities" in reference:
        theirs, mine = reference["probabilities"], ours.get("probabilities", {})
        item.exact(f"{where}.probabilities keys", list(theirs), list(mine))
        for label in theirs:
            item.public(f"{where}.probabilities.{label}", "prob", gap(theirs[label], mine.get(label)))
    if "score" in reference:
        levels = max(1, len(reference["legend"]) - 1)
        item.public(f"{where}.score", "score", gap(reference["score"], ours.get("score")) / levels)
    act = gap(reference["action"]["act_probability"], ours.get("action", {}).get("act_probability"))
    item.public(f"{where}.action.act_probability", "other", act)


def gap(reference: float, ours: Any) -> float:
    """|reference - ours|, both at 4 digits; infinite when ours is not a number."""
    if isinstance(ours, bool) or not isinstance(ours, int | float):
        return math.inf
    return abs(reference - round(ours, 4))


def compare_logits(item: Item, where: str, reference: dict[str, Any], ours: dict[str, Any]) -> None:
    """Inputs and raw logits of one question."""
    for key in ("options", "input_ids", "marker_pos"):
        item.exact(f"{where}.{key}", reference[key], ours.get(key))
    theirs, mine = reference["raw_logits"], ours.get("raw_logits", [])
    act, my_act = reference["act_raw_logits"], ours.get("act_raw_logits", [])
    if len(theirs) != len(mine) or len(act) != len(my_act):
        item.failures.append(f"{where}: {len(mine)} logits and {len(my_act)} act logits")
        return
    if any(not math.isfinite(value) for value in mine + my_act):
        item.failures.append(f"{where}: a logit is not finite")
        return
    item.max_dlogit = max(item.max_dlogit, *(abs(a - b) for a, b in zip(theirs, mine, strict=True)))
    off = max(abs(a - b) / max(abs(a), abs(b), 1.0) for a, b in zip(theirs, mine, strict=True))
    if not within(off, LOGIT_TOLERANCE):
        item.failures.append(f"{where}: raw logits off by {off:.2e}")
    if theirs.index(max(theirs)) != mine.index(max(mine)):
        item.failures.append(f"{where}: another best option")
    best = sorted(theirs, reverse=True)
    if len(best) > 1:
        item.min_gap = min(item.min_gap, best[0] - best[1])
    relative = max(abs(a - b) / max(abs(a), abs(b), 1.0) for a, b in zip(act, my_act, strict=True))
    item.act_max_rel = max(item.act_max_rel, relative)
    if not within(relative, ACT_TOLERANCE):
        item.failures.append(f"{where}: act logits off by {relative:.2e}")


def compare_item(reference: dict[str, Any], ours: dict[str, Any]) -> Item:
    """One request."""
    item = Item(reference["id"])
    if ("error" in reference) != ("error" in ours):
        item.failures.append(f"refused by one side: {shorten(ours.get('error', reference.get('error')))}")
    if "error" in reference or "error" in ours:
        return item
    item.n_questions = len(reference["per_question"])
    item.n_tokens = reference["usage"]["input_tokens"]
    for part in ("per_question", "answers"):
        item.exact(f"{part} keys", list(reference[part]), list(ours.get(part, {})))
    item.exact("usage", reference["usage"], ours.get("usage"))
    if item.failures:
        return item
    for qid in reference["per_question"]:
        compare_logits(item, qid, reference["per_question"][qid], ours["per_question"][qid])
        compare_answer(item, qid, reference["answers"][qid], ours["answers"][qid])
    return item


def pairs(reference: list[dict[str, Any]], ours: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], ...]]:
    """Lines that belong together; refuses to judge files that do not."""
    if len(reference) != len(ours):
        raise Incomparable(f"{len(reference)} reference lines, {len(ours)} of ours")
    for a, b in zip(reference, ours, strict=True):
        if "error" not in b and a["id"] != b.get("id"):
            raise Incomparable(f"line {a['id']} of the reference meets {b.get('id')!r}")
        yield a, b


def compare(reference_path: Path, ours_path: Path, record_path: Path | None) -> int:
    """Judge, print the table, write the record."""
    header, *reference = read_lines(reference_path)
    if "header" not in header or not reference:
        raise Incomparable(f"{reference_path} is not written by `ref`")
    lines = read_lines(ours_path)
    items = [compare_item(a, b) for a, b in pairs(reference, lines)]
    print(f"{'item':<10} {'questions':>9} {'tokens':>7} {'|dlogit|':>9} {'public':>9} {'act rel':>9}  verdict")
    for item in items:
        worst = max(item.errors.values(), default=0.0)
        verdict = "pass" if not item.failures else f"FAIL {item.failures[0]}"
        print(
            f"{item.name:<10} {item.n_questions:>9} {item.n_tokens:>7} {item.max_dlogit:>9.1e} {worst:>9.1e}"
            f" {item.act_max_rel:>9.1e}  {verdict}"
        )
    failures = [f"{item.name} {failure}" for item in items for failure in item.failures]
    n_questions = sum(item.n_questions for item in items)
    if n_questions == 0:
        raise Incomparable("no question was answered")
    kinds = sorted({kind for item in items for kind in item.errors})
    record = {
        "tool": "compare_full_size",
        "tier": TIER,
        "thresholds": {"public": PUBLIC_TOLERANCE, "act_relative": ACT_TOLERANCE, "logit_relative": LOGIT_TOLERANCE},
        "items": len(items),
        "questions": n_questions,
        "tokens": sum(item.n_tokens for item in items),
        "longest_row": max(len(q["input_ids"]) for line in reference for q in line.get("per_question", {}).values()),
        "max_abs_dlogit": max(item.max_dlogit for item in items),
        "max_abs_error": {kind: max(item.errors.get(kind, 0.0) for item in items) for kind in kinds},
        "act_max_rel_dlogit": max(item.act_max_rel for item in items),
        "min_top2_gap": min(item.min_gap for item in items),
        "reference": header["header"],
        "n_failures": len(failures),
        "failures": failures[:20],
        "verdict": "fail" if failures else "pass",
    }
    if record_path is not None:
        record_path.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    print(
        f"{TIER}: {record['verdict']}, {record['items']} items, {n_questions} questions, "
        f"max |dlogit| {record['max_abs_dlogit']:.2e}, max public error "
        f"{max(record['max_abs_error'].values()):.2e}, smallest top-2 gap {record['min_top2_gap']:.2e}"
    )
    return 1 if failures else 0


def main() -> int:
    """Dispatch to items, ref or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    items = modes.add_parser("items", help="write request bodies")
    items.add_argument("out", type=Path)
    items.add_argument("--n", type=int, default=20)
    ref = modes.add_parser("ref", help="answer them with the published package")
    ref.add_argument("checkpoint", type=Path)
    ref.add_argument("items", type=Path)
    ref.add_argument("out", type=Path)
    ref.add_argument("--threads", type=int, default=2)
    judge = modes.add_parser("compare", help="judge laya-cli's output")
    judge.add_argument("reference", type=Path)
    judge.add_argument("ours", type=Path)
    judge.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    if arguments.mode == "items":
        write_items(arguments.out, arguments.n)
    elif arguments.mode == "ref":
        write_reference(arguments.checkpoint, arguments.items, arguments.out, arguments.threads)
    else:
        try:
            return compare(arguments.reference, arguments.ours, arguments.record)
        except Incomparable as refusal:
            print(f"cannot compare: {refusal}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
