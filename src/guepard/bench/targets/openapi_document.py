"""An OpenAPI document and the operation of it that a user names."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson
import yaml

from guepard.bench.targets.schema_instance import resolve
from guepard.core.errors import ConfigurationError

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_SHOWN = 20


class Operation(NamedTuple):
    """`values`: those of the path's parameters that the user has written into the path."""

    method: str
    path: str
    item: Mapping[str, Any]
    values: Mapping[str, str]

    @property
    def declared(self) -> Mapping[str, Any]:
        declared: Mapping[str, Any] = self.item[self.method.lower()]
        return declared


def read_document(data: bytes, source: str) -> dict[str, Any]:
    """JSON or YAML. Raises: ConfigurationError for what is no OpenAPI 3 document."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            document = yaml.safe_load(data)
        except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
            told = " ".join(str(error).split())
            raise ConfigurationError(f"--openapi {source}: neither JSON nor YAML ({told[:200]})") from None
    if isinstance(document, dict) and str(document.get("swagger", "")).startswith("2"):
        raise ConfigurationError(f"--openapi {source}: Swagger 2 is not read; convert it to OpenAPI 3")
    if not isinstance(document, dict) or not str(document.get("openapi", "")).startswith("3."):
        raise ConfigurationError(f"--openapi {source}: no OpenAPI 3 document; its field openapi would begin with 3")
    if not isinstance(document.get("paths"), dict) or not document["paths"]:
        raise ConfigurationError(f"--openapi {source}: has no paths")
    return document


def find_operation(document: Mapping[str, Any], named: str | None) -> Operation:
    """The operation that is called `POST /path` (a template or with its values) or has this operationId.

    None stands for the only POST there is. Raises: ConfigurationError that lists what there is.
    """
    every = list(_operations(document))
    if named is None:
        posts = [one for one in every if one.method == "POST"]
        if len(posts) == 1:
            return posts[0]
        raise ConfigurationError(f"--openapi: say which operation with --operation; there are {_list(every)}")
    for one in every:
        if one.declared.get("operationId") == named or named.upper() == _title(one).upper():
            return one
    method, _, path = named.rpartition(" ")
    found = [
        one._replace(values={name: unquote(value) for name, value in match.groupdict().items()})
        for one in every
        if one.method == (method.strip().upper() or one.method) and (match := _pattern(one.path).fullmatch(path))
    ]
    if len(found) == 1:
        return found[0]
    known = [_title(one) for one in every] + [str(one.declared.get("operationId", "")) for one in every]
    close = get_close_matches(named, known, n=3, cutoff=0.6)
    advice = f"did you mean {' or '.join(close)}?" if close else f"there are {_list(every)}"
    raise ConfigurationError(f"--operation {named}: the document has no such operation; {advice}")


def _operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    for path, item in document["paths"].items():
        item = resolve(item, document)
        if isinstance(path, str) and isinstance(item, Mapping):
            for method in METHODS:
                if isinstance(item.get(method), Mapping):
                    yield Operation(method.upper(), path, item, {})


def _title(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def _list(operations: list[Operation]) -> str:
    shown = ", ".join(_title(one) for one in operations[:_SHOWN])
    return shown + (", …" if len(operations) > _SHOWN else "")


def _pattern(template: str) -> re.Pattern[str]:
    """The paths that a template stands for. Its parameters become groups where their names can."""
    pattern = ""
    for text in re.split(r"(\{[^{}]*\})", template):
        if not text.startswith("{"):
            pattern += re.escape(text)
        elif text[1:-1].isidentifier() and f"(?P<{text[1:-1]}>" not in pattern:
            pattern += f"(?P<{text[1:-1]}>[^/]+)"
        else:
            pattern += re.escape(text)
    return re.compile(pattern)
