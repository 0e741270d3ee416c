"""Small ONNX models for tests, built from operators and never committed as files.

Every builder returns the serialised model; `write_model` puts one where a backend looks for it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8

Dims = Sequence[int | str | None]

ONNX_TYPES: dict[str, int] = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16,
    "BYTES": TensorProto.STRING,
}


def write_model(path: Path, model: bytes) -> Path:
    """Write `model` to `path`, or to `path/model.onnx` when `path` has no `.onnx` ending, and return the file."""
    file = path if path.suffix == ".onnx" else path / "model.onnx"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(model)
    return file


def tensor(name: str, datatype: str, dims: Dims | None) -> Any:
    """The declaration of one input or output; `dims` None leaves even the rank unknown."""
    return helper.make_tensor_value_info(name, ONNX_TYPES[datatype], dims)


def build(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: Mapping[str, NDArray[Any]] | None = None,
    *,
    initializers: Sequence[Any] = (),
    opset: int = OPSET,
    ir_version: int = IR_VERSION,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    constants = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, [*constants, *initializers])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    helper.set_model_props(model, dict(metadata or {}))
    return _serialised(model)


def identity(datatype: str = "FP32", dims: Dims = ("n", 4)) -> bytes:
    """y = x, for any datatype and shape."""
    return build(
        [helper.make_node("Identity", ["x"], ["y"])], [tensor("x", datatype, dims)], [tensor("y", datatype, dims)]
    )


def mlp() -> bytes:
    """Probabilities of 2 classes from 30 features through 32 hidden units. Input `x` [n, 30], output `y` [n, 2]."""
    random = np.random.default_rng(0)
    weights: dict[str, NDArray[Any]] = {
        "w1": random.normal(size=(30, 32)).astype(np.float32) / 5,
        "b1": np.zeros(32, np.float32),
        "w2": random.normal(size=(32, 2)).astype(np.float32) / 5,
        "b2": np.zeros(2, np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["y"], axis=1),
    ]
    return build(nodes, [tensor("x", "FP32", ["n", 30])], [tensor("y", "FP32", ["n", 2])], weights)


def half_mlp() -> bytes:
    """y = relu(x w) in FP16. Input `x` [n, 64], output `y` [n, 64]."""
    weights: dict[str, NDArray[Any]] = {"w": np.random.default_rng(0).normal(size=(64, 64)).astype(np.float16) / 8}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["hidden"]), helper.make_node("Relu", ["hidden"], ["y"])]
    return build(nodes, [tensor("x", "FP16", ["n", 64])], [tensor("y", "FP16", ["n", 64])], weights)


def add(datatype: str = "FP32", dims: Dims = ("n", 4)) -> bytes:
    """y = a + b. With free dimensions, shapes that do not fit one another fail inside the model."""
    node = helper.make_node("Add", ["a", "b"], ["y"])
    return build([node], [tensor("a", datatype, dims), tensor("b", datatype, dims)], [tensor("y", datatype, dims)])


def double(width: int = 4) -> bytes:
    """y = x + x."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    return build([node], [tensor("x", "FP32", ["n", width])], [tensor("y", "FP32", ["n", width])])


def two_outputs(width: int = 4) -> bytes:
    """`total` INT64 [n] is the sum of the row of `x` INT64 [n, width]; `negated` is -x."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["total"], keepdims=0),
        helper.make_node("Neg", ["x"], ["negated"]),
    ]
    outputs = [tensor("total", "INT64", ["n"]), tensor("negated", "INT64", ["n", width])]
    return build(nodes, [tensor("x", "INT64", ["n", width])], outputs, {"axes": np.array([1])})


def batch_mixing(width: int = 4) -> bytes:
    """y = x - mean of x over the batch: rows depend on their neighbours, so batching this model is wrong."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "mean"], ["y"]),
    ]
    return build(nodes, [tensor("x", "FP32", ["n", width])], [tensor("y", "FP32", ["n", width])])


def running_sum(datatype: str = "FP32", width: int = 4) -> bytes:
    """y = sum of x over this row and those before it, as a model whose first dimension is time has it."""
    node = helper.make_node("CumSum", ["x", "axis"], ["y"])
    inputs, outputs = [tensor("x", datatype, ["time", width])], [tensor("y", datatype, ["time", width])]
    return build([node], inputs, outputs, {"axis": np.array(0)})


def times_batch_maximum(datatype: str = "FP32", width: int = 4) -> bytes:
    """y = x · maximum of x over the batch."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["maximum"], axes=[0], keepdims=1),
        helper.make_node("Mul", ["x", "maximum"], ["y"]),
    ]
    return build(nodes, [tensor("x", datatype, ["n", width])], [tensor("y", datatype, ["n", width])])


def fixed_batch(width: int = 4) -> bytes:
    """y = x + x where the exporter fixed the batch dimension at 1."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    return build([node], [tensor("x", "FP32", [1, width])], [tensor("y", "FP32", [1, width])])


def hidden_fixed_batch(width: int = 4) -> bytes:
    """y = x through a reshape to [1, width]: the declared batch dimension is free, the inner one is not."""
    nodes = [
        helper.make_node("Shape", ["x"], ["original"]),
        helper.make_node("Reshape", ["x", "fixed"], ["inner"]),
        helper.make_node("Reshape", ["inner", "original"], ["y"]),
    ]
    weights = {"fixed": np.array([1, width])}
    return build(nodes, [tensor("x", "FP32", ["n", width])], [tensor("y", "FP32", ["n", width])], weights)


def lookup(size: int = 10, width: int = 4) -> bytes:
    """Row ids[i] of a table whose row k holds k. An id outside of ±`size` is the caller's mistake."""
    table = np.repeat(np.arange(size, dtype=np.float32)[:, None], width, axis=1)
    node = helper.make_node("Gather", ["table", "ids"], ["y"])
    return build([node], [tensor("ids", "INT64", ["n"])], [tensor("y", "FP32", ["n", width])], {"table": table})


def masked_mean(vocabulary: int = 1000, width: int = 8) -> bytes:
    """A sequence model: the mean embedding of the tokens whose mask is 1.

    Inputs `ids` and `mask` INT64 [n, length], output `y` FP32 [n, width]. Padding with mask 0 changes nothing.
    """
    table = np.random.default_rng(1).normal(size=(vocabulary, width)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["embedded"]),
        helper.make_node("Cast", ["mask"], ["weight"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["weight", "last"], ["weight3"]),
        helper.make_node("Mul", ["embedded", "weight3"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "length_axis"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["weight", "length_axis"], ["count"], keepdims=1),
        helper.make_node("Div", ["sum", "count"], ["y"]),
    ]
    inputs = [tensor("ids", "INT64", ["n", "length"]), tensor("mask", "INT64", ["n", "length"])]
    weights = {"table": table, "last": np.array([-1]), "length_axis": np.array([1])}
    return build(nodes, inputs, [tensor("y", "FP32", ["n", width])], weights)


def encoder(
    inputs: Sequence[str] = ("input_ids", "attention_mask"),
    sequence: str | None = "sequence",
    *,
    masked: bool = True,
    rank: int = 2,
    metadata: str | None = None,
) -> bytes:
    """A transformer as exporters name it, in little: `hidden` FP32 [n, sequence, 8], `embedding` FP32 [n, 8].

    Each token sees the mean of all tokens that the mask keeps, or of all tokens unless `masked`. `metadata` is written
    under the key `guepard.padding`. With `rank` 3 the inputs have an inner dimension of one name, too.
    """
    table = np.random.default_rng(2).normal(size=(100, 8)).astype(np.float32)
    mask = "flat1" if masked and len(inputs) > 1 else "ones"
    nodes = [
        *(helper.make_node("Reshape", [name, "two"], [f"flat{place}"]) for place, name in enumerate(inputs)),
        helper.make_node("Gather", ["table", "flat0"], ["embedded"]),
        helper.make_node("Mul", ["flat0", "zero"], ["zeros"]),
        helper.make_node("Add", ["zeros", "one"], ["ones"]),
        helper.make_node("Cast", [mask], ["weight"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["weight", "last"], ["weight3"]),
        helper.make_node("Mul", ["embedded", "weight3"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "length_axis"], ["sum"], keepdims=1),
        helper.make_node("ReduceSum", ["weight3", "length_axis"], ["count"], keepdims=1),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("Add", ["embedded", "mean"], ["hidden"]),
        helper.make_node("Squeeze", ["mean", "length_axis"], ["embedding"]),
    ]
    inner = ["inner"] * (rank - 2)
    declared = [tensor(name, "INT64", ["n", sequence, *inner]) for name in inputs]
    outputs = [tensor("hidden", "FP32", ["n", sequence, 8]), tensor("embedding", "FP32", ["n", 8])]
    weights = {
        "table": table,
        "two": np.array([0, -1]),
        "zero": np.array(0),
        "one": np.array(1),
        "last": np.array([-1]),
        "length_axis": np.array([1]),
    }
    return build(
        nodes, declared, outputs, weights, metadata=None if metadata is None else {"guepard.padding": metadata}
    )


def divide(width: int = 4) -> bytes:
    """y = x / x: NaN for every zero."""
    node = helper.make_node("Div", ["x", "x"], ["y"])
    return build([node], [tensor("x", "FP32", ["n", width])], [tensor("y", "FP32", ["n", width])])


def slow(steps: int = 2, size: int = 512) -> bytes:
    """y = x [n, 1], after `steps` products of size × size matrices: about 5 ms on one core, whatever the batch."""
    nodes = [
        # `x` enters the chain, so that it cannot be folded into a constant at load.
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["sum", "zero"], ["nothing"]),
        helper.make_node("Add", ["eye", "nothing"], ["product0"]),
        *(helper.make_node("MatMul", [f"product{k}", "eye"], [f"product{k + 1}"]) for k in range(steps)),
        helper.make_node("ReduceSum", [f"product{steps}"], ["trace"], keepdims=0),
        helper.make_node("Sub", ["trace", "size"], ["error"]),
        helper.make_node("Add", ["x", "error"], ["y"]),
    ]
    weights = {
        "eye": np.eye(size, dtype=np.float32),
        "zero": np.array(0, np.float32),
        "size": np.array(size, np.float32),
    }
    return build(nodes, [tensor("x", "FP32", ["n", 1])], [tensor("y", "FP32", ["n", 1])], weights)


def endless(size: int = 640) -> bytes:
    """y = x, INT64 [1]: for 0 after one product of size × size matrices, about 10 ms, and for others after billions."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["before", "eye"], ["after"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [tensor("i", "INT64", []), tensor("go", "BOOL", []), tensor("before", "FP32", [size, size])],
        [tensor("on", "BOOL", []), tensor("after", "FP32", [size, size])],
    )
    nodes = [
        helper.make_node("Mul", ["x", "many"], ["more"]),
        helper.make_node("Add", ["more", "one"], ["rounds"]),
        helper.make_node("Squeeze", ["rounds"], ["trips"]),
        helper.make_node("Loop", ["trips", "", "eye"], ["product"], body=body),
        helper.make_node("ReduceSum", ["product"], ["trace"], keepdims=0),
        helper.make_node("Cast", ["trace"], ["whole"], to=ONNX_TYPES["INT64"]),
        helper.make_node("Sub", ["whole", "size"], ["nothing"]),
        helper.make_node("Add", ["x", "nothing"], ["y"]),
    ]
    weights = {
        "eye": np.eye(size, dtype=np.float32),
        "many": np.array([10**12]),
        "one": np.array([1]),
        "size": np.array(size),
    }
    return build(nodes, [tensor("x", "INT64", [1])], [tensor("y", "INT64", [1])], weights)


def bulky(width: int = 1_000_000) -> bytes:
    """y = the sum of `width` numbers near x, which takes 4 bytes for each of them while it runs."""
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["wide"]),
        helper.make_node("Sin", ["wide"], ["sines"]),
        helper.make_node("ReduceMean", ["sines"], ["y"], axes=[1], keepdims=1),
    ]
    weights = {"shape": np.array([1, width])}
    return build(nodes, [tensor("x", "FP32", ["n", 1])], [tensor("y", "FP32", ["n", 1])], weights)


def attention(vocabulary: int = 4_000, width: int = 64) -> bytes:
    """One attention over token embeddings: `ids` INT64 [n, length] → `y` FP32 [n, width]; 1 MiB of weights.

    Its scores take length² numbers for each row.
    """
    table = np.random.default_rng(1).normal(size=(vocabulary, width)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("Transpose", ["e"], ["et"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["e", "et"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "e"], ["context"]),
        helper.make_node("ReduceMean", ["context"], ["y"], axes=[1], keepdims=0),
    ]
    return build(
        nodes, [tensor("ids", "INT64", ["n", "length"])], [tensor("y", "FP32", ["n", width])], {"table": table}
    )


def initializer_as_input(width: int = 4) -> bytes:
    """y = x + w as exporters wrote it before IR version 4: the weight `w` is listed among the inputs too."""
    node = helper.make_node("Add", ["x", "w"], ["y"])
    inputs = [tensor("x", "FP32", ["n", width]), tensor("w", "FP32", [width])]
    weights = {"w": np.ones(width, np.float32)}
    return build([node], inputs, [tensor("y", "FP32", ["n", width])], weights, opset=8, ir_version=3)


def sequence_output() -> bytes:
    """An output that is a sequence of tensors, as it cannot travel in a tensor protocol."""
    node = helper.make_node("SequenceConstruct", ["x"], ["y"])
    output = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    return build([node], [tensor("x", "FP32", ["n"])], [output])


def unknown_operator() -> bytes:
    """A node of a custom operator that no engine has without a library."""
    node = helper.make_node("Mystery", ["x"], ["y"], domain="custom")
    graph = helper.make_graph([node], "test", [tensor("x", "FP32", ["n"])], [tensor("y", "FP32", ["n"])])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("custom", 1)]
    return _serialised(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION))


EXTERNAL_WEIGHTS = np.array([1, 2, 3, 4], np.float32)


def external_tensor(location: str, name: str = "w") -> Any:
    """A FP32 [4] tensor whose bytes lie in the file `location`."""
    outside = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", "16")):
        outside.external_data.add(key=key, value=value)
    return outside


def external_initializer(location: str) -> bytes:
    """y = x + w, the weights `w` in the file `location` (`EXTERNAL_WEIGHTS.tobytes()`)."""
    node = helper.make_node("Add", ["x", "w"], ["y"])
    return _external([node], initializers=[external_tensor(location)])


def external_constant(location: str) -> bytes:
    """The same with `w` as the value of a Constant node."""
    constant = helper.make_node("Constant", [], ["w"], value=external_tensor(location))
    return _external([constant, helper.make_node("Add", ["x", "w"], ["y"])])


def external_in_subgraph(location: str) -> bytes:
    """The same with `w` as an initializer of the branches of an If node."""
    node = helper.make_node("Add", ["x", "w"], ["sum"])
    branch = helper.make_graph([node], "branch", [], [tensor("sum", "FP32", None)], [external_tensor(location)])
    condition = numpy_helper.from_array(np.array(True), "condition")
    chooser = helper.make_node("If", ["condition"], ["y"], then_branch=branch, else_branch=branch)
    return _external([chooser], initializers=[condition])


def external_in_function(location: str) -> bytes:
    """The same with `w` as a Constant inside a model-local function."""
    opset = helper.make_opsetid("", OPSET)
    body = [
        helper.make_node("Constant", [], ["w"], value=external_tensor(location)),
        helper.make_node("Add", ["a", "w"], ["sum"]),
    ]
    function = helper.make_function("local", "Shift", ["a"], ["sum"], body, [opset])
    node = helper.make_node("Shift", ["x"], ["y"], domain="local")
    graph = helper.make_graph([node], "test", [tensor("x", "FP32", ["n", 4])], [tensor("y", "FP32", ["n", 4])])
    opsets = [opset, helper.make_opsetid("local", 1)]
    return _serialised(helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=IR_VERSION))


def external_sparse(location: str) -> bytes:
    """A sparse initializer whose values lie in the file `location`."""
    indices = numpy_helper.from_array(np.arange(4), "indices")
    sparse = helper.make_sparse_tensor(external_tensor(location), indices, [4])
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "test", [tensor("x", "FP32", ["n", 4])], [tensor("y", "FP32", ["n", 4])])
    graph.sparse_initializer.append(sparse)
    return _serialised(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION))


def _external(nodes: Sequence[Any], initializers: Sequence[Any] = ()) -> bytes:
    inputs, outputs = [tensor("x", "FP32", ["n", 4])], [tensor("y", "FP32", ["n", 4])]
    return build(nodes, inputs, outputs, initializers=initializers)


def _serialised(model: ModelProto) -> bytes:
    return bytes(model.SerializeToString())
