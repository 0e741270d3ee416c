"""One named step with its options, as an entry of a list: `softmax`, or `{resize: {size: 224}}`."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from guepard.core.errors import ConfigurationError
from guepard.core.hooks import StepSpec
from guepard.settings.kinds import JsonSchema, Kind, refuse


@dataclass(frozen=True, slots=True)
class NamedStep:
    """`sections` are the options of each step, by its name. What is not said is left to the step's own defaults."""

    sections: Mapping[str, Kind]

    @property
    def phrase(self) -> str:
        return f"a step out of {', '.join(self.sections)}"

    def read(self, value: object, where: str, from_text: bool = False) -> dict[str, Any]:
        """The step's name over what is said of it."""
        if isinstance(value, str):
            value = {value: None}
        if not isinstance(value, Mapping):
            raise refuse(where, f'{self.phrase}, such as "{next(iter(self.sections))}: {{}}"', value)
        if len(value) != 1:
            raise ConfigurationError(
                f"{where}: expected one step, got {', '.join(map(str, value)) or 'none'}; write each step as an entry "
                "of its own, beginning with -"
            )
        [(name, options)] = value.items()
        section = self.sections.get(name)
        if section is None:
            near = get_close_matches(str(name), self.sections, 1)
            hint = f"did you mean {near[0]}?" if near else f"write one of {', '.join(self.sections)}"
            raise ConfigurationError(f"{where}.{name}: no such step; {hint}")
        return {name: section.read(options, f"{where}.{name}")}

    def build(self, value: Any) -> StepSpec:
        [(name, tree)] = value.items()
        struct = self.sections[name].build(tree)
        return StepSpec(name, {option: getattr(struct, option) for option in tree})

    def schema(self) -> JsonSchema:
        schemas = {name: section.schema() for name, section in self.sections.items()}
        alone = [name for name, schema in schemas.items() if "allOf" not in schema]  # nothing has to be said of them
        with_options: JsonSchema = {
            "type": "object",
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {
                name: {"anyOf": [schema, {"type": "null"}]} if name in alone else schema
                for name, schema in schemas.items()
            },
        }
        return {"anyOf": [{"enum": alone}, with_options]}
