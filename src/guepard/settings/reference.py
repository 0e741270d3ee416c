"""Writes settings.md, steps.md and guepard.schema.json in docs/reference: `python -m guepard.settings.reference`."""

import json
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

from guepard.settings.kinds import ListOf, MapOf
from guepard.settings.model_options import ModelOptions, ModelSettings
from guepard.settings.options import Settings
from guepard.settings.schema import settings_schema
from guepard.settings.section import Option, Section, section_of
from guepard.settings.steps import POSTPROCESS, PREPROCESS
from guepard.settings.switches import BY_KEY

_INTRODUCTION = """\
# Settings

Written by `python -m guepard.settings.reference` from the declarations in `guepard.settings`; edit those instead.

Each option is looked for on the command line, then in the environment, then in the file, and has a default otherwise.
The file is the one named by `--config` or `GUEPARD_CONFIG`; without either, without MODEL and without
`--model-repository`, it is `guepard.yaml` in the current folder.

- Paths in the file are relative to the file; on the command line and in the environment, to the current folder.
- Durations are `2ms`, `500us`, `1.5s`, `2m`, `1h`; sizes `64MB`, `128MiB`, `1GiB`, or a bare number of bytes.
- Lists in the environment are written with commas; a list flag is repeated, or holds commas too.
- An empty environment variable says nothing, and neither does one that Kubernetes writes for a Service (`tcp://…`).
- A key that does not exist, and a key written twice, are errors. `guepard serve --check` says so without serving.
- `guepard.schema.json` beside this page is the JSON Schema of the file. For editors that know the YAML language
  server, the first line `# yaml-language-server: $schema=PATH` turns on completion and checks.
"""


_STEPS_INTRODUCTION = """\
# Steps around a model

Written by `python -m guepard.settings.reference` from the declarations in `guepard.settings`; edit those instead.

`preprocess` and `postprocess` of a model are lists of steps, each an entry with its options under its name, or its name
alone. [Preprocessing and postprocessing](../how-to/preprocess-and-postprocess.md) shows them at work.

- Steps run in the order in which they are written. Tensors that a step is not about pass through untouched.
- `preprocess` runs for each request before it waits for a batch, on threads beside the event loop, as many as there are
  CPUs for models. `postprocess` runs for each batch, where the model runs.
- A file that an option names lies in the model's folder, or beside its file, and nowhere else.
- Shapes below leave the dimension of rows out: each row of a request is an image, a vector, a text.
"""


def settings_page() -> str:
    """The reference page, in Markdown."""
    root = section_of(Settings)
    plain = [option for option in root.options.values() if _section_in(option) is None]
    lines = [_INTRODUCTION, "## Top level", "", *_table("", plain)]
    for key, option, section in _sections("", root):
        lines += [f"## `{key}`", "", option.description, "", *_table(f"{key}.", list(section.options.values()))]
        if option.name == "models":
            lines += [
                f"`defaults` takes the same options, except {_only_of_models()}, for models that do not set them.",
                "",
            ]
    return "\n".join(lines).rstrip() + "\n"


def _section_in(option: Option) -> Section | None:
    kind = option.kind.item if isinstance(option.kind, ListOf | MapOf) else option.kind
    return kind if isinstance(kind, Section) else None


def _sections(prefix: str, section: Section) -> Iterator[tuple[str, Option, Section]]:
    """Every section under `section`, in order. `defaults` repeats the options of `models[]` and is named there."""
    for option in section.options.values():
        inner = _section_in(option)
        if inner is None or option.name == "defaults":
            continue
        inside = {ListOf: "[]", MapOf: ".NAME"}.get(type(option.kind), "")
        key = f"{prefix}{option.name}{inside}"
        yield key, option, inner
        yield from _sections(f"{key}.", inner)


def _only_of_models() -> str:
    own = [name for name in section_of(ModelSettings).options if name not in section_of(ModelOptions).options]
    return " and ".join(f"`{name}`" for name in own)


def _table(prefix: str, options: list[Option]) -> list[str]:
    lines = ["| key | value | default | flag | environment | meaning |", "|---|---|---|---|---|---|"]
    for option in options:
        switch = BY_KEY.get(f"{prefix}{option.name}")
        flag, environment = (f"`{switch.flag}`", f"`{switch.environment}`") if switch else ("", "")
        value = "see below" if _section_in(option) else option.kind.phrase
        cells = [f"`{option.name}`", value, option.default_text, flag, environment, _meaning(option)]
        escaped = [cell.replace("|", r"\|") for cell in cells]
        lines.append(f"| {' | '.join(escaped)} |")
    return [*lines, ""]


def _meaning(option: Option) -> str:
    parts = [option.description]
    if option.alias is not None:
        unit = ", in microseconds" if option.alias.microseconds else ""
        parts.append(f"Also `{option.alias.name}`{unit}.")
    if option.note is not None:
        parts.append(f"{option.note[0].upper()}{option.note[1:]}.")
    return " ".join(parts)


def steps_page() -> str:
    """The page of the steps around a model, in Markdown."""
    lines = [_STEPS_INTRODUCTION]
    for title, steps in (("preprocess", PREPROCESS), ("postprocess", POSTPROCESS)):
        lines += [f"## `{title}`", ""]
        for name, struct in steps.items():
            lines += [f"### `{name}`", "", cleandoc(struct.__doc__ or ""), ""]
            lines += ["| option | value | default | meaning |", "|---|---|---|---|"]
            for option in section_of(struct).options.values():
                cells = [f"`{option.name}`", option.kind.phrase, option.default_text, _meaning(option)]
                lines.append(f"| {' | '.join([cell.replace('|', chr(92) + '|') for cell in cells])} |")
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def pages() -> dict[str, str]:
    """File name and content of everything that this module writes."""
    schema = json.dumps(settings_schema(), indent=2, ensure_ascii=False)
    return {"settings.md": settings_page(), "steps.md": steps_page(), "guepard.schema.json": schema + "\n"}


def main() -> int:
    folder = Path("docs", "reference")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in pages().items():
        (folder / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
