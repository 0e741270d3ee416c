"""Which files of a Hugging Face folder are its tokenizer and its weights."""

import json
import struct
from pathlib import Path
from typing import Literal, NamedTuple

from guepard.core.errors import LoadError

TOKENIZER = "tokenizer.json"

_ONNX = ("model.onnx", "onnx/model.onnx")
_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_FOREIGN = {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax", "model.gguf": "GGUF"}
_LFS = b"version https://git-lfs"
_LARGEST_HEADER_BYTES = 100 << 20


class Weights(NamedTuple):
    kind: Literal["onnx", "safetensors", "pickle"]
    path: Path


def find_weights(folder: Path, onnx_file: str, *, trusted: bool) -> Weights:
    """`onnx_file` is what the operator chose, or empty. ONNX comes before PyTorch's, as more engines execute it.

    Raises: LoadError that says what was looked for.
    """
    if onnx_file:
        path = folder / onnx_file
        if not path.resolve().is_relative_to(folder.resolve()):
            raise LoadError(f"huggingface.onnx_file: {onnx_file!r} is not in the model's folder")
        if not path.is_file():
            raise LoadError(f"huggingface.onnx_file: there is no file {onnx_file!r}{_others(folder)}")
        return Weights("onnx", _real(path))
    for name in _ONNX:
        if (folder / name).is_file():
            return Weights("onnx", _real(folder / name))
    for name in _SAFETENSORS:
        if (folder / name).is_file():
            return Weights("safetensors", _real(folder / name))
    for name in _PICKLES:
        if (folder / name).is_file():
            if not trusted:
                raise LoadError(
                    f"{name} is a pickle, which may run code when it is loaded; convert it to model.safetensors, or "
                    "serve it with trust: true or --trust"
                )
            return Weights("pickle", _real(folder / name))
    for name, kind in _FOREIGN.items():
        if (folder / name).exists():
            raise LoadError(f"the folder holds {kind} weights ({name}); export the model to ONNX or safetensors")
    wanted = ", ".join((*_ONNX, _SAFETENSORS[0]))
    raise LoadError(f"the folder holds no weights: none of {wanted}{_others(folder)}")


def find_tokenizer(folder: Path) -> str:
    """The name of its file. Raises: LoadError."""
    if (folder / TOKENIZER).is_file():
        _real(folder / TOKENIZER)
        return TOKENIZER
    slow = next(
        (name for name in ("vocab.txt", "spiece.model", "sentencepiece.bpe.model") if (folder / name).exists()), ""
    )
    held = f", only {slow}" if slow else ""
    raise LoadError(
        f"there is no {TOKENIZER} in the folder{held}; write it with transformers: "
        "AutoTokenizer.from_pretrained(FOLDER, use_fast=True).save_pretrained(FOLDER)"
    )


def embedding_rows(weights: Weights) -> int:
    """Of the table of tokens, by the header of a safetensors file; 0 where that does not tell."""
    if weights.kind != "safetensors" or weights.path.suffix != ".safetensors":
        return 0
    try:
        with weights.path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            if size > _LARGEST_HEADER_BYTES:
                raise ValueError
            content = file.read(size)
        header = json.loads(content)
        if len(content) < size or not isinstance(header, dict):
            raise ValueError
        for name, entry in header.items():
            if name.endswith("word_embeddings.weight"):
                return int(entry["shape"][0])
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        raise LoadError(f"{weights.path.name} is not a valid safetensors file: damaged or cut off") from None
    return 0


def _real(path: Path) -> Path:
    """`path`, unless it only stands for a file that was never fetched. Raises: LoadError."""
    with path.open("rb") as file:
        if file.read(len(_LFS)) == _LFS:
            raise LoadError(f"{path.name} is a pointer of Git LFS, not the file itself; run: git lfs pull")
    return path


def _others(folder: Path) -> str:
    found = sorted(str(file.relative_to(folder)) for file in (*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")))
    return f"; there are {', '.join(found[:6])}: name one by huggingface.onnx_file" if found else ""
