"""Field case F217: an ONNX file cannot have files outside its folder read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.backends.onnx_external_data import check_external_data, external_locations
from guepard.core.errors import LoadError
from tests.services import onnx_models
from tests.services.onnx_models import EXTERNAL_WEIGHTS, write_model

ROUTES = [
    onnx_models.external_initializer,
    onnx_models.external_constant,
    onnx_models.external_in_subgraph,
    onnx_models.external_in_function,
    onnx_models.external_sparse,
]

OUTSIDE = [
    "../../etc/hostname",
    "/etc/hostname",
    "sub/../../x",
    "sub/../weights.bin",
    "..",
    "..\\x",
    "C:\\x",
    "c:x",
    "file:///etc/hostname",
    "file:/etc/hostname",
    "http://127.0.0.1/x",
    "*/_ORT_MEM_ADDR_/*",
    "",
    "a\0b",
]

Route = Callable[[str], bytes]


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_to_a_tensor_is_found(route: Route) -> None:
    assert set(external_locations(route("weights.bin"))) == {"weights.bin"}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("location", OUTSIDE)
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, route: Route, location: str) -> None:
    model = write_model(tmp_path / "model", route(location))
    with pytest.raises(LoadError, match="not a plain path inside its folder"):
        check_external_data(model)


@pytest.mark.parametrize(
    "location", ["weights.bin", "./weights.bin", "data/weights.bin", "onnx::MatMul_7", "..weights"]
)
def test_names_inside_the_folder_pass(tmp_path: Path, location: str) -> None:
    model = write_model(tmp_path, onnx_models.external_initializer(location))
    weights = tmp_path / location
    weights.parent.mkdir(exist_ok=True)
    weights.write_bytes(EXTERNAL_WEIGHTS.tobytes())
    check_external_data(model)


@pytest.mark.parametrize("location", ["link.bin", "folder/secret.bin", "dangling.bin"])
def test_links_that_leave_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret.bin").write_bytes(EXTERNAL_WEIGHTS.tobytes())
    model = write_model(tmp_path / "model", onnx_models.external_initializer(location))
    (model.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    (model.parent / "folder").symlink_to(tmp_path, target_is_directory=True)
    (model.parent / "dangling.bin").symlink_to(tmp_path / "nothing")
    with pytest.raises(LoadError, match="leads out of its folder"):
        check_external_data(model)


def test_a_link_inside_the_folder_passes(tmp_path: Path) -> None:
    model = write_model(tmp_path, onnx_models.external_initializer("link.bin"))
    (tmp_path / "weights.bin").write_bytes(EXTERNAL_WEIGHTS.tobytes())
    (tmp_path / "link.bin").symlink_to("weights.bin")
    check_external_data(model)


def test_a_folder_reached_through_a_link_is_the_model_s_folder(tmp_path: Path) -> None:
    model = write_model(tmp_path / "real", onnx_models.external_initializer("weights.bin"))
    (model.parent / "weights.bin").write_bytes(EXTERNAL_WEIGHTS.tobytes())
    (tmp_path / "linked").symlink_to(model.parent, target_is_directory=True)
    check_external_data(tmp_path / "linked" / "model.onnx")


@pytest.mark.parametrize("location", ["missing.bin", "sub/missing.bin", "x" * 300, "sub", "loop"])
def test_what_is_not_a_file_is_named(tmp_path: Path, location: str) -> None:
    model = write_model(tmp_path, onnx_models.external_initializer(location))
    (tmp_path / "sub").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(LoadError, match=f"'{location[:200]}.*no such file") as refusal:
        check_external_data(model)
    assert str(tmp_path) not in str(refusal.value)


def test_a_device_is_not_a_weight_file(tmp_path: Path) -> None:
    model = write_model(tmp_path, onnx_models.external_initializer("pipe"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LoadError, match="no such file"):
        check_external_data(model)


@pytest.mark.parametrize(
    "damage",
    [
        lambda model: b"",
        lambda model: b"this is not protobuf at all",
        lambda model: b"\x00" * 64,
        lambda model: b"PK\x03\x04" + model,
        lambda model: model[: len(model) // 2],
        lambda model: model[:-1],
        lambda model: b"\x08\x08",  # well-formed, but without a graph
        lambda model: model + b"\x3b\x3c",  # a group
        lambda model: model + b"\xba\x80\x80\x80\x80\x00",  # a tag of six bytes
        lambda model: model + b"\xba\x80\x80\x80\x10\x00",  # a tag beyond 32 bits
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    model = write_model(tmp_path, damage(onnx_models.external_initializer("weights.bin")))
    with pytest.raises(LoadError, match=r"model\.onnx is not a valid ONNX model"):
        check_external_data(model)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(LoadError, match="cannot read model: Is a directory"):
        check_external_data(tmp_path / "model")


def test_a_field_written_twice_hides_nothing() -> None:
    """Protobuf merges repeated occurrences of a singular message, so each of them counts."""
    harmless, hidden = onnx_models.identity(), onnx_models.external_initializer("../x")
    assert list(external_locations(harmless + hidden)) == ["../x"]
    assert list(external_locations(hidden + harmless)) == ["../x"]


def test_the_last_value_of_an_entry_counts_as_it_does_for_protobuf() -> None:
    model = onnx_models.external_initializer("AAAA")
    entry = b"\x0a\x08location\x12\x04AAAA"
    assert entry in model
    start = model.index(entry)
    assert model[start - 1] == len(entry)
    swapped = b"\x12\x04AAAA\x0a\x08location"
    assert list(external_locations(model.replace(entry, swapped))) == ["AAAA"]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_end_in_an_answer_or_a_value_error(data: bytes) -> None:
    try:
        list(external_locations(data))
    except ValueError:
        return
    assert data


@given(st.data())
def test_damage_anywhere_ends_in_an_answer_or_a_value_error(data: st.DataObject) -> None:
    model = bytearray(onnx_models.external_in_subgraph("weights.bin"))
    for _ in range(data.draw(st.integers(1, 4))):
        model[data.draw(st.integers(0, len(model) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = set(external_locations(bytes(model)))
    except ValueError:
        return
    assert all(isinstance(location, str) for location in found)
