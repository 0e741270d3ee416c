"""One document about a model, as three kinds of clients read it."""

import pytest

from guepard.core.datatypes import DATATYPES
from guepard.core.states import ModelReadyState
from guepard.core.tensor import TensorSpec
from guepard.protocols.v1_metadata import ModelFacts, model_list, model_status, signature_document
from tests.unit.protocols.requests import config_of

SERVING = ModelFacts("m", "3", ModelReadyState.READY, "", 1_700_000_000, True)


def test_a_model_that_serves() -> None:
    assert model_status(SERVING) == {
        "id": "m",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "guepard",
        "name": "m",
        "ready": True,
        "model_version_status": [
            {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        ],
    }


@pytest.mark.parametrize(
    ("state", "told", "code"),
    [
        (ModelReadyState.UNKNOWN, "START", "OK"),
        (ModelReadyState.LOADING, "LOADING", "OK"),
        (ModelReadyState.UNLOADING, "UNLOADING", "OK"),
        (ModelReadyState.UNAVAILABLE, "END", "UNAVAILABLE"),
    ],
)
def test_a_model_that_does_not(state: ModelReadyState, told: str, code: str) -> None:
    document = model_status(ModelFacts("m", "", state, "why", 0, False))
    (version,) = document["model_version_status"]
    assert (document["ready"], version["version"], version["state"]) == (False, "0", told)
    assert version["status"] == {"error_code": code, "error_message": "why" if code != "OK" else ""}


def test_the_list() -> None:
    card = {"id": "m", "object": "model", "created": 1_700_000_000, "owned_by": "guepard"}
    assert model_list([SERVING]) == {"object": "list", "data": [card], "models": ["m"]}


def test_the_signature_names_tensorflow_s_types() -> None:
    inputs = [TensorSpec(name.lower(), name, [2]) for name in DATATYPES]
    signature = signature_document(config_of(inputs))["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert [entry["dtype"] for entry in signature["inputs"].values()] == [
        *("DT_BOOL", "DT_UINT8", "DT_UINT16", "DT_UINT32", "DT_UINT64", "DT_INT8", "DT_INT16", "DT_INT32", "DT_INT64"),
        *("DT_HALF", "DT_FLOAT", "DT_DOUBLE", "DT_BFLOAT16", "DT_STRING"),
    ]
    dims = signature["outputs"]["fp32"]["tensor_shape"]
    assert dims == {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False}
