"""The routes that infer: the hot path between the connection and the engine.

What a body and an answer look like is the codec's affair: OIP V2 (`/v2/models/{model}/infer`) or predict
(`/v1/models/{model}:predict`).
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple, Protocol

from guepard.core.errors import GuepardError, InputError
from guepard.core.model_config import ModelConfig
from guepard.core.regions import NOT_ALLOWED, Regions
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse, ResponseSender
from guepard.engine.data_plane import DataPlane
from guepard.engine.served_model import ServedModel
from guepard.protocols.large_json import LargeJson
from guepard.server.http.body_decoding import LARGE_BODY, BodyDecoding, Pause
from guepard.server.http.endpoint import Body, Buffer, Exchange, Pieces
from guepard.server.http.media_type import INFER_TYPES, check_media_type
from guepard.server.http.request_head import RequestHead
from guepard.server.http.response_writer import JSON_TYPE
from guepard.server.request_options import priority_level, timeout_ns
from guepard.server.server_timing import with_server_timing
from guepard.server.shared_exchange import SharedExchange


class Codec(Protocol):
    """Reads requests to one model and writes its answers."""

    @property
    def config(self) -> ModelConfig: ...

    def decode_json(self, body: bytes | memoryview, sender: ResponseSender, request_start: int) -> InferenceRequest: ...

    def decode_large(
        self, body: bytes | memoryview, sender: ResponseSender, request_start: int, pause: Pause
    ) -> InferenceRequest:
        """As `decode_json`, for long bodies and beside the loop."""
        ...

    def decode_binary(
        self, body: bytes | memoryview, header_length: int, sender: ResponseSender, request_start: int
    ) -> InferenceRequest: ...

    def encode(self, request: InferenceRequest, response: InferenceResponse) -> tuple[int | None, Body | LargeJson]:
        """The body of an answer and, where tensors follow its JSON as bytes, the length of that JSON."""
        ...


_KEPT_LENGTHS = 1_024

CodecMaker = Callable[[ModelConfig], Codec]


class _BinaryHeaders(dict[int, bytes]):
    """The headers of an answer whose tensors follow so many bytes of JSON, by that number. Small ones are kept."""

    def __init__(self, template: bytes, common: bytes) -> None:
        super().__init__()
        self._template = template
        self._common = common

    def __missing__(self, json_length: int) -> bytes:
        headers = self._template % (self._common, json_length)
        if json_length < _KEPT_LENGTHS:
            self[json_length] = headers
        return headers


class _Answers:
    """How the answers of one model version are written: its codec, and their headers for each kind of body."""

    __slots__ = ("binary_headers", "codec", "headers", "json_headers")

    def __init__(self, codec: Codec, binary_template: bytes) -> None:
        self.codec = codec
        self.headers = version_header(codec.config)
        self.json_headers = JSON_TYPE + self.headers
        self.binary_headers = _BinaryHeaders(binary_template, self.headers)


class Target:
    """A model version that requests of one path go to, looked up again whenever the table of models has changed."""

    __slots__ = ("_answers_of", "answers", "codec", "generation", "served")

    def __init__(self, answers_of: Callable[[ModelConfig], _Answers], served: ServedModel, generation: int) -> None:
        self._answers_of = answers_of
        self.aim(served, generation)

    def aim(self, served: ServedModel, generation: int) -> None:
        self.served = served
        self.generation = generation
        self.answers = self._answers_of(served.config)
        self.codec = self.answers.codec


class _Note(NamedTuple):
    """What a request's head says about its inference. `header_length` None: a body of JSON alone."""

    target: Target
    header_length: int | None
    timeout_ns: int
    priority: int


def version_header(config: ModelConfig) -> bytes:
    return b"guepard-model-version: %b\r\n" % config.version.encode()


class _LargeAnswer(Pieces):
    """Where bytes follow the JSON, a header tells its length: the JSON is then written before the head goes out."""

    def __init__(self, large: LargeJson, binary_headers: bytes) -> None:
        self._large = large
        self._binary_headers = binary_headers
        self._text: list[bytes] = []

    def prepare(self) -> Iterator[None]:
        yield from self._large.check()
        if self._large.binary:
            for piece in self._large.text():
                self._text.append(piece)
                yield

    def headers(self) -> bytes:
        if not self._large.binary:
            return JSON_TYPE
        return self._binary_headers % (b"", sum(map(len, self._text)))

    def pieces(self) -> Iterator[bytes | memoryview]:
        if self._large.binary:
            return chain(self._text, self._large.binary)
        return self._large.text()


class InferEndpoint:
    """`make_codec` makes the codec of one model. `media_types` are the bodies that are read.

    `regions` are those that requests may name, where the codec knows of any.
    """

    label: str
    media_types = INFER_TYPES
    binary_headers = b"content-type: application/octet-stream\r\n%binference-header-content-length: %d\r\n"

    def __init__(
        self, label: str, data_plane: DataPlane, make_codec: CodecMaker, regions: Regions = NOT_ALLOWED
    ) -> None:
        self.label = label
        self._regions = regions
        self._data_plane = data_plane
        self._make_codec = make_codec
        self._targets: dict[tuple[str, str | None, str | None], Target] = {}

    def check(self, head: RequestHead) -> None:
        check_media_type(head, self.media_types)
        params = head.params
        name, version, label = params["model"], params.get("version"), params.get("label")
        served = self._data_plane.lookup(name, version, label)
        target = self._targets.get((name, version, label))
        if target is None:
            # Only what exists gets here, so the table is bounded by the models there are.
            target = self._targets[name, version, label] = Target(self._answers_of, served, self._data_plane.generation)
        head.note = _Note(
            target,
            _header_length(head),
            timeout_ns(head.text(b"guepard-timeout-ms")),
            priority_level(head.text(b"guepard-priority")),
        )

    def start(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        target, header_length, _, _ = head.note
        if target.generation != self._data_plane.generation:
            self._aim(target, head)
        try:
            if header_length is None:
                if len(body) >= LARGE_BODY:
                    self._decode_beside(exchange, head, body, started)
                    return
                request = target.codec.decode_json(body, exchange, started)
            else:
                request = target.codec.decode_binary(body, header_length, exchange, started)
        except GuepardError as error:
            target.served.refuse(InferenceRequest((), exchange, started), error)
            return
        self._execute(exchange, head, request)

    def _execute(self, exchange: Exchange, head: RequestHead, request: InferenceRequest) -> None:
        target, _, timeout, level = head.note
        if timeout:
            request.timeout_ns = min(request.timeout_ns or timeout, timeout)
        if level:
            request.priority = level
        if request.reply_format.shared is not None:
            SharedExchange(exchange, request, self._regions, lambda: self._served(target, head)).start()
            return
        exchange.infer_with(request, target.served)
        target.served.infer(request)

    def _decode_beside(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        target = head.note.target
        decode = target.codec.decode_large

        def execute(request: InferenceRequest) -> None:
            self._served(target, head)  # the models may have changed meanwhile
            self._execute(exchange, head, request)

        exchange.wait_for(
            BodyDecoding(
                exchange,
                exchange.decoders,
                lambda pause: decode(body, exchange, started, pause),
                execute,
                lambda error: self._served(target, head).refuse(InferenceRequest((), exchange, started), error),
            )
        )

    def write(
        self, head: RequestHead, request: InferenceRequest, response: InferenceResponse
    ) -> tuple[bytes, Body | Pieces]:
        answers: _Answers = head.note.target.answers
        if response.config is not answers.codec.config:  # answered by a version that has been replaced since
            answers = self._answers_of(response.config)
        json_length, body = answers.codec.encode(request, response)
        if isinstance(body, LargeJson):
            return with_server_timing(answers.headers, request), _LargeAnswer(body, self.binary_headers)
        if json_length is None:
            return with_server_timing(answers.json_headers, request), body
        return with_server_timing(answers.binary_headers[json_length], request), body

    def _answers_of(self, config: ModelConfig) -> _Answers:
        return _Answers(self._make_codec(config), self.binary_headers)

    def _served(self, target: Target, head: RequestHead) -> ServedModel:
        """Whoever serves the model now. Raises: NotFound, NotReady."""
        if target.generation != self._data_plane.generation:
            self._aim(target, head)
        return target.served

    def _aim(self, target: Target, head: RequestHead) -> None:
        params = head.params
        served = self._data_plane.lookup(params["model"], params.get("version"), params.get("label"))
        if served is not target.served:
            target.aim(served, self._data_plane.generation)
        target.generation = self._data_plane.generation


def _header_length(head: RequestHead) -> int | None:
    text = head.text(b"inference-header-content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InputError(f"Inference-Header-Content-Length: expected a whole number of bytes, got {text[:32]!r}")
    return int(text)
