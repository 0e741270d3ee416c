"""Rows, columns and V2 are three spellings of one request: the values of their answers are equal."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from guepard.core.datatypes import DATATYPES
from guepard.core.tensor import Array
from tests.conftest import Serve

RANKS = range(4)
FINITE = {"allow_nan": False, "allow_infinity": False}


@pytest.fixture(scope="module")
def connection(serve: Serve, models: Path) -> Iterator[HTTPConnection]:
    """`<datatype><rank>` takes one input, `all<rank>` one of each datatype."""
    entries: list[dict[str, Any]] = []
    for rank in RANKS:
        inputs = [{"name": name, "datatype": name, "dims": [-1] * rank} for name in DATATYPES]
        entries.append({"name": f"all{rank}", "inputs": inputs})
        entries += [{"name": f"{each['name']}{rank}", "inputs": [each]} for each in inputs]
    for entry in entries:
        entry |= {"backend": "identity", "max_batch_size": 8}
    (models / "guepard.yaml").write_text(yaml.safe_dump({"models": entries}))
    server = serve("--config", models / "guepard.yaml")
    connection = HTTPConnection("127.0.0.1", server.http_port, timeout=20)
    yield connection
    connection.close()


def ask(connection: HTTPConnection, path: str, body: Any) -> Any:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    with connection.getresponse() as answer:
        content = answer.read()
        assert answer.status == 200, content
        return json.loads(content)


def values(datatype: str, shape: tuple[int, ...]) -> st.SearchStrategy[Array]:
    if datatype == "BYTES":
        return arrays.arrays(np.dtype(object), shape, elements=st.text(max_size=6))
    if datatype == "BF16":
        return arrays.arrays(np.float32, shape, elements=st.integers(-128, 128).map(lambda number: number / 4))
    dtype = DATATYPES[datatype].dtype
    return arrays.arrays(dtype, shape, elements=FINITE if DATATYPES[datatype].kind == "float" else None)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[str, Array]]:
    """A model and its inputs. Where a dimension is 0, those inside it cannot be told by nesting, so it is the last."""
    rank = draw(st.sampled_from(RANKS))
    name = draw(st.sampled_from([*DATATYPES, "all"]))
    rows = draw(st.integers(1, 3))
    tensors = {}
    for datatype in DATATYPES if name == "all" else (name,):
        dims = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
        if rank and draw(st.integers(0, 3)) == 0:
            dims[-1] = 0
        tensors[datatype] = draw(values(datatype, (rows, *dims)))
    return f"{name}{rank}", tensors


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(request=requests())
def test_rows_columns_and_v2_agree(connection: HTTPConnection, request: tuple[str, dict[str, Array]]) -> None:
    model, tensors = request
    columns = {name: array.tolist() for name, array in tensors.items()}
    inputs = [
        {"name": name, "datatype": name, "shape": list(array.shape), "data": array.ravel().tolist()}
        for name, array in tensors.items()
    ]
    v2 = ask(connection, f"/v2/models/{model}/infer", {"inputs": inputs})["outputs"]
    expected = {}
    for output in v2:
        nested = np.empty(len(output["data"]), object)
        nested[:] = output["data"]
        expected[output["name"]] = nested.reshape(output["shape"]).tolist()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    rows_expected = [dict(zip(expected, row, strict=True)) for row in zip(*expected.values(), strict=True)]
    predict = f"/v1/models/{model}:predict"
    if len(tensors) > 1:
        assert ask(connection, predict, {"inputs": columns}) == {"outputs": expected}
        assert ask(connection, predict, {"instances": rows}) == {"predictions": rows_expected}
        return
    (column,), (wanted,) = columns.values(), expected.values()
    for body in ({"inputs": column}, {"inputs": columns}):
        assert ask(connection, predict, body) == {"outputs": wanted}
    for instances in ({"instances": column}, {"instances": rows}):
        assert ask(connection, predict, instances) == {"predictions": wanted}
