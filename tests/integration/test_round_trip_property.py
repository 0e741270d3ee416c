"""Whatever fits the protocol comes back exactly as it went; whatever does not is refused in words.

Tensors of every datatype, of rank 0 to 4 and without elements too, go in as flat JSON, nested JSON or bytes, several
forms in one request, and come out as JSON or bytes.
"""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.core.datatypes import DATATYPES
from guepard.core.tensor import Array
from guepard.protocols.brain_float import from_float32, to_float32
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.drawn_tensors import FLOATS, array_of, examples, shapes, wire_bytes
from tests.services.identities import every_datatype_at_once, onnx_identities

RANKS = range(5)


class Sent(NamedTuple):
    """One tensor of a request and the forms in which it goes in and shall come out."""

    name: str
    datatype: str
    array: Array
    form: str
    binary_out: bool


class Reply(NamedTuple):
    status: int
    content_type: str
    json_length: int | None
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body[: self.json_length], parse_constant=_no_constant)


def _no_constant(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@pytest.fixture(scope="module")
def mixed(serve: Serve, models: Path) -> Iterator[HTTPConnection]:
    yield from _connection(serve("--config", every_datatype_at_once(models, RANKS)))


@pytest.fixture(scope="module")
def onnx(serve: Serve, models: Path) -> Iterator[HTTPConnection]:
    yield from _connection(serve(*onnx_identities(models)))


def _connection(server: RunningServer) -> Iterator[HTTPConnection]:
    connection = HTTPConnection("127.0.0.1", server.http_port, timeout=20)
    yield connection
    connection.close()


def post(connection: HTTPConnection, model: str, head: bytes, data: bytes = b"", *, binary: bool = False) -> Reply:
    headers = {"Inference-Header-Content-Length": str(len(head))} if binary else {}
    connection.request("POST", f"/v2/models/{model}/infer", head + data, headers)
    with connection.getresponse() as response:
        length = response.getheader("inference-header-content-length")
        body = response.read()
        return Reply(
            response.status, response.getheader("content-type", ""), None if length is None else int(length), body
        )


def infer(connection: HTTPConnection, model: str, tensors: list[Sent], output: dict[str, str]) -> Reply:
    """Send `tensors`. `output` gives the name under which each one comes back."""
    inputs, chunks = [], []
    for sent in tensors:
        entry: dict[str, Any] = {"name": sent.name, "shape": list(sent.array.shape), "datatype": sent.datatype}
        if sent.form == "binary":
            chunk = wire_bytes(sent.datatype, sent.array)
            entry["parameters"] = {"binary_data_size": len(chunk)}
            chunks.append(chunk)
        else:
            values = json_values(sent.datatype, sent.array)
            entry["data"] = values.tolist() if sent.form == "nested" and values.ndim else values.ravel().tolist()
        inputs.append(entry)
    outputs = [{"name": output[sent.name], "parameters": {"binary_data": sent.binary_out}} for sent in tensors]
    head = json.dumps({"inputs": inputs, "outputs": outputs}).encode()
    return post(connection, model, head, b"".join(chunks), binary=bool(chunks))


def json_values(datatype: str, array: Array) -> Array:
    """What a client writes into JSON for `array`. An array, so that it can be flat or nested."""
    if datatype == "BYTES":
        texts = np.empty(array.size, object)
        texts[:] = [element.decode() for element in array.ravel().tolist()]
        return texts.reshape(array.shape)
    return to_float32(array) if datatype == "BF16" else array


def can_be_json(sent: Sent) -> bool:
    if sent.datatype == "BYTES":
        try:
            json_values("BYTES", sent.array)
        except UnicodeDecodeError:
            return False
        return True
    if sent.datatype in FLOATS:
        return bool(np.isfinite(json_values(sent.datatype, sent.array)).all())
    return True


def same(reply: Reply, tensors: list[Sent], output: dict[str, str]) -> None:
    """Every tensor came back, in order and in the form that was asked for, bit for bit."""
    document = reply.document
    assert [each["name"] for each in document["outputs"]] == [output[sent.name] for sent in tensors]
    offset = reply.json_length or 0
    for sent, came in zip(tensors, document["outputs"], strict=True):
        assert (came["datatype"], came["shape"]) == (sent.datatype, list(sent.array.shape))
        expected = wire_bytes(sent.datatype, sent.array)
        if sent.binary_out:
            assert came["parameters"]["binary_data_size"] == len(expected)
            assert reply.body[offset : offset + len(expected)] == expected
            offset += len(expected)
        else:
            assert wire_bytes(sent.datatype, from_json(sent.datatype, came["data"])) == expected
    assert offset == len(reply.body) or reply.json_length is None


def from_json(datatype: str, data: list[Any]) -> Array:
    if datatype == "BYTES":
        elements = np.empty(len(data), object)
        elements[:] = [text.encode() for text in data]
        return elements
    if datatype == "BOOL":
        assert all(isinstance(value, bool) for value in data)
    if datatype == "BF16":
        return from_float32(np.array(data, np.float32))
    return np.array(data, DATATYPES[datatype].dtype)


# What is drawn


@st.composite
def sent_tensors(draw: st.DrawFn, name: str, datatype: str, rank: int) -> Sent:
    form = draw(st.sampled_from(["flat", "nested", "binary"]))
    array = draw(array_of(datatype, draw(shapes(rank)), plain=form != "binary"))
    return Sent(name, datatype, array, form, draw(st.booleans()))


@st.composite
def requests_of_every_datatype(draw: st.DrawFn) -> tuple[str, list[Sent]]:
    rank = draw(st.sampled_from(RANKS))
    order = draw(st.permutations(list(DATATYPES)))
    return f"rank{rank}", [draw(sent_tensors(name, name, rank)) for name in order]


@examples
@given(request=requests_of_every_datatype())
def test_every_datatype_in_one_request(mixed: HTTPConnection, request: tuple[str, list[Sent]]) -> None:
    model, tensors = request
    output = {name: name for name in DATATYPES}
    reply = infer(mixed, model, tensors, output)
    unwritable = [sent.name for sent in tensors if not sent.binary_out and not can_be_json(sent)]
    if unwritable:
        assert reply.status == 406
        assert any(repr(name) in reply.document["error"] for name in unwritable)
    else:
        assert reply.status == 200, reply.body
        same(reply, tensors, output)


@examples
@given(sent=st.sampled_from(list(DATATYPES)).flatmap(lambda datatype: sent_tensors("x", datatype, 2)))
def test_one_tensor_through_an_engine(onnx: HTTPConnection, sent: Sent) -> None:
    reply = infer(onnx, f"ident_{sent.datatype.lower()}", [sent], {"x": "y"})
    if sent.datatype == "BYTES" and not can_be_json(sent):  # the engine's strings are text
        assert reply.status == 400
        assert "input 'x'" in reply.document["error"]
    elif not sent.binary_out and not can_be_json(sent):
        assert reply.status == 406
        assert "output 'y'" in reply.document["error"]
    else:
        assert reply.status == 200, reply.body
        same(reply, [sent], {"x": "y"})


# What fits nothing

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)
dimension = st.integers(0, 3) | st.sampled_from([-1, 2**31, 2**62, 2**63, 2**64]) | anything
number = st.integers(-3, 300) | st.floats(width=32) | st.booleans() | st.sampled_from(["1", "a", None])
field_values: dict[str, st.SearchStrategy[Any]] = {
    "name": st.just("x") | anything,
    "shape": st.lists(dimension, max_size=5) | anything,
    "datatype": st.sampled_from([*DATATYPES, "fp32", "STRING", ""]) | anything,
    "data": st.lists(number | st.lists(number, max_size=3), max_size=6) | anything,
    "parameters": st.fixed_dictionaries({"binary_data_size": st.integers(-1, 40)}) | anything,
}


@examples
@given(
    tensors=st.lists(st.fixed_dictionaries({}, optional=field_values) | anything, min_size=1, max_size=2) | anything,
    rest=st.dictionaries(st.sampled_from(["id", "parameters", "outputs"]), anything, max_size=2),
    data=st.binary(max_size=40),
    datatype=st.sampled_from([name.lower() for name in DATATYPES]),
    binary=st.booleans(),
)
def test_what_fits_nothing_is_refused_in_words(
    onnx: HTTPConnection, tensors: Any, rest: dict[str, Any], data: bytes, datatype: str, binary: bool
) -> None:
    head = json.dumps({"inputs": tensors} | rest).encode()
    reply = post(onnx, f"ident_{datatype}", head, data if binary else b"", binary=binary)
    if reply.status == 200:  # by chance it was right after all
        (came,) = reply.document["outputs"]
        assert (came["datatype"], came["shape"]) == (tensors[0]["datatype"], tensors[0]["shape"])
        return
    assert (reply.status, reply.content_type) in {(status, "application/json") for status in (400, 406, 501)}
    assert len(reply.document["error"]) > 5


@examples
@given(
    datatype=st.sampled_from(list(DATATYPES)),
    shape=st.lists(st.integers(0, 4), min_size=2, max_size=2),
    data=st.binary(max_size=100),
    size=st.none() | st.integers(0, 120),
)
def test_any_bytes_fill_their_shape_or_are_refused(
    onnx: HTTPConnection, datatype: str, shape: list[int], data: bytes, size: int | None
) -> None:
    claimed = len(data) if size is None else size
    given_input = {"name": "x", "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": claimed}}
    head = json.dumps({"inputs": [given_input], "parameters": {"binary_data_output": True}}).encode()
    reply = post(onnx, f"ident_{datatype.lower()}", head, data, binary=True)
    if reply.status == 200:
        assert claimed == len(data)
        assert reply.json_length is not None
        assert reply.body[reply.json_length :] == data
    else:
        assert reply.status == 400
        assert "input 'x'" in reply.document["error"] or "request body" in reply.document["error"]
