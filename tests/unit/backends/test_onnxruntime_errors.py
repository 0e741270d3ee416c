"""ONNX Runtime's texts as clients see them. The originals were copied from versions 1.20 and 1.32."""

from pathlib import Path

import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from guepard.backends.onnxruntime_errors import load_error, run_error
from guepard.core.errors import InputError, ModelError

GATHER = (
    "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Non-zero status code returned while running Gather node. "
    "Name:'/embeddings/Gather' Status Message: indices element out of data bounds, idx=99 must be within the "
    "inclusive range [-10,9]"
)
BROADCAST = (
    "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Add node. Name:'' Status Message: "
    "/onnxruntime_src/onnxruntime/core/providers/cpu/math/element_wise_ops.h:563 void "
    "onnxruntime::BroadcastIterator::Init(ptrdiff_t, ptrdiff_t) axis == 1 || axis == largest was false. Attempting to "
    "broadcast an axis by a dimension other than 1. 3 by 4\n"
)
MATMUL = (
    "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running MatMul node. Name:'' Status Message: "
    "matmul_helper.h:59 Compute MatMul dimension mismatch"
)
RESHAPE = (
    "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Reshape node. Name:'' "
    "Status Message: /onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:45 "
    "onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, onnxruntime::TensorShapeVector&, bool) "
    "input_shape_size == size was false. The input tensor cannot be reshaped to the requested shape. "
    "Input shape:{2,3}, requested shape:{4,2}\n"
)
MEMORY = (
    "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running MatMul node. Name:'' Status Message: "
    "/onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:360 void* onnxruntime::BFCArena::AllocateRawInternal("
    "size_t, bool, onnxruntime::Stream*) Failed to allocate memory for requested buffer of size 3200000000000\n"
)
RANK = (
    "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid rank for input: x Got: 1 Expected: 2 "
    "Please fix either the inputs/outputs or the model."
)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            InvalidArgument(GATHER),
            "model 'm' refuses the input: indices element out of data bounds, idx=99 must be within the inclusive "
            "range [-10,9]",
        ),
        (InvalidArgument(RANK), "model 'm' refuses the input: Invalid rank for input: x Got: 1 Expected: 2"),
        (
            Fail(BROADCAST),
            "model 'm' cannot take inputs of these shapes: Attempting to broadcast an axis by a dimension other than "
            "1. 3 by 4",
        ),
        (Fail(MATMUL), "model 'm' cannot take inputs of these shapes: MatMul dimension mismatch"),
        (
            RuntimeException(RESHAPE),
            "model 'm' cannot take inputs of these shapes: The input tensor cannot be reshaped to the requested shape. "
            "Input shape:{2,3}, requested shape:{4,2}",
        ),
        (
            InvalidArgument("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : onnxruntime::Foo in /srv/models/m"),
            "model 'm' refuses the input: a value or a shape is outside of what its operators accept",
        ),
    ],
)
def test_the_caller_s_mistakes_are_explained(error: Exception, message: str) -> None:
    failure = run_error(error, "m", shapes_are_free=True)
    assert isinstance(failure, InputError)
    assert failure.message == message


@pytest.mark.parametrize("text", [BROADCAST, MATMUL, RESHAPE])
def test_shapes_that_the_caller_could_not_choose_are_the_model_s(text: str) -> None:
    assert isinstance(run_error(Fail(text), "m", shapes_are_free=False), ModelError)


@pytest.mark.parametrize("error", [Fail(MEMORY), MemoryError(), ValueError("/srv/secret")])
def test_everything_else_is_the_model_s_and_is_not_told(error: Exception) -> None:
    failure = run_error(error, "m", shapes_are_free=True)
    assert isinstance(failure, ModelError)
    assert failure.message == "model 'm' failed in its engine; the server's log says why"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            Fail(
                "[ONNXRuntimeError] : 1 : FAIL : Load model from /srv/my models/m/model.onnx failed:"
                "/onnxruntime_src/onnxruntime/core/graph/model_load_utils.h:46 void onnxruntime::model_load_utils::"
                "ValidateOpsetForDomain(const std::unordered_map<std::__cxx11::basic_string<char>, int>&, bool) ONNX "
                "Runtime only *guarantees* support for models stamped with official released onnx opset versions."
            ),
            "ONNX Runtime refuses model.onnx: ONNX Runtime only *guarantees* support for models stamped with official "
            "released onnx opset versions.",
        ),
        (
            Fail("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Cast(21)"),
            "model.onnx uses an operator that this ONNX Runtime does not have, and libraries of custom operators are "
            "never loaded; export the model with standard operators: Could not find an implementation for Cast(21)",
        ),
        (
            Fail('[ONNXRuntimeError] : 1 : FAIL : External data path does not exist: "/srv/my models/m/weights.bin"'),
            'ONNX Runtime refuses model.onnx: External data path does not exist: "weights.bin"',
        ),
    ],
)
def test_reasons_for_not_loading_hold_no_server_paths(error: Exception, text: str) -> None:
    assert str(load_error(error, Path("/srv/my models/m/model.onnx"))) == text
