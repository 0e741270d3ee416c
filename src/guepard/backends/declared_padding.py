"""What a model itself says of padding: the attribute of a class, or the metadata of a file."""

from typing import Any

import msgspec

from guepard.core.errors import LoadError
from guepard.core.padding import PaddingRules


class _Declared(msgspec.Struct, forbid_unknown_fields=True):
    inputs: dict[str, int | float]
    outputs: dict[str, int] | None = None
    buckets: tuple[int, ...] | None = None
    max_tokens: int | None = None
    max_padding: int | None = None


def read_padding(value: Any, where: str) -> PaddingRules:
    """The rules that a plain value (of a class) or JSON (of a file) spells.

    Raises: LoadError that begins with `where`.
    """
    try:
        if isinstance(value, str):
            declared = msgspec.json.decode(value, type=_Declared)
        else:
            declared = msgspec.convert(value, type=_Declared)
    except msgspec.DecodeError as error:
        raise LoadError(
            f'{where}: {error}; write it as in {{"inputs": {{"ids": 0}}, "outputs": {{"hidden": 0}}}}'
        ) from None
    for field in ("max_tokens", "max_padding"):
        bound = getattr(declared, field)
        if bound is not None and bound < (field == "max_tokens"):
            raise LoadError(f"{where}: {field} must be a positive integer, got {bound}")
    return PaddingRules(**msgspec.structs.asdict(declared), origin="model")
