"""What a request may say about itself beside its body, as text: in HTTP headers or gRPC metadata."""

import re

from guepard.core.errors import InputError
from guepard.core.model_config import MILLISECOND
from guepard.protocols.oip_parameters import priority

_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)


def timeout_ns(text: str | None) -> int:
    """`Guepard-Timeout-Ms`; 0 when it is absent. Raises: InputError."""
    if text is None:
        return 0
    milliseconds = float(text) if _DECIMAL.fullmatch(text) else 0.0
    if not 0 < milliseconds < 1e12:
        raise InputError(f"Guepard-Timeout-Ms: expected milliseconds above 0, got {text[:32]!r}")
    return max(1, int(milliseconds * MILLISECOND))


def priority_level(text: str | None) -> int:
    """`Guepard-Priority`; 0 when it is absent. Raises: InputError."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"Guepard-Priority: expected a whole number, got {text[:32]!r}")
    return priority("Guepard-Priority", int(text))
