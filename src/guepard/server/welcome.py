"""What a person sees once the server is ready: a question for each model, to paste into a shell."""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, TextIO

from guepard.core.model_config import ModelConfig
from guepard.core.tensor import TensorSpec, empty_array
from guepard.engine.sample_file import read_sample

_MAX_MODELS = 4
_MAX_QUESTION_BYTES = 2_048
_TAKEN_BY: Mapping[str, str] = {
    # One pixel as PNG in Base64: the least that it takes.
    "decode_image": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg==",
    "tokenize": "The cheetah lives in Africa, and runs faster than any other animal on land.",
}
"""What a first step is asked with."""


def welcome(stream: TextIO, host: str, port: int, questions: Mapping[str, str | None]) -> None:
    """Write to `stream`, for each model that has a question, a curl line and the same in Python."""
    address = _reachable(host, port)
    asked = [(name, question) for name, question in questions.items() if question is not None]
    for name, question in asked[:_MAX_MODELS]:
        url = f"{address}/v2/models/{name}/infer"
        stream.write(f"\nAsk {name}:\n\n")
        stream.write(f"curl -s {url} -d {_quoted(question)}\n\n")
        stream.write(f"python3 - <<'END'\n{_python(url, question)}\nEND\n")
    stream.write(f"\nAll models: curl -s -X POST {address}/v2/repository/index\nAll routes: {address}/docs\n\n")
    stream.flush()


def question_for(config: ModelConfig, path: Path) -> str | None:
    """A V2 request as JSON on one line: the folder's sample.json, else zeros of one row, or what its first step takes.

    None if that is too long.
    """
    document = read_sample(path)
    if document is None:
        inputs = [(spec, _shape(spec, config.max_batch_size > 0)) for spec in config.inputs if not spec.optional]
        if sum(prod(shape) for _, shape in inputs) > _MAX_QUESTION_BYTES:
            return None
        text = next((_TAKEN_BY[step] for step in config.preprocess if step in _TAKEN_BY), "")
        document = {
            "inputs": [_zeros(spec, shape, "" if spec in config.batch_inputs else text) for spec, shape in inputs]
        }
    question = json.dumps(document)
    return question if len(question) <= _MAX_QUESTION_BYTES else None


def _shape(spec: TensorSpec, batched: bool) -> list[int]:
    shape = [1 if dim == -1 else dim for dim in spec.dims]
    return [1, *shape] if batched else shape


def _zeros(spec: TensorSpec, shape: list[int], text: str) -> dict[str, Any]:
    """`text` stands for each element of BYTES."""
    array = empty_array(spec, shape).reshape(-1)
    data = [text] * array.size if spec.datatype.kind == "bytes" else array.tolist()
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": shape, "data": data}


def _reachable(host: str, port: int) -> str:
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _python(url: str, question: str) -> str:
    return (
        "import urllib.request\n"
        f"question = {question!r}\n"
        f"print(urllib.request.urlopen({url!r}, question.encode()).read().decode())"
    )


def _quoted(text: str) -> str:
    """For a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"
