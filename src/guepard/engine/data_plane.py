"""Which model version a request means. Behind it lies the one door for every front end, `ServedModel.infer`.

The table of models is replaced as a whole and never changed in place, and `generation` counts the replacements, so that
a front end may keep what it looked up until the number moves.
"""

from collections.abc import Mapping

from guepard.core.errors import InputError, NotFound, NotReady
from guepard.core.names import NAME_RULE, is_model_name
from guepard.core.states import ModelReadyState
from guepard.engine.served_model import ServedModel

_RETRY_AFTER_MS = 1_000


def invalid_name(name: str) -> InputError:
    """What a name that no model can have is answered with, whatever lies where it points."""
    return InputError(f"model name {name[:64]!r} is not valid: {NAME_RULE}")


class DataPlane:
    def __init__(self) -> None:
        self.generation = 0
        self._served: Mapping[str, ServedModel] = {}
        self._absent: Mapping[str, tuple[ModelReadyState, str]] = {}

    def publish(self, served: Mapping[str, ServedModel], absent: Mapping[str, tuple[ModelReadyState, str]]) -> None:
        """Replace what is served, and the state and reason of models that are known but not served."""
        self._served = dict(served)
        self._absent = dict(absent)
        self.generation += 1

    def lookup(self, name: str, version: str | None = None, label: str | None = None) -> ServedModel:
        """The version that serves `name`, which may be asked for by its number or by a label.

        Raises: InputError, NotFound, NotReady.
        """
        served = self._served.get(name)
        if served is None:
            if not is_model_name(name):
                raise invalid_name(name)
            if name not in self._absent:
                raise NotFound(f"unknown model {name!r}")
            state, reason = self._absent[name]
            detail = f": {reason}" if reason else ""
            raise NotReady(
                f"model {name!r} is not ready ({state.value.lower()}{detail})",
                retry_after_ms=_RETRY_AFTER_MS,
            )
        if version is not None and version != served.config.version:
            raise NotFound(f"model {name!r} has no version {version!r}; it serves {served.config.version!r}")
        if label is not None:
            raise NotFound(f"model {name!r} has no label {label[:64]!r}: versions have no labels yet; ask by number")
        return served

    def names(self) -> list[str]:
        """Every model that is known, whether it serves or not."""
        return sorted(self._served.keys() | self._absent.keys())

    def served(self) -> Mapping[str, ServedModel]:
        return self._served
