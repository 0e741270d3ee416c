"""docs/reference/bench-results.md says every field of every struct of the result file, and no other."""

import re
import types
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from guepard.measure import results

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "bench-results.md"
STRUCTS = {
    name: value
    for name, value in vars(results).items()
    if isinstance(value, type) and issubclass(value, msgspec.Struct) and value is not msgspec.Struct
}
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}


def in_json(kind: Any) -> str:
    """A type as the page writes it."""
    parts = get_args(kind)
    match get_origin(kind):
        case origin if origin is tuple:
            return f"array of {in_json(parts[0])}"
        case origin if origin is dict:
            return "object" if parts[1] is Any else f"object of {in_json(parts[1])}"
        case origin if origin is Literal:
            return " or ".join(f"`{each}`" for each in parts)
        case types.UnionType:
            return " or ".join(map(in_json, parts))
    return PLAIN.get(kind) or f"[{kind.__name__}](#{kind.__name__.lower()})"


def test_the_page_has_a_section_for_each_struct_with_its_fields_and_their_types() -> None:
    written = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        heading, _, rest = section.partition("\n")
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", rest, re.MULTILINE)
        written[heading.strip()] = [(name, kind) for name, kind, _ in rows]
    assert written == {
        name: [(field.name, in_json(field.type)) for field in msgspec.structs.fields(struct)]
        for name, struct in STRUCTS.items()
    }


def test_every_struct_is_part_of_the_document() -> None:
    def below(kind: Any) -> set[str]:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return {kind.__name__}.union(*(below(field.type) for field in msgspec.structs.fields(kind)))
        return set().union(*map(below, get_args(kind)))

    assert below(results.Document) == set(STRUCTS)
