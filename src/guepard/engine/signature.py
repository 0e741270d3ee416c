"""Does this request fit that model? The one check of names, datatypes, shapes and parameters, for every front end."""

from collections.abc import Iterable, Sequence

from guepard.core.errors import InputError
from guepard.core.model_config import ModelConfig
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.engine.request_parameters import check_request_parameters


class Signature:
    """Binds a request's tensors to a model's inputs."""

    __slots__ = (
        "_batched",
        "_by_name",
        "_config",
        "_free",
        "_only_datatype",
        "_only_dims",
        "_only_name",
        "_output_names",
        "_parameters",
    )

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._batched = config.max_batch_size > 0
        self._by_name = {spec.name: (index, spec) for index, spec in enumerate(config.inputs)}
        # The only input of a model with batches, unless that is a scalar, which has no batch to be told from.
        only = config.inputs[0] if self._batched and len(config.inputs) == 1 and config.inputs[0].dims else None
        self._only_name = only.name if only is not None else None
        self._only_dims = only.dims if only is not None else ()
        self._only_datatype = only.datatype.name if only is not None else None
        self._free = any(spec.free or spec.optional for spec in config.inputs)
        self._output_names = frozenset(spec.name for spec in config.outputs)
        self._parameters = config.request_parameters

    def bind(self, request: InferenceRequest) -> None:
        """Set `arrays`, `rows` and `batch_key`.

        Shapes: each tensor is [rows, *dims] for a model with batches, else `dims`; -1 in dims fits any size.
        Raises: InputError that names the tensor or parameter, what it should be and what came.
        """
        tensors = request.tensors
        if len(tensors) == 1 and (tensor := tensors[0]).name == self._only_name:
            array = tensor.array
            shape = array.shape
            if shape[1:] != self._only_dims or tensor.datatype != self._only_datatype:
                self._check(self._by_name[tensor.name][1], tensor)
            request.arrays = (array,)
            request.rows = shape[0]
            request.batch_key = shape[1:] if self._free else None
        else:
            self._bind_all(request, tensors)
        wanted = request.requested_outputs
        if wanted is not None and not self._output_names.issuperset(wanted):
            unknown = next(name for name in wanted if name not in self._output_names)
            raise InputError(
                f"outputs: {unknown!r} is no output of {self._where()}; it has {_names(self._config.outputs)}"
            )
        if self._parameters is not None and request.parameters:
            check_request_parameters(self._parameters, request.parameters, self._config.name)

    def _bind_all(self, request: InferenceRequest, tensors: Sequence[Tensor]) -> None:
        arrays: list[Array | None] = [None] * len(self._by_name)
        rows: int | None = None
        for tensor in tensors:
            found = self._by_name.get(tensor.name)
            if found is None:
                raise InputError(
                    f"input {tensor.name!r} is no input of {self._where()}; it has {_names(self._config.inputs)}"
                )
            index, spec = found
            if arrays[index] is not None:
                raise InputError(f"input {tensor.name!r} is given twice; send each input once")
            self._check(spec, tensor)
            arrays[index] = tensor.array
            if self._batched:
                first = tensor.array.shape[0]
                if rows is not None and first != rows:
                    raise InputError(
                        f"input {tensor.name!r}: batch size {first} differs from the {rows} of the inputs before it"
                    )
                rows = first
        for index, spec in enumerate(self._config.inputs):
            if arrays[index] is None and not spec.optional:
                raise InputError(f"input {spec.name!r} is missing; {self._where()} needs {_names(self._config.inputs)}")
        request.arrays = arrays
        request.rows = 1 if rows is None else rows
        request.batch_key = None
        if self._free and self._batched:
            request.batch_key = tuple([None if array is None else array.shape[1:] for array in arrays])

    def _check(self, spec: TensorSpec, tensor: Tensor) -> None:
        if tensor.datatype != spec.datatype.name:
            raise InputError(f"input {spec.name!r}: expected datatype {spec.datatype.name}, got {tensor.datatype}")
        shape = tensor.array.shape
        dims = shape[1:] if self._batched else shape
        if dims == spec.dims and (shape or not self._batched):
            return
        fits = len(dims) == len(spec.dims) and all(
            want in (-1, have) for want, have in zip(spec.dims, dims, strict=True)
        )
        if not fits or (self._batched and not shape):
            expected = [-1, *spec.dims] if self._batched else list(spec.dims)
            hint = ", where -1 is the batch" if self._batched else ""
            raise InputError(f"input {spec.name!r}: expected shape {expected}{hint}, got {list(shape)}")

    def _where(self) -> str:
        return f"model {self._config.name!r}"


def _names(specs: Iterable[TensorSpec]) -> str:
    return ", ".join(repr(spec.name) for spec in specs)
