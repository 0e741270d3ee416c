"""A user's samples: what is read, cut and converted, and what is refused with its place, its input and the remedy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guepard.bench.targets.model_metadata import InputMetadata, ModelMetadata
from guepard.bench.targets.predict_samples import PredictReader
from guepard.bench.targets.sample_files import Sample, data_files, json_samples, text_lines
from guepard.bench.targets.tensor_call import TensorCall
from guepard.bench.targets.tensor_samples import oip_calls, read_calls
from guepard.core.errors import ConfigurationError
from guepard.core.tensor import Array

IRIS = ModelMetadata("iris", "1", (InputMetadata("x", "FP32", (-1, 4)),))
TEXT = ModelMetadata("text", "1", (InputMetadata("t", "BYTES", (-1, 1)),))
TWO = ModelMetadata("two", "1", (InputMetadata("a", "INT32", (-1,)), InputMetadata("b", "BOOL", (-1, 2))))
WHOLE = ModelMetadata("whole", "1", (InputMetadata("x", "FP32", (2, 3)),))
HALF = ModelMetadata("half", "1", (InputMetadata("x", "BF16", (-1,)),))


def read(path: Path, model: ModelMetadata, batch: int = 1) -> tuple[list[TensorCall], list[str]]:
    notes: list[str] = []
    return list(read_calls(path, model, batch, notes)), notes


def saved(folder: Path, **arrays: Array) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_rows_are_cut_into_batches_and_what_is_left_is_told(tmp_path: Path) -> None:
    x = np.arange(28, dtype=np.float32).reshape(7, 4)
    calls, notes = read(saved(tmp_path, x=x), IRIS, 2)
    assert [call.tensors[0].array.tolist() for call in calls] == [x[at : at + 2].tolist() for at in (0, 2, 4)]
    assert notes == [f"{tmp_path}/data.npz: the last 1 rows are left out, they fill no batch of 2"]
    assert calls[1].where.endswith("data.npz row 2")


def test_several_inputs_and_a_single_array(tmp_path: Path) -> None:
    calls, _ = read(saved(tmp_path, a=np.arange(3, dtype=np.int32), b=np.zeros((3, 2), bool)), TWO)
    assert [[tensor.array.shape for tensor in call.tensors] for call in calls] == [[(1,), (1, 2)]] * 3
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    calls, _ = read(tmp_path / "x.npy", IRIS)
    assert [call.tensors[0].name for call in calls] == ["x", "x"]


def test_of_an_input_without_a_batch_each_item_is_one_request(tmp_path: Path) -> None:
    assert len(read(saved(tmp_path, x=np.ones((5, 2, 3), np.float32)), WHOLE)[0]) == 5
    (call,), _ = read(saved(tmp_path, x=np.ones((2, 3), np.float32)), WHOLE)
    assert call.tensors[0].array.shape == (2, 3)


@pytest.mark.parametrize(
    ("array", "converted"),
    [
        (np.array([[0.5, 1, 2, 3]]), [[0.5, 1, 2, 3]]),
        (np.array([[1, 2, 3, 4]]), [[1, 2, 3, 4]]),
        (np.array([[1, 2, 3, 4]], np.uint8), [[1, 2, 3, 4]]),
    ],
)
def test_numbers_are_converted_and_it_is_told(array: Array, converted: list[Any], tmp_path: Path) -> None:
    (call,), notes = read(saved(tmp_path, x=array), IRIS)
    assert call.tensors[0].array.dtype == np.float32
    assert call.tensors[0].array.tolist() == converted
    assert notes == [f"{tmp_path}/data.npz: array 'x' is converted from {array.dtype} to FP32"]


def test_floats_become_brain_floats(tmp_path: Path) -> None:
    (call,), _ = read(saved(tmp_path, x=np.array([1.5], np.float32)), HALF)
    assert call.tensors[0].array.tolist() == [0x3FC0]


def test_texts_are_bytes_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffone\r\n\n é \n".encode())
    calls, _ = read(path, TEXT)
    assert [call.tensors[0].array.tolist() for call in calls] == [[[b"one"]], [[" é ".encode()]]]
    calls, _ = read(saved(tmp_path, t=np.array([["a"], ["é"]])), TEXT, 2)
    assert calls[0].tensors[0].array.tolist() == [[b"a"], ["é".encode()]]


@pytest.mark.parametrize(
    ("model", "arrays", "batch", "named"),
    [
        (IRIS, {"y": np.ones((1, 4))}, 1, "'y' is no input of model 'iris', which has 'x'; rename"),
        (IRIS, {"x": np.ones((1, 3))}, 1, r"input 'x' has the shape \[1, 3\], model 'iris' takes \[-1, 4\]"),
        (IRIS, {"x": np.ones(4)}, 1, r"has the shape \[1\]"),
        (IRIS, {"x": np.float32(1)}, 1, "has no rows"),
        (IRIS, {"x": np.ones((2, 4))}, 3, "2 rows are fewer than --batch 3"),
        (IRIS, {"x": np.array([["a"] * 4])}, 1, r"'x' is <U1, input 'x' is FP32; convert it"),
        (IRIS, {"x": np.full((1, 4), 1e300)}, 1, r"1e\+300 does not fit"),
        (TWO, {"a": np.array([1.5])}, 1, r"is float64, input 'a' is INT32; convert it with .astype\('int32'\)"),
        (TWO, {"a": np.array([2**40])}, 1, "1099511627776 does not fit"),
        (TWO, {"b": np.ones((1, 2), np.int8)}, 1, r"is BOOL; convert it with .astype\('bool'\)"),
        (TWO, {"a": np.ones(2, np.int32), "b": np.ones((3, 2), bool)}, 1, r"numbers of rows \('a' 2, 'b' 3\)"),
        (TEXT, {"t": np.ones((1, 1))}, 1, "array of str or bytes"),
        (IRIS, {}, 1, "holds no arrays"),
    ],
)  # fmt: skip
def test_wrong_arrays(model: ModelMetadata, arrays: dict[str, Array], batch: int, named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=named):
        read(saved(tmp_path, **arrays), model, batch)


def test_wrong_files(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("a")
    with pytest.raises(ConfigurationError, match=r"for BYTES inputs, input 'x' of model 'iris' is FP32"):
        read(lines, IRIS)
    with pytest.raises(ConfigurationError, match=r"'a', 'b'; give an \.npz"):
        read(lines, TWO)
    lines.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="not UTF-8 at byte 0"):
        text_lines(lines)
    lines.write_bytes(b"\n\n")
    with pytest.raises(ConfigurationError, match="holds no text"):
        text_lines(lines)
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK\x03\x04nothing")
    with pytest.raises(ConfigurationError, match=r"broken\.npz"):
        read(broken, IRIS)
    np.save(tmp_path / "pickled.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ConfigurationError, match="Python objects, which are not read"):
        read(tmp_path / "pickled.npy", IRIS)
    with pytest.raises(ConfigurationError, match=r"\.csv is not read as tensors; use \.json, \.jsonl"):
        read(tmp_path / "x.csv", IRIS)
    with pytest.raises(ConfigurationError, match="no such file"):
        data_files(str(tmp_path / "gone"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="holds no files"):
        data_files(str(tmp_path / "empty"))


def test_a_folder_is_its_files_in_order_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", ".hidden"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "folder").mkdir()
    assert [path.name for path in data_files(str(tmp_path))] == ["a.json", "b.json"]


def test_json_comes_out_as_it_went_in(tmp_path: Path) -> None:
    one, many, lines = tmp_path / "one.json", tmp_path / "many.json", tmp_path / "lines.jsonl"
    one.write_bytes(b'\xef\xbb\xbf{"a" : 1.10}\n')
    many.write_bytes(b'[{"a" : 1}, {"b":2}]')
    lines.write_bytes(b'{"a" : 1}\r\n\n{"b":2}')
    assert [sample.content for sample in json_samples(one)] == [b'{"a" : 1.10}']
    assert [sample.content for sample in json_samples(many)] == [b'{"a" : 1}', b'{"b":2}']
    assert [(sample.where[-6:], sample.content) for sample in json_samples(lines)] == [
        ("line 1", b'{"a" : 1}'),
        ("line 3", b'{"b":2}'),
    ]


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("a.json", b"{", r"a\.json: not valid JSON"),
        ("a.jsonl", b"{}\n{", r"a\.jsonl line 2: not valid JSON"),
        ("a.json", b"[]", "holds no samples"),
        ("a.jsonl", b"\n", "holds no samples"),
        ("a.json", b"\xff", "not valid JSON"),
    ],
)
def test_wrong_json(name: str, content: bytes, named: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=named):
        list(json_samples(path))


OIP = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":%s}]}'


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (OIP % "[1,2,3]", "line 1: input 'x': shape .1, 4. needs 4 elements, data holds 3"),
        (OIP % '["a"]', "line 1: input 'x': data.0.: expected `?float`?, got"),
        (OIP.replace("FP32", "FP64") % "[1,2,3,4]", "line 1: input 'x' is FP64, model 'iris' takes FP32"),
        (OIP.replace("1,4", "2,2") % "[1,2,3,4]", r"line 1: input 'x' has the shape \[2, 2\]"),
        (OIP.replace('"x"', '"y"') % "[1,2,3,4]", "line 1: 'y' is no input of model 'iris'"),
        (OIP.replace("FP32", "FLOAT") % "[1,2,3,4]", "unknown datatype 'FLOAT'"),
        ('{"inputs":[]}', "inputs is empty"),
        ('{"instances":[1]}', "missing required field"),
        ("[1]", "expected object"),
    ],
)
def test_wrong_requests_of_oip(body: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(body)
    with pytest.raises(ConfigurationError, match=named):
        list(oip_calls(path, IRIS))


def test_right_requests_of_oip(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text(OIP.replace('"inputs"', '"parameters":{"k":1},"outputs":[{"name":"y"}],"inputs"') % "[[1,2,3,4]]")
    (call,) = oip_calls(path, IRIS)
    assert call.tensors[0].array.tolist() == [[1, 2, 3, 4]]
    assert (call.parameters, call.outputs, call.generated) == ({"k": 1}, ["y"], False)
    (unchecked,) = oip_calls(path, None)
    assert unchecked.tensors[0].name == "x"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"instances":[[1,2,3]]}', r"has the shape \[1, 3\], model 'iris' takes \[-1, 4\]"),
        (b'{"instances":[["a",2,3,4]]}', "expected float"),
        (b'{"instances":[{"y":[1,2,3,4]}]}', "s: .*'?y"),
        (b'{"inputs":[[1,2,3,4],[1,2,3]]}', "s: "),
        (b'{"rows":[1]}', "instances .rows. or inputs"),
        (b"[1]", "instances .rows. or inputs"),
    ],
)
def test_wrong_requests_of_predict(body: bytes, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        PredictReader(IRIS).read(Sample("s", body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"instances":[[1,2,3,4],[1,2,3,4]]}',
        b'{"inputs":{"x":[[1,2,3,4]]}}',
        b'{"instances":[{"x":[1,2,3,4]}]}',
        b'{"signature_name":"classify","instances":["whatever"]}',
    ],
)
def test_right_requests_of_predict(body: bytes) -> None:
    PredictReader(IRIS).read(Sample("s", body))
    PredictReader(None).read(Sample("s", body))


def test_inputs_of_several_may_be_left_out() -> None:
    PredictReader(TWO).read(Sample("s", b'{"instances":[{"a":1}]}'))


def test_a_damaged_head_of_numpys_is_said_in_words(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    damaged = (tmp_path / "x.npy").read_bytes().replace(b"(2, 4)", b"(2, 4 ")
    (tmp_path / "x.npy").write_bytes(damaged)
    with pytest.raises(ConfigurationError, match=r"x.npy: .*file of numpy"):
        read(tmp_path / "x.npy", IRIS)
