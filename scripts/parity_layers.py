#!/usr/bin/env python3
"""Write the published package's hidden states for rows of a corpus, to compare an engine with, layer by layer.

    python scripts/parity_layers.py CHECKPOINT CORPUS.jsonl -o DUMP.safetensors [--rows N | --item ID ...]
    parity-gate layers CORPUS.jsonl -m model.gguf --reference DUMP.safetensors

CHECKPOINT is a checkpoint directory. A line of CORPUS is {"id", "state", "questions"} (other keys are ignored), or
{"id", "body": {"state", "questions"}}. Without --item, N rows (16) are spread over the lengths; items that the package
refuses are left out. Every row is computed ALONE: batch 1, no padding, CPU, float32, SDPA, one thread.

The dump is a safetensors file. For every row, named item/question:
  ids [n_tokens] and markers [n_options] (int64), logits [n_options], act_logits [n_act], and the states, [n_tokens,
  n_embd]: embeddings (after the embedding norm), layer_II, final_norm, type_emb, head_JJ (all float32).
Its metadata says what made it.

Needs scripts/requirements.txt.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import save_file

from gen_golden import PACKAGES, build_rows, load_agent, run_row


def read_corpus(path: Path) -> dict[str, dict[str, Any]]:
    """Item id -> {"state", "questions"}."""
    items: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.strip():
            item = json.loads(line)
            body = item.get("body", item)
            if item["id"] in items:
                raise SystemExit(f"{path}:{number}: a second item {item['id']!r}")
            items[item["id"]] = {"state": body.get("state"), "questions": body["questions"]}
    return items


def spread(names: list[str], lengths: dict[str, int], n: int) -> list[str]:
    """`n` names, in their order, spread evenly over their lengths."""
    if len(names) <= n:
        return names
    by_length = sorted(names, key=lambda name: (lengths[name], names.index(name)))
    last = len(names) - 1
    kept = {by_length[last if n == 1 else i * last // (n - 1)] for i in range(n)}
    return [name for name in names if name in kept]


def main() -> int:
    """Write the dump."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=16, help="rows, spread over their lengths")
    parser.add_argument("--item", action="append", default=[], help="every row of this item instead (repeatable)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    items = read_corpus(arguments.corpus)
    if missing := [name for name in arguments.item if name not in items]:
        raise SystemExit(f"{arguments.corpus}: no item {missing[0]!r}")

    tensors: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temp:
        agent = load_agent(arguments.checkpoint, Path(temp) / "checkpoint")
        rows: dict[str, dict[str, Any]] = {}
        refused = 0
        for item, body in items.items():
            if arguments.item and item not in arguments.item:
                continue
            try:
                if body["state"] is None:
                    raise ValueError("a null state, which the package refuses when it is asked")
                found = build_rows(agent, body)
            except (KeyError, TypeError, ValueError):
                refused += 1
                continue
            named = {f"{item}/{question}": row for question, row in found.items()}
            if twice := rows.keys() & named.keys():
                raise SystemExit(f"{arguments.corpus}: two rows would be called {min(twice)!r}; rename an item or a question")
            rows |= named
        names = list(rows)
        if not arguments.item:
            names = spread(names, {name: len(row["input_ids"]) for name, row in rows.items()}, arguments.rows)
        for name in names:
            row = rows[name]
            logits, act, stages = run_row(agent.model, row)
            values = {"logits": logits, "act_logits": act} | stages
            values |= {"ids": torch.tensor(row["input_ids"]), "markers": torch.tensor(row["marker_pos"])}
            tensors |= {f"{name}/{part}": value.contiguous().numpy().copy() for part, value in values.items()}
    if not tensors:
        raise SystemExit("no row to write")
    metadata = {name: version(name).partition("+")[0] for name in PACKAGES} | {
        "checkpoint": arguments.checkpoint.resolve().name,
        "corpus_sha256": hashlib.sha256(arguments.corpus.read_bytes()).hexdigest(),
    }
    save_file(tensors, arguments.output, metadata)
    n_tokens = sum(len(rows[name]["input_ids"]) for name in names)
    print(f"{arguments.output}: {len(names)} rows, {n_tokens} tokens; {refused} items refused", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
