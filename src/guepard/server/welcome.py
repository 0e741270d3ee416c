"""What a person sees once the server is ready: a question for each model, to paste into a shell."""

import json
from collections.abc import Iterable
from typing import Any, TextIO

import orjson

from guepard.core.model_config import ModelConfig
from guepard.core.tensor import TensorSpec, empty_array

_MAX_MODELS = 4
_MAX_QUESTION_BYTES = 1_200


def welcome(stream: TextIO, host: str, port: int, configs: Iterable[ModelConfig]) -> None:
    """Write to `stream` a curl line and the same in Python for each model whose question fits a line or two."""
    address = _reachable(host, port)
    for config in list(configs)[:_MAX_MODELS]:
        question = _question(config)
        if question is None:
            continue
        url = f"{address}/v2/models/{config.name}/infer"
        stream.write(f"\nAsk {config.name}:\n\n  curl -s {url} -d {_quoted(question)}\n")
        stream.write(f"\n  python3 -c {_quoted(_python(url, question))}\n")
    stream.write(f"\nAll models: curl -s -X POST {address}/v2/repository/index\n\n")
    stream.flush()


def _reachable(host: str, port: int) -> str:
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _question(config: ModelConfig) -> str | None:
    """A zero-valued request of one row; None where that would fill the screen."""
    inputs = [_input(spec, config.max_batch_size > 0) for spec in config.inputs if not spec.optional]
    text = json.dumps({"inputs": inputs})
    return text if len(text) <= _MAX_QUESTION_BYTES else None


def _input(spec: TensorSpec, batched: bool) -> dict[str, Any]:
    shape = [1 if dim == -1 else dim for dim in spec.dims]
    if batched:
        shape = [1, *shape]
    array = empty_array(spec, shape).reshape(-1)
    data = [""] * array.size if spec.datatype.kind == "bytes" else array.tolist()
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": shape, "data": data}


def _python(url: str, question: str) -> str:
    body = orjson.dumps(question).decode()
    return f"import urllib.request as u; print(u.urlopen(u.Request({url!r}, {body}.encode())).read().decode())"


def _quoted(text: str) -> str:
    """For a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"
