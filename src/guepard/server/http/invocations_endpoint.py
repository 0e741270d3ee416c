"""`POST /invocations`: SageMaker's one path for every model and every form of a request.

The head tells the model, the body its form. Whichever form it has is the affair of that form's own infer endpoint,
which is shown a head as it would have come to its own path.
Source: Amazon SageMaker, "Custom Inference Code with Hosting Services"; Triton, "SageMaker" deployment documents.
"""

import copy
import re
from functools import partial
from typing import NamedTuple

from guepard.core.errors import InputError, Unsupported
from guepard.core.regions import NOT_ALLOWED, Regions
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.engine.data_plane import DataPlane
from guepard.protocols.large_arrays import find_large_arrays
from guepard.protocols.oip_codec import OipCodec
from guepard.protocols.v1_json import PredictForm, V1Codec
from guepard.protocols.v1_messages import has_tensors
from guepard.server.http.body_decoding import LARGE_BODY
from guepard.server.http.endpoint import Body, Buffer, Exchange, Pieces
from guepard.server.http.infer_endpoint import InferEndpoint
from guepard.server.http.media_type import INFER_TYPES, check_media_type
from guepard.server.http.request_head import RequestHead
from guepard.server.http.v1_operations import SAGEMAKER_BINARY

_HEADER_SIZE = re.compile(r"json-header-size=([0-9]{1,15})", re.ASCII)
_LENGTH = b"inference-header-content-length"
_TARGET = b"x-amzn-sagemaker-target-model"


class _OipInvocation(InferEndpoint):
    binary_headers = b"%b" + f"content-type: {SAGEMAKER_BINARY};json-header-size=%d\r\n".encode()


class _Note(NamedTuple):
    """The head as each form's endpoint sees it. `binary`: tensors follow the JSON, which only V2 has.

    `v1_fault`: why the model cannot be asked by predict, which is no reason to refuse V2.
    """

    generation: int
    oip: RequestHead
    v1: RequestHead
    v1_fault: Unsupported | None
    binary: bool


class InvocationsEndpoint:
    label: str

    def __init__(self, label: str, data_plane: DataPlane, regions: Regions = NOT_ALLOWED) -> None:
        self.label = label
        self._data_plane = data_plane
        self._oip = _OipInvocation(label, data_plane, partial(OipCodec, regions=regions), regions)
        self._v1 = InferEndpoint(label, data_plane, V1Codec)

    def check(self, head: RequestHead) -> None:
        check_media_type(head, INFER_TYPES | {SAGEMAKER_BINARY})
        head.params = {"model": self._target(head)}
        oip, v1 = copy.copy(head), copy.copy(head)
        content_type = head.text(b"content-type")
        if content_type is not None and content_type.lower().startswith(SAGEMAKER_BINARY):
            plain = head.headers | {b"content-type": b"application/octet-stream"}
            oip.headers, v1.headers = plain | {_LENGTH: _header_size(content_type)}, plain
        self._oip.check(oip)
        fault = None
        try:
            self._v1.check(v1)
        except Unsupported as error:
            fault = error
        head.note = _Note(self._data_plane.generation, oip, v1, fault, _LENGTH in oip.headers)

    def start(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        if head.note.generation != self._data_plane.generation:
            self.check(head)  # another model may be the only one by now
        note: _Note = head.note
        if note.binary or has_tensors(_outline(body)):
            self._oip.start(exchange, note.oip, body, started)
        elif note.v1_fault is not None:
            raise note.v1_fault.with_traceback(None)  # else each raise would add to what it refers to
        else:
            self._v1.start(exchange, note.v1, body, started)

    def write(
        self, head: RequestHead, request: InferenceRequest, response: InferenceResponse
    ) -> tuple[bytes, Body | Pieces]:
        note: _Note = head.note
        if isinstance(request.reply_format, PredictForm):
            return self._v1.write(note.v1, request, response)
        return self._oip.write(note.oip, request, response)

    def _target(self, head: RequestHead) -> str:
        """The model that the head names, or the only one there is. Raises: InputError that lists the names."""
        target = head.text(_TARGET)
        if target:
            return target.removesuffix(".tar.gz")
        names = self._data_plane.names()
        if len(names) == 1:
            return names[0]
        told = f"one of {', '.join(names[:32])}" if names else "a model; none is known yet"
        raise InputError(f"X-Amzn-SageMaker-Target-Model: {len(names)} models may be meant; name {told}")


def _outline(body: Buffer) -> Buffer:
    """Enough of `body` to tell its form by: long arrays are not looked into here."""
    found = find_large_arrays(body) if len(body) >= LARGE_BODY else None
    return body if found is None else found.rest


def _header_size(content_type: str) -> bytes:
    for parameter in content_type.lower().split(";")[1:]:
        found = _HEADER_SIZE.fullmatch(parameter.strip())
        if found:
            return found[1].encode()
    raise InputError(f"Content-Type: {SAGEMAKER_BINARY} needs ;json-header-size=N, the length of the JSON part")
