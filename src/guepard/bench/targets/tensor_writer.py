"""Calls as payloads of one protocol, for one model at one address."""

from urllib.parse import quote

from guepard.bench.targets.header_lines import Headers, grpc_metadata, overlaid
from guepard.bench.targets.http_request import HttpRequest
from guepard.bench.targets.named_target import NamedTarget
from guepard.bench.targets.payload_corpus import Made
from guepard.bench.targets.tensor_bodies import Body, binary_body, grpc_message, json_body, predict_body
from guepard.bench.targets.tensor_call import TensorCall
from guepard.core.errors import ConfigurationError
from guepard.measure.load.plan import Payload
from guepard.protocols.grpc_messages import INFERENCE_SERVICE

INFER_PATH = f"/{INFERENCE_SERVICE}/ModelInfer"
MAX_MESSAGE = 2**31 - 1
"""Bytes of a gRPC message, as far as protobuf goes."""


class TensorWriter:
    def __init__(self, named: NamedTarget, protocol: str, model: str) -> None:
        self._named = named
        self._protocol = protocol
        self._model = model
        version = named.version
        tail = f"/models/{quote(model, safe='')}" + (f"/versions/{quote(version, safe='')}" if version else "")
        path = (
            f"{named.kind.prefix}/v1{tail}:predict" if protocol == "predict" else f"{named.kind.prefix}/v2{tail}/infer"
        )
        self._url = named.url.at(path, named.url.query)
        self._metadata = grpc_metadata(named.headers) if protocol == "oip-grpc" else ()

    def write(self, call: TensorCall) -> Made:
        """Raises: ConfigurationError for values that the protocol cannot carry."""
        match self._protocol:
            case "oip-grpc":
                message = grpc_message(call, self._model, self._named.version)
                if len(message.data) > MAX_MESSAGE:
                    raise ConfigurationError(
                        f"{call.where}: {len(message.data)} bytes are too many for gRPC; send less"
                    )
                payload = Payload(data=message.data, path=INFER_PATH, metadata=self._metadata, spot=message.spot)
                return Made(payload, message.data)
            case "oip-binary":
                return self.as_it_is(binary_body(call))
            case "predict":
                return self.as_it_is(predict_body(call))
        return self.as_it_is(json_body(call))

    def as_it_is(self, body: Body) -> Made:
        """A body that is written already."""
        own: Headers = (("Content-Type", "application/json"),)
        if body.json_bytes:
            own = (
                ("Content-Type", "application/octet-stream"),
                ("Inference-Header-Content-Length", str(body.json_bytes)),
            )
        request = HttpRequest("POST", self._url, overlaid(own, self._named.headers), body.data, body.spot)
        return Made(request.payload(), request.identity())
