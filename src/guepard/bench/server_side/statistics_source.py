"""Where the statistics of a model are read: Triton's statistics extension, over HTTP or gRPC."""

from urllib.parse import quote

from guepard.bench.server_side.model_counters import ModelCounters, from_statistics
from guepard.bench.server_side.not_told import NotTold
from guepard.bench.server_side.page import Page
from guepard.bench.targets.grpc_asker import GrpcAsker
from guepard.bench.targets.header_lines import Headers
from guepard.bench.targets.http_asker import Patience
from guepard.bench.targets.target_refused import TargetRefused
from guepard.core.errors import ConfigurationError
from guepard.measure.load.outcomes import GRPC_BASE, outcome_name
from guepard.measure.load.plan import Endpoint
from guepard.protocols.grpc_messages import INFERENCE_SERVICE, method_classes


class HttpStatistics:
    def __init__(self, page: Page) -> None:
        self._page = page

    def read(self) -> ModelCounters:
        """Raises: NotTold."""
        return from_statistics(self._page.json())


class GrpcStatistics:
    """`headers` are metadata of each call."""

    def __init__(self, endpoint: Endpoint, headers: Headers, model: str, version: str | None, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._headers = headers
        self._model = model
        self._version = version
        self._timeout_s = timeout_s

    def read(self) -> ModelCounters:
        """Raises: NotTold."""
        from google.protobuf.json_format import MessageToDict

        request, response = method_classes(INFERENCE_SERVICE, "ModelStatistics")
        message = request(name=self._model, version=self._version or "").SerializeToString()
        try:
            with GrpcAsker(self._endpoint, self._headers, self._timeout_s, Patience(0.0)) as asker:
                answer = asker.call(f"/{INFERENCE_SERVICE}/ModelStatistics", message)
        except (TargetRefused, ConfigurationError) as error:
            raise NotTold(f"ModelStatistics: {error}") from None
        if answer.code:
            raise NotTold(f"ModelStatistics: {outcome_name(GRPC_BASE + answer.code)}, {answer.details}")
        try:
            document = MessageToDict(response.FromString(answer.message), preserving_proto_field_name=True)
        except ValueError:  # protobuf's DecodeError is one
            raise NotTold("ModelStatistics: the answer is no ModelStatisticsResponse") from None
        return from_statistics(document)


def statistics_path(prefix: str, model: str, version: str | None) -> str:
    tail = f"/versions/{quote(version, safe='')}" if version else ""
    return f"{prefix}/v2/models/{quote(model, safe='')}{tail}/stats"
