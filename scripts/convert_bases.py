"""The checkpoints that the cases of gen_convert_golden.py start from: random weights, our own text, both tokenizers.

metaspace  mmBERT's kind of tokenizer, F32 weights with every difficult value, one file, one head layer
bytelevel  ModernBERT's kind with NFC, F16 weights in three files with an index, two head layers, three act classes
deep       twelve encoder layers of width 8, three head layers, one act class, F16, BF16, F32 and F64 weights in two files

A base is a dictionary of file names and bytes.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gen_tiny_checkpoint import added, bpe, byte_letters, template

Files = dict[str, bytes]
WORDS = "\u2581the \u2581state \u2581is \u2581open \u2581or \u2581closed \u00e9t\u00e9 \u2581\u043d\u0435\u0442 \u2581\u4f60\u597d".split()


def dumps(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


# Tokenizers


def merges_of(words: list[str], ids: dict[str, int]) -> list[tuple[str, str]]:
    """Merges that join each word from the left; every piece on the way gets an id."""
    merges = []
    for word in words:
        for end in range(1, len(word)):
            pair = (word[:end], word[end])
            for piece in (*pair, word[: end + 1]):
                ids.setdefault(piece, len(ids))
            if pair not in merges:
                merges.append(pair)
    return merges


def metaspace() -> dict[str, Any]:
    """Special and other added tokens first, all of them in the vocabulary; then bytes, then words."""
    first = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<2mass>", "[@BOS@]", "<unused0>", "<start_of_turn>"]
    first += [
        "<end_of_turn>",
        "\u2581\u2581",
        "\u2581\u2581\u2581",
        "\n\n",
        "<table>",
        "<|tool|>",
        "<\uff5cuser\uff5c>",
        "a\u2581b",
    ]
    ids = {token: n for n, token in enumerate(first)}
    for byte in range(256):
        ids[f"<0x{byte:02X}>"] = len(ids)
    merges = merges_of(["\u2581\u2581\u2581", "\n\n", "a\u2581b", *WORDS], ids)
    tokens = [added(ids[t], t, special=n < 5, lstrip=t == "<mask>") for n, t in enumerate(first)]
    ids["[reserved]"] = len(ids) + 2  # Two ids without a token.
    tokens.append(added(ids["[reserved]"], "[reserved]"))
    replace = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": tokens,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "post_processor": template("<bos>", "<eos>", ids),
        "decoder": {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": bpe(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True),
    }


def bytelevel() -> dict[str, Any]:
    """Added tokens in the vocabulary and, after it, the special ones."""
    letters = byte_letters()
    ids = {"|||IP_ADDRESS|||": 0, "<|padding|>": 1}
    for byte in range(256):
        ids[letters[byte]] = len(ids)
    spell = lambda text: "".join(letters[byte] for byte in text.replace("\u2581", " ").encode())  # noqa: E731
    merges = merges_of([spell(word) for word in ["  ", *WORDS]], ids)
    for token in ("    ", "   ", "<|endoftext|>", "\u0120xyz", spell("\u00e9\u00e8")):
        ids[token] = len(ids)
    flags = {"|||IP_ADDRESS|||": {"normalized": True}, "<|padding|>": {"special": True}, "    ": {"normalized": True}}
    flags |= {"   ": {"normalized": True}, "<|endoftext|>": {}, "\u0120xyz": {}, spell("\u00e9\u00e8"): {}}
    tokens = [added(ids[token], token, **flags) for token, flags in flags.items()]
    after = {name: len(ids) + n for n, name in enumerate(("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"))}
    tokens += [added(number, name, special=True, lstrip=name == "[MASK]") for name, number in after.items()]
    tokens += [added(len(ids) + 5 + n, f"[unused{n}]", normalized=n == 0) for n in range(2)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": tokens,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": level,
        "post_processor": template("[CLS]", "[SEP]", after),
        "decoder": level,
        "model": bpe(ids, merges),
    }


METASPACE_CONFIG = {
    "bos_token": "<bos>",
    "clean_up_tokenization_spaces": False,
    "cls_token": "<bos>",
    "eos_token": "<eos>",
    "extra_special_tokens": {"turn_start": "<start_of_turn>"},
    "mask_token": "<mask>",
    "pad_token": "<pad>",
    "sep_token": "<eos>",
    "tokenizer_class": "PreTrainedTokenizerFast",
    "unk_token": "<unk>",
}
BYTELEVEL_CONFIG = {
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
    "model_max_length": 128,
    "pad_token": "[PAD]",
    "sep_token": "[SEP]",
    "tokenizer_class": "TokenizersBackend",
    "unk_token": "[UNK]",
}

# Weights


def bits(*words: int) -> np.ndarray:
    return np.array(words, dtype=np.uint32).view(np.float32)


# Ties between two F16 values, the edges of its range, subnormals of both types, values only F32 holds, both zeros.
DIFFICULT = bits(0x3F801000, 0x3F803000, 0x3F801001, 0xBF801000, 0x477FE000, 0x477FEFFF, 0x33800000, 0x33000000)
DIFFICULT = np.concatenate([DIFFICULT, bits(0x33000001, 0x387FE000, 0x38800000, 0x00000001, 0x807FFFFF, 0x80000000)])
DIFFICULT = np.concatenate([DIFFICULT, bits(0x33C00000, 0xB4200000, 0x0DA24260, 0x38801FFF, 0xB87FF000)])
# What becomes infinite in F16, infinities, and numbers that are none, loud and quiet, with a payload.
NOT_FINITE = bits(0x477FF000, 0xC8000000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFA12345)


class Draw:
    """Weights that are the same on every machine: sums of uniform doubles."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.Generator(np.random.PCG64(seed))

    def normal(self, *shape: int) -> np.ndarray:
        a, b, c, d = (self.rng.random(shape) for _ in range(4))
        return ((a + b) + (c + d) - 2.0) * 0.05


def shapes(d: int, ff: int, layers: int, heads: int, vocab: int, act: int, wide: int) -> Iterator[tuple[str, tuple]]:
    """Every tensor of a checkpoint; `wide` is the feed-forward width of its head."""
    yield "encoder.embeddings.tok_embeddings.weight", (vocab, d)
    yield "encoder.embeddings.norm.weight", (d,)
    yield "encoder.final_norm.weight", (d,)
    for i in range(layers):
        if i > 0:
            yield f"encoder.layers.{i}.attn_norm.weight", (d,)
        yield f"encoder.layers.{i}.attn.Wqkv.weight", (3 * d, d)
        yield f"encoder.layers.{i}.attn.Wo.weight", (d, d)
        yield f"encoder.layers.{i}.mlp_norm.weight", (d,)
        yield f"encoder.layers.{i}.mlp.Wi.weight", (2 * ff, d)
        yield f"encoder.layers.{i}.mlp.Wo.weight", (d, ff)
    for i in range(heads):
        for part, shape in (("norm1.", (d,)), ("norm2.", (d,)), ("self_attn.in_proj_", (3 * d, d))):
            yield f"head.layers.{i}.{part}weight", shape
            yield f"head.layers.{i}.{part}bias", shape[:1]
        for part, shape in (("self_attn.out_proj", (d, d)), ("linear1", (wide, d)), ("linear2", (d, wide))):
            yield f"head.layers.{i}.{part}.weight", shape
            yield f"head.layers.{i}.{part}.bias", shape[:1]
    yield "type_emb.weight", (3, d)
    for part, shape in (("scorer.0", (d,)), ("scorer.1", (d, d)), ("scorer.3", (1, d))):
        yield f"{part}.weight", shape
        yield f"{part}.bias", shape[:1]
    for part, shape in (("act_head.0", (16, d + 4)), ("act_head.2", (act, 16))):
        yield f"{part}.weight", shape
        yield f"{part}.bias", shape[:1]
    yield "temperature", (3,)


def safetensors(tensors: dict[str, tuple[str, np.ndarray]]) -> bytes:
    """A weight file; tensors lie in the order given."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (dtype, array) in tensors.items():
        kinds = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
        if dtype == "BF16":
            raw = (array.astype(np.float32, copy=False).view(np.uint32) >> 16).astype("<u2").tobytes()
        else:
            raw = array.astype(kinds[dtype], copy=False).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def shuffled(names: list[str], draw: Draw) -> list[str]:
    return [names[i] for i in draw.rng.permutation(len(names))]


def plant(array: np.ndarray, values: np.ndarray, at: int) -> None:
    """Puts `values` into a tensor, one of each block of 32 elements as long as there are blocks."""
    flat = array.reshape(-1)
    step = max(1, min(33, (flat.size - at) // len(values)))
    flat[at : at + step * len(values) : step] = values


# Configurations


def encoder_config(**keys: Any) -> dict[str, Any]:
    common = {
        "architectures": ["ModernBertForMaskedLM"],
        "attention_bias": False,
        "global_attn_every_n_layers": 3,
        "hidden_activation": "gelu",
        "layer_norm_eps": 1e-05,
        "local_attention": 16,
        "max_position_embeddings": 128,
        "model_type": "modernbert",
        "norm_eps": 1e-05,
    }
    return dict(sorted((common | keys).items()))


def n_vocab(tokenizer: dict[str, Any]) -> int:
    ids = [*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])]
    return max(ids) + 1


def base_metaspace() -> Files:
    tokenizer = metaspace()
    # Three ids more than the tokenizer has tokens.
    vocab = n_vocab(tokenizer) + 3
    draw = Draw(41)
    tensors = {name: draw.normal(*shape) for name, shape in shapes(32, 16, 2, 1, vocab, 2, 128)}
    plant(tensors["encoder.embeddings.tok_embeddings.weight"], DIFFICULT, 70)
    plant(tensors["scorer.1.weight"], DIFFICULT, 3)
    plant(tensors["encoder.layers.1.mlp.Wo.weight"], DIFFICULT, 0)
    plant(tensors["encoder.final_norm.weight"], DIFFICULT, 0)
    # Blocks of Q8_0 whose scale is zero, subnormal, or has no finite inverse, and one with ties.
    blocks = tensors["encoder.layers.0.mlp.Wi.weight"]
    blocks[0], blocks[1, :] = 0.0, -0.0
    blocks[2] *= 1e-6
    blocks[3] *= 1e-38
    blocks[4] = [127.0, *(n + 0.5 for n in range(-16, 15))]
    blocks[5, 7] = 5e5
    names = shuffled(list(tensors), draw)
    return {
        "README.md": b"---\nlicense: apache-2.0\nlanguage: [multilingual, en]\npipeline_tag: text-classification\n---\n# A base\n",
        "rl_agent_config.json": dumps(
            {
                "encoder": "x/metaspace",
                "head_layers": 1,
                "max_len": 64,
                "head_max_len": 32,
                "act_costs": {"escalate": 0.5},
                "temperature": [1.0, 1.5, 2.25],
                "temperature_by_options": {},
            }
        ),
        "encoder/config.json": dumps(
            encoder_config(
                hidden_size=32,
                intermediate_size=16,
                num_attention_heads=4,
                num_hidden_layers=2,
                vocab_size=vocab,
                rope_parameters={
                    "full_attention": {"rope_theta": 160000, "rope_type": "default"},
                    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
                },
            )
        ),
        "tokenizer/tokenizer.json": dumps(tokenizer),
        "tokenizer/tokenizer_config.json": dumps(METASPACE_CONFIG),
        "model.safetensors": safetensors({name: ("F32", tensors[name]) for name in names}),
    }


def sharded(names: list[str], n: int, dtype: Callable[[str], tuple[str, np.ndarray]]) -> Files:
    """`n` weight files, each with every n-th of `names`, and the index of them."""
    files, where = {}, {}
    for i in range(n):
        file = f"model-{i + 1:05}-of-{n:05}.safetensors"
        files[file] = safetensors({name: dtype(name) for name in names[i::n]})
        where |= dict.fromkeys(names[i::n], file)
    files["model.safetensors.index.json"] = dumps({"metadata": {"total_size": 1}, "weight_map": where})
    return files


def base_bytelevel() -> Files:
    tokenizer = bytelevel()
    draw = Draw(42)
    tensors = {name: draw.normal(*shape) for name, shape in shapes(32, 16, 3, 2, n_vocab(tokenizer), 3, 128)}
    plant(tensors["scorer.1.weight"], DIFFICULT, 3)
    names = shuffled(list(tensors), draw)
    return {
        "README.md": b"---\nlicense: mit\ntags: [laya, test]\n---\n",
        "rl_agent_config.json": dumps(
            {
                "encoder": "x/bytelevel",
                "head_layers": 2,
                "max_len": 96,
                "head_max_len": 48,
                "act_costs": {"escalate": 0.5, "defer": 0.25},
                "temperature": [1.6369030475616455, 1.2514300346374512, 1.983399510383606],
                "temperature_by_options": {"choice:3-5": 1.7601518630981445, "noul:2": 0.5, "choice:11+": 0.1},
            }
        ),
        "encoder/config.json": dumps(
            encoder_config(
                hidden_size=32,
                intermediate_size=16,
                num_attention_heads=4,
                num_hidden_layers=3,
                vocab_size=n_vocab(tokenizer),
                rope_parameters={
                    "full_attention": {"rope_theta": 160000.0, "rope_type": "default"},
                    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
                },
            )
        ),
        "tokenizer/tokenizer.json": dumps(tokenizer),
        "tokenizer/tokenizer_config.json": dumps(BYTELEVEL_CONFIG),
        "generation_config.json": dumps({"temperature": 0.7, "top_k": 40}),
    } | sharded(names, 3, lambda name: ("F16", tensors[name]))


def base_deep() -> Files:
    tokenizer = bytelevel()
    draw = Draw(43)
    tensors = {name: draw.normal(*shape) for name, shape in shapes(8, 4, 12, 3, n_vocab(tokenizer) + 11, 1, 32)}
    for name in ("encoder.layers.10.attn.Wo.weight", "head.layers.1.self_attn.in_proj_weight", "type_emb.weight"):
        plant(tensors[name], DIFFICULT[: tensors[name].size], 0)
    # In their own type, so that every bit stays.
    for i in (2, 3, 4):
        name, values = f"encoder.layers.{i}.attn.Wo.weight", NOT_FINITE
        if i == 4:
            values = np.array([0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFD55, 0x0001, 0x8001], np.uint16).view(
                np.float16
            )
        tensors[name] = tensors[name].astype(values.dtype)
        plant(tensors[name], values, 5)
    names = shuffled(list(tensors), draw)
    dtypes = {name: ("F16", "BF16", "F32", "F64")[n % 4] for n, name in enumerate(sorted(tensors))}
    dtypes |= {"encoder.layers.2.attn.Wo.weight": "F32", "encoder.layers.3.attn.Wo.weight": "BF16"}
    dtypes |= {"encoder.layers.4.attn.Wo.weight": "F16", "type_emb.weight": "F64"}
    return {
        "rl_agent_config.json": dumps({"encoder": "x/deep", "head_layers": 3}),
        "encoder/config.json": dumps(
            encoder_config(
                hidden_size=8,
                intermediate_size=4,
                num_attention_heads=2,
                num_hidden_layers=12,
                vocab_size=n_vocab(tokenizer) + 11,
                global_rope_theta=160000.0,
                local_rope_theta=10000,
            )
        ),
        "tokenizer/tokenizer.json": dumps(tokenizer),
        "tokenizer/tokenizer_config.json": dumps(BYTELEVEL_CONFIG),
    } | sharded(names, 2, lambda name: (dtypes[name], tensors[name]))


BASES: dict[str, Callable[[], Files]] = {"metaspace": base_metaspace, "bytelevel": base_bytelevel, "deep": base_deep}
