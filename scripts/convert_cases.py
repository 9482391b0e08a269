"""The cases of gen_convert_golden.py: each a base checkpoint, what is changed in it, and how it is converted."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TOKENIZER = "tokenizer/tokenizer.json"
CONFIG = "tokenizer/tokenizer_config.json"
ENCODER = "encoder/config.json"
AGENT = "rl_agent_config.json"
SHARDS = [f"model-{i:05}-of-00003.safetensors" for i in (1, 2, 3)]

Edit = Callable[[dict], Any]


@dataclass(frozen=True)
class Case:
    name: str
    base: str = "metaspace"
    dir: str = "laya-multilingual"
    outtype: str = "f16"
    model_name: str | None = None
    remove: list[str] = field(default_factory=list)
    # Whole files, as text or as a value for JSON.
    write: dict[str, Any] = field(default_factory=dict)
    # Changes of a JSON file of the base.
    edit: dict[str, Edit] = field(default_factory=dict)


def put(*path: str | int, **values: Any) -> Edit:
    """Sets keys of the object at `path`."""

    def edit(value: Any) -> None:
        for step in path:
            value = value[step]
        value.update(values)

    return edit


def drop(*keys: str) -> Edit:
    def edit(value: dict) -> None:
        for key in keys:
            del value[key]

    return edit


def both(*edits: Edit) -> Edit:
    def edit(value: dict) -> None:
        for one in edits:
            one(value)

    return edit


def reverse(value: dict) -> dict:
    return dict(reversed(value.items()))


def token(value: dict, content: str) -> dict:
    return next(token for token in value["added_tokens"] if token["content"] == content)


# Types and weights


def outtypes() -> list[Case]:
    plain = [
        Case(f"{base} {outtype}", base, outtype=outtype)
        for base in ("metaspace", "bytelevel", "deep")
        for outtype in ("f32", "f16", "q8_0")
    ]
    return [
        *plain,
        Case("shards without an index", "bytelevel", remove=["model.safetensors.index.json"], outtype="q8_0"),
        Case(
            "one file with an index that has no metadata",
            "bytelevel",
            outtype="f32",
            edit={"model.safetensors.index.json": drop("metadata")},
        ),
        Case(
            "files that nothing reads",
            write={
                "pytorch_model.bin": "never opened",
                "notes.txt": "text",
                "training/config.json": "{",
                "config.json": {"_name_or_path": "org/other-7B-v9", "model_type": "bert", "id2label": {"0": "a"}},
                "encoder/README.md": "---\nname: not this\n---\n",
            },
        ),
    ]


# The directory's name

DIRECTORIES = [
    "laya",
    "laya-tiny-instruct-v0.1-35K",
    "0f3a9c5d7e1b2a4c6d8e0f1a2b3c4d5e6f708192",
    "ab3a9c5d7e1b2a4c6d8e0f1a2b3c4d5e6f708192",
    "Laya Tiny, a model",
    "laya-7b1-chat-large",
    "laya-8x7B-v2.1",
    "laya-A3B-small-lora",
    "laya-q4_K_M-bf16-fp32",
    "v2-laya-1.5b",
    "2024.1-laya-38k",
    "--laya--base-iter3--v2.1-",
    "LAYA_v1.2",
    "laya-128k-instruct-v3-final",
    "mmBERT-base-0.3M-vision-41_0k",
    "don't-stop-v0.1.x",
    "\u043c\u043e\u0434\u0435\u043b\u044c-\u00e9t\u00e9-instruct",
    "laya.mini-mini-xxl-35k-35k",
]


def directories() -> list[Case]:
    named = [Case(f"directory {name}", "deep", dir=name, outtype="f32") for name in DIRECTORIES]
    return [
        *named,
        Case("model name", dir="laya-tiny-instruct-v0.1-35K", model_name="My Model-7B \u00e9"),
        Case("empty model name", dir="laya-tiny-instruct-v0.1-35K", model_name=""),
        Case(
            "model name over a card",
            model_name="From the command line",
            write={"README.md": "---\nname: From the card\nbasename: base\n---\n"},
        ),
    ]


# The model card

CARDS = {
    "no front matter": "# A title\nlicense: mit\n",
    "front matter that never ends": "---\nlicense: mit\nname: Open",
    "empty front matter": "---\n---\nlicense: mit\n",
    "empty card": "",
    "space before front matter": " ---\nlicense: mit\n---\n",
    "carriage returns": "---\r\nlicense: mit\r\ntags:\r\n- a\r\n- 'b'\r\ndescription: one line\r\n---\r\ntext\r\n",
    "own keys": (
        "---\nname: A Name\nauthor: An Author\nversion: '2.0'\norganization: An Org\ndescription: \"A: description, # 1\"\n"
        "finetune: Chat\nbasename: base\nsize_label: 3B\nurl: https://a.b/c#d\ndoi: 10.1/x\nuuid: 0b-1c\n"
        "repo_url: https://a.b/r\n---\n"
    ),
    "model keys": (
        "---\nmodel_name: A Name\nmodel_author: An Author\nmodel_version: v2\nmodel_organization: An Org\n"
        "model_description: text\nmodel_finetune: Chat\nmodel_basename: base\nmodel_size_label: 3B\n"
        "model_url: https://a.b/c\nmodel_doi: 10.1/x\nmodel_uuid: 0b-1c\nmodel_repo_url: https://a.b/r\n---\n"
    ),
    "creator and type": "---\nmodel_creator: A Creator\nmodel_type: laya\n---\n",
    "stronger keys win": (
        "---\nmodel_creator: third\nmodel_author: second\nauthor: first\nmodel_type: third\nmodel_basename: second\n"
        "basename: first\nmodel_name: second\nname: first\nmodel_version: b\nversion: a\n---\n"
    ),
    "null falls through": "---\nname: ~\nmodel_name:\nauthor: null\nmodel_author: Null\nmodel_creator: NULL!\n---\n",
    "empty texts": "---\nname: ''\nauthor: \"\"\nlicense: ''\ntags: ['', '']\nbase_model: ''\nversion: \"\"\n---\n",
    "empty lists": "---\nlicense: []\ntags: []\nlanguage: []\nbase_model: []\ndatasets: []\n---\n",
    "null lists": "---\ntags:\npipeline_tag: ~\nlanguage: null\nbase_model:\ndatasets:\nlicense:\n---\n",
    "license list": "---\nlicense: [apache-2.0, 'mit', \"other one\"]\nlicense_name: a-name\nlicense_link: LICENSE.md\n---\n",
    "license block list": "---\nlicense:\n  - apache-2.0\n  - cc-by-4.0 # a comment\n---\n",
    "base models": (
        "---\nbase_model:\n- jhu-clsp/mmBERT-base\n- https://huggingface.co/org/some-model-7B-v0.2\n"
        "- http://huggingface.co/org/some-model\n- https://huggingface.co/org/sub/deep\n- https://example.org/o/n-v1\n"
        "- ssh://host/o/n\n- ./local/path-v2\n- A Model With Spaces\n- just-a-name-v3-1B\n- o/n/m-v4\n- /x\n- x/\n---\n"
    ),
    "one base model": "---\nbase_model: org/laya-v0.3\nbase_models: [not/read]\n---\n",
    "base models, other keys": "---\nbase_models: [a/b-v1, 'c/d']\nbase_model_sources: [not/read]\n---\n",
    "base model sources": "---\nbase_model_sources:\n- a/b-v1\n---\n",
    "null base model hides the others": "---\nbase_model:\nbase_models: [a/b]\n---\n",
    "datasets": (
        "---\ndatasets: [org/data-v1, https://huggingface.co/datasets/org/ds, 'https://huggingface.co/org/ds-v2',\n"
        "  plain,\n  ssh://a/b]\ndataset: not/read\n---\n"
    ),
    "dataset": "---\ndataset: org/data-set-v1.1\ndataset_sources: not/read\n---\n",
    "dataset sources": "---\ndataset_sources: https://data.org/x/y\n---\n",
    "tags and languages": (
        "---\ntags: [a, 'b c', \"d, e\", no-thing]\npipeline_tag: text-classification\nlanguages: [x, y]\n"
        "language:\n- en\n- no\n- \"no\"\n- 'yes'\n---\n"
    ),
    "one tag": "---\npipeline_tag: [p, q]\ntags: single\nlanguage: de\n---\n",
    "norway": "---\nlanguage:\n- no\n-  nb\ntags:\n  - no\n  - nn\ndescription: sweden - no\nauthor: 'quoted - no'\n---\n",
    "tabs": '---\nname:\tA\tName\ntags:\n\t- a\n\t-\tb\ndescription: "in\tquotes"\n---\n',
    "comments": (
        "---\n# first\nlicense: mit # after\n  # indented\ntags: # a list\n# between\n- a#b # c\n- '#d' # e\n- f\n"
        "name: A # B\nauthor: A#B\ndescription: 'a # b' # c\nlanguage: [en, # one\n  de] # two\n---\n"
    ),
    "escapes": (
        '---\nname: "\\u00e9 \\x41 \\U0001F600 \\"q\\" \\\\ \\/ \\t\\n\\r\\0\\a\\b\\e\\f\\v\\N\\_\\L\\P"\nauthor: \'it\'\'s "it" \\n\'\n'
        "description: plain \"quotes\" and 'quotes' \\n\n\"license\": mit\n'tags': [\"a'b\", 'a\"b']\n---\n"
    ),
    "plain texts": (
        "---\nname: 1.2.3\nauthor: v1.0\nversion: 1e5\norganization: 0xZZ\nbasename: -a\nfinetune: nO\nsize_label: 3B\n"
        "description: a:b c,d [e] {f} 100% @g `h` !i &j *k\nlicense: tRue\ntags: [1.2.3, 2024-13, a:b, x#y]\n---\n"
    ),
    "a mark at the start": "---\n\ufefflicense: mit\nname: x\n---\n",
    "duplicate keys": "---\nlicense: mit\nname: one\nlicense: apache-2.0\nname: two\n---\n",
    "keys that nothing reads": (
        '---\nmodel-index:\n- name: x\n  results:\n  - task: {type: t, name: "n"}\n    metrics: [{value: 1.0}]\n'
        "widget:\n- text: |\n    name: not this\n    - no\n- text: >-\n    folded\n\n    license: gpl\nmetrics: [0.5, 1e-3, ~]\n"
        'co2: {a: {b: c}}\ndate: 2024-01-02\nflag: no\nlibrary_name: transformers\nname: This\nthumb: "a\n  b"\n'
        "long: plain text\n  goes on\nlicense: mit\n---\n"
    ),
    "values over lines": (
        "---\nthumb: \"a\n  name: not this\n  \"\nco2: {a: b,\n  name: nor this\n}\nw:\n- 'c\n\n  d'\n- e: |\n    'f\n  g: h\n"
        "name: This\n---\n"
    ),
    "quotes inside": "---\nname: it 's # c\nauthor: a \"b # c\ntags: [it's, a \"b\", c] # d\nlicense: '#'\n---\n",
    "separators of other kinds": "---\nname: A\u2028author: B\u0085version: c\u000bdescription: d\u2029---\nname: E\n---\n",
    "non-ASCII": "---\nname: \u540d\u524d \U0001f600\nauthor: \u00c9t\u00e9\ntags: [\u043d\u0435\u0442, \u00fc]\nbase_model: \u00f6rg/\u00fcber-v1\n---\n",
}


def cards() -> list[Case]:
    return [
        *(Case(f"card: {name}", "deep", write={"README.md": text}) for name, text in CARDS.items()),
        Case("no card", remove=["README.md"]),
    ]


# Sampling settings

SAMPLING = {
    "temperature": 1,
    "mirostat": 2,
    "top_p": 0.9,
    "top_k": -1,
    "min_p": 0.05,
    "sequence": "kp\u00e9",
    "xtc_probability": 1e-3,
    "xtc_threshold": 1e-45,
    "penalty_last_n": 64,
    "penalty_repeat": 1.1,
    "mirostat_tau": 5,
    "mirostat_eta": 0.1,
    "transformers_version": "5",
}
GENERATION = {
    "every key": SAMPLING,
    "other keys only": {"eos_token_id": 1, "do_sample": True},
    "nulls": {"temperature": None, "top_k": 3, "sequence": ""},
    "a syntax error": '{"temperature": 0.7,}',
    "empty file": "",
    "duplicate keys": '{"top_k": 1, "temperature": 0.5, "top_k": 2}',
}


def sampling() -> list[Case]:
    return [Case(f"generation: {name}", write={"generation_config.json": value}) for name, value in GENERATION.items()]


# Hyperparameters


def hyperparameters() -> list[Case]:
    kinds = ["full_attention", "sliding_attention", "sliding_attention"]
    return [
        Case("keys in another order", edit={AGENT: reverse, ENCODER: reverse, CONFIG: reverse}),
        Case(
            "optional keys left out",
            edit={
                AGENT: drop("max_len", "head_max_len", "temperature", "temperature_by_options"),
                ENCODER: drop("norm_eps", "layer_norm_eps", "max_position_embeddings", "hidden_activation"),
            },
        ),
        Case(
            "optional keys added",
            "bytelevel",
            edit={
                ENCODER: put(
                    num_key_value_heads=4, head_dim=8, is_causal=False, layer_types=kinds, torch_dtype="float32"
                )
            },
        ),
        Case("epsilon of the encoder", edit={ENCODER: put(norm_eps=1e-6, layer_norm_eps=0.00001)}),
        Case(
            "rotary bases in the older spelling",
            edit={ENCODER: both(drop("rope_parameters"), put(global_rope_theta=160000, local_rope_theta=1234.5678))},
        ),
        Case(
            "older spelling beside the newer",
            edit={ENCODER: put(global_rope_theta=1, local_rope_theta=2, rope_scaling=None)},
        ),
        Case("temperatures of other kinds", edit={AGENT: put(temperature=[1, "1.5", True])}),
        Case("temperatures without end", edit={AGENT: put(temperature=[1e39, "-inf", 1e-50])}),
        Case(
            "temperature buckets",
            edit={
                AGENT: put(
                    temperature_by_options={
                        "score:2": 0.1,
                        "choice:11+": 1,
                        "": 2.0,
                        "noul:2": " 1_0.5\n",
                        "a\u00e9": False,
                    }
                )
            },
        ),
        Case("large limits", edit={AGENT: put(max_len=8192, head_max_len=4096)}),
        Case("more in the agent file", edit={AGENT: put(training={"a": [1, None]}, name="x", n_qtype=9)}),
    ]


# Tokenizers


def merge_texts(value: dict) -> None:
    value["model"]["merges"] = [" ".join(pair) for pair in value["model"]["merges"]]


def shuffle_added(value: dict) -> None:
    value["added_tokens"] = value["added_tokens"][:2][::-1] + value["added_tokens"][2:]


def spaced_merges(value: dict) -> None:
    vocab = value["model"]["vocab"]
    free = (number for number in range(max(vocab.values()) + 4) if number not in vocab.values())
    for piece in (" ", "t ", " h", "t h"):
        vocab[piece] = next(free)
    value["model"]["merges"] += [["t", " "], ["t ", "h"], [" ", "h"], ["t", " h"]]


def no_merges(value: dict) -> None:
    value["model"]["merges"] = []


def slot(content: str, **flags: bool) -> dict:
    return {"__type": "AddedToken", "content": content} | {
        name: flags.get(name, False) for name in ("lstrip", "normalized", "rstrip", "single_word", "special")
    }


def no_template(value: dict) -> None:
    value["post_processor"] = None


def template_end_only(value: dict) -> None:
    value["post_processor"]["single"] = value["post_processor"]["single"][1:]


def template_pair_only(value: dict) -> None:
    template = value["post_processor"]
    template["single"], template["pair"] = template["single"][1:2], template["pair"][1:4]


def in_sequence(value: dict) -> None:
    level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    value["post_processor"] = {"type": "Sequence", "processors": [level, value["post_processor"]]}


def added_table(*contents: str) -> Callable[[dict], None]:
    def edit(config: dict) -> None:
        ids = {"[UNK]": 301, "[CLS]": 302}
        config["added_tokens_decoder"] = {
            str(ids[content]): {k: v for k, v in slot(content, special=True).items() if k != "__type"}
            for content in contents
        }

    return edit


def tokenizers() -> list[Case]:
    level = "bytelevel"
    special = {
        "bos_token": "<bos>",
        "cls_token": {"content": "<bos>"} | dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False),
        "mask_token": "<mask>",
    }
    return [
        Case("merges as texts", edit={TOKENIZER: merge_texts}),
        Case("merges as texts, byte-level", level, edit={TOKENIZER: merge_texts}),
        Case("spaces inside halves of merges", edit={TOKENIZER: spaced_merges}),
        Case("no merges", level, edit={TOKENIZER: no_merges}),
        Case("no normalizer", level, edit={TOKENIZER: put(normalizer=None)}),
        Case("no decoder", edit={TOKENIZER: put(decoder=None)}),
        Case("no decoder, byte-level", level, edit={TOKENIZER: put(decoder=None)}),
        Case("added tokens in another order", level, edit={TOKENIZER: shuffle_added}),
        Case(
            "every flag of an added token",
            level,
            edit={
                TOKENIZER: lambda value: (
                    (
                        token(value, "[unused1]").update(lstrip=True, normalized=True),
                        token(value, "[unused0]").update(special=True, lstrip=True),
                        token(value, "<|endoftext|>").update(normalized=True),
                    )
                    and None
                )
            },
        ),
        Case(
            "a special token that is not special",
            level,
            edit={TOKENIZER: lambda value: token(value, "[PAD]").update(special=False, normalized=True)},
        ),
        Case("extra special tokens as a list", edit={CONFIG: put(extra_special_tokens=["<table>", "\n\n"])}),
        Case(
            "extra special tokens as an object",
            edit={CONFIG: put(extra_special_tokens={"a": "<table>", "b": slot("\u2581\u2581"), "c": "a\u2581b"})},
        ),
        Case("no extra special tokens", edit={CONFIG: drop("extra_special_tokens")}),
        Case(
            "additional special tokens",
            edit={CONFIG: both(drop("extra_special_tokens"), put(additional_special_tokens=["<table>"]))},
        ),
        Case(
            "slots with flags",
            level,
            edit={CONFIG: put(mask_token=slot("[MASK]", lstrip=True, special=True), cls_token=slot("[CLS]"))},
        ),
        Case("no bos and eos", edit={CONFIG: drop("bos_token", "eos_token")}),
        Case("null bos and eos", edit={CONFIG: put(bos_token=None, eos_token=None)}),
        Case("bos and eos of byte-level", level, edit={CONFIG: put(bos_token="[CLS]", eos_token="[SEP]")}),
        Case("another bos", level, edit={CONFIG: put(bos_token="[unused0]")}),
        Case("another eos", level, edit={CONFIG: put(eos_token="<|endoftext|>"), TOKENIZER: no_template}),
        Case("no unk", level, edit={CONFIG: drop("unk_token")}),
        Case("no pad", level, edit={CONFIG: drop("pad_token")}),
        Case("no pad, metaspace", edit={CONFIG: drop("pad_token")}),
        Case("no tokenizer class", level, edit={CONFIG: drop("tokenizer_class")}),
        Case("settings that add tokens", level, edit={CONFIG: put(add_eos_token=False, add_mask_token=True)}),
        Case(
            "settings that add tokens, no template",
            level,
            edit={CONFIG: put(add_sep_token=False, add_eos_token=True), TOKENIZER: no_template},
        ),
        Case("a length without bound", level, edit={CONFIG: put(model_max_length=int(1e30), x=-(2**63) - 1)}),
        Case("no template", edit={TOKENIZER: no_template}),
        Case("a template that only ends", level, edit={TOKENIZER: template_end_only}),
        Case("a template for pairs only", level, edit={TOKENIZER: template_pair_only}),
        Case("a template in a sequence", level, edit={TOKENIZER: in_sequence}),
        Case("chat template", edit={CONFIG: put(chat_template="{{ x }}\r\n\u00e9")}),
        Case("empty chat template", edit={CONFIG: put(chat_template="")}),
        Case(
            "chat template in a file",
            write={"tokenizer/chat_template.jinja": "{% x %}\r\n\ry\n", "tokenizer/chat_template.json": "{}"},
        ),
        Case("chat template in JSON", write={"tokenizer/chat_template.json": {"chat_template": "{{ json }}\r\n"}}),
        Case(
            "chat template beside a file",
            edit={CONFIG: put(chat_template="the first")},
            write={"tokenizer/chat_template.jinja": "the second"},
        ),
        Case(
            "null chat template beside a file",
            edit={CONFIG: put(chat_template=None)},
            write={"tokenizer/chat_template.jinja": "not this"},
        ),
        Case(
            "special tokens again",
            write={"tokenizer/special_tokens_map.json": special},
        ),
        Case("added tokens again", level, edit={CONFIG: added_table("[UNK]", "[CLS]")}),
        Case(
            "a configuration beside the tokenizer",
            level,
            write={"tokenizer/config.json": {"model_type": "bert", "bos_token_id": 1, "unk_token_id": 7}},
        ),
    ]


CASES: list[Case] = [*outtypes(), *directories(), *cards(), *sampling(), *hyperparameters(), *tokenizers()]
