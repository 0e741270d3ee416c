"""What the API tells of the server and its models, and does to them: plain dicts, the same for any front end."""

from collections.abc import Sequence
from typing import Any

import orjson
from msgspec import to_builtins

from guepard.core.errors import InputError, NotReady, PermissionDenied
from guepard.core.states import ModelReadyState
from guepard.engine.control_plane import ControlPlane
from guepard.engine.data_plane import DataPlane
from guepard.protocols import oip_metadata, v1_metadata
from guepard.protocols.v1_metadata import ModelFacts
from guepard.server.welcome import question_for
from guepard.telemetry.log_settings import LogSettings


class Readiness:
    """Whether traffic should be sent here. `is_stopping` is set first when the server shuts down."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.is_stopping = False
        self._control_plane = control_plane

    def obstacle(self) -> str | None:
        """Why not, or None when the server is ready."""
        if self.is_stopping:
            return "the server is shutting down"
        unready = self._control_plane.unready()
        return f"not ready: {', '.join(unready)}" if unready else None


class Documents:
    """Answers in the words of OIP V2 and Triton's extensions, and of others where it says so.

    Every method raises GuepardError for what it refuses.

    `version` None means whichever version serves. `extensions`: what this server has beyond those that all have.
    """

    def __init__(
        self,
        data_plane: DataPlane,
        control_plane: ControlPlane,
        readiness: Readiness,
        log_settings: LogSettings,
        extensions: Sequence[str] = (),
    ) -> None:
        self._extensions = extensions
        self._data_plane = data_plane
        self._control_plane = control_plane
        self.readiness = readiness
        self.log_settings = log_settings
        self.trace_settings = control_plane.trace_settings

    def server_metadata(self) -> dict[str, Any]:
        return oip_metadata.server_metadata(self._extensions)

    def model_metadata(self, name: str, version: str | None) -> dict[str, Any]:
        config = self._data_plane.lookup(name, version).config
        return oip_metadata.model_metadata(config, [config.version])

    def served(self) -> list[dict[str, Any]]:
        """The metadata of every model that serves, by name."""
        served = sorted(self._data_plane.served().items())
        return [oip_metadata.model_metadata(model.config, [model.config.version]) for _, model in served]

    def questions(self) -> dict[str, Any]:
        """A first request to each model that serves and has one. Reads files: not for the event loop."""
        folders = self._control_plane.folders()
        found = {}
        for name, served in self._data_plane.served().items():
            question = question_for(served.config, folders[name]) if name in folders else None
            if question is not None:
                found[name] = orjson.loads(question)
        return found

    def check_model_ready(self, name: str, version: str | None, label: str | None = None) -> None:
        """Raises: NotReady with the reason, NotFound."""
        served = self._data_plane.lookup(name, version, label)
        obstacle = served.obstacle
        if obstacle is not None:
            raise NotReady(f"model {name!r} is not ready: {obstacle}", retry_after_ms=1_000)

    def model_config(self, name: str, version: str | None) -> dict[str, Any]:
        return oip_metadata.model_config(self._data_plane.lookup(name, version).config)

    def statistics(self, name: str | None = None, version: str | None = None) -> dict[str, Any]:
        """Of one model, or of all."""
        served = self._data_plane.served().values() if name is None else [self._data_plane.lookup(name, version)]
        return {"model_stats": [to_builtins(model.statistics.snapshot()) for model in served]}

    # In the words of OpenAI, TensorFlow Serving and KServe V1

    def model_list(self) -> dict[str, Any]:
        """The models that serve."""
        return v1_metadata.model_list([self._facts(name, True) for name in sorted(self._data_plane.served())])

    def model_status(self, name: str, version: str | None, label: str | None) -> dict[str, Any]:
        """Of a model that is known; with `error` and `code` unless it is `ready`."""
        try:
            self.check_model_ready(name, version, label)
        except NotReady as error:
            document = v1_metadata.model_status(self._facts(name, False))
            return document | {"error": error.message, "code": error.code.value}
        return v1_metadata.model_status(self._facts(name, True))

    def signature(self, name: str, version: str | None, label: str | None) -> dict[str, Any]:
        return v1_metadata.signature_document(self._data_plane.lookup(name, version, label).config)

    def _facts(self, name: str, ready: bool) -> ModelFacts:
        served = self._data_plane.served().get(name)
        entry = self._control_plane.entry(name)
        assert entry is not None  # what the data plane knows comes from there
        return ModelFacts(
            name, entry.version, entry.state, entry.reason, int(served.loaded_at) if served is not None else 0, ready
        )

    # The repository

    def index(self, only_ready: bool) -> list[dict[str, Any]]:
        return [
            {"name": entry.name, "version": entry.version, "state": entry.state.value, "reason": entry.reason}
            for entry in self._control_plane.index()
            if entry.state is ModelReadyState.READY or not only_ready
        ]

    async def load(self, name: str, parameters: object) -> None:
        for parameter in _object("parameters", parameters):
            if parameter == "config" or parameter.startswith("file:"):
                raise PermissionDenied(f"parameters.{parameter}: a client may not override configuration or files")
        await self._control_plane.load(name)

    async def unload(self, name: str, parameters: object) -> None:
        _object("parameters", parameters)
        await self._control_plane.unload(name)


def _object(field: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{field}: expected an object")
    return value
