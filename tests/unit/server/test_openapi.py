"""The OpenAPI document of the API's own table of routes."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from guepard import __version__
from guepard.server.http.api_routes import api_routes
from guepard.server.http.document_endpoint import Document, document_route
from guepard.server.http.guard import Guard
from guepard.server.http.openapi import describe, in_words
from guepard.server.http.operation import Component, Operation, Tag, answers
from guepard.server.http.router import Route

TENSOR = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
MODELS = [
    {"name": name, "versions": ["1"], "platform": "p", "inputs": [TENSOR], "outputs": [TENSOR]}
    for name in ("a", "b", "large")
]
QUESTIONS: dict[str, Any] = {name: {"inputs": []} for name in ("a", "b", "gone")}
GUARDED = "403"


def routes() -> list[Route]:
    nothing: Any = None
    return api_routes(nothing, nothing, Guard(loopback=True, hosts=frozenset(), anonymous=frozenset()))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return describe(routes(), MODELS, QUESTIONS)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def within(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in `value`."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from within(item)


@pytest.mark.parametrize("route", routes(), ids=lambda route: f"{route.method} {route.template}")
def test_every_route_is_described(route: Route) -> None:
    assert route.operation is not None, "give it an Operation: see server/http/operation.py"
    assert route.operation.summary
    assert route.operation.answers


def test_the_document_has_every_route_and_no_other(document: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, method, _ in operations(document)}
    assert described == {(route.method, route.template) for route in routes()}


def test_every_reference_leads_somewhere_and_every_component_is_used(document: dict[str, Any]) -> None:
    used = {found["$ref"] for found in within(document) if "$ref" in found}
    there = {f"#/components/{kind}/{name}" for kind, named in document["components"].items() for name in named}
    assert used == there


def test_every_schema_is_a_json_schema(document: dict[str, Any]) -> None:
    schemas = [found["schema"] for found in within(document) if "schema" in found]
    assert len(schemas) > 100
    for schema in [*schemas, *document["components"]["schemas"].values()]:
        Draft202012Validator.check_schema(schema)


def test_no_two_operations_share_an_id(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids)


def test_path_parameters_are_those_of_the_path(document: dict[str, Any]) -> None:
    for path, _, operation in operations(document):
        named = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"]
        assert [segment.split("}")[0] for segment in path.split("{")[1:]] == named


def test_routes_that_need_leave_say_that_they_may_refuse(document: dict[str, Any]) -> None:
    refusing = {path for path, _, operation in operations(document) if GUARDED in operation["responses"]}
    guarded = {path for path, _, operation in operations(document) if operation.get("x-guepard-guarded")}
    assert guarded == {
        "/v2/logging",
        "/v2/trace/setting",
        "/v2/models/{model}/trace/setting",
        "/v2/models/stats",
        "/v2/models/{model}/stats",
        "/v2/models/{model}/versions/{version}/stats",
        "/v2/repository/index",
        "/v2/repository/models/{model}/load",
        "/v2/repository/models/{model}/unload",
        "/v2/systemsharedmemory/status",
        "/v2/systemsharedmemory/unregister",
        "/v2/systemsharedmemory/region/{region}/status",
        "/v2/systemsharedmemory/region/{region}/register",
        "/v2/systemsharedmemory/region/{region}/unregister",
    }
    assert refusing - guarded == {  # where they name shared memory and it is off
        "/v2/models/{model}/infer",
        "/v2/models/{model}/versions/{version}/infer",
        "/invocations",
    }


def test_an_error_status_lists_its_own_codes(document: dict[str, Any]) -> None:
    _, narrowed = document["components"]["responses"]["503"]["content"]["application/json"]["schema"]["allOf"]
    assert narrowed == {"properties": {"code": {"enum": ["not_ready", "draining"]}}}


def test_the_models_that_serve_are_the_examples(document: dict[str, Any]) -> None:
    infer = document["paths"]["/v2/models/{model}/infer"]["post"]
    assert list(infer["parameters"][0]["examples"]) == ["a", "b", "large"]
    assert list(infer["requestBody"]["content"]["application/json"]["examples"]) == ["a", "b"]
    assert document["components"]["examples"]["a"] == {
        "summary": "x: FP32 [-1, 4] → x: FP32 [-1, 4]",
        "value": QUESTIONS["a"],
    }
    assert document["x-guepard-models"] == MODELS
    assert document["info"]["version"] == __version__


def test_of_very_many_models_the_first_are_examples_and_all_are_listed() -> None:
    document = describe(routes(), MODELS, QUESTIONS, examples=1)
    assert list(document["components"]["examples"]) == ["a"]
    assert list(document["paths"]["/v2/models/{model}"]["get"]["parameters"][0]["examples"]) == ["a"]
    assert len(document["x-guepard-models"]) == 3


def test_without_models_the_document_has_no_empty_examples() -> None:
    document = describe(routes(), [], {})
    assert not [found for found in within(document["paths"]) if found.get("examples") == {}]


def test_two_schemas_of_one_name_are_found() -> None:
    def route(schema: dict[str, Any]) -> Route:
        operation = Operation(Tag("t", ""), "s", answers("", Component("Twice", schema)))
        return document_route("GET", f"/{schema['type']}", lambda request: Document({}), operation=operation)

    with pytest.raises(ValueError, match="Twice"):
        describe([route({"type": "string"}), route({"type": "integer"})], [], {})
    describe([route({"type": "string"}), route({"type": "string"})], [], {})


def test_several_tensors_in_words() -> None:
    other = {"name": "y", "datatype": "BYTES", "shape": [1]}
    assert in_words({"inputs": [TENSOR, other], "outputs": []}) == "x: FP32 [-1, 4], y: BYTES [1] → "
