"""Where models come from: those that the configuration names, and the folders of a model repository.

A repository is read in Triton's layout, `<repository>/<model>/<version>/`. Names come from the file system and from
clients, so every one is checked before it becomes part of a path.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from guepard.core.errors import LoadError
from guepard.core.model import Model
from guepard.core.model_config import ModelPolicy
from guepard.core.names import is_model_name, is_version
from guepard.core.tensor import TensorSpec

log = logging.getLogger(__name__)

# Names that somebody meant as a version: 01, -1, 1.0, "3 ", digits of other scripts.
_LIKE_A_VERSION = re.compile(r"[\s\d.+-]*\d[\s\d.+-]*")


@dataclass(frozen=True, slots=True)
class ModelDefinition:
    """A model that can be loaded: where it is and what the operator said about it.

    `model_class`: the model itself, handed over by a program; `path` is then where files beside it are looked for.
    """

    name: str
    path: Path
    policy: ModelPolicy
    backend: str = "auto"
    entry: str | None = None
    trusted: bool = False
    required: bool = True
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    model_class: type[Model] | None = None


class ModelRepository:
    """The models there are. `template` stands for models that are found in a repository folder and named nowhere."""

    def __init__(
        self, definitions: Iterable[ModelDefinition], folders: Iterable[Path], template: ModelDefinition
    ) -> None:
        self._named: Mapping[str, ModelDefinition] = {definition.name: definition for definition in definitions}
        self._folders = tuple(folders)
        self._template = template
        self._reported: set[Path] = set()

    def definitions(self) -> dict[str, ModelDefinition]:
        """Every model by name, read afresh from the folders. A named model hides one found under the same name."""
        found: dict[str, ModelDefinition] = {}
        for folder in self._folders:
            for path in _subfolders(folder):
                if not is_model_name(path.name):
                    self._report(path, "a model folder with a name that no URL can carry is left out: %s")
                elif path.name not in found:
                    found[path.name] = self._found(path)
        return found | dict(self._named)

    def find(self, name: str) -> ModelDefinition | None:
        return self.definitions().get(name) if is_model_name(name) else None

    def latest_version(self, definition: ModelDefinition) -> tuple[str, Path]:
        """The highest version of a model and its folder or file; a model without version folders is version 1.

        Raises: LoadError when there is nothing to load.
        """
        path = definition.path
        if definition.model_class is not None:
            return "1", path
        if (path / "config.pbtxt").exists():
            self._report(path, "%s/config.pbtxt is not read; put its options into guepard.yaml")
        if definition.backend == "identity" or not path.is_dir():
            return "1", path
        versions = []
        for folder in _subfolders(path):
            if is_version(folder.name):
                versions.append(folder)
            elif _LIKE_A_VERSION.fullmatch(folder.name):
                self._report(folder, "a version folder that is no plain decimal of 1 or more is left out: %s")
        if versions:
            latest = max(versions, key=lambda folder: int(folder.name))
            return latest.name, latest
        if not any(path.iterdir()):
            raise LoadError("the model folder is empty; it needs a version folder (1/) or a model file")
        return "1", path

    def _found(self, path: Path) -> ModelDefinition:
        template = self._template
        return ModelDefinition(
            name=path.name,
            path=path,
            policy=template.policy,
            backend=template.backend,
            trusted=template.trusted,
            required=template.required,
        )

    def _report(self, path: Path, message: str) -> None:
        """Warn once per path, however often the folder is read."""
        if path not in self._reported:
            self._reported.add(path)
            log.warning(message, path.name)


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith((".", "_")))
    except OSError as error:
        raise LoadError(f"the folder {folder.name!r} cannot be read: {error.strerror}") from None
