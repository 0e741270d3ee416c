"""What a request says beside its tensors, above all how each output is to be written: as JSON, as binary data or into
shared memory."""

from collections import Counter
from collections.abc import Sequence
from reprlib import repr as shortened
from typing import Any, NamedTuple

from guepard.core.errors import InputError
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Tensor
from guepard.protocols.oip_messages import WireOutput, WireRequest
from guepard.protocols.oip_parameters import apply_parameters, refuse_tensor_parameters
from guepard.protocols.shared_tensors import Place, SharedInput, SharedTensors, find_place, refuse_overlaps


class ReplyFormat(NamedTuple):
    """`binary` holds for outputs that `overrides` does not name. `shared`: what lies in shared memory, if anything.

    An output that goes there is not binary, whatever was said of it.
    """

    binary: bool
    overrides: dict[str, bool] | None = None
    shared: SharedTensors | None = None

    def is_binary(self, name: str) -> bool:
        return self.binary if self.overrides is None else self.overrides.get(name, self.binary)


JSON = ReplyFormat(binary=False)
BINARY = ReplyFormat(binary=True)


def describe(request: InferenceRequest, wire: WireRequest[Any]) -> None:
    """Note on `request` everything that its message says beside the tensors. Raises: InputError, Unsupported."""
    request.id = wire.id
    request.reply_format = JSON
    if wire.outputs or wire.parameters:
        request.requested_outputs, request.reply_format = requested(wire.outputs, wire.parameters)
        if wire.parameters:
            apply_parameters(request, wire.parameters)


def place_inputs(request: InferenceRequest, inputs: Sequence[Tensor | SharedInput]) -> None:
    """Note on `request` its inputs, of which some still have to be collected from shared memory."""
    reply_format: ReplyFormat = request.reply_format
    outputs = reply_format.shared.outputs if reply_format.shared is not None else {}
    request.reply_format = reply_format._replace(shared=SharedTensors(inputs, outputs))
    request.tensors = [given for given in inputs if isinstance(given, Tensor)]


def requested(
    outputs: list[WireOutput] | None, parameters: dict[str, Any] | None, default: ReplyFormat = JSON
) -> tuple[tuple[str, ...] | None, ReplyFormat]:
    """Names of the outputs that were asked for (None: all of them) and the form of each, `default` if it says nothing.

    Raises: InputError. Source: Triton's "Binary tensor data extension".
    """
    binary = default.binary
    if parameters and "binary_data_output" in parameters:
        binary = flag("parameters.binary_data_output", parameters["binary_data_output"])
    if not outputs:
        return None, BINARY if binary else JSON
    names = tuple([output.name for output in outputs])
    if len(set(names)) != len(names):
        (twice, _), *_ = Counter(names).most_common(1)
        raise InputError(f"outputs: {twice!r} is asked for twice; name each output once")
    overrides: dict[str, bool] = {}
    places: dict[str, Place] = {}
    for index, output in enumerate(outputs):
        if output.parameters:
            refuse_tensor_parameters(f"outputs[{index}]", output.parameters)
            if "binary_data" in output.parameters:
                overrides[output.name] = flag(
                    f"outputs[{index}].parameters.binary_data", output.parameters["binary_data"]
                )
            place = find_place(f"outputs[{index}]", output.parameters)
            if place is not None:
                places[output.name] = place
                overrides[output.name] = False
    if places:
        refuse_overlaps(places)
        return names, ReplyFormat(binary, overrides, SharedTensors((), places))
    forms = {overrides.get(name, binary) for name in names}
    if len(forms) == 1:  # as nearly always
        return names, BINARY if forms.pop() else JSON
    return names, ReplyFormat(binary, overrides)


def flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{field}: expected true or false, got {shortened(value)}")
    return value
