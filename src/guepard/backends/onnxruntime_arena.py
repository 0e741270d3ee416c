"""The memory that all sessions of ONNX Runtime in this process work in, and how it is given back.

A session's own arena keeps the most it ever needed, so that with several models the peaks add up. Here they share one,
which grows by what is asked for and no more. What lies free in it goes back to the heap when any session of the arena
ends a run that was told so; one that does nothing else is kept for that.

Source: ONNX Runtime, `CreateAndRegisterAllocator` and `memory.enable_memory_arena_shrinkage` of its C API.
"""

import functools
from typing import Any

import numpy as np
import onnxruntime as ort

_AS_ASKED_FOR = 1  # kSameAsRequested
_DEFAULTS = {"max_mem": 0, "initial_chunk_size_bytes": -1, "max_dead_bytes_per_chunk": -1}

# A ModelProto: y = Identity(x), FP32 [1].
_SMALLEST_MODEL = (
    b"\x08\x07"  # ir_version 7
    b"\x3a\x37"  # graph
    b"\x0a\x10\x0a\x01x\x12\x01y\x22\x08Identity"  # node
    b"\x12\x01g"  # name
    b"\x5a\x0f\x0a\x01x\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x01"  # input
    b"\x62\x0f\x0a\x01y\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x01"  # output
    b"\x42\x04\x0a\x00\x10\x0d"  # opset 13
)


def use_shared_arena(options: Any) -> None:
    """Have the session that gets `options` allocate in the arena of the process."""
    _register()
    options.add_session_config_entry("session.use_env_allocators", "1")


def shrink_shared_arena() -> None:
    """Give what lies free in the arena back to the heap. Sessions may run meanwhile.

    Cost: some 20 µs and the freeing. Whoever needs the memory next pays for fresh pages.
    """
    options = ort.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    _shrinker().run(None, {"x": np.zeros(1, np.float32)}, options)


@functools.cache
def _register() -> None:
    place = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    arena = ort.OrtArenaCfg({**_DEFAULTS, "arena_extend_strategy": _AS_ASKED_FOR})
    ort.create_and_register_allocator(place, arena)


@functools.cache
def _shrinker() -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    use_shared_arena(options)
    return ort.InferenceSession(_SMALLEST_MODEL, options, providers=["CPUExecutionProvider"])
