"""A request as an OpenAPI document shows it: its examples, or the least that its schemas ask for.

Source: OpenAPI 3.0.3 and 3.1.0, "Parameter Object", "Media Type Object", "Example Object".
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urljoin

import orjson

from guepard.bench.targets.header_lines import Headers
from guepard.bench.targets.openapi_document import Operation, find_operation
from guepard.bench.targets.schema_instance import resolve, schema_instance
from guepard.core.errors import ConfigurationError

_UNSENT_HEADERS = ("accept", "content-type", "authorization")
_FORM = "application/x-www-form-urlencoded"


class ExampleRequest(NamedTuple):
    """`path` begins with `/` and has its query. `bodies`: one for each example; empty if the operation takes none.

    `base`: the server that the document names, empty if it names none; it may be a path alone.
    """

    method: str
    base: str
    path: str
    headers: Headers
    bodies: tuple[bytes, ...]
    notes: tuple[str, ...]


def example_request(document: Mapping[str, Any], operation: str | None) -> ExampleRequest:
    """The request of one operation of a document that `read_document` has read. Raises: ConfigurationError."""
    found = find_operation(document, operation)
    notes: list[str] = [] if operation else [f"the only POST of the document, {found.path}, is measured"]
    path, headers = _parameters(found, document, notes)
    bodies: tuple[bytes, ...] = ()
    declared = resolve(found.declared.get("requestBody"), document)
    if declared:
        media_type, media = _media(resolve(declared.get("content"), document) or {}, found)
        bodies = tuple(_bodies(media_type, media, document, notes))
        headers = (*headers, ("Content-Type", media_type))
    return ExampleRequest(found.method, _base(document), path, headers, bodies, tuple(notes))


def joined_base(base: str, source: str) -> str:
    """The server of a document that lies at the URL `source`: its own, or the one that it was read from."""
    return urljoin(source, base or "/")


def _base(document: Mapping[str, Any]) -> str:
    servers = document.get("servers")
    if not isinstance(servers, list) or not servers or not isinstance(servers[0], Mapping):
        return ""
    url = str(servers[0].get("url", ""))
    for name, variable in (servers[0].get("variables") or {}).items():
        url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    return url.rstrip("/")


def _parameters(found: Operation, document: Mapping[str, Any], notes: list[str]) -> tuple[str, Headers]:
    """The path with everything that is required in it, and the required headers."""
    declared: dict[tuple[str, str], Mapping[str, Any]] = {}
    for group in (found.item.get("parameters"), found.declared.get("parameters")):
        for one in group or ():
            one = resolve(one, document)
            declared[str(one.get("in")), str(one.get("name"))] = one
    path, query, headers, cookies = found.path, [], [], []
    for (place, name), one in declared.items():
        if place != "path" and not one.get("required"):
            continue
        value = found.values.get(name) if place == "path" else None
        text = _spelled(_parameter_value(one, document, notes) if value is None else value)
        if place == "path":
            path = path.replace(f"{{{name}}}", quote(text, safe=""))
        elif place == "query":
            query.append((name, text))
        elif place == "header" and name.lower() not in _UNSENT_HEADERS:
            headers.append((name, text))
        elif place == "cookie":
            cookies.append(f"{name}={text}")
    for name, value in found.values.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    if left := re.search(r"\{[^{}]*\}", path):
        raise ConfigurationError(f"--operation: {path} leaves {left[0]} open; write the path with its value")
    if cookies:
        headers.append(("Cookie", "; ".join(cookies)))
    return path + ("?" + urlencode(query) if query else ""), tuple(headers)


def _parameter_value(one: Mapping[str, Any], document: Mapping[str, Any], notes: list[str]) -> Any:
    if "example" in one:
        return one["example"]
    for example in (one.get("examples") or {}).values():
        example = resolve(example, document)
        if "value" in example:
            return example["value"]
    instance = schema_instance(one.get("schema", {"type": "string"}), document)
    notes.append(f"{one.get('in')} parameter {one.get('name')!r} has no example, {instance.value!r} is sent")
    return instance.value


def _spelled(value: Any) -> str:
    """As the styles `simple` and `form` write values."""
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return ",".join(_spelled(item) for item in value)
        case None:
            return ""
        case _:
            return str(value)


def _media(content: Mapping[str, Any], found: Operation) -> tuple[str, Mapping[str, Any]]:
    """The media type that is sent, and what the document says of it."""

    def rank(name: str) -> int:
        plain = name.partition(";")[0].strip().lower()
        if plain == "application/json" or plain.endswith("+json"):
            return 0 if plain == "application/json" else 1
        if plain == "*/*":
            return 2
        return 3 if plain == _FORM else 4 if plain.startswith("text/") else 9

    best = min(content, key=rank, default=None)
    if best is None or rank(best) == 9:
        kinds = ", ".join(content) or "nothing"
        raise ConfigurationError(
            f"--operation {found.method} {found.path}: takes {kinds}, which no example is made of; "
            "save a body to a file and give it with --data and --header 'Content-Type: …'"
        )
    return ("application/json" if rank(best) == 2 else best), content[best]


def _bodies(
    media_type: str, media: Mapping[str, Any], document: Mapping[str, Any], notes: list[str]
) -> Iterator[bytes]:
    examples = list(_examples(media, document))
    if not examples:
        instance = schema_instance(media.get("schema", True), document)
        notes.append("the document has no example of the body: one is made from its schema")
        if instance.guessed:
            places = ", ".join(instance.guessed[:5])
            notes.append(f"the schema does not say enough about {places}: the values there are guesses, see --data")
        examples = [instance.value]
    for example in examples:
        yield _encoded(media_type, example)


def _examples(media: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[Any]:
    """Those of the media type, else those of its schema."""
    found = False
    for example in (media.get("examples") or {}).values():
        example = resolve(example, document)
        if isinstance(example, Mapping) and "value" in example:
            found = True
            yield example["value"]
    if not found and "example" in media:
        found = True
        yield media["example"]
    schema = resolve(media.get("schema"), document)
    if not found and isinstance(schema, Mapping):
        if isinstance(schema.get("examples"), list):
            yield from schema["examples"]
        elif "example" in schema:
            yield schema["example"]


def _encoded(media_type: str, value: Any) -> bytes:
    plain = media_type.partition(";")[0].strip().lower()
    if plain == _FORM and isinstance(value, Mapping):
        return urlencode([(name, _spelled(item)) for name, item in value.items()]).encode()
    if plain.startswith("text/") and isinstance(value, str):
        return value.encode()
    return orjson.dumps(value, default=str)
