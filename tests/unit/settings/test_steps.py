"""Steps as the configuration says them, and as they are."""

import inspect
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from guepard.core.hooks import Hooks, StepSpec
from guepard.hooks import registry
from guepard.settings.policy import to_policy
from guepard.settings.section import section_of
from guepard.settings.steps import POSTPROCESS, PREPROCESS
from tests.unit.settings.resolving import settings_from

BOTH = {**PREPROCESS, **POSTPROCESS}
HOMES = registry._PRE | registry._POST

TEXT = """
models:
  - name: m
    path: m.onnx
    preprocess:
      - decode_image: {background: [0, 0, 0]}
      - resize: {size: 224}
    postprocess: [softmax, {top_k: }]
"""


def test_what_is_said_reaches_the_engine_and_nothing_else(tmp_path: Path) -> None:
    hooks = to_policy(settings_from(tmp_path, TEXT).models[0]).hooks
    assert hooks == Hooks(
        (StepSpec("decode_image", {"background": (0, 0, 0)}), StepSpec("resize", {"size": 224})),
        (StepSpec("softmax", {}), StepSpec("top_k", {})),
    )


def test_every_step_can_be_configured() -> None:
    assert tuple(PREPROCESS) == registry.PRE_STEP_NAMES
    assert tuple(POSTPROCESS) == registry.POST_STEP_NAMES


@pytest.mark.parametrize("name", BOTH)
def test_options_and_their_defaults_are_those_of_the_step_itself(name: str) -> None:
    module, attribute = HOMES[name]
    parameters = inspect.signature(getattr(import_module(module), attribute)).parameters
    taken = {key: parameter.default for key, parameter in parameters.items() if key != "folder"}
    said = {
        option.name: inspect.Parameter.empty if option.default is msgspec.UNSET else option.default
        for option in section_of(BOTH[name]).options.values()
    }
    assert taken == said
