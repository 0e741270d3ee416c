"""What a model and a version may be called, and which names of parameters are taken.

Names and versions travel in URLs, labels, log lines and folder names.
"""

import re

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
NAME_RULE = "a name has 1 to 128 letters, digits, '_', '.' or '-', and starts with a letter or digit"

# Triton reads version folders as 64-bit integers; a plain decimal without leading zeros has one spelling only.
_VERSION_PATTERN = re.compile(r"[1-9][0-9]{0,18}")
_MAX_VERSION = 2**63 - 1

# Parameters of a request that the server itself reads; all others are custom ones, and go to the model.
RESERVED_PARAMETERS = frozenset({"timeout", "priority", "binary_data_output"})


def is_model_name(text: str) -> bool:
    return NAME_PATTERN.fullmatch(text) is not None


def is_version(text: str) -> bool:
    """A version folder's name: a plain decimal from 1 to 2**63 - 1."""
    return _VERSION_PATTERN.fullmatch(text) is not None and int(text) <= _MAX_VERSION
