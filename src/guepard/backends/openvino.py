"""ONNX models and OpenVINO's own on OpenVINO's CPU device."""

import logging
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from guepard.backends.base import LoadedModel, ModelSource
from guepard.backends.extras import broken_extra, missing_extra
from guepard.backends.onnx_description import describe, model_file
from guepard.backends.onnx_external_data import check_external_data
from guepard.backends.onnx_signature import OnnxSignature, OnnxValue, read_signature
from guepard.core.engine_options import Precision
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription

try:
    import openvino

    from guepard.backends.openvino_cache import Compiled, CompiledModels
    from guepard.backends.openvino_errors import instead, load_error
    from guepard.backends.openvino_executor import OpenVinoExecutor
    from guepard.backends.openvino_settings import (
        DEVICE,
        chosen_precision,
        compile_properties,
        device_precisions,
        forgets_failures,
        precision_of,
    )
    from guepard.backends.openvino_values import computes_in_f64, find_value_rules
except (ImportError, OSError) as error:
    if isinstance(error, ModuleNotFoundError) and error.name == "openvino":
        raise missing_extra("openvino", "the engine OpenVINO") from None
    logging.getLogger(__name__).error("importing OpenVINO failed", exc_info=error)
    raise broken_extra("openvino", "the engine OpenVINO", error) from None

log = logging.getLogger(__name__)

IR_FILE = "model.xml"
_HEAD_BYTES = 64
_WIDE_BYTES = 1 << 30
"""Of weights, which a model compiled for wide executions has a second time."""

# OpenVINO's element types, in the words of ONNX Runtime that `describe` reads.
_TYPES = {
    "boolean": "tensor(bool)",
    "u8": "tensor(uint8)",
    "u16": "tensor(uint16)",
    "u32": "tensor(uint32)",
    "u64": "tensor(uint64)",
    "i8": "tensor(int8)",
    "i16": "tensor(int16)",
    "i32": "tensor(int32)",
    "i64": "tensor(int64)",
    "f16": "tensor(float16)",
    "f32": "tensor(float)",
    "f64": "tensor(double)",
    "bf16": "tensor(bfloat16)",
    "string": "tensor(string)",
}


class OpenVinoBackend:
    """Loads a `.onnx` file or a folder with `model.onnx`, and OpenVINO's own `.xml` with its `.bin` beside it."""

    name = "openvino"

    def native_precisions(self) -> tuple[Precision, ...]:
        """What this machine's CPU computes in by itself, the fastest first."""
        return device_precisions(openvino.Core())

    def load(self, source: ModelSource) -> "OpenVinoModel":
        path = _file(source.path)
        files = (path, *_others(path))
        core = openvino.Core()
        precision = chosen_precision(core, source.precision)
        return OpenVinoModel(source, core, files, precision)


class OpenVinoModel(LoadedModel):
    """One compiled model, shared by all executors, and perhaps one more for wide executions.

    The first of `files` is the model's own, which is read only if something is to be compiled.
    """

    def __init__(self, source: ModelSource, core: Any, files: Sequence[Path], precision: Precision) -> None:
        started_ns = perf_counter_ns()
        self._source = source
        self._core = core
        self._path = files[0]
        self._read_model: tuple[Any, OnnxSignature] | None = None
        self._precision = precision
        self._size_bytes = sum(file.stat().st_size for file in files)
        cache = source.cache if source.profile == "standard" and source.policy.engines.openvino.cache else None
        self._kept = CompiledModels(source.name, files, cache)
        self._compiled = self._compile(source.threads)
        compiled = self._compiled.model
        signature = self._compiled.signature
        self._check_failures(signature)
        facts = {
            "version": openvino.__version__.partition("-")[0],
            "device": str(core.get_property(DEVICE, "FULL_DEVICE_NAME")),
            "num_streams": int(compiled.get_property("NUM_STREAMS")),
            "inference_num_threads": int(compiled.get_property("INFERENCE_NUM_THREADS")),
            "load_ms": (perf_counter_ns() - started_ns) // 1_000_000,
            "from_cache": self._compiled.memory is not None,
        }
        self.description: ModelDescription = describe(
            source, OpenVinoBackend.name, precision_of(compiled), *signature, facts
        )

    def executor(self) -> OpenVinoExecutor:
        return self._executor(self._compiled)

    def wide_executor(self) -> OpenVinoExecutor | None:
        """None where its weights would take memory a second time that is worth a thought."""
        source = self._source
        if source.cpus <= source.threads or self._size_bytes > min(_WIDE_BYTES, source.memory_bytes // 16):
            return None
        return self._executor(self._compile(source.cpus))

    def close(self) -> None:
        self._read_model = None
        self._compiled = self._compiled._replace(model=None, memory=None)
        self._kept.release()

    def _executor(self, compiled: Compiled) -> OpenVinoExecutor:
        return OpenVinoExecutor(compiled.model, self._source.name, self.description, compiled.rules, compiled.memory)

    def _check_failures(self, signature: OnnxSignature) -> None:
        """Raises: LoadError where a request could be answered with what another one asked for."""
        first = 0 if self._source.policy.max_batch_size == 0 else 1
        free = [value for value in signature.inputs for dim in (value.shape or ())[first:] if not isinstance(dim, int)]
        if not free:
            return
        properties = compile_properties(self._core, self._source, self._source.threads, self._precision)
        if forgets_failures(self._core, properties):
            raise LoadError(
                f"input {free[0].name!r} has free dimensions, and with a single CPU OpenVINO does not notice shapes "
                f"that do not fit; {instead(self._path)}give the server a second CPU"
            )

    def _compile(self, threads: int) -> Compiled:
        properties = compile_properties(self._core, self._source, threads, self._precision)

        def compile_model() -> Compiled:
            model, signature = self._read()
            compiled = self._core.compile_model(model, DEVICE, properties)
            return Compiled(compiled, signature, find_value_rules(model))

        try:
            return self._kept.get(self._core, properties, compile_model)
        except LoadError:
            raise
        except Exception as error:
            log.error("model %s: %s", self._source.name, error)
            raise load_error(error, self._path) from None

    def _read(self) -> tuple[Any, OnnxSignature]:
        """The model as OpenVINO reads it. Raises: LoadError for what its CPU device would refuse or answer wrongly."""
        if self._read_model is None:
            model = self._core.read_model(self._path)
            signature = _signature(self._path, model)
            for value in (*signature.inputs, *signature.outputs):
                if value.type == _TYPES["string"]:
                    raise LoadError(
                        f"tensor {value.name!r} is text, which OpenVINO's CPU device does not take; "
                        f"{instead(self._path)}take it out of the model"
                    )
            double = computes_in_f64(model)
            if double is not None:
                raise LoadError(
                    f"{double!r} is FP64, and OpenVINO's CPU device computes in FP32 at most; "
                    f"{instead(self._path)}cast it to FP32"
                )
            self._read_model = model, signature
        return self._read_model


def _file(path: Path) -> Path:
    if path.is_dir() and not (path / "model.onnx").exists() and (path / IR_FILE).is_file():
        return path / IR_FILE
    return path if path.suffix == ".xml" and path.is_file() else model_file(path)


def _others(path: Path) -> tuple[Path, ...]:
    """The files with weights beside `path`. Raises: LoadError."""
    if path.suffix != ".xml":
        return check_external_data(path)
    weights = path.with_suffix(".bin")
    if not weights.is_file():
        raise LoadError(f"there is no file {weights.name} beside {path.name}, and that holds its weights")
    with path.open("rb") as file:  # OpenVINO would take it for a model of any framework that it knows
        if not file.read(_HEAD_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            raise LoadError(
                f"{path.name} is not XML, as a model of OpenVINO is: the file is damaged or of another format"
            )
    return (weights,)


def _signature(path: Path, model: Any) -> OnnxSignature:
    """By the ONNX file itself, whose order, names and symbolic dimensions hold; OpenVINO knows what it leaves out."""
    inputs, outputs = ([_value(port) for port in ports] for ports in (model.inputs, model.outputs))
    if path.suffix == ".xml":
        return OnnxSignature(tuple(inputs), tuple(outputs), {})
    told = read_signature(path)
    for role, values, ports in (("input", told.inputs, inputs), ("output", told.outputs, outputs)):
        if len(values) != len(ports):
            raise LoadError(
                f"OpenVINO finds {len(ports)} {role}s in {path.name}, which has {len(values)}; use engine: onnxruntime"
            )
    return OnnxSignature(
        tuple(_filled(value, port) for value, port in zip(told.inputs, inputs, strict=True)),
        tuple(_filled(value, port) for value, port in zip(told.outputs, outputs, strict=True)),
        told.metadata,
    )


def _filled(told: OnnxValue, own: OnnxValue) -> OnnxValue:
    """`told` with the sizes that follow from the graph, as ONNX Runtime works them out too."""
    if told.shape is None or own.shape is None or len(told.shape) != len(own.shape):
        return told if told.shape is not None else told._replace(shape=own.shape)
    pairs = zip(told.shape, own.shape, strict=True)
    return told._replace(shape=[dim if isinstance(dim, int) or size is None else size for dim, size in pairs])


def _value(port: Any) -> OnnxValue:
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        dims: list[int | None] = []
    else:
        dims = [None if dim.is_dynamic else int(dim.get_length()) for dim in shape]
    names = port.get_names()
    name = port.get_any_name() if names else port.get_node().get_friendly_name()
    kind = port.get_element_type().get_type_name()
    return OnnxValue(name, _TYPES.get(kind, kind), dims)
