"""Declarations of custom request parameters: how they are read, and which do not fit together."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from guepard.core.errors import ConfigurationError
from guepard.core.model_config import RequestParameter
from guepard.settings.policy import repository_model, to_policy
from guepard.settings.schema import settings_schema
from tests.unit.settings.resolving import settings_from

RIGHT = """
defaults:
  request_parameters:
    top_k: {type: integer, min: 1, max: 5}
    seed: {type: integer}
models:
- name: m
  path: m.onnx
  request_parameters:
    top_k: {type: number, max: 1.5}
    mode: {type: string, values: [a, b], max_length: 1}
    sequence_id: {type: integer, values: [1, 2]}
    echo: {type: boolean, values: [true]}
- {name: n, path: m.onnx, request_parameters: }
"""


def test_a_model_has_its_own_and_those_of_the_defaults(tmp_path: Path) -> None:
    settings = settings_from(tmp_path, RIGHT)
    m, n = settings.models
    allowed = to_policy(m).request_parameters
    assert allowed == {
        "top_k": RequestParameter("number", max=1.5),  # replaced as a whole
        "seed": RequestParameter("integer"),
        "mode": RequestParameter("string", values=("a", "b"), max_length=1),
        "sequence_id": RequestParameter("integer", values=(1, 2)),
        "echo": RequestParameter("boolean", values=(True,)),
    }
    assert to_policy(n).request_parameters is None
    found = to_policy(repository_model(settings, "r", "/r")).request_parameters
    assert found is not None
    assert found["top_k"] == RequestParameter("integer", min=1, max=5)


def test_unset_and_empty_differ(tmp_path: Path) -> None:
    (unset,) = settings_from(tmp_path, "models: [{name: m, path: m.onnx}]").models
    assert to_policy(unset).request_parameters is None
    (empty,) = settings_from(tmp_path, "models: [{name: m, path: m.onnx, request_parameters: {}}]").models
    assert to_policy(empty).request_parameters == {}


def test_the_schema_takes_what_is_right() -> None:
    jsonschema.validate(yaml.safe_load(RIGHT), settings_schema())


# Of these the JSON Schema knows.
TYPED_WRONG = [
    ("{}", "p.type: missing"),
    ("{type: float}", "p.type: expected one of string, integer, number, boolean"),
    ("{type: integer, min: x}", "p.min: expected an integer or a number"),
    ("{type: integer, min: true}", "p.min: expected an integer or a number"),
    ("{type: string, max_length: -1}", "p.max_length: expected an integer of 0 or more"),
    ("{type: string, values: a}", "p.values: expected a list, each entry text or"),
    ("{type: string, values: [[a]]}", "p.values[0]: expected text or"),
    ("{type: string, minimum: 1}", "did you mean min?"),
    ("3", "p: expected a mapping of type, min"),
]
# And of these it does not: they are rules between fields.
UNFIT = [
    ("{type: integer, min: 3, max: 1}", "p.min: 3 is above max, 1"),
    ("{type: integer, min: 1.5}", "p.min: expected an integer, as type says, got 1.5"),
    ("{type: integer, max: 3.0}", "p.max: expected an integer, as type says, got 3.0"),
    ("{type: number, min: .nan}", "p.min: expected a number, as type says, got nan"),
    ("{type: number, max: .inf}", "p.max: expected a number"),
    ("{type: string, min: 1}", "p.min: a string has no such bound"),
    ("{type: boolean, max: 1}", "p.max: a boolean has no such bound"),
    ("{type: integer, max_length: 3}", "p.max_length: only a string has a length"),
    ("{type: string, values: []}", "p.values: the list is empty"),
    ("{type: string, values: [a, 1]}", "p.values[1]: expected text, as type says, got 1"),
    ("{type: integer, values: [1, true]}", "p.values[1]: expected an integer, as type says, got True"),
    ("{type: boolean, values: [1]}", "p.values[0]: expected true or false, as type says, got 1"),
    ("{type: number, values: [.nan]}", "p.values[0]: expected a number"),
    ("{type: integer, min: 2, values: [1]}", "p.values[0]: 1 is below min, 2"),
    ("{type: integer, max: 2, values: [2, 3]}", "p.values[1]: 3 is above max, 2"),
    ("{type: string, max_length: 1, values: [ab]}", "p.values[0]: 'ab' is longer than max_length, 1"),
]


@pytest.mark.parametrize("where", ["models[0]", "defaults"])
@pytest.mark.parametrize(("declaration", "words"), TYPED_WRONG + UNFIT)
def test_a_wrong_declaration_is_named(tmp_path: Path, where: str, declaration: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings_from(tmp_path, _file(where, f"p: {declaration}"))
    assert f"{where}.request_parameters.p" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["timeout", "priority", "binary_data_output"])
def test_what_the_server_reads_itself_cannot_be_declared(tmp_path: Path, name: str) -> None:
    text = _file("models[0]", f"{name}: {{type: integer}}")
    with pytest.raises(
        ConfigurationError, match=rf"request_parameters\.{name}: the server itself reads this parameter"
    ):
        settings_from(tmp_path, text)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), settings_schema())


@pytest.mark.parametrize("text", ["[a]", "{1: {type: string}}", "text"])
def test_what_is_no_mapping_of_names(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"models\[0\]\.request_parameters"):
        settings_from(tmp_path, f"models: [{{name: m, path: m.onnx, request_parameters: {text}}}]")


@pytest.mark.parametrize("declaration", [declaration for declaration, _ in TYPED_WRONG])
def test_the_schema_refuses_what_an_editor_can_see(declaration: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(_file("models[0]", f"p: {declaration}")), settings_schema())


def _file(where: str, parameters: str) -> str:
    options = f"request_parameters: {{{parameters}}}"
    if where == "defaults":
        return f"defaults: {{{options}}}\nmodels: [{{name: m, path: m.onnx}}]"
    return f"models: [{{name: m, path: m.onnx, {options}}}]"
