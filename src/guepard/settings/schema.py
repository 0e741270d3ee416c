"""JSON Schema of the configuration file, for editors: completion, descriptions and errors while typing."""

from guepard.settings.kinds import JsonSchema
from guepard.settings.options import Settings
from guepard.settings.section import section_of


def settings_schema() -> JsonSchema:
    """The schema of `guepard.yaml`. It takes what `guepard serve --check` takes, rules between options aside."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "guepard.yaml"}
    return head | section_of(Settings).schema()
