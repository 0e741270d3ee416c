"""Requests made of OpenAPI documents: their examples, or the least that their schemas ask for."""

from typing import Any

import orjson
import pytest

from guepard.bench.targets.openapi_document import find_operation, read_document
from guepard.bench.targets.openapi_example import example_request, joined_base
from guepard.bench.targets.schema_instance import schema_instance
from guepard.core.errors import ConfigurationError


def document(paths: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths, **rest}


def body_of(media: dict[str, Any], **rest: Any) -> Any:
    spec = document({"/p": {"post": {"requestBody": {"content": {"application/json": media}}}}}, **rest)
    (body,) = example_request(spec, "POST /p").bodies
    return orjson.loads(body)


@pytest.mark.parametrize(
    ("media", "expected"),
    [
        ({"example": {"a": 1}}, {"a": 1}),
        ({"examples": {"one": {"value": [1]}, "far": {"externalValue": "http://x"}}}, [1]),
        ({"schema": {"example": 5}}, 5),
        ({"schema": {"examples": [7]}}, 7),
        ({"examples": {"r": {"$ref": "#/components/examples/e"}}}, "from afar"),
    ],
)
def test_examples_come_first(media: dict[str, Any], expected: object) -> None:
    media = {"schema": {"type": "object"}, **media} if "schema" not in media else media
    assert body_of(media, components={"examples": {"e": {"value": "from afar"}}}) == expected


def test_every_example_is_a_body() -> None:
    media = {"examples": {"a": {"value": 1}, "b": {"value": 2}}}
    spec = document({"/p": {"post": {"requestBody": {"content": {"application/json": media}}}}})
    assert example_request(spec, "POST /p").bodies == (b"1", b"2")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "integer", "exclusiveMinimum": 5}, 6),
        ({"type": "integer", "minimum": 5, "exclusiveMinimum": True}, 6),
        ({"type": "integer", "maximum": -3}, -3),
        ({"type": "integer", "minimum": 3, "multipleOf": 5}, 5),
        ({"type": "number"}, 0.5),
        ({"type": "number", "minimum": 2, "maximum": 4}, 3.0),
        ({"type": "number", "exclusiveMaximum": 0}, -1.0),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["null", "string"]}, "text"),
        ({"type": "string", "minLength": 6, "maxLength": 6}, "textxx"),
        ({"type": "string", "maxLength": 2}, "te"),
        ({"type": "string", "format": "date"}, "2024-01-31"),
        ({"type": "string", "enum": ["b", "a"]}, "b"),
        ({"const": 4}, 4),
        ({"type": "integer", "default": 9}, 9),
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 3}, [1, 1, 1]),
        ({"type": "array", "maxItems": 0, "items": {}}, []),
        ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, [1, "text"]),
        ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, {"a": 1}),
        ({"type": "object"}, {}),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "text"),
        (
            {
                "allOf": [{"$ref": "#/components/schemas/base"}, {"properties": {"b": {"type": "boolean"}}}],
                "required": ["b"],
            },
            {"b": True, "a": 1},
        ),
        ({"type": "object", "properties": {"next": {"$ref": "#/components/schemas/chain"}}, "required": ["next"]},
         {"next": {}}),
    ],
)  # fmt: skip
def test_schemas_without_an_example(schema: dict[str, Any], expected: object) -> None:
    schemas = {
        "base": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        "chain": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/chain"}}},
    }
    assert body_of({"schema": schema}, components={"schemas": schemas}) == expected


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"$ref": "other.json#/x"}, "leads out of the document"),
        ({"$ref": "#/nowhere"}, "leads nowhere"),
        ({"$ref": "#/loop"}, "leads to itself"),
        ({"$ref": "#/endless"}, "no small value|contains itself"),
        ({"$ref": "#/union"}, "contains itself"),
        ({"type": "array", "minItems": 10**9}, "1000000000 items"),
        ({"type": "string", "minLength": 10**9}, "1000000000 characters"),
        ({"minItems": 400, "items": {"minItems": 400, "items": {}}}, "no small value"),
        (False, "allows no value"),
    ],
)  # fmt: skip
def test_schemas_without_an_end(schema: Any, named: str) -> None:
    spec = {
        "loop": {"$ref": "#/loop"},
        "endless": {"required": ["a"], "properties": {"a": {"$ref": "#/endless"}}},
        "union": {"allOf": [{"$ref": "#/union"}]},
    }
    with pytest.raises(ConfigurationError, match=named):
        schema_instance(schema, spec)


def test_guesses_are_told() -> None:
    schema = {"required": ["id", "any"], "properties": {"id": {"type": "string", "pattern": "^x$"}}}
    spec = document({"/p": {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}})
    notes = example_request(spec, None).notes
    assert any("guesses" in note and "body.id, body.any" in note for note in notes)
    assert any("only POST" in note for note in notes)


def test_parameters_of_every_place() -> None:
    spec = document(
        {
            "/m/{name}/v/{version}": {
                "parameters": [
                    {"name": "name", "in": "path", "required": True, "example": "a b/c"},
                    {"name": "version", "in": "path", "required": True, "schema": {"type": "integer"}},
                ],
                "get": {
                    "operationId": "ask",
                    "parameters": [
                        {"name": "q", "in": "query", "required": True, "examples": {"x": {"value": ["a", True]}}},
                        {"name": "optional", "in": "query", "example": 1},
                        {"name": "X-Trace", "in": "header", "required": True, "schema": {"const": "t"}},
                        {"name": "Accept", "in": "header", "required": True, "example": "no"},
                        {"$ref": "#/components/parameters/session"},
                    ],
                },
            }
        },
        components={"parameters": {"session": {"name": "s", "in": "cookie", "required": True, "example": "1"}}},
    )
    request = example_request(spec, "ask")
    assert (request.method, request.path, request.bodies) == ("GET", "/m/a%20b%2Fc/v/1?q=a%2Ctrue", ())
    assert request.headers == (("X-Trace", "t"), ("Cookie", "s=1"))
    assert example_request(spec, "get /m/iris/v/3").path == "/m/iris/v/3?q=a%2Ctrue"


@pytest.mark.parametrize(
    ("content", "media_type", "body"),
    [
        ({"text/plain": {"example": "hi"}, "application/json": {"example": 1}}, "application/json", b"1"),
        ({"application/ld+json": {"example": 1}}, "application/ld+json", b"1"),
        ({"*/*": {"example": 1}}, "application/json", b"1"),
        (
            {"application/x-www-form-urlencoded": {"example": {"a": "b c", "n": 1}}},
            "application/x-www-form-urlencoded",
            b"a=b+c&n=1",
        ),
        ({"text/plain": {"example": "hi"}}, "text/plain", b"hi"),
    ],
)
def test_media_types(content: dict[str, Any], media_type: str, body: bytes) -> None:
    request = example_request(document({"/p": {"post": {"requestBody": {"content": content}}}}), None)
    assert (request.headers, request.bodies) == ((("Content-Type", media_type),), (body,))


def test_files_to_upload_are_refused() -> None:
    spec = document({"/p": {"post": {"requestBody": {"content": {"multipart/form-data": {}}}}}})
    with pytest.raises(ConfigurationError, match=r"takes multipart/form-data.*--data"):
        example_request(spec, None)


def test_where_the_server_is() -> None:
    def base(*servers: dict[str, Any]) -> str:
        return example_request(document({"/p": {"post": {}}}, servers=list(servers)), None).base

    assert base() == ""
    assert base({"url": "/api/"}) == "/api"
    versioned = {"url": "https://{host}/v1", "variables": {"host": {"default": "h"}}}
    assert base(versioned) == "https://h/v1"
    assert joined_base("/api", "http://h:1/docs/openapi.json") == "http://h:1/api"
    assert joined_base("", "http://h:1/docs/openapi.json") == "http://h:1/"
    assert joined_base("https://other", "http://h:1/openapi.json") == "https://other"


TWO = document({"/a": {"post": {}, "get": {"operationId": "getA"}}, "/a/{id}": {"post": {}}})


@pytest.mark.parametrize(
    ("named", "found"),
    [("POST /a", "/a"), ("post /a", "/a"), ("getA", "/a"), ("/a/{id}", "/a/{id}"), ("POST /a/5", "/a/{id}")],
)
def test_how_an_operation_is_named(named: str, found: str) -> None:
    assert find_operation(TWO, named).path == found


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (None, r"--operation; there are GET /a, POST /a, POST /a/\{id\}"),
        ("DELETE /a", "did you mean"),
        ("nothing like it", "there are GET /a"),
        ("/a", "there are GET /a, POST /a"),
    ],
)
def test_operations_that_are_not_there(named: str | None, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        find_operation(TWO, named)


def test_documents_in_yaml() -> None:
    assert read_document(b"openapi: 3.0.3\npaths:\n  /p: {post: {}}\n", "f")["paths"] == {"/p": {"post": {}}}


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"{", "neither JSON nor YAML"),
        (b"a: [", "neither JSON nor YAML"),
        (b"\xff\xfe\x00", "neither JSON nor YAML|no OpenAPI"),
        (b'{"swagger": "2.0"}', "Swagger 2"),
        (b"[]", "no OpenAPI 3"),
        (b'{"openapi": "4.0"}', "no OpenAPI 3"),
        (b'{"openapi": "3.1.0"}', "has no paths"),
    ],
)
def test_what_is_no_document(data: bytes, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        read_document(data, "f")
