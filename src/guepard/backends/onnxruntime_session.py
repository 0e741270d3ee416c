"""How a session of ONNX Runtime is set up: the one place where its options are chosen.

Source: ONNX Runtime, onnxruntime_session_options_config_keys.h and "Thread management" of its performance pages.
"""

from typing import Any

import onnxruntime as ort

from guepard.backends.onnxruntime_arena import use_shared_arena
from guepard.core.model_config import Profile

_SILENT = 4  # severity FATAL: failures reach us as exceptions and are logged once, by us


def device_session_options(threads: int) -> Any:
    """Options of a session on a GPU. Its arenas are its own: those of the process would know no limit of a model."""
    return _session_options(threads)


def session_options(threads: int, profile: Profile) -> Any:
    """Options of a session whose executions use `threads` threads each, their caller's included."""
    options = _session_options(threads)
    if profile == "low-memory":
        options.enable_cpu_mem_arena = False
    else:
        use_shared_arena(options)
    return options


def _session_options(threads: int) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    # Plans of where a run's tensors will lie, kept for each combination of input shapes: no faster, and more memory.
    options.enable_mem_pattern = False
    # Spinning threads burn the CPU quota that decoding and other models need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options
