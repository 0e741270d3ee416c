"""A user's samples as calls of a model, checked against what the model says of its inputs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from guepard.bench.targets.model_metadata import InputMetadata, ModelMetadata
from guepard.bench.targets.sample_files import (
    ARRAY_SUFFIXES,
    JSON_SUFFIXES,
    TEXT_SUFFIX,
    Sample,
    arrays,
    json_samples,
    text_lines,
)
from guepard.bench.targets.tensor_call import TensorCall
from guepard.core.datatypes import DATATYPES
from guepard.core.errors import ConfigurationError, GuepardError
from guepard.core.tensor import Array, Tensor
from guepard.protocols import brain_float, oip_json

SUFFIXES = (*JSON_SUFFIXES, *ARRAY_SUFFIXES, TEXT_SUFFIX)


def read_calls(path: Path, model: ModelMetadata, batch: int, notes: list[str]) -> Iterator[TensorCall]:
    """The samples of one file that is not JSON, in batches of `batch` rows. What was changed goes into `notes`.

    Raises: ConfigurationError that names sample, input and remedy.
    """
    if path.suffix in ARRAY_SUFFIXES:
        named = arrays(path)
        if "" in named:
            named = {_only_input(path, model).name: named[""]}
        yield from _rows(str(path), named, model, batch, notes)
    elif path.suffix == TEXT_SUFFIX:
        one = _only_input(path, model)
        if one.datatype != "BYTES":
            raise ConfigurationError(
                f"{path}: lines of text are for BYTES inputs, input {one.name!r} of model {model.name!r} is "
                f"{one.datatype}; give an .npz, .npy or .json file"
            )
        lines = text_lines(path)
        array = np.empty(len(lines), object)
        array[:] = [line.encode() for line in lines]
        inner = (1,) * (len(one.shape) - 1) if one.has_batch else one.shape
        yield from _rows(str(path), {one.name: array.reshape(-1, *inner)}, model, batch, notes)
    else:
        raise ConfigurationError(
            f"{path}: {path.suffix or 'a file without ending'} is not read as tensors; use {', '.join(SUFFIXES)}"
        )


def oip_calls(path: Path, model: ModelMetadata | None) -> Iterator[TensorCall]:
    """The requests of OIP in one file of JSON. Raises: ConfigurationError."""
    for sample in json_samples(path):
        yield oip_call(sample, model)


def oip_call(sample: Sample, model: ModelMetadata | None) -> TensorCall:
    """One request of OIP in JSON, read as the server would read it; without `model` names and shapes stay unchecked.

    Raises: ConfigurationError.
    """
    try:
        wire = oip_json.decode(sample.content)
        tensors = [oip_json.tensor(one, f"inputs[{index}]") for index, one in enumerate(wire.inputs)]
    except GuepardError as error:
        raise ConfigurationError(f"{sample.where}: {error.message}") from None
    if not tensors:
        raise ConfigurationError(f"{sample.where}: inputs is empty; a request needs the model's inputs")
    if model is not None:
        for tensor in tensors:
            check_tensor(sample.where, tensor.name, tensor.datatype, tensor.array.shape, model)
    outputs = [one.name for one in wire.outputs or ()]
    return TensorCall(sample.where, tensors, wire.parameters or {}, outputs)


def check_tensor(where: str, name: str, datatype: str, shape: Sequence[int], model: ModelMetadata) -> None:
    """Raises: ConfigurationError unless the model takes such a tensor."""
    one = known_input(where, name, model)
    if datatype != one.datatype:
        raise ConfigurationError(
            f"{where}: input {name!r} is {datatype}, model {model.name!r} takes {one.datatype}; convert the sample"
        )
    if not one.fits(shape):
        raise ConfigurationError(
            f"{where}: input {name!r} has the shape {list(shape)}, model {model.name!r} takes {list(one.shape)} "
            "(-1 is free); correct the sample"
        )


def known_input(where: str, name: str, model: ModelMetadata) -> InputMetadata:
    one = model.input(name)
    if one is None:
        names = ", ".join(repr(one.name) for one in model.inputs)
        raise ConfigurationError(f"{where}: {name!r} is no input of model {model.name!r}, which has {names}; rename it")
    return one


def _only_input(path: Path, model: ModelMetadata) -> InputMetadata:
    if len(model.inputs) > 1:
        names = ", ".join(repr(one.name) for one in model.inputs)
        raise ConfigurationError(
            f"{path}: is the data of one input, model {model.name!r} has {names}; "
            "give an .npz file with arrays of these names"
        )
    return model.inputs[0]


def _rows(
    where: str, named: Mapping[str, Array], model: ModelMetadata, batch: int, notes: list[str]
) -> Iterator[TensorCall]:
    """Rows lie along the first dimension of every array. Of an input without a batch each is a request's whole."""
    if not named:
        raise ConfigurationError(f"{where}: holds no arrays")
    whole: dict[str, Array] = {}
    counts: dict[str, int] = {}
    for name, array in named.items():
        one = known_input(where, name, model)
        if not one.has_batch and array.ndim == len(one.shape):
            array = array[np.newaxis]
        if array.ndim == 0:
            raise ConfigurationError(f"{where}: array {name!r} has no rows; its first dimension counts them")
        shape = (batch, *array.shape[1:]) if one.has_batch else array.shape[1:]
        check_tensor(where, name, one.datatype, shape, model)
        whole[name] = _converted(where, name, array, one.datatype, notes)
        counts[name] = array.shape[0]
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        raise ConfigurationError(f"{where}: the arrays have different numbers of rows ({told}); make them equal")
    rows = next(iter(counts.values()))
    batched = any(known_input(where, name, model).has_batch for name in whole)
    step = batch if batched else 1
    if rows < step:
        raise ConfigurationError(f"{where}: {rows} rows are fewer than --batch {batch}; lower it, or give more rows")
    if rows % step:
        notes.append(f"{where}: the last {rows % step} rows are left out, they fill no batch of {batch}")
    for start in range(0, rows - step + 1, step):
        tensors = []
        for name, array in whole.items():
            one = known_input(where, name, model)
            part = array[start : start + step] if one.has_batch else array[start]
            tensors.append(Tensor(name, one.datatype, part))
        yield TensorCall(f"{where} row {start}", tensors)


def _converted(where: str, name: str, array: Array, datatype: str, notes: list[str]) -> Array:
    """The array as the input's datatype holds it, if no value is lost but decimals. Raises: ConfigurationError."""
    entry = DATATYPES[datatype]
    said = f"{where}: array {name!r} is {array.dtype}, input {name!r} is {datatype}"
    if entry.kind == "bytes":
        if array.dtype.kind not in "SUO":
            raise ConfigurationError(f"{said}; save it as an array of str or bytes")
        texts = np.empty(array.shape, object)
        texts.reshape(-1)[:] = [one.encode() if isinstance(one, str) else one for one in array.reshape(-1).tolist()]
        return texts
    if array.dtype == entry.dtype and datatype != "BF16":
        return array
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and entry.kind != "float"):
        raise ConfigurationError(f"{said}; convert it with .astype({entry.dtype.name!r})")
    if array.dtype.kind == "b" or entry.kind == "bool":
        raise ConfigurationError(
            f"{said}; convert it with .astype({'bool' if entry.kind == 'bool' else entry.dtype.name!r})"
        )
    with np.errstate(over="ignore"):
        wide = array.astype(np.float32) if datatype == "BF16" else array
        changed = brain_float.from_float32(wide) if datatype == "BF16" else array.astype(entry.dtype)
    back = brain_float.to_float32(changed) if datatype == "BF16" else changed
    lost = np.isinf(back) & np.isfinite(array) if entry.kind == "float" else changed != array
    if bool(np.any(lost)):
        raise ConfigurationError(f"{said}, and {array[lost].flat[0]} does not fit; correct the sample")
    notes.append(f"{where}: array {name!r} is converted from {array.dtype} to {datatype}")
    return changed
