#!/usr/bin/env python3
"""Write the goldens of the two tiny checkpoints from the published package (laya 0.3.21, PyTorch, CPU, fp32, SDPA).

    python scripts/gen_golden.py            write items.jsonl, hidden.safetensors, controls.json, record.json
                                            in golden/tiny-mmbert and golden/tiny-modernbert
    python scripts/gen_golden.py --check    compute them again and compare, exit 1 on a difference

items.jsonl, one request a line: {"id", "covers", "body", "expected"}. `expected` is either
  {"per_question": {id: {options, input_ids, marker_pos, raw_logits, act_raw_logits}}, "answers", "usage"}, where
  logits belong to each question's row computed ALONE (batch 1, no padding), while `answers` and `usage` are what
  `Agent.system_one` returns for the request (its questions in one padded batch: other last bits); or
  {"error": {"type", "message"}} for a request that the package refuses.
Logits are float32 widened to double. "hidden" names the question whose hidden states are kept and its row length.

hidden.safetensors: for 60 of the items, first question, row alone, all positions, float32 [n_tokens, n_embd]:
  item_NNN/embeddings (after the embedding norm), /layer_II (after encoder layer II), /final_norm, /type_emb (after
  adding the type embedding), /head_JJ (after head block JJ).

controls.json: the size of each deliberate mistake, measured here by bending the PyTorch model: max |d| of the option
  logits and of every hidden stage over the rows of hidden.safetensors, also relative to max |reference| at that
  position. "rounding" is the same model in float64: what is left when nothing is wrong. A correct engine sits near
  it and far below every control.

record.json: versions and sha256 of every file. `--check` compares text, ids, markers and usage exactly, numbers within
2e-5 (hidden states: relative to max |reference| at that position), since rounding depends on the processor.

Needs scripts/requirements.txt. The package may rewrite a checkpoint's tokenizer_config.json, so it gets a copy.
"""

import argparse
import contextlib
import hashlib
import json
import math
import platform
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import laya
import numpy as np
import torch
from laya.common import QTYPES, build_sequence, render_options, serialize_state
from safetensors.numpy import load_file, save_file
from torch import nn

from golden_items import ITEMS

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
FAMILIES = ("tiny-mmbert", "tiny-modernbert")
PACKAGES = ("laya", "torch", "transformers", "tokenizers", "safetensors", "numpy")
FILES = ("items.jsonl", "hidden.safetensors", "controls.json")
TOLERANCE = 2e-5
# A near tie would turn rounding into another answer: such a request tests nothing, reword it.
MIN_GAP = 1e-3
# Rows kept in hidden.safetensors: the shortest ones, and two that fill the window.
N_SHORT_ROWS = 58
KEPT_LONG = ("long string state, cut on the right", "long list state, cut on the left")
# Bars of the engine that a control must exceed tenfold: in the logits, and in the first stage that it touches.
BAR_LOGIT, BAR_HIDDEN = 1e-4, 1e-4

Stages = dict[str, torch.Tensor]
Row = dict[str, Any]
Change = tuple[Any, str, Any]


def load_agent(checkpoint: Path, copy_to: Path) -> laya.Agent:
    """The package's own Agent on a copy of the checkpoint (the weights are only read, so they are linked)."""
    shutil.copytree(checkpoint, copy_to, ignore=shutil.ignore_patterns("*.safetensors"))
    (copy_to / "model.safetensors").symlink_to((checkpoint / "model.safetensors").resolve())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        agent = laya.Agent(str(copy_to), device="cpu")
    if agent.model.encoder.config._attn_implementation != "sdpa" or agent.amp_enabled:
        raise SystemExit("expected SDPA attention and float32")
    return agent


def build_rows(agent: laya.Agent, body: dict[str, Any]) -> dict[str, Row]:
    """Options, ids and markers of every question of an accepted request."""
    state, rows = body["state"], {}
    text = serialize_state(state).replace(agent.tok.mask_token, " ")
    state_ids = agent.tok(text, add_special_tokens=False)["input_ids"]
    for qid, definition in body["questions"].items():
        question = agent._to_internal(definition)
        ids, markers = build_sequence(
            agent.tok,
            state,
            question,
            agent.cfg["max_len"],
            agent.cfg["head_max_len"],
            truncate_left=isinstance(state, list),
            state_ids=state_ids,
        )
        rows[qid] = {
            "options": render_options(question),
            "input_ids": ids,
            "marker_pos": markers,
            "qtype": QTYPES[question["t"]],
        }
    return rows


def model_inputs(row: Row) -> dict[str, torch.Tensor]:
    """One row as the model's arguments, batch 1."""
    ids = torch.tensor([row["input_ids"]])
    markers = torch.tensor([row["marker_pos"]])
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "marker_pos": markers,
        "marker_mask": torch.ones_like(markers, dtype=torch.bool),
        "qtype": torch.tensor([row["qtype"]]),
    }


@torch.no_grad()
def run_row(model: nn.Module, row: Row) -> tuple[torch.Tensor, torch.Tensor, Stages]:
    """Option logits [n_options], act logits and every hidden stage [n_tokens, n_embd] of a row alone."""
    stages: Stages = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _args: Any, output: torch.Tensor) -> None:
            stages[name] = output[0]

        return hook

    inputs = model_inputs(row)
    encoder = model.encoder
    with contextlib.ExitStack() as stack:
        watched = [("embeddings", encoder.embeddings)]
        watched += [(f"layer_{i:02}", layer) for i, layer in enumerate(encoder.layers)]
        watched += [("final_norm", encoder.final_norm)]
        for name, module in watched:
            stack.callback(module.register_forward_hook(keep(name)).remove)
        logits, act = model(**inputs)
    # Hooks on the head blocks would switch off PyTorch's fused kernel, which the package runs: repeat its loop.
    h = stages["final_norm"][None] + model.type_emb(inputs["qtype"])[:, None, :]
    stages["type_emb"] = h[0]
    padding = ~inputs["attention_mask"].bool()
    for j, layer in enumerate(model.head.layers):
        h = layer(h, src_key_padding_mask=padding)
        stages[f"head_{j:02}"] = h[0]
    again = model.scorer(h[0, row["marker_pos"]]).squeeze(-1)
    if not torch.allclose(again, logits[0].to(again.dtype), rtol=0, atol=1e-6):
        raise SystemExit("the stages do not lead to the model's logits")
    return logits[0], act[0], stages


def widen(values: torch.Tensor) -> list[float]:
    """float32 values as doubles."""
    return [float(v) for v in values.float()]


def check_gap(where: str, logits: list[float]) -> None:
    """Refuse a request whose two best options nearly tie."""
    best = sorted(logits, reverse=True)
    if len(best) > 1 and best[0] - best[1] < MIN_GAP:
        raise SystemExit(f"{where}: top-2 gap {best[0] - best[1]:.1e} is below {MIN_GAP}, reword the item")


def describe(agent: laya.Agent, name: str, body: dict[str, Any]) -> tuple[dict[str, Any], Row | None, Stages]:
    """`expected` of one body, its first row and that row's hidden stages."""
    # What the engine reads is the JSON line, so the package gets that too.
    body = json.loads(json.dumps(body, ensure_ascii=False))
    try:
        result = agent.system_one(body["state"], body["questions"])
    except (TypeError, ValueError) as error:
        return {"error": {"type": type(error).__name__, "message": str(error)}}, None, {}
    per_question, first, first_stages = {}, None, {}
    for qid, row in build_rows(agent, body).items():
        logits, act, stages = run_row(agent.model, row)
        check_gap(f"{name} {qid}", widen(logits))
        per_question[qid] = {
            "options": row["options"],
            "input_ids": row["input_ids"],
            "marker_pos": row["marker_pos"],
            "raw_logits": widen(logits),
            "act_raw_logits": widen(act),
        }
        if first is None:
            first, first_stages = row | {"id": qid}, stages
    return {"per_question": per_question, "answers": result["answers"], "usage": result["usage"]}, first, first_stages


@contextlib.contextmanager
def bent(changes: list[Change]) -> Iterator[None]:
    """Set attributes for the duration of the block."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def changed_parameter(parameter: nn.Parameter, value: torch.Tensor) -> nn.Parameter:
    """A parameter with other values."""
    return nn.Parameter(value.to(parameter.dtype), requires_grad=False)


def controls(model: nn.Module) -> dict[str, list[Change]]:
    """Every deliberate mistake as attribute changes on the model."""
    config, layers, heads = model.encoder.config, model.encoder.layers, model.head.layers
    d = config.hidden_size
    eye, zero = torch.eye(d), torch.zeros(d)
    tanh = nn.GELU(approximate="tanh")
    unit_norm = nn.LayerNorm(d, eps=config.norm_eps, bias=False)
    return {
        "all_layers_global": [(layer, "attention_type", "full_attention") for layer in layers],
        "all_layers_local": [(layer, "attention_type", "sliding_attention") for layer in layers],
        "window_radius_plus_1": [(config, "local_attention", config.local_attention + 2)],
        "window_radius_minus_1": [(config, "local_attention", config.local_attention - 2)],
        "no_type_embedding": [
            (model.type_emb, "weight", changed_parameter(model.type_emb.weight, torch.zeros(3, d))),
        ],
        "tanh_gelu": [(layer.mlp, "act", tanh) for layer in layers]
        + [(model.scorer, "2", tanh), (model.act_head, "1", tanh)],
        "attention_norm_on_layer_0": [(layers[0], "attn_norm", unit_norm)],
        "output_projection_skipped": [
            (layer.attn.Wo, "weight", changed_parameter(layer.attn.Wo.weight, eye)) for layer in layers
        ],
        "head_output_projection_skipped": [
            change
            for block in heads
            for change in (
                (block.self_attn.out_proj, "weight", changed_parameter(block.self_attn.out_proj.weight, eye)),
                (block.self_attn.out_proj, "bias", changed_parameter(block.self_attn.out_proj.bias, zero)),
            )
        ],
    }


def difference(rows: list[Row], reference: list[tuple[torch.Tensor, Stages]], model: nn.Module) -> dict[str, Any]:
    """max |d| of logits and of each stage between `model` and `reference` over the rows."""
    logit, flips = 0.0, 0
    hidden: dict[str, float] = {}
    relative: dict[str, float] = {}
    for row, (expected, stages) in zip(rows, reference, strict=True):
        logits, _, found = run_row(model, row)
        logit = max(logit, float((logits.double() - expected.double()).abs().max()))
        flips += int(logits.argmax() != expected.argmax())
        for name, stage in stages.items():
            gap = (found[name].double() - stage.double()).abs().amax(dim=1)
            size = stage.double().abs().amax(dim=1)
            hidden[name] = max(hidden.get(name, 0.0), float(gap.max()))
            relative[name] = max(relative.get(name, 0.0), float((gap / size).max()))
    return {
        "max_abs_dlogit": logit,
        "argmax_flips": flips,
        "max_abs_dhidden": hidden,
        "max_rel_dhidden": relative,
    }


def measure_controls(agent: laya.Agent, rows: list[Row]) -> dict[str, Any]:
    """controls.json: rounding, then every control; refuses one that is not ten times outside the bars."""
    model = agent.model
    reference = [(logits, stages) for logits, _, stages in (run_row(model, row) for row in rows)]
    result: dict[str, Any] = {"n_rows": len(rows), "controls": {}}
    for name, changes in controls(model).items():
        with bent(changes):
            found = difference(rows, reference, model)
        first = next((gap for gap in found["max_abs_dhidden"].values() if gap > 0), 0.0)
        if found["max_abs_dlogit"] < 10 * BAR_LOGIT or first < 10 * BAR_HIDDEN:
            raise SystemExit(f"control {name} is too small: {found}")
        result["controls"][name] = found
    # Last: the parameters become double and stay so. The model itself casts what it hands to the act head to float32.
    model.double().act_head.float()
    result["rounding"] = difference(rows, reference, model)
    return result


def kept_rows(items: list[dict[str, Any]], rows: dict[str, Row]) -> list[str]:
    """Ids of the items whose hidden states are written, in item order."""
    by_length = sorted(rows, key=lambda name: (len(rows[name]["input_ids"]), name))
    keep = set(by_length[:N_SHORT_ROWS]) | {item["id"] for item in items if item["covers"] in KEPT_LONG}
    return [name for name in rows if name in keep]


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def generate(family: str, folder: Path) -> None:
    """Write the four files of one family into `folder`."""
    checkpoint = GOLDEN / family / "checkpoint"
    items: list[dict[str, Any]] = []
    rows: dict[str, Row] = {}
    stages_of: dict[str, Stages] = {}
    with tempfile.TemporaryDirectory() as temp:
        agent = load_agent(checkpoint, Path(temp) / "checkpoint")
        for i, (covers, body) in enumerate(ITEMS):
            name = f"item_{i:03}"
            expected, row, stages = describe(agent, f"{family} {name}", body)
            if covers.startswith("refused") != ("error" in expected):
                raise SystemExit(f"{family} {name} ({covers}): {expected}")
            items.append({"id": name, "covers": covers, "body": body, "expected": expected})
            if row is not None:
                rows[name], stages_of[name] = row, stages
        keep = kept_rows(items, rows)
        measured = measure_controls(agent, [rows[name] for name in keep])
    for item in items:
        if item["id"] in keep:
            row = rows[item["id"]]
            item["hidden"] = {"question": row["id"], "n_tokens": len(row["input_ids"])}
    lines = [json.dumps(item, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for item in items]
    (folder / "items.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    hidden = {f"{name}/{stage}": v.numpy().copy() for name in keep for stage, v in stages_of[name].items()}
    save_file(hidden, folder / "hidden.safetensors")
    (folder / "controls.json").write_text(json.dumps(rounded(measured), indent=2) + "\n", encoding="utf-8")
    files = {name: sha256(folder / name) for name in FILES}
    files |= {
        f"checkpoint/{p.relative_to(checkpoint).as_posix()}": sha256(p)
        for p in sorted(checkpoint.rglob("*"))
        if p.is_file()
    }
    record = {
        "oracle": {name: version(name).partition("+")[0] for name in PACKAGES} | {"python": platform.python_version()},
        "settings": {"device": "cpu", "dtype": "float32", "attention": "sdpa", "torch_threads": 1},
        "items": len(lines),
        "questions": sum(len(item["expected"].get("per_question", {})) for item in items),
        "refused": sum("error" in item["expected"] for item in items),
        "hidden_rows": len(keep),
        "sha256": files,
    }
    (folder / "record.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Floats with three significant digits: these are sizes, not goldens."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return float(f"{value:.2e}") if isinstance(value, float) else value


def compare_values(where: str, new: Any, old: Any) -> Iterator[str]:
    """Differences: floats within TOLERANCE, everything else exactly."""
    if isinstance(new, float) and isinstance(old, float) and ".body" not in where:
        # Public numbers are rounded to 4 digits: one step apart is the same value seen from two sides.
        step = 1.01e-4 if ".answers." in where else TOLERANCE
        if not math.isclose(new, old, rel_tol=TOLERANCE, abs_tol=step):
            yield f"{where}: {new!r} was {old!r}"
    elif isinstance(new, dict) and isinstance(old, dict) and list(new) == list(old):
        for key in new:
            yield from compare_values(f"{where}.{key}", new[key], old[key])
    elif isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        for i, (a, b) in enumerate(zip(new, old, strict=True)):
            yield from compare_values(f"{where}[{i}]", a, b)
    elif type(new) is not type(old) or new != old:
        yield f"{where}: {new!r} was {old!r}"


def compare_controls(where: str, new: dict[str, Any], old: dict[str, Any]) -> Iterator[str]:
    """A control's size may move a little with rounding, never by a tenth."""
    if new.keys() != old.keys():
        yield f"{where}: controls {sorted(new)} were {sorted(old)}"
        return
    for name in new:
        a, b = new[name]["max_abs_dlogit"], old[name]["max_abs_dlogit"]
        if not math.isclose(a, b, rel_tol=0.1):
            yield f"{where} {name}: max |dlogit| {a} was {b}"


def check(family: str, new: Path) -> list[str]:
    """Differences between freshly written files and the committed ones."""
    old = GOLDEN / family
    problems: list[str] = []
    record = json.loads((old / "record.json").read_text(encoding="utf-8"))
    fresh = json.loads((new / "record.json").read_text(encoding="utf-8"))
    problems += [
        f"{family}/{name}: not the recorded sha256"
        for name, digest in record["sha256"].items()
        if not (old / name).is_file() or sha256(old / name) != digest
    ]
    for key in ("items", "questions", "refused", "hidden_rows", "settings"):
        problems += compare_values(f"{family}/record.json {key}", fresh[key], record[key])
    lines = [(root / "items.jsonl").read_text(encoding="utf-8").split("\n")[:-1] for root in (new, old)]
    if len(lines[0]) != len(lines[1]):
        return [*problems, f"{family}/items.jsonl: {len(lines[0])} items, was {len(lines[1])}"]
    for a, b in zip(*lines, strict=True):
        item = json.loads(a)
        problems += compare_values(item["id"], item, json.loads(b))
    tensors, kept = load_file(new / "hidden.safetensors"), load_file(old / "hidden.safetensors")
    if tensors.keys() != kept.keys():
        return [*problems, f"{family}/hidden.safetensors: other tensors"]
    for name, tensor in tensors.items():
        if tensor.shape != kept[name].shape:
            problems.append(f"{name}: shape {tensor.shape}, was {kept[name].shape}")
            continue
        gap = np.abs(tensor - kept[name]).max(axis=1) / np.maximum(1.0, np.abs(kept[name]).max(axis=1))
        if gap.max() > TOLERANCE:
            problems.append(f"{name}: max relative |d| {gap.max():.1e}")
    sizes = [json.loads((root / "controls.json").read_text(encoding="utf-8")) for root in (new, old)]
    problems += compare_controls(family, sizes[0]["controls"], sizes[1]["controls"])
    return problems


def main() -> int:
    """Write or check the goldens of both families."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    failed = False
    for family in FAMILIES:
        if not arguments.check:
            generate(family, GOLDEN / family)
            sizes = ", ".join(f"{name} {(GOLDEN / family / name).stat().st_size}" for name in FILES)
            print(f"{family}: {sizes} bytes")
            continue
        with tempfile.TemporaryDirectory() as temp:
            generate(family, Path(temp))
            problems = check(family, Path(temp))
        for problem in problems[:20]:
            print(problem, file=sys.stderr)
        print(f"{family}: {'same' if not problems else f'{len(problems)} differences'}")
        failed |= bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
