"""An estimator as ONNX, by skl2onnx, with the inputs and outputs that the estimator itself is served with."""

import locale
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from guepard.backends.sklearn_signature import SCORES, Given, Taken, is_text_reader, last_step, steps_of
from guepard.core.tensor import TensorSpec

_LARGEST_BYTES = 1 << 31
_ONNX_TYPES = {"FP32": "FLOAT", "FP64": "DOUBLE", "INT64": "INT64", "BYTES": "STRING"}
_BATCH = "batch"
_INNER = "__inner"


class NotConverted(Exception):
    """Says why."""


def convert(estimator: Any, taken: Taken, given: Sequence[Given], path: Path) -> None:
    """Write the model to `path`. Raises: NotConverted."""
    try:
        import onnx
        import skl2onnx
    except ImportError as error:
        raise NotConverted(f"{error.name} is not installed; install it: pip install 'guepard[sklearn]'") from None
    options = {"zipmap": False}
    if any(each.spec.name == SCORES for each in given):
        options["raw_scores"] = True
    try:
        with _mended_skl2onnx(taken):
            made = _converted(skl2onnx, estimator, taken, last_step(estimator), options)
    except (Exception, RecursionError) as error:
        raise NotConverted(f"skl2onnx does not convert it: {type(error).__name__}: {_line(error)}") from None
    try:
        _rename(onnx, made.graph, taken, given)
        onnx.checker.check_model(made)
        content = made.SerializeToString()
    except Exception as error:
        raise NotConverted(f"what skl2onnx made is not sound: {type(error).__name__}: {_line(error)}") from None
    if len(content) >= _LARGEST_BYTES:
        raise NotConverted("as ONNX it would be larger than 2 GB")
    path.write_bytes(content)


@contextmanager
def _mended_skl2onnx(taken: Taken) -> Iterator[None]:
    """Two faults of it, in version 1.20 at least, both with trees over histograms.

    A list of truth values is handed on where ONNX declares integers. And thresholds, which are doubles, are rounded to
    floats: rounded up, one sends values that are just above it to the other side. Its remedy for other trees, to round
    down, is right for these as well.
    """
    from skl2onnx.common import _container
    from skl2onnx.operator_converters import random_forest

    make_node, add_tree = _container.make_node, random_forest.add_tree_to_attribute_pairs_hist_gradient_boosting

    def make_whole_node(*arguments: Any, **attributes: Any) -> Any:
        for name, value in attributes.items():
            if isinstance(value, list) and any(isinstance(each, bool | np.bool_) for each in value):
                attributes[name] = [int(each) for each in value]
        return make_node(*arguments, **attributes)

    def add_rounded_tree(*arguments: Any, **named: Any) -> Any:
        bound = signature(add_tree).bind(*arguments, **named)
        if taken.specs[0].datatype.name == "FP32":
            bound.arguments |= {"adjust_threshold_for_sklearn": True, "dtype": np.float32}
        return add_tree(*bound.args, **bound.kwargs)

    with (
        mock.patch.object(_container, "make_node", make_whole_node),
        mock.patch.object(random_forest, add_tree.__name__, add_rounded_tree),
    ):
        yield


def _converted(skl2onnx: Any, estimator: Any, taken: Taken, step: Any, wanted: dict[str, bool]) -> Any:
    """With as many of the wanted options as the last step has."""
    from skl2onnx.common.exceptions import MissingShapeCalculator

    types = [(spec.name, _type_of(spec)) for spec in taken.specs]
    opsets = {"": skl2onnx.get_latest_tested_opset_version(), "ai.onnx.ml": 3}
    texts = {id(each): {"locale": _locale()} for each in _text_readers(estimator)}
    for options in (wanted, *({name: value} for name, value in wanted.items()), {}):
        told = {**texts, id(step): options} if options else texts
        try:
            return skl2onnx.convert_sklearn(estimator, initial_types=types, options=told, target_opset=opsets)
        except (NameError, ValueError, MissingShapeCalculator) as error:
            if not options or "option" not in str(error).lower():
                raise
    raise AssertionError("without options nothing is said of them")


def _text_readers(estimator: Any) -> Iterator[Any]:
    for step in steps_of(estimator):
        if is_text_reader(step):
            yield step
        for _, inner, _ in getattr(step, "transformers_", ()):
            if not isinstance(inner, str):
                yield from _text_readers(inner)


def _locale() -> str:
    """By which ONNX Runtime makes letters small: one that this machine has, and for those beyond ASCII if any is."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        return locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


def _type_of(spec: TensorSpec) -> Any:
    from skl2onnx.common import data_types

    kinds = {
        "FP32": data_types.FloatTensorType,
        "FP64": data_types.DoubleTensorType,
        "BYTES": data_types.StringTensorType,
    }
    return kinds[spec.datatype.name]([None, *(spec.dims or (1,))])


def _rename(onnx: Any, graph: Any, taken: Taken, given: Sequence[Given]) -> None:
    """Inputs and outputs as they are declared: columns of one dimension, and only the outputs that are served."""
    helper, types = onnx.helper, onnx.TensorProto
    if len(graph.output) < len(given):
        raise ValueError(f"it has {len(graph.output)} outputs where {len(given)} are wanted")
    before, after, inputs, outputs = [], [], [], []
    shapes: dict[str, list[int]] = {}
    for spec in taken.specs:
        inner = spec.name + _INNER
        _rename_tensor(graph, spec.name, inner)
        kind = getattr(types, _ONNX_TYPES[spec.datatype.name])
        inputs.append(helper.make_tensor_value_info(spec.name, kind, [_BATCH, *spec.dims]))
        shapes[f"{inner}_shape"] = [-1, *(spec.dims or (1,))]
        before.append(helper.make_node("Reshape", [spec.name, f"{inner}_shape"], [inner]))
    for each, made in zip(given, graph.output, strict=False):
        spec, inner = each.spec, made.name + _INNER
        _rename_tensor(graph, made.name, inner)
        kind = getattr(types, _ONNX_TYPES[spec.datatype.name])
        outputs.append(helper.make_tensor_value_info(spec.name, kind, [_BATCH, *spec.dims]))
        shapes[f"{inner}_shape"] = [-1, *spec.dims]
        if made.type.tensor_type.elem_type != kind:
            after.append(helper.make_node("Cast", [inner], [f"{inner}_cast"], to=kind))
            inner = f"{inner}_cast"
        if not spec.dims and _columns(made) == 2:  # of two classes: scikit-learn gives the score of the second
            shapes["second"] = [1]
            after.append(helper.make_node("Gather", [inner, "second"], [f"{inner}_second"], axis=1))
            inner = f"{inner}_second"
        after.append(helper.make_node("Reshape", [inner, f"{made.name}{_INNER}_shape"], [spec.name]))
    nodes = [*before, *graph.node, *after]
    for field in (graph.node, graph.input, graph.output, graph.value_info):
        del field[:]
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    graph.output.extend(outputs)
    for name, dims in shapes.items():
        graph.initializer.append(helper.make_tensor(name, types.INT64, [len(dims)], dims))


def _columns(output: Any) -> int:
    dims = output.type.tensor_type.shape.dim
    return int(dims[1].dim_value) if len(dims) == 2 else 0


def _rename_tensor(graph: Any, old: str, new: str) -> None:
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]
