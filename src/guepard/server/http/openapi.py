"""The OpenAPI 3.1 document of a table of routes, whose operations it joins with what holds for every route."""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from guepard import __version__
from guepard.core.errors import ErrorCode
from guepard.core.names import NAME_PATTERN
from guepard.core.regions import MAX_REGION_NAME
from guepard.protocols.error_body import STATUSES
from guepard.server.http.operation import ERROR, JSON, Answer, Component, Operation, Tag, header
from guepard.server.http.router import Route

Document = dict[str, Any]

_IN_BRACES = re.compile(r"\{(\w+)\}")
_MODEL = "model"

PATH_PARAMETERS: dict[str, tuple[str, Document]] = {
    _MODEL: ("The name of a model.", {"type": "string", "pattern": f"^{NAME_PATTERN.pattern}$"}),
    "version": ("A version of the model.", {"type": "string", "minLength": 1}),
    "label": ("A label of a version. There are none yet: 404.", {"type": "string", "minLength": 1}),
    "region": (
        "The name of a shared memory region.",
        {"type": "string", "minLength": 1, "maxLength": MAX_REGION_NAME},
    ),
}

# What a request may meet on any route: see docs/reference/errors.md.
_EVERYWHERE = (
    ErrorCode.INVALID_ARGUMENT,
    ErrorCode.REQUEST_TIMEOUT,
    ErrorCode.PAYLOAD_TOO_LARGE,
    ErrorCode.EXPECTATION_FAILED,
    ErrorCode.OVERLOADED,
    ErrorCode.HEADERS_TOO_LARGE,
    ErrorCode.INTERNAL,
    ErrorCode.UNSUPPORTED,
    ErrorCode.DRAINING,
)

REQUEST_ID = header("X-Request-Id", "Returned and logged, up to 128 bytes of it.", {"type": "string"})


def describe(
    routes: Iterable[Route], models: Sequence[Mapping[str, Any]], questions: Mapping[str, Any], examples: int = 100
) -> Document:
    """The document. `models` is the metadata of what serves; `questions` holds a first request for each by name.

    Of many models only the first `examples` become examples; all are listed in `x-guepard-models`.
    Raises: KeyError for a path parameter that PATH_PARAMETERS lacks, ValueError for two schemas of one name.
    """
    shown = [model for model in models if model["name"] in questions][:examples]
    builder = _Builder([str(model["name"]) for model in models][:examples], [str(model["name"]) for model in shown])
    tags: dict[str, Tag] = {}
    paths: Document = {}
    for route in routes:
        if route.operation is not None:
            tags[route.operation.tag.name] = route.operation.tag
            paths.setdefault(route.template, {})[route.method.lower()] = builder.operation(route, route.operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Guepard",
            "version": __version__,
            "description": "Inference over HTTP in the words of the Open Inference Protocol V2. HEAD is answered "
            "wherever GET is. Every error is a JSON object with `error` and `code`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [tag._asdict() for tag in tags.values()],
        "paths": paths,
        "components": {
            "schemas": builder.schemas,
            "responses": builder.responses,
            "examples": {
                str(model["name"]): {"summary": in_words(model), "value": questions[model["name"]]} for model in shown
            },
        },
        "x-guepard-models": list(models),
    }


def in_words(model: Mapping[str, Any]) -> str:
    """What goes into a model and what comes out of it."""
    sides = (model["inputs"], model["outputs"])
    return " → ".join(", ".join(f"{t['name']}: {t['datatype']} {t['shape']}" for t in side) for side in sides)


class _Builder:
    """Writes operations and gathers what they refer to."""

    def __init__(self, names: Sequence[str], questions: Sequence[str]) -> None:
        self.schemas: Document = {}
        self.responses: Document = {}
        self._components: dict[str, Component] = {}
        self._names = names
        self._questions = questions

    def operation(self, route: Route, operation: Operation) -> Document:
        refusals = {*[STATUSES[code].http for code in _EVERYWHERE], *operation.refusals}
        if route.method == "POST":
            refusals.add(STATUSES[ErrorCode.UNSUPPORTED_MEDIA_TYPE].http)
        responses = {str(status): self._answer(status, answer) for status, answer in operation.answers.items()}
        responses |= {str(status): self._refusal(status) for status in refusals - operation.answers.keys()}
        written: Document = {
            "operationId": _operation_id(route),
            "tags": [operation.tag.name],
            "summary": operation.summary,
        }
        if operation.description:
            written["description"] = operation.description
        if operation.guarded:
            written["x-guepard-guarded"] = True
        written["parameters"] = [self._path_parameter(name) for name in _IN_BRACES.findall(route.template)]
        written["parameters"] += self._resolved([*operation.parameters, REQUEST_ID])
        if operation.body is not None:
            content = self._content(operation.body.content)
            if operation.body.takes_questions and self._questions:
                content[JSON]["examples"] = {
                    name: {"$ref": f"#/components/examples/{name}"} for name in self._questions
                }
            written["requestBody"] = {"required": operation.body.required, "content": content}
        return written | {"responses": dict(sorted(responses.items()))}

    def _path_parameter(self, name: str) -> Document:
        description, schema = PATH_PARAMETERS[name]
        parameter = {"name": name, "in": "path", "required": True, "description": description, "schema": schema}
        if name == _MODEL and self._names:
            parameter["examples"] = {model: {"value": model} for model in self._names}
        return parameter

    def _answer(self, status: int, answer: Answer) -> Document:
        written: Document = {"description": answer.description}
        if answer.headers:
            written["headers"] = dict(answer.headers)
        if answer.content:
            written["content"] = self._content(answer.content)
        return written

    def _refusal(self, status: int) -> Document:
        """A reference to the one description of this error status."""
        if str(status) not in self.responses:
            codes = [code.value for code, entry in STATUSES.items() if entry.http == status]
            narrowed = {"allOf": [ERROR, {"properties": {"code": {"enum": codes}}}]}
            headers: Document = {
                "X-Request-Id": {
                    "description": "The one that was sent, or a new one to look for in the log.",
                    "required": True,
                    "schema": {"type": "string"},
                }
            }
            if status in (429, 503):
                headers["Retry-After"] = {
                    "description": "Seconds, where waiting helps.",
                    "schema": {"type": "integer", "minimum": 1},
                }
            self.responses[str(status)] = {
                "description": f"{HTTPStatus(status).phrase}: {', '.join(f'`{code}`' for code in codes)}",
                "headers": headers,
                "content": self._content({JSON: narrowed}),
            }
        return {"$ref": f"#/components/responses/{status}"}

    def _content(self, content: Mapping[str, Any]) -> Document:
        return {media_type: {"schema": self._resolved(schema)} for media_type, schema in content.items()}

    def _resolved(self, value: Any) -> Any:
        """`value` with each component in it replaced by a reference."""
        if isinstance(value, Component):
            if value.name not in self.schemas:
                self._components[value.name] = value
                self.schemas[value.name] = {}  # it may hold itself
                self.schemas[value.name] = self._resolved(value.schema)
            elif value is not self._components[value.name] and value != self._components[value.name]:
                raise ValueError(f"two schemas are called {value.name}")
            return {"$ref": f"#/components/schemas/{value.name}"}
        if isinstance(value, Mapping):
            return {key: self._resolved(item) for key, item in value.items()}
        return [self._resolved(item) for item in value] if isinstance(value, (list, tuple)) else value


def _operation_id(route: Route) -> str:
    """What generated clients call it: `postV2ModelsModelInfer`."""
    words = re.findall(r"[A-Za-z0-9]+", route.template)
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)
