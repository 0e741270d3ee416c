"""What an inference server says of itself and its models: the questions that precede a load."""

from typing import Any, Protocol
from urllib.parse import quote

from guepard.bench.targets.grpc_asker import GrpcAsker
from guepard.bench.targets.http_asker import HttpAsker
from guepard.bench.targets.model_metadata import ModelMetadata, from_message, from_oip, from_signature
from guepard.bench.targets.refusals import grpc_refusal, http_refusal
from guepard.bench.targets.target_refused import TargetRefused
from guepard.core.errors import ConfigurationError
from guepard.protocols.grpc_messages import INFERENCE_SERVICE, method_classes

_NOT_READY_STATES = ("LOADING", "UNLOADING", "UNAVAILABLE")
_ABSENT = (404, 405, 501)
_SHOWN = 50


class ModelServer(Protocol):
    def name(self) -> str | None:
        """Name and version of the server; None if it does not tell."""

    def models(self) -> list[str] | None:
        """The models that serve; None if it does not tell."""

    def metadata(self, model: str, version: str | None) -> ModelMetadata | None:
        """None if this server tells of no model. Raises: TargetRefused, which lists the models if there is no such."""


def only_model(models: list[str] | None, where: str) -> str:
    """The one of `models`, as a server tells them.

    Raises: ConfigurationError that lists several, TargetRefused for none.
    """
    if models is None:
        raise ConfigurationError(f"{where}: the server does not list its models; name one with --model")
    if not models:
        raise TargetRefused(f"{where}: the server serves no model; load one, or wait for it with --wait-ready 60s")
    if len(models) > 1:
        shown = ", ".join(models[:_SHOWN]) + (", …" if len(models) > _SHOWN else "")
        raise ConfigurationError(f"{where}: the server has {shown}; name one with --model")
    return models[0]


def listed_models(asker: HttpAsker, path: str) -> list[str] | None:
    """The names in the list of models at `path`; None if there is none.

    Source: OpenAI, "Models" (`data`); KServe, "V1 Protocol" (`models`).
    """
    answer = asker.get(path)
    document = answer.json() if answer.status == 200 else None
    for key, field in (("data", "id"), ("models", "name")):
        entries = document.get(key) if isinstance(document, dict) else None
        if isinstance(entries, list):
            names = [one.get(field) if isinstance(one, dict) else one for one in entries]
            return sorted({name for name in names if isinstance(name, str)})
    return None


class HttpModelServer:
    """Over HTTP. `prefix` stands before `/v2` and `/v1`. With `predict`, V1's documents are asked for first."""

    def __init__(self, asker: HttpAsker, prefix: str, *, predict: bool = False) -> None:
        self._asker = asker
        self._prefix = prefix
        self._predict = predict

    def speaks_oip(self) -> bool:
        return self._server() is not None

    def name(self) -> str | None:
        document = self._server()
        if document is None:
            return None
        return " ".join(str(document[key]) for key in ("name", "version") if document.get(key)) or None

    def _server(self) -> dict[str, Any] | None:
        answer = self._asker.get(f"{self._prefix}/v2")
        if answer.status in (401, 403):
            raise http_refusal(f"GET {self._prefix}/v2", answer)
        document = answer.json() if answer.status == 200 else None
        return document if isinstance(document, dict) and isinstance(document.get("name"), str) else None

    def models(self) -> list[str] | None:
        if not self._predict:
            answer = self._asker.post(f"{self._prefix}/v2/repository/index", {})
            index = answer.json() if answer.status == 200 else None
            if isinstance(index, list):
                return _ready(index)
        return listed_models(self._asker, f"{self._prefix}/v1/models")

    def metadata(self, model: str, version: str | None) -> ModelMetadata | None:
        tail = f"/models/{quote(model, safe='')}" + (f"/versions/{quote(version, safe='')}" if version else "")
        if self._predict:
            answer = self._asker.get(f"{self._prefix}/v1{tail}/metadata")
            if answer.status == 200:
                return from_signature(model, answer.json())
        path = f"{self._prefix}/v2{tail}"
        answer = self._asker.get(path)
        if answer.status == 200:
            return from_oip(model, answer.json())
        models = self.models() if answer.status in (400, 404) else None
        if answer.status in _ABSENT and (models is None or model in models):
            return None  # the model may be there; documents about it are not
        raise http_refusal(f"GET {path}", answer, models)


class GrpcModelServer:
    def __init__(self, asker: GrpcAsker) -> None:
        self._asker = asker

    def name(self) -> str | None:
        answer, _, message = self._call("ServerMetadata")
        return " ".join(text for text in (message.name, message.version) if text) if answer.code == 0 else None

    def models(self) -> list[str] | None:
        answer, _, message = self._call("RepositoryIndex")
        if answer.code != 0:
            return None
        return _ready([{"name": one.name, "state": one.state} for one in message.models])

    def metadata(self, model: str, version: str | None) -> ModelMetadata | None:
        answer, path, message = self._call("ModelMetadata", name=model, version=version or "")
        if answer.code == 0:
            return from_message(model, message)
        raise grpc_refusal(path, answer.code, answer.details, self.models() if answer.code == 5 else None)

    def _call(self, method: str, **fields: str) -> tuple[Any, str, Any]:
        request, reply = method_classes(INFERENCE_SERVICE, method)
        path = f"/{INFERENCE_SERVICE}/{method}"
        answer = self._asker.call(path, request(**fields).SerializeToString())
        return answer, path, reply.FromString(answer.message)


def _ready(index: list[Any]) -> list[str]:
    """Names in a repository index, but for what its state says does not serve. Servers may leave the state out."""
    names = [one.get("name") for one in index if isinstance(one, dict) and one.get("state") not in _NOT_READY_STATES]
    return sorted({name for name in names if isinstance(name, str)})
