"""Where an ONNX file keeps its weights, found and checked before any engine opens a file that the model names.

An ONNX file may leave tensors in other files, named by `external_data` entries. Whoever made the model chose the names,
so they are data to be judged: only plain relative names that stay inside the model's folder pass. Engines check some of
this themselves, each version a little differently; here the rule is one and stands before all of them.

The file is memory-mapped and only the headers of protobuf fields are read, the bodies of weights are stepped over.
Every route by which a tensor can be part of a model is followed:

    ModelProto ─┬─ graph ─────────┬─ initializer, sparse_initializer ─ external_data {"location": "weights.bin"}
                ├─ functions ─┐   └─ node ─ attribute ─┬─ t, tensors, sparse_tensor(s) ─ external_data
                └─ training   └───── node ─ attribute  └─ g, graphs ─ (as graph)

Source: onnx.proto (field numbers), onnx/docs/ExternalData.md.
"""

import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path

from guepard.backends.protobuf_fields import Buffer, fields
from guepard.core.errors import LoadError

# Message -> {field number: message of that field}. Fields that cannot lead to a tensor are left out and skipped.
_FIELDS: dict[str, dict[int, str]] = {
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Function": {7: "Node", 11: "Attribute"},
    "Graph": {1: "Node", 5: "Tensor", 15: "SparseTensor"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "SparseTensor", 23: "SparseTensor"},
    "SparseTensor": {1: "Tensor", 2: "Tensor"},
    "Tensor": {13: "Entry"},
}
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_LOCATION = b"location"

# A drive letter or a URL scheme. "onnx::MatMul_7" is neither: exporters do name files after tensors.
_FOREIGN_ROOT = re.compile(r"[A-Za-z]:|[A-Za-z][\w+.-]*:/")
# ONNX Runtime reads the offset of an entry with this location as an address in its own memory.
_MEMORY_ADDRESS = "*/_ORT_MEM_ADDR_/*"


def check_external_data(model: Path) -> tuple[Path, ...]:
    """Refuse `model` unless every file that it names is a file inside the model's folder. Returns these files.

    Raises: LoadError for a name that leaves the folder (also through a symbolic link), for a file that is not there,
        and for a model that is not well-formed protobuf.
    Cost: proportional to the number of nodes and tensors, not to the size of the weights.
    """
    try:
        locations = _locations_in_file(model)
    except OSError as error:
        raise LoadError(f"cannot read {model.name}: {error.strerror}") from None
    except ValueError:
        raise LoadError(f"{model.name} is not a valid ONNX model: the file is damaged or of another format") from None
    folder = os.path.realpath(model.parent)
    return tuple(Path(_check_location(location, folder)) for location in sorted(locations))


def external_locations(data: Buffer) -> Iterator[str]:
    """The `location` of every external tensor in a serialised ModelProto, in no particular order.

    Raises: ValueError when the bytes are not a ModelProto with a graph.
    """
    has_graph = False
    pending = [("Model", 0, len(data))]
    while pending:
        message, start, end = pending.pop()
        if message == "Entry":
            entry = {number: data[first:last] for number, first, last in fields(data, start, end)}
            if entry.get(_ENTRY_KEY) == _LOCATION:
                yield entry.get(_ENTRY_VALUE, b"").decode()
            continue
        # Trees and constants are attributes with up to millions of one-number fields: look before walking through them.
        if message == "Attribute" and data.find(_LOCATION, start, end) < 0:
            continue
        children = _FIELDS[message]
        for number, first, last in fields(data, start, end):
            if number in children:
                pending.append((children[number], first, last))
        has_graph = has_graph or message == "Graph"
    if not has_graph:
        raise ValueError("no graph")


def _locations_in_file(model: Path) -> set[str]:
    with model.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ValueError("empty file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return set(external_locations(data))


def _check_location(location: str, folder: str) -> str:
    """The file that `location` means."""
    shown = repr(location if len(location) <= 200 else location[:200] + "…")
    if not _is_plain_relative(location):
        raise LoadError(
            f"the model keeps weights in {shown}, which is not a plain path inside its folder; "
            "save the weights beside the model and name them by a relative path without '..'"
        )
    target = os.path.realpath(os.path.join(folder, location))
    if os.path.commonpath((folder, target)) != folder:
        raise LoadError(f"the model keeps weights in {shown}, a link that leads out of its folder; copy the file there")
    if not os.path.isfile(target):
        raise LoadError(f"the model keeps weights in {shown}, and there is no such file in its folder")
    return target


def _is_plain_relative(location: str) -> bool:
    if not location or location.startswith("/") or "\\" in location or "\0" in location:
        return False
    if location == _MEMORY_ADDRESS or _FOREIGN_ROOT.match(location):
        return False
    return ".." not in location.split("/")
