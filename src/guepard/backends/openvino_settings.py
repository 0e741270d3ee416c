"""How a model is compiled by OpenVINO: precision, streams and threads, and what the operator adds.

Sources: OpenVINO, "CPU Device" (execution precision, streams, threads) and openvino/runtime/properties.hpp.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openvino
import openvino.opset13

from guepard.backends.base import ModelSource
from guepard.core.engine_options import PRECISIONS, Precision
from guepard.core.errors import LoadError

DEVICE = "CPU"

_CAPABILITIES: Mapping[Precision, str] = {"f32": "FP32", "bf16": "BF16", "f16": "FP16"}

_OURS = {
    "INFERENCE_PRECISION_HINT": "precision",
    "NUM_STREAMS": "openvino.num_streams",
    "INFERENCE_NUM_THREADS": "openvino.inference_num_threads",
    "CACHE_DIR": "openvino.cache",
}
_REFUSED = {
    "CPU_DENORMALS_OPTIMIZATION": "every thread that runs a model would flush small numbers to zero from then on",
}


def device_precisions(core: Any) -> tuple[Precision, ...]:
    """What the device computes in by itself, the fastest first."""
    able = set(core.get_property(DEVICE, "OPTIMIZATION_CAPABILITIES"))
    # Of the short ones bf16 comes first: it has the exponent of f32, so that no value is out of range.
    order: Sequence[Precision] = ("bf16", "f16", "f32")
    return tuple(precision for precision in order if _CAPABILITIES[precision] in able)


def chosen_precision(core: Any, asked: Precision | None) -> Precision:
    """`asked`, or full precision: OpenVINO by itself takes a shorter one without a word.

    Raises: LoadError for one that the device would emulate or replace.
    """
    precision = asked or "f32"
    able = device_precisions(core)
    if precision not in able:
        known = ", ".join(each for each in PRECISIONS if each in able)
        raise LoadError(f"precision: this CPU does not compute in {precision}; use one of {known}")
    return precision


def compile_properties(core: Any, source: ModelSource, threads: int, precision: Precision) -> dict[str, Any]:
    """The properties of a compiled model whose executions use `threads` threads each.

    As many streams as fit side by side into the CPU budget, unless the operator says otherwise; and never one stream of
    one thread, where OpenVINO forgets failures: see `forgets_failures`. A second stream costs nothing while nobody
    runs on it.
    Raises: LoadError that names a property which the device does not have, or which has an option of its own.
    """
    options = source.policy.engines.openvino
    streams = options.num_streams or max(1 if threads > 1 else 2, source.cpus // threads)
    properties: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": precision,
        # Executions side by side are our instances, and each thread of them is one of the budget's.
        "NUM_STREAMS": streams,
        "INFERENCE_NUM_THREADS": options.inference_num_threads or streams * threads,
        "ENABLE_CPU_PINNING": False,  # a quota moves threads between CPUs, and other models have theirs
        "EXECUTION_MODE_HINT": "ACCURACY" if precision == "f32" else "PERFORMANCE",
    }
    supported = set(core.get_property(DEVICE, "SUPPORTED_PROPERTIES"))
    for name, value in options.properties.items():
        if name in _OURS:
            raise LoadError(f"openvino.properties: {name} has an option of its own; write {_OURS[name]}")
        if name in _REFUSED:
            raise LoadError(f"openvino.properties: {name} is not for a server: {_REFUSED[name]}; remove it")
        if name not in supported:
            raise LoadError(f"openvino.properties: the {DEVICE} device has no property {name}")
        properties[name] = value
    return properties


def forgets_failures(core: Any, properties: Mapping[str, Any]) -> bool:
    """Whether shapes that do not fit one another pass unseen, and the answer is that of the run before.

    OpenVINO 2026.4 does so with free shapes when a process may use one CPU only, or when all streams together have one
    thread. It is tried rather than known, with a model of two inputs. Cost: some 5 ms.
    """
    opset = openvino.opset13
    left, right = (opset.parameter([-1], np.float32) for _ in range(2))
    small = openvino.Model([opset.add(left, right)], [left, right], "probe")
    request = core.compile_model(small, DEVICE, dict(properties)).create_infer_request()
    for place, size in enumerate((2, 3)):
        request.set_input_tensor(place, openvino.Tensor(np.ones(size, np.float32)))
    try:
        request.infer()
    except RuntimeError:
        return False
    return True


def precision_of(compiled: Any) -> str:
    """What OpenVINO computes in, by its own word."""
    return str(compiled.get_property("INFERENCE_PRECISION_HINT").to_string())
