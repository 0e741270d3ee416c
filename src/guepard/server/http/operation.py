"""What a route does, in the words of OpenAPI 3.1. Each Route carries one Operation; `/openapi.json` is made of them.

An Operation says only what its route alone knows. What follows from the route's method and path or is the same
everywhere (path parameters, `X-Request-Id`, the statuses that any request may meet) is added in `openapi.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from guepard.core.errors import ErrorCode

JSON = "application/json"
BINARY = "application/octet-stream"

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Component:
    """A schema with a name. It may stand wherever a schema may; the document holds it once and refers to it."""

    name: str
    schema: Schema


ERROR = Component(
    "Error",
    {
        "type": "object",
        "required": ["error", "code"],
        "properties": {
            "error": {"type": "string", "description": "What is wrong, which value, and what to do instead."},
            "code": {"type": "string", "enum": [code.value for code in ErrorCode]},
            "retry_after_ms": {"type": "integer", "minimum": 0, "description": "When trying again may help."},
        },
    },
)


class Tag(NamedTuple):
    """A family of routes."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Answer:
    """`content` has a schema for each media type, `headers` a Header Object of OpenAPI for each name."""

    description: str
    content: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Body:
    """`content` has a schema for each media type that is read.

    `takes_questions`: its JSON is an inference request, so the first questions of the models are examples of it.
    """

    content: Mapping[str, Any]
    required: bool = False
    takes_questions: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """`refusals`: error statuses beyond those that any route may give. `parameters`: Parameter Objects of OpenAPI.

    `guarded`: beyond loopback it is closed until its verb is opened.
    """

    tag: Tag
    summary: str
    answers: Mapping[int, Answer]
    description: str = ""
    body: Body | None = None
    parameters: tuple[Schema, ...] = ()
    refusals: tuple[int, ...] = ()
    guarded: bool = False

    def refusing(self, status: int) -> "Operation":
        return replace(self, refusals=(*self.refusals, status))


def answers(description: str, schema: Any) -> dict[int, Answer]:
    """What most routes have: status 200 with a JSON document."""
    return {200: Answer(description, {JSON: schema})}


def body(properties: Mapping[str, Any]) -> Body:
    """What most routes read: a JSON object that may be left out."""
    return Body({JSON: {"type": "object", "properties": properties}})


def header(name: str, description: str, schema: Schema) -> dict[str, Any]:
    """A parameter that travels in a header and may be left out."""
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def component_of(kind: type) -> Component:
    """A dataclass or Struct as msgspec describes it; those within it become components of their own."""
    (reference,), schemas = msgspec.json.schema_components([kind], ref_template="{name}")
    components: dict[str, Component] = {}

    def hoisted(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return named(value["$ref"])
            return {key: hoisted(item) for key, item in value.items()}
        return [hoisted(item) for item in value] if isinstance(value, list) else value

    def named(name: str) -> Component:
        if name not in components:
            components[name] = Component(name, hoisted(schemas[name]))
        return components[name]

    return named(reference["$ref"])
