#!/usr/bin/env python3
"""The rules of conversion in Python: a checkpoint directory to the GGUF file that laya-convert must write.

    python scripts/convert_rules.py DIR OUT [--outtype f32|f16|q8_0] [--model-name NAME]

Written from the description of the format, beside the Rust converter and independent of it. Everything that has a
published implementation is left to it: gguf-py writes the file, quantizes, reads names, model cards and sampling
settings (gguf.Metadata) and special tokens and merges (gguf.SpecialVocab); transformers and tokenizers say which tokens
there are, what they decode to and which are special; safetensors checks the weight files.

It says what a checkpoint becomes, not which checkpoints are worth converting: what breaks one of those libraries is
refused here as well (any exception), and much that laya-convert refuses is written.

Needs the packages of scripts/requirements.txt.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors import safe_open

OUTTYPES = {"f32": (0, Type.F32), "f16": (1, Type.F16), "q8_0": (7, Type.Q8_0)}
METASPACE = "\u2581"
# A part of the encoder layer or the decision head, and its name in the file.
ENCODER = {"attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output"}
ENCODER |= {"mlp_norm": "ffn_norm", "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down"}
HEAD = {"norm1": "attn_norm", "norm2": "ffn_norm", "linear1": "ffn_up", "linear2": "ffn_down"}
HEAD |= {"self_attn.out_proj": "attn_output"}
TOP = {"embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm", "final_norm": "output_norm"}
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok", "num_experts_per_token")
EXPERTS += ("top_k_experts", "n_group", "topk_group", "score_function", "scoring_func", "score_func")
EXPERTS += ("moe_router_activation", "moe_router_activation_func", "expert_selection_fn")


class Refused(Exception):
    """A checkpoint the rules have no file for."""


def read_json(path: Path) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


# Weights


def tensor_name(source: str) -> str | None:
    """The name in the file of the tensor `source` of the checkpoint; None when it is left out."""
    if source == "temperature":
        return None
    name = source.removeprefix("encoder.")
    stem, _, kind = name.rpartition(".")
    if stem in TOP:
        return f"{TOP[stem]}.{kind}"
    if stem.startswith("layers."):
        _, layer, part = stem.split(".", 2)
        return f"blk.{layer}.{ENCODER[part]}.{kind}"
    if stem.startswith("head.layers."):
        _, _, layer, part = stem.split(".", 3)
        if part == "self_attn":
            return f"head.{layer}.attn_qkv.{kind.removeprefix('in_proj_')}"
        return f"head.{layer}.{HEAD[part]}.{kind}"
    if stem.split(".")[0] in ("scorer", "act_head", "type_emb"):
        return name
    raise Refused(f"tensor {source} has no name in the file")


def weight_files(folder: Path) -> list[Path]:
    names = sorted(path.name for path in folder.iterdir())
    files = [folder / name for name in names if name.startswith("model") and name.endswith(".safetensors")]
    if not files:
        raise Refused("no model*.safetensors")
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        named = read_json(index)["weight_map"]
        found = {}
        for path in files:
            with safe_open(path, framework="np") as file:
                found |= dict.fromkeys(file.keys(), path.name)
        if named != found:
            raise Refused("the index names other tensors or files")
    return files


def arrays(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Tensors of one file sorted by name, BF16 and F64 as F32."""
    with safe_open(path, framework="np") as file:
        names = sorted(file.keys())
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    dtypes = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}
    for name in names:
        entry = header[name]
        if entry["dtype"] not in dtypes:
            raise Refused(f"tensor {name} is {entry['dtype']}")
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[start + begin : start + end], dtypes[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        elif entry["dtype"] == "F64":
            with np.errstate(over="ignore", under="ignore"):
                array = array.astype(np.float32)
        yield name, array


def to_f32(array: np.ndarray) -> np.ndarray:
    """F16 to F32 as processors do it: a not-a-number keeps its payload and becomes quiet."""
    if array.dtype == np.float32:
        return array
    bits = array.view(np.uint16).astype(np.uint32)
    quiet = (bits & 0x8000) << 16 | 0x7FC00000 | (bits & 0x3FF) << 13
    return np.where(np.isnan(array), quiet, array.astype(np.float32).view(np.uint32)).view(np.float32)


def to_f16(array: np.ndarray) -> np.ndarray:
    """F32 to F16 as processors do it: to nearest even, a not-a-number keeps the top of its payload and becomes quiet."""
    if array.dtype == np.float16:
        return array
    bits = array.view(np.uint32)
    quiet = (bits >> 16 & 0x8000 | 0x7E00 | bits >> 13 & 0x1FF).astype(np.uint16)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = gguf.quants.quantize(array, Type.F16)
    return np.where(np.isnan(array), quiet, narrow.view(np.uint16)).view(np.float16)


def add_tensor(writer: gguf.GGUFWriter, name: str, array: np.ndarray, outtype: Type) -> None:
    matrix = array.ndim > 1 and name.endswith(".weight") and not name.endswith("_norm.weight")
    if not matrix or outtype == Type.F32:
        writer.add_tensor(name, to_f32(array))
    elif outtype == Type.Q8_0 and array.shape[-1] % 32 == 0:
        values = to_f32(array)
        if not np.isfinite(values).all():
            raise Refused(f"tensor {name} has values that Q8_0 cannot hold")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            writer.add_tensor(name, gguf.quants.quantize(values, Type.Q8_0), raw_dtype=Type.Q8_0)
    else:
        writer.add_tensor(name, to_f16(array))


# general.*


def add_metadata(writer: gguf.GGUFWriter, folder: Path, model_name: str | None) -> None:
    total, shared, expert, count = writer.get_total_parameter_count()
    # A config.json beside rl_agent_config.json belongs to something else.
    gguf.Metadata.load_hf_parameters = staticmethod(lambda _path=None: {})
    metadata = gguf.Metadata.load(None, folder, model_name, total)
    if metadata.name is None:
        metadata.name = folder.name
    if metadata.size_label is None and total > 0:
        metadata.size_label = gguf.size_label(total, shared, expert, count)
    writer.add_type("model")
    metadata.set_gguf_meta_model(writer)


# laya.*


def first_of(config: dict, *keys: str) -> Any:
    """The value of the first key that is there, null included."""
    return next((config[key] for key in keys if key in config), None)


def rope_bases(config: dict) -> tuple[Any, Any]:
    """The rotary bases of global and local layers."""
    parameters = config.get("rope_parameters") or {}
    if "full_attention" in parameters or "sliding_attention" in parameters:
        whole, local = parameters["full_attention"], parameters["sliding_attention"]
        for kind in (whole, local):
            if kind.get("rope_type", "default") != "default":
                raise Refused("scaled positions")
        return whole["rope_theta"], local["rope_theta"]
    return config["global_rope_theta"], config["local_rope_theta"]


def degree(value: Any) -> float:
    """A temperature as the published package reads it: float(), and 1 for what is no finite number. What 32 bits cannot
    hold is as good as the largest number they can, because its use clamps it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 1.0
    most = float(np.finfo(np.float32).max)
    return max(-most, min(most, number)) if math.isfinite(number) else 1.0


def add_hyperparameters(writer: gguf.GGUFWriter, encoder: dict, agent: dict, file_type: int) -> None:
    if (
        encoder.get("id2label")
        or encoder.get("quantization_config")
        or any(encoder.get(k) is not None for k in EXPERTS)
    ):
        raise Refused("an encoder with labels, quantized weights or experts")
    layers = first_of(encoder, "n_layers", "num_hidden_layers", "n_layer", "num_layers")
    whole, local = rope_bases(encoder)
    writer.add_block_count(layers)
    context = ("max_position_embeddings", "n_ctx", "n_positions", "max_length", "max_sequence_length")
    for add, keys in (
        (writer.add_context_length, (*context, "model_max_length")),
        (writer.add_embedding_length, ("hidden_size", "n_embd", "dim")),
        (
            writer.add_feed_forward_length,
            ("prefix_dense_intermediate_size", "dense_intermediate_size", "intermediate_size", "n_inner", "hidden_dim"),
        ),
        (writer.add_head_count, ("num_attention_heads", "n_head", "n_heads")),
        (writer.add_head_count_kv, ("num_key_value_heads", "n_kv_heads")),
    ):
        if (value := first_of(encoder, *keys)) is not None:
            add(value)
    if encoder.get("is_causal") is False:
        writer.add_causal_attention(False)
    writer.add_rope_freq_base(whole)
    writer.add_rope_freq_base_swa(local)
    if (eps := first_of(encoder, "rms_norm_eps", "norm_eps")) is not None:
        writer.add_layer_norm_rms_eps(eps)
    if (eps := first_of(encoder, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")) is not None:
        writer.add_layer_norm_eps(eps)
    if (width := encoder.get("head_dim")) is not None:
        writer.add_key_length(width)
        writer.add_value_length(width)
    writer.add_file_type(file_type)
    writer.add_causal_attention(False)
    writer.add_sliding_window(encoder["local_attention"])
    writer.add_sliding_window_pattern(encoder["global_attn_every_n_layers"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    writer.add_vocab_size(encoder["vocab_size"])
    if activation := encoder.get("hidden_activation"):
        writer.add_string("laya.hidden_activation", activation)
    writer.add_uint32("laya.head_layers", agent["head_layers"])
    writer.add_uint32("laya.n_qtype", 3)
    writer.add_uint32("laya.max_len", agent.get("max_len", 512))
    writer.add_uint32("laya.head_max_len", agent.get("head_max_len", 192))
    writer.add_array("laya.temperature", [degree(value) for value in agent.get("temperature", [1.0] * 3)])
    writer.add_uint32("laya.act_classes", len(agent.get("act_costs", {})) + 1)
    buckets = agent.get("temperature_by_options") or {}
    writer.add_array("laya.temperature_by_options.buckets", list(buckets))
    writer.add_array("laya.temperature_by_options.values", [degree(value) for value in buckets.values()])


# tokenizer.*


def looks_special(token: str) -> bool:
    return (
        token in ("<pad>", "<mask>", "<2mass>", "[@BOS@]")
        or (token.startswith("<|") and token.endswith("|>"))
        or (token.startswith("<\uff5c") and token.endswith("\uff5c>"))
        or (token.startswith("<unused") and token.endswith(">"))
    )


def token_list(folder: Path, n_vocab: int) -> tuple[list[str], list[int]]:
    """Every token and its type."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    names = {number: token for token, number in tokenizer.get_vocab().items()}
    if max(names) >= n_vocab:
        raise Refused(f"token id {max(names)} with vocab_size {n_vocab}")
    added = tokenizer.added_tokens_decoder
    tokens, types = [], []
    for number in range(n_vocab):
        token, kind = names.get(number), gguf.TokenType.NORMAL
        if token is None:
            token, kind = f"[PAD{number}]", gguf.TokenType.UNUSED
        elif number in added:
            if not added[number].normalized:
                token = tokenizer.decode(tokenizer.encode(token, add_special_tokens=False))
            kind = gguf.TokenType.CONTROL
            if not (added[number].special or looks_special(token)):
                token, kind = token.replace(METASPACE, " "), gguf.TokenType.USER_DEFINED
        tokens.append(token)
        types.append(kind)
    return tokens, types


def add_tokenizer(writer: gguf.GGUFWriter, folder: Path, n_vocab: int) -> None:
    tokenizer, config = read_json(folder / "tokenizer.json"), read_json(folder / "tokenizer_config.json")
    slots = {}
    for slot in ("cls_token", "sep_token", "mask_token", "unk_token", "pad_token"):
        if slot in config or slot in ("cls_token", "sep_token", "mask_token"):
            name = config[slot]
            name = name["content"] if isinstance(name, dict) else name
            slots[slot] = next(token["id"] for token in tokenizer["added_tokens"] if token["content"] == name)
    tokens, types = token_list(folder, n_vocab)
    writer.add_uint32("laya.marker_token_id", slots["mask_token"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("modern-bert")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    special = gguf.SpecialVocab(folder, load_merges=True)
    # Rows are built with cls, sep and mask, whatever else the tokenizer names.
    special.special_token_ids.pop("cls", None)
    rows = {"bos": "cls_token", "eos": "sep_token", "sep": "sep_token", "mask": "mask_token"}
    rows |= {"unk": "unk_token", "pad": "pad_token"}
    special.special_token_ids |= {kind: slots[slot] for kind, slot in rows.items() if slot in slots}
    special.add_special_token |= dict.fromkeys(("bos", "eos", "sep"), True)
    if not isinstance(special.chat_template, str | None):
        raise Refused("a list of chat templates")
    special.add_to_gguf(writer, quiet=True)
    bytelevel = tokenizer["pre_tokenizer"]["type"] == "ByteLevel"
    writer.add_string("decision.laya.tokenizer", "bytelevel-bpe" if bytelevel else "metaspace-bpe")
    if bytelevel:
        writer.add_string("decision.laya.normalizer", "nfc" if tokenizer.get("normalizer") else "none")
        flags = [(t["id"], t["lstrip"] | t["normalized"] << 1) for t in tokenizer["added_tokens"]]
        writer.add_array("decision.laya.added_tokens", [number for pair in flags for number in pair])


def convert(folder: Path, out: Path, outtype: str = "f16", model_name: str | None = None) -> None:
    """Writes the GGUF file of the checkpoint in `folder`; any exception means that the checkpoint has none."""
    encoder, agent = read_json(folder / "encoder" / "config.json"), read_json(folder / "rl_agent_config.json")
    for refused in ("hf_quant_config.json", "modules.json", "tokenizer/added_tokens.json"):
        if (folder / refused).exists():
            raise Refused(refused)
    file_type, tensor_type = OUTTYPES[outtype]
    writer = gguf.GGUFWriter(out, "laya")
    for path in weight_files(folder):
        for source, array in arrays(path):
            if (name := tensor_name(source)) is not None:
                add_tensor(writer, name, array, tensor_type)
    add_metadata(writer, folder, model_name)
    add_hyperparameters(writer, encoder, agent, file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_tokenizer(writer, folder / "tokenizer", encoder["vocab_size"])
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--outtype", choices=OUTTYPES, default="f16")
    parser.add_argument("--model-name")
    arguments = parser.parse_args()
    convert(arguments.dir, arguments.out, arguments.outtype, arguments.model_name)


if __name__ == "__main__":
    sys.exit(main())
