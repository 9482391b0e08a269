#!/usr/bin/env python3
"""Export a checkpoint to ONNX for bench_peers.py, in every form that may be the fastest.

    python bench_onnx.py CHECKPOINT OUT

writes OUT/VARIANT.onnx, their weights and export.json. All are float32 with the inputs and outputs that
laya.ONNXAgent expects (the package ships that runtime, not its export script):

  plain            the package's model as `torch.onnx.export` writes it: attention as matrix products and a softmax
  plain-optimizer  plain after `onnxruntime.transformers.optimizer` (it fuses norms and activations; it knows no
                   pattern of this attention)
  fused            the same weights with ONNX Runtime's own fused operators where the optimizer would put them:
                   MultiHeadAttention and RotaryEmbedding on [batch, token, width], no transposes
  fused-optimizer  fused after the same optimizer
  unpadded         fused without padding masks, so layers of full attention take ONNX Runtime's flash attention; only
                   for rows of one length

Only the attention of the fused forms is written here; the package's modules do everything else.
Needs scripts/requirements-bench.txt.
"""

import argparse
import json
import os
import sys
import tempfile
import types
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import laya
import numpy as np
import onnx
import torch
import torch.nn.functional as functional
from onnx import numpy_helper
from torch import Tensor, nn

from bench_worker import private_copy

INPUTS = ("input_ids", "attention_mask", "marker_pos", "marker_mask", "qtype")
OUTPUTS = ("logits", "act_logits")
# 20 is the newest without the Attention operator, which ONNX Runtime 1.32 refuses with the head's padding mask.
PLAIN_OPSET, FUSED_OPSET = 20, 23


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, n_heads: int) -> Tensor:
    """ONNX Runtime's attention on [batch, token, width], `bias` added to the scores."""
    scale = float((q.shape[-1] // n_heads) ** -0.5)
    return torch.onnx.ops.symbolic(
        "com.microsoft::MultiHeadAttention",
        [q, k, v, None, None, bias],
        {"num_heads": n_heads, "scale": scale},
        dtype=q.dtype,
        shape=q.shape,
        version=1,
    )


def encoder_attention(
    self: nn.Module,
    hidden_states: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor,
    **_rest: Any,
) -> tuple[Tensor, None]:
    """In place of ModernBertAttention.forward; `attention_mask` is what is added to the scores."""
    n_heads = self.config.num_attention_heads
    q, k, v = self.Wqkv(hidden_states).chunk(3, dim=-1)
    cos, sin = position_embeddings
    q = torch.onnx.ops.rotary_embedding(q, cos, sin, num_heads=n_heads)
    k = torch.onnx.ops.rotary_embedding(k, cos, sin, num_heads=n_heads)
    return self.Wo(attention(q, k, v, attention_mask, n_heads)), None


class HeadAttention(nn.Module):
    """In place of the head's multi-head attention."""

    def __init__(self, original: nn.MultiheadAttention) -> None:
        super().__init__()
        self.in_proj_weight, self.in_proj_bias = original.in_proj_weight, original.in_proj_bias
        self.out_proj, self.num_heads, self.batch_first = original.out_proj, original.num_heads, True
        self.bias = None

    def forward(self, query: Tensor, _key: Tensor, _value: Tensor, **_rest: Any) -> tuple[Tensor, None]:
        """Attention of all rows; `bias` is set by the caller."""
        q, k, v = functional.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        return self.out_proj(attention(q, k, v, self.bias, self.num_heads)), None


class Encoder(nn.Module):
    """The package's encoder with additive masks and rotary tables as the fused operators take them."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.config = encoder, encoder.config
        for layer in encoder.layers:
            layer.attn.forward = types.MethodType(encoder_attention, layer.attn)

    def tables(self, position: Tensor, n_rows: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Cosines and sines [batch, token, head width / 2] by kind of layer."""
        result = {}
        for kind in sorted(set(self.config.layer_types)):
            frequency = getattr(self.encoder.rotary_emb, f"{kind}_inv_freq")
            scale = getattr(self.encoder.rotary_emb, f"{kind}_attention_scaling")
            angle = (position[:, None].float() * frequency[None, :])[None].expand(n_rows, -1, -1)
            result[kind] = (angle.cos() * scale, angle.sin() * scale)
        return result

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> types.SimpleNamespace:
        """Hidden states; leaves the mask of full attention in `full`."""
        n_rows, n_tokens = input_ids.shape
        hidden = self.encoder.embeddings(input_ids=input_ids)
        position = torch.arange(n_tokens)
        kept = attention_mask.bool()[:, None, None, :]
        near = (position[:, None] - position[None, :]).abs() <= self.config.sliding_window
        zero, low = torch.zeros(()), torch.full((), torch.finfo(torch.float32).min)
        self.full = torch.where(kept.expand(-1, -1, n_tokens, -1), zero, low)
        masks = {"full_attention": self.full, "sliding_attention": torch.where(near[None, None] & kept, zero, low)}
        tables = self.tables(position, n_rows)
        for layer in self.encoder.layers:
            kind = layer.attention_type
            hidden = layer(hidden, attention_mask=masks[kind], position_embeddings=tables[kind])
        return types.SimpleNamespace(last_hidden_state=self.encoder.final_norm(hidden))


class Fused(nn.Module):
    """The package's decision model around the fused encoder and head attention."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        model.encoder = Encoder(model.encoder)
        for layer in model.head.layers:
            layer.self_attn = HeadAttention(layer.self_attn)
            layer.forward = types.MethodType(self.head_layer, layer)

    def head_layer(self, layer: nn.Module, hidden: Tensor, src_key_padding_mask: Tensor) -> Tensor:
        """A pre-norm transformer layer; the padding is in the mask that the encoder left."""
        layer.self_attn.bias = self.model.encoder.full
        normed = layer.norm1(hidden)
        hidden = hidden + layer.self_attn(normed, normed, normed)[0]
        return hidden + layer.linear2(layer.activation(layer.linear1(layer.norm2(hidden))))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Option logits and act logits."""
        return self.model(*inputs)


def example() -> tuple[Tensor, ...]:
    """Two rows of different length and options."""
    ids = torch.randint(5, 1000, (2, 80))
    mask = torch.ones_like(ids)
    mask[1, 70:] = 0
    markers = torch.tensor([[3, 8, 12, 20], [4, 9, 0, 0]])
    return ids, mask, markers, torch.tensor([[True] * 4, [True, True, False, False]]), torch.tensor([0, 2])


def export(model: nn.Module, path: Path, opset: int) -> None:
    """Write a model whose rows, tokens and options are free."""
    rows, tokens = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=8, max=8192)
    options = torch.export.Dim("options", min=2, max=255)
    shapes = ({0: rows, 1: tokens}, {0: rows, 1: tokens}, {0: rows, 1: options}, {0: rows, 1: options}, {0: rows})
    if isinstance(model, Fused):
        shapes = (shapes,)
    with torch.no_grad():
        program = torch.onnx.export(
            model.eval(),
            example(),
            input_names=INPUTS,
            output_names=OUTPUTS,
            opset_version=opset,
            dynamic_shapes=shapes,
            dynamo=True,
            optimize=True,
        )
        program.save(str(path), external_data=True)


def graph(path: Path) -> onnx.ModelProto:
    """A model without its weights, which stay in the file beside it."""
    return onnx.load(str(path), load_external_data=False)


def optimize(source: Path, target: Path, n_heads: int, width: int) -> dict[str, int]:
    """Run ONNX Runtime's transformer optimizer; returns how many operators it left fused."""
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_by_fusion

    model = graph(source)
    # These norms have no bias, which the optimizer cannot read: give them one of zeros.
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(width, np.float32), "zero_norm_bias"))
    for node in model.graph.node:
        if node.op_type == "LayerNormalization" and len(node.input) == 2:
            node.input.append("zero_norm_bias")
    here = Path.cwd()
    try:
        # It reads small weights by paths relative to the working directory.
        os.chdir(source.parent)
        fused = optimize_by_fusion(model, "bert", n_heads, width, FusionOptions("bert"))
    finally:
        os.chdir(here)
    onnx.save(fused.model, str(target))
    return {name: count for name, count in fused.get_fused_operator_statistics().items() if count}


def drop_padding(source: Path, target: Path) -> int:
    """Take the masks from layers of full attention; returns how many had one."""
    model = graph(source)
    nodes = [node for node in model.graph.node if node.op_type == "MultiHeadAttention"]
    # The first layer of both families has full attention.
    full, count = nodes[0].input[5], 0
    for node in nodes:
        if node.input[5] == full:
            del node.input[3:]
            count += 1
    onnx.save(model, str(target))
    return count


def main() -> int:
    """Export every variant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as temp, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent = laya.Agent(str(private_copy(arguments.checkpoint, Path(temp) / "checkpoint")), device="cpu")
        config = agent.model.encoder.config
        export(agent.model, out / "plain.onnx", PLAIN_OPSET)
        export(Fused(agent.model), out / "fused.onnx", FUSED_OPSET)
    record: dict[str, Any] = {
        "versions": {name: version(name).partition("+")[0] for name in ("torch", "onnx", "onnxruntime", "onnxscript")},
        "opsets": {"plain": PLAIN_OPSET, "fused": FUSED_OPSET},
        "optimizer": {},
    }
    for name in ("plain", "fused"):
        record["optimizer"][name] = optimize(
            out / f"{name}.onnx", out / f"{name}-optimizer.onnx", config.num_attention_heads, config.hidden_size
        )
    record["unpadded_layers"] = drop_padding(out / "fused.onnx", out / "unpadded.onnx")
    record["operators"] = {
        path.stem: dict(Counter(node.op_type for node in graph(path).graph.node).most_common())
        for path in sorted(out.glob("*.onnx"))
    }
    (out / "export.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
