#!/usr/bin/env python3
"""Write the two tiny checkpoints under golden/ in the layout that decision models are published in.

    python scripts/gen_tiny_checkpoint.py            write golden/tiny-*/checkpoint
    python scripts/gen_tiny_checkpoint.py --check    compare every file byte by byte, exit 1 on a difference

tiny-mmbert       metaspace BPE, d 64, 4 encoder heads, 5 layers, head blocks with one head, F32 file. Layer 2 plants a
                  massive activation (order 1e3) on the [CLS] row, as the trained mmBERT shows it.
tiny-modernbert   byte-level BPE with NFC, d 128, 4 encoder heads, 4 layers, head blocks with two heads, F16 file,
                  temperature buckets, three act classes, vocabulary padded past the tokenizer.

The weights are random but not small: attention is far from uniform, logits spread over several units, every norm weight
and bias differs from its neutral value, so leaving out or bending any part of the forward pass shows. They are sums
of uniform doubles from PCG64, which is exact arithmetic: the same bytes on every machine.

Needs numpy, safetensors and tokenizers (scripts/requirements.txt).
"""

import argparse
import filecmp
import json
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import pre_tokenizers

GOLDEN = Path(__file__).resolve().parent.parent / "golden"

# What the row format itself says; weighted so that it becomes whole-word tokens and rows stay short.
PHRASES = """choice question: score question: noul question: level 0: level 1: level 2: level 3: level 4: level
false: no, the statement does not hold true: yes, the statement holds
Is it spam? How urgent? Topic? Which? Cause? Ok? Level? low medium high billing delivery other red blue hello"""

TEXT = """Where can I find the invoice for my last order? The parcel says delivered, but there is nothing here.
I was charged twice for the monthly plan and want the money back today. Please help, the account is locked again.
The device reports a high temperature and the door is open. The pump stopped after the second restart at night.
What is this message about? How urgent is it for the customer? Does the customer ask for a refund? Is it spam?
billing delivery access account refund other none low medium high urgent not urgent yes no maybe red green blue
Error: connection lost, retrying. warning info debug host port file path user name id type value text role time
{"role": "user", "text": "hello there"}, {"id": 17, "ok": true, "items": [1, 2, 3], "note": null, "price": 19.5}
Mein Paket ist noch nicht da, können Sie bitte prüfen? Die Rechnung für März ist falsch, der Zähler läuft über.
Hola, quiero cambiar la talla de las botas. ¿Cuándo llega el pedido? El niño está contento, gracias señor.
Où est ma commande ? Le colis est arrivé cassé, je voudrais être remboursé. Ça ne marche pas très bien, déjà vu.
привет, где мой заказ? спасибо. 你好，我的订单在哪里？ नमस्ते, मेरा खाता। مرحبا، أين طلبي؟ 注文はどこですか"""

PHRASE_WEIGHT = 12
NEVER_UTF8 = {0xC0, 0xC1, *range(0xF5, 0x100)}


def learn_merges(words: Counter[tuple[str, ...]], count: int, known: set[str]) -> list[tuple[str, str]]:
    """Plain BPE: join the most frequent adjacent pair of known pieces, ties by the smaller pair, `count` times."""
    merges = []
    for _ in range(count):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:], strict=False):
                if pair[0] in known and pair[1] in known:
                    pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        known.add(best[0] + best[1])
        joined: Counter[tuple[str, ...]] = Counter()
        for word, n in words.items():
            joined[join(word, best)] += n
        words = joined
    return merges


def join(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    """`word` with every occurrence of `pair` (left to right) as one piece."""
    out: list[str] = []
    i = 0
    while i < len(word):
        if word[i : i + 2] == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def count_words(split: Any) -> Counter[tuple[str, ...]]:
    """The corpus as words of single characters, `split(line)` giving the words."""
    words: Counter[tuple[str, ...]] = Counter()
    for text, weight in ((PHRASES, PHRASE_WEIGHT), (TEXT, 1)):
        for line in text.splitlines():
            for word in split(line):
                words[tuple(word)] += weight
    return words


def added(token_id: int, content: str, **flags: bool) -> dict[str, Any]:
    """One entry of `added_tokens`."""
    entry = {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": False,
    }
    return entry | flags


def template(cls: str, sep: str, ids: dict[str, int]) -> dict[str, Any]:
    """The published `post_processor`: [CLS] A [SEP] and [CLS] A [SEP] B [SEP]."""

    def special(token: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": 0}}

    def sequence(name: str) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": 0}}

    return {
        "type": "TemplateProcessing",
        "single": [special(cls), sequence("A"), special(sep)],
        "pair": [special(cls), sequence("A"), special(sep), sequence("B"), special(sep)],
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in sorted((cls, sep))
        },
    }


def bpe(vocab: dict[str, int], merges: Iterable[tuple[str, str]], **options: Any) -> dict[str, Any]:
    """The `model` part of tokenizer.json."""
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    }
    return model | options | {"vocab": vocab, "merges": [list(pair) for pair in merges]}


def metaspace_tokenizer(n_merges: int) -> dict[str, Any]:
    """The mmBERT (Gemma) family: every special is an added token, all of them in the vocabulary, bytes as <0xHH>."""
    runs = [("\n" * n) for n in range(1, 6)] + [("\u2581" * n) for n in range(2, 7)]
    tags = ["<table>", "<td>", "</table>", "</td>", "<b>", "</b>", "<code>", "</code>"]
    first = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<2mass>", "[@BOS@]"]
    first += [f"<unused{i}>" for i in range(4)] + ["<start_of_turn>", "<end_of_turn>"] + runs + tags
    # As in the published file, the byte 0x09 has no <0x09> piece: the tab itself stands there.
    byte_pieces = ["\t" if b == 9 else f"<0x{b:02X}>" for b in range(256)]
    last = ["[toxicity=0]"] + ["\t" * n for n in range(2, 5)] + ["<unused4>"]

    words = count_words(lambda line: ["\u2581" + word for word in line.split(" ")])
    counts: Counter[str] = Counter()
    for word, n in words.items():
        for char in word:
            counts[char] += n
    chars = sorted((c for c in counts if ord(c) < 0x500), key=lambda c: (-counts[c], c))
    # A few characters of other scripts are pieces of their own, the rest falls back to bytes.
    chars += [c for c in "\u2581你我的はか" if c in counts]

    pieces = first + byte_pieces
    known = set(chars)
    run_merges = [("\u2581" * (n - 1), "\u2581") for n in range(6, 1, -1)]
    learned = learn_merges(words, n_merges, known)
    pieces += [left + right for left, right in learned] + chars + last
    vocab = {piece: i for i, piece in enumerate(pieces)}
    if len(vocab) != len(pieces):
        raise SystemExit("metaspace vocabulary: a piece appears twice")

    specials = set(first[:5])
    tokens = [added(vocab[piece], piece, special=piece in specials, lstrip=piece == "<mask>") for piece in first + last]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": tokens,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "post_processor": template("<bos>", "<eos>", vocab),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": bpe(vocab, run_merges + learned, unk_token="<unk>", fuse_unk=True, byte_fallback=True),
    }


def byte_letters() -> dict[int, str]:
    """GPT-2's printable letter for every byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {b: chr(b) for b in printable}
    letters |= {b: chr(0x100 + n) for n, b in enumerate(b for b in range(256) if b not in letters)}
    return letters


def bytelevel_tokenizer(n_merges: int) -> dict[str, Any]:
    """The ModernBERT (GPT-NeoX) family: normalized runs of spaces, specials outside the vocabulary, NFC."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    words = count_words(lambda line: [w for w, _ in level.pre_tokenize_str(unicodedata.normalize("NFC", line))])
    letters = [letter for byte, letter in byte_letters().items() if byte not in NEVER_UTF8]
    learned = [("\u0120", "\u0120")] + learn_merges(words, n_merges, set(letters))

    pieces = ["|||IP_ADDRESS|||", "<|padding|>", *letters, *(left + right for left, right in learned)]
    runs = [" " * n for n in range(8, 1, -1)]
    contacts = ["|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||"]
    pieces += [*runs, *contacts, "<|endoftext|>"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    if len(vocab) != len(pieces):
        raise SystemExit("byte-level vocabulary: a piece appears twice")

    tokens = [added(0, pieces[0], normalized=True), added(1, pieces[1], special=True)]
    tokens += [added(vocab[piece], piece, normalized=True) for piece in runs + contacts]
    tokens.append(added(vocab["<|endoftext|>"], "<|endoftext|>", special=True))
    ids = {name: len(pieces) + n for n, name in enumerate(("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"))}
    tokens += [added(i, name, special=True, lstrip=name == "[MASK]") for name, i in ids.items()]
    tokens += [added(len(pieces) + 5 + n, f"[unused{n}]", normalized=True) for n in range(4)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": tokens,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": byte_level,
        "post_processor": template("[CLS]", "[SEP]", ids),
        "decoder": byte_level,
        "model": bpe(vocab, learned),
    }


@dataclass(frozen=True)
class Family:
    """Everything that tells one tiny checkpoint from the other."""

    name: str
    seed: int
    dtype: type[np.floating]
    tokenizer: dict[str, Any]
    tokenizer_config: dict[str, Any]
    shape: dict[str, Any]
    ids: dict[str, int]
    rope: dict[str, Any]
    agent: dict[str, Any]
    card: str
    scale: dict[str, float] = field(default_factory=dict)
    massive_layer: int | None = None

    @property
    def encoder_config(self) -> dict[str, Any]:
        """encoder/config.json."""
        common = {
            "architectures": ["ModernBertForMaskedLM"],
            "attention_bias": False,
            "global_attn_every_n_layers": 3,
            "hidden_activation": "gelu",
            "layer_norm_eps": 1e-05,
            "local_attention": 16,
            "max_position_embeddings": 8192,
            "mlp_bias": False,
            "model_type": "modernbert",
            "norm_bias": False,
            "norm_eps": 1e-05,
            "tie_word_embeddings": True,
        }
        return dict(sorted((common | self.shape | self.ids | self.rope).items()))


class Draw:
    """Random tensors: Irwin-Hall sums of PCG64 uniforms (near normal, exact on every machine)."""

    def __init__(self, seed: int, dtype: type[np.floating]) -> None:
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.dtype = dtype

    def normal(self, *shape: int, std: float) -> np.ndarray:
        """Mean 0, standard deviation `std`, at most 3.46 deviations away."""
        a, b, c, d = (self.rng.random(shape) for _ in range(4))
        return (((a + b) + (c + d) - 2.0) * (std * 1.7320508075688772)).astype(self.dtype)

    def uniform(self, *shape: int, low: float, high: float) -> np.ndarray:
        """Uniform in [low, high)."""
        return (self.rng.random(shape) * (high - low) + low).astype(self.dtype)


def tensors(family: Family) -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor of the checkpoint in a fixed order of draws."""
    draw = Draw(family.seed, family.dtype)
    shape = family.shape
    d, f, vocab = shape["hidden_size"], shape["intermediate_size"], shape["vocab_size"]
    root = 1.0 / np.sqrt(d)
    gain = {"qk": 1.25, "v": 1.0, "wo": 1.0, "wi": 1.7, "down": 0.7, "linear": 1.2, "act": 0.8, "scorer": 5.0}
    gain |= family.scale

    def norm(n: int) -> np.ndarray:
        return draw.uniform(n, low=0.4, high=1.7)

    yield "encoder.embeddings.tok_embeddings.weight", draw.normal(vocab, d, std=0.5)
    yield "encoder.embeddings.norm.weight", norm(d)
    for i in range(shape["num_hidden_layers"]):
        layer = f"encoder.layers.{i}"
        if i > 0:
            yield f"{layer}.attn_norm.weight", norm(d)
        qk = draw.normal(2 * d, d, std=gain["qk"] * root)
        v = draw.normal(d, d, std=gain["v"] * root)
        yield f"{layer}.attn.Wqkv.weight", np.concatenate([qk, v])
        yield f"{layer}.attn.Wo.weight", draw.normal(d, d, std=gain["wo"] * root)
        yield f"{layer}.mlp_norm.weight", norm(d)
        yield f"{layer}.mlp.Wi.weight", draw.normal(2 * f, d, std=gain["wi"] * root)
        yield f"{layer}.mlp.Wo.weight", draw.normal(d, f, std=gain["down"] / np.sqrt(f))
    yield "encoder.final_norm.weight", norm(d)
    yield "type_emb.weight", draw.normal(3, d, std=0.8)
    for j in range(family.agent["head_layers"]):
        block = f"head.layers.{j}"
        for part in ("norm1", "norm2"):
            yield f"{block}.{part}.weight", norm(d)
            yield f"{block}.{part}.bias", draw.normal(d, std=0.2)
        yield f"{block}.self_attn.in_proj_weight", draw.normal(3 * d, d, std=gain["qk"] * root)
        yield f"{block}.self_attn.in_proj_bias", draw.normal(3 * d, std=0.2)
        yield f"{block}.self_attn.out_proj.weight", draw.normal(d, d, std=gain["wo"] * root)
        yield f"{block}.self_attn.out_proj.bias", draw.normal(d, std=0.2)
        yield f"{block}.linear1.weight", draw.normal(4 * d, d, std=gain["linear"] * root)
        yield f"{block}.linear1.bias", draw.normal(4 * d, std=0.2)
        yield f"{block}.linear2.weight", draw.normal(d, 4 * d, std=gain["linear"] * root / 2.0)
        yield f"{block}.linear2.bias", draw.normal(d, std=0.2)
    yield "scorer.0.weight", norm(d)
    yield "scorer.0.bias", draw.normal(d, std=0.2)
    yield "scorer.1.weight", draw.normal(d, d, std=1.5 * root)
    yield "scorer.1.bias", draw.normal(d, std=0.2)
    yield "scorer.3.weight", draw.normal(1, d, std=gain["scorer"] * root)
    yield "scorer.3.bias", draw.normal(1, std=0.5)
    act = draw.normal(256, d + 4, std=gain["act"] * root)
    # The four features lie in [0, 1]; larger columns let each of them move the act logits.
    act[:, d:] = draw.normal(256, 4, std=1.5)
    yield "act_head.0.weight", act
    yield "act_head.0.bias", draw.normal(256, std=0.2)
    n_act = len(family.agent["act_costs"]) + 1
    yield "act_head.2.weight", draw.normal(n_act, 256, std=0.06)
    yield "act_head.2.bias", draw.normal(n_act, std=0.3)
    yield "temperature", np.ones(3, dtype=family.dtype)


def plant_massive_activation(weights: dict[str, np.ndarray], layer: int, cls_id: int) -> None:
    """Make one feed-forward unit of `layer` fire on the [CLS] row alone and write values of order 1e3.

    Dimension `flag` is large for the [CLS] embedding, near 0 for every other token, and hardly written before `layer`.
    """
    flag, unit = 17, 3
    embedding = weights["encoder.embeddings.tok_embeddings.weight"]
    embedding[:, flag] *= 0.05
    embedding[cls_id, flag] = 6.0
    weights["encoder.embeddings.norm.weight"][flag] = 1.25
    for i in range(layer):
        weights[f"encoder.layers.{i}.attn.Wo.weight"][flag] *= 0.05
        weights[f"encoder.layers.{i}.mlp.Wo.weight"][flag] *= 0.05
    weights[f"encoder.layers.{layer}.attn.Wo.weight"][flag] *= 0.05
    weights[f"encoder.layers.{layer}.mlp_norm.weight"][flag] = 1.5
    up = weights[f"encoder.layers.{layer}.mlp.Wi.weight"]
    down = weights[f"encoder.layers.{layer}.mlp.Wo.weight"]
    for row in (unit, up.shape[0] // 2 + unit):
        up[row] = 0.0
        up[row, flag] = 8.0
    for dim, value in ((5, 1.5), (29, 0.75), (40, -1.25)):
        down[dim, unit] = value


def families() -> list[Family]:
    """The two committed checkpoints."""
    metaspace = metaspace_tokenizer(n_merges=190)
    bytelevel = bytelevel_tokenizer(n_merges=290)
    n_metaspace = len(metaspace["model"]["vocab"])
    special = {token["content"]: token["id"] for token in bytelevel["added_tokens"]}
    n_bytelevel = max(special.values()) + 1
    mmbert = Family(
        name="tiny-mmbert",
        seed=20260301,
        dtype=np.float32,
        tokenizer=metaspace,
        tokenizer_config={
            "bos_token": "<bos>",
            "clean_up_tokenization_spaces": False,
            "cls_token": "<bos>",
            "eos_token": "<eos>",
            "extra_special_tokens": {"extra_0": "<start_of_turn>", "extra_1": "<end_of_turn>"},
            "mask_token": "<mask>",
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": 8192,
            "pad_token": "<pad>",
            "padding_side": "right",
            "sep_token": "<eos>",
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "<unk>",
        },
        shape={
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "num_hidden_layers": 5,
            "vocab_size": n_metaspace,
        },
        ids={
            "bos_token_id": 2,
            "cls_token_id": 1,
            "eos_token_id": 1,
            "mask_token_id": 4,
            "pad_token_id": 0,
            "sep_token_id": 1,
        },
        rope={
            "rope_parameters": {
                "full_attention": {"rope_theta": 160000, "rope_type": "default"},
                "sliding_attention": {"rope_theta": 160000, "rope_type": "default"},
            }
        },
        agent={
            "encoder": "jhu-clsp/mmBERT-base",
            "head_layers": 2,
            "max_len": 96,
            # Room for an option of 48 tokens beside its marker and instructions.
            "head_max_len": 72,
            "act_costs": {"escalate": 0.5},
            "amp_dtype": "bf16",
            # The last one is beyond what the reference applies; it clamps to [0.5, 5].
            "temperature": [1.25, 0.90625, 7.5],
            "temperature_by_options": {},
        },
        card="multilingual",
        massive_layer=2,
    )
    modernbert = Family(
        name="tiny-modernbert",
        seed=20260302,
        dtype=np.float16,
        tokenizer=bytelevel,
        tokenizer_config={
            "clean_up_tokenization_spaces": True,
            "cls_token": "[CLS]",
            "mask_token": "[MASK]",
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": 8192,
            "pad_token": "[PAD]",
            "sep_token": "[SEP]",
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "[UNK]",
        },
        shape={
            "hidden_size": 128,
            "intermediate_size": 80,
            "num_attention_heads": 4,
            "num_hidden_layers": 4,
            # Past the last token: the converter names the rest [PADi].
            "vocab_size": (n_bytelevel // 16 + 1) * 16,
        },
        ids={
            "bos_token_id": special["[CLS]"],
            "cls_token_id": special["[CLS]"],
            "eos_token_id": special["[SEP]"],
            "pad_token_id": special["[PAD]"],
            "sep_token_id": special["[SEP]"],
        },
        # The older spelling of the two bases.
        rope={"global_rope_theta": 160000.0, "local_rope_theta": 10000.0},
        agent={
            "encoder": "answerdotai/ModernBERT-large",
            "head_layers": 2,
            # Twenty options of 4 tokens and 8 of the instructions are 91: such a row ends without its last [SEP].
            "max_len": 90,
            "head_max_len": 48,
            "act_costs": {"escalate": 0.5, "defer": 0.25},
            "temperature": [1.6369030475616455, 1.2514300346374512, 1.983399510383606],
            "temperature_by_options": {
                "choice:3-5": 1.7601518630981445,
                "choice:6-10": 1.0000158548355103,
                "score:3-5": 1.4514300346374512,
                "noul:2": 1.883399510383606,
                "choice:11+": 0.10058280825614929,
                "choice:2": 1.9063563346862793,
            },
        },
        card="en",
    )
    return [mmbert, modernbert]


def card(family: Family) -> str:
    """README.md with the front matter a converter reads."""
    return f"""---
license: mit
language: [{family.card}]
pipeline_tag: text-classification
tags: [laya, test]
---
# {family.name}

Random weights in the published layout, written by `scripts/gen_tiny_checkpoint.py`. A test fixture: its answers mean
nothing.
"""


def write_json(path: Path, value: Any) -> None:
    """Indented JSON with a final newline."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_checkpoint(family: Family, folder: Path) -> None:
    """One checkpoint directory."""
    for part in ("encoder", "tokenizer"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    weights = dict(tensors(family))
    if family.massive_layer is not None:
        plant_massive_activation(weights, family.massive_layer, family.ids["bos_token_id"])
    for name, array in weights.items():
        if array.dtype != family.dtype or not np.isfinite(array).all():
            raise SystemExit(f"{family.name}: {name} is not finite {family.dtype.__name__}")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "rl_agent_config.json", family.agent)
    write_json(folder / "encoder" / "config.json", family.encoder_config)
    write_json(folder / "tokenizer" / "tokenizer.json", family.tokenizer)
    write_json(folder / "tokenizer" / "tokenizer_config.json", family.tokenizer_config)
    (folder / "README.md").write_text(card(family), encoding="utf-8")


def differences(written: Path, kept: Path) -> list[str]:
    """Relative names of the files that are missing, extra or not byte-identical."""
    names = {p.relative_to(root) for root in (written, kept) for p in root.rglob("*") if p.is_file()}
    return [
        str(name)
        for name in sorted(names)
        if not (written / name).is_file()
        or not (kept / name).is_file()
        or not filecmp.cmp(written / name, kept / name, shallow=False)
    ]


def main() -> int:
    """Write or check both checkpoints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    failed = False
    for family in families():
        folder = GOLDEN / family.name / "checkpoint"
        if not check:
            write_checkpoint(family, folder)
            size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
            print(f"{family.name}: {family.shape['vocab_size']} tokens, {size} bytes")
            continue
        with tempfile.TemporaryDirectory() as temp:
            write_checkpoint(family, Path(temp))
            wrong = differences(Path(temp), folder)
        print(f"{family.name}: {'identical' if not wrong else 'differs: ' + ', '.join(wrong)}")
        failed |= bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
