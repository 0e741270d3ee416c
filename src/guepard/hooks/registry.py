"""Which step is where. Its module, and the libraries behind it, are imported when the first model needs it."""

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from guepard.core.errors import LoadError
from guepard.core.hooks import StepSpec

# A step's class is called with the model's folder, which no file that an option names may leave, and the options.
_PRE: dict[str, tuple[str, str]] = {
    "decode_image": ("guepard.hooks.decode_image", "DecodeImage"),
    "resize": ("guepard.hooks.resize", "Resize"),
    "normalize": ("guepard.hooks.normalize", "Normalize"),
    "cast": ("guepard.hooks.cast", "Cast"),
    "tokenize": ("guepard.hooks.tokenize", "Tokenize"),
}
_POST: dict[str, tuple[str, str]] = {
    "softmax": ("guepard.hooks.softmax", "Softmax"),
    "sigmoid": ("guepard.hooks.sigmoid", "Sigmoid"),
    "top_k": ("guepard.hooks.top_k", "TopK"),
    "argmax": ("guepard.hooks.argmax", "Argmax"),
    "labels": ("guepard.hooks.labels", "Labels"),
    "l2_normalize": ("guepard.hooks.l2_normalize", "L2Normalize"),
    "pool": ("guepard.hooks.pool", "Pool"),
    "classify": ("guepard.hooks.classify", "Classify"),
    "entities": ("guepard.hooks.entities", "Entities"),
    "finite": ("guepard.hooks.finite", "Finite"),
    "keep": ("guepard.hooks.keep", "Keep"),
}

PRE_STEP_NAMES = tuple(_PRE)
POST_STEP_NAMES = tuple(_POST)


def make_pre_step(spec: StepSpec, folder: Path) -> Any:
    """The live PreStep. Raises: LoadError."""
    return _make(_PRE, "preprocess", spec, folder)


def make_post_step(spec: StepSpec, folder: Path) -> Any:
    """The live PostStep. Raises: LoadError."""
    return _make(_POST, "postprocess", spec, folder)


def _make(homes: dict[str, tuple[str, str]], field: str, spec: StepSpec, folder: Path) -> Any:
    if spec.kind not in homes:
        near = get_close_matches(spec.kind, homes, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(homes)}"
        raise LoadError(f"{field}: there is no step {spec.kind!r}; {hint}")
    module, attribute = homes[spec.kind]
    return getattr(import_module(module), attribute)(folder, **spec.options)
