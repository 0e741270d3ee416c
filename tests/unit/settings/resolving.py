"""`resolve` with the machine's own environment, folder and terminal left out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from guepard.settings.options import Settings
from guepard.settings.resolve import resolve


def settings_of(
    folder: Path,
    models: Sequence[str] = (),
    *,
    flags: Mapping[str, object] | None = None,
    config: str | None = None,
    environment: Mapping[str, str] | None = None,
    is_terminal: bool = False,
) -> Settings:
    return resolve(
        models,
        flags=flags or {},
        config=config,
        environment=environment or {},
        folder=folder,
        is_terminal=is_terminal,
    ).settings


def settings_from(folder: Path, text: str) -> Settings:
    """The settings that `text` as guepard.yaml gives."""
    (folder / "guepard.yaml").write_text(text)
    return settings_of(folder)
