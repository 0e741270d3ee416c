"""`ModelInfer`: the hot path between a call and the engine."""

from functools import partial

from guepard.core.errors import GuepardError
from guepard.core.regions import Regions
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.engine.data_plane import DataPlane
from guepard.protocols.grpc_messages import INFERENCE_SERVICE
from guepard.protocols.grpc_reply import ReplyWriter
from guepard.protocols.grpc_request import RequestReader
from guepard.server.grpc.call import UnaryCall
from guepard.server.request_options import priority_level, timeout_ns
from guepard.server.shared_exchange import SharedExchange


class InferMethod:
    path = f"/{INFERENCE_SERVICE}/ModelInfer"

    def __init__(self, data_plane: DataPlane, regions: Regions) -> None:
        self._data_plane = data_plane
        self._regions = regions
        self._reader = RequestReader()
        self._writers: dict[tuple[str, str], ReplyWriter] = {}  # bounded by the model versions that answered

    def start(self, call: UnaryCall, message: bytes) -> None:
        head, message, spans = self._reader.read(message)
        call.model, call.version = head.model_name, head.model_version
        served = self._data_plane.lookup(head.model_name, head.model_version)
        try:
            request = head.request(message, spans, call, call.started)
            self._apply_metadata(call, request)
        except GuepardError as error:
            served.refuse(InferenceRequest((), call, call.started), error)
            return
        if request.reply_format.shared is not None:
            lookup = partial(self._data_plane.lookup, head.model_name, head.model_version)
            SharedExchange(call, request, self._regions, lookup).start()
            return
        call.infer_with(request, served)
        served.infer(request)

    def _apply_metadata(self, call: UnaryCall, request: InferenceRequest) -> None:
        """The shortest of the caller's deadlines holds; a priority beside the message wins over the one in it."""
        for limit in (call.timeout_ns, timeout_ns(call.metadata.get("guepard-timeout-ms"))):
            if limit:
                request.timeout_ns = min(request.timeout_ns or limit, limit)
        level = priority_level(call.metadata.get("guepard-priority"))
        if level:
            request.priority = level

    def write(self, request: InferenceRequest, response: InferenceResponse) -> bytes:
        config = response.config
        key = (config.name, config.version)
        writer = self._writers.get(key)
        if writer is None or writer.config is not config:
            writer = self._writers[key] = ReplyWriter(config, self._regions)
        return writer.write(request, response)
