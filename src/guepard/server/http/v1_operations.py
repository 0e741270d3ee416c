"""What the routes of TensorFlow Serving, KServe V1 and SageMaker do, as `/openapi.json` says it."""

from dataclasses import replace
from typing import Any

from guepard.protocols.v1_json import SIGNATURE
from guepard.server.http.oip_operations import (
    INFERENCE,
    INFERENCE_HEADERS,
    INFERENCE_REQUEST,
    INFERENCE_RESPONSE,
    MODELS,
    REQUEST_PARAMETERS,
    SERVER,
)
from guepard.server.http.operation import BINARY, ERROR, JSON, Answer, Body, Component, Operation, answers, body, header

SAGEMAKER_BINARY = "application/vnd.sagemaker-triton.binary+json"

_TEXT = {"type": "string"}
_BYTES = {"type": "string", "format": "binary"}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | (optional or {})}


# Documents

_CARD = {"id": _TEXT, "object": {"const": "model"}, "created": {"type": "integer"}, "owned_by": {"const": "guepard"}}
_MODEL_CARD = Component("ModelCard", _object(_CARD))
_MODEL_LIST = Component(
    "ModelList",
    _object(
        {
            "object": {"const": "list"},
            "data": {"type": "array", "items": _MODEL_CARD},
            "models": {"type": "array", "items": _TEXT},
        }
    ),
)
_VERSION_STATUS = _object(
    {
        "version": _TEXT,
        "state": {"type": "string", "enum": ["START", "LOADING", "AVAILABLE", "UNLOADING", "END"]},
        "status": _object({"error_code": _TEXT, "error_message": _TEXT}),
    }
)
_MODEL_STATUS = Component(
    "ModelStatus",
    _object(
        _CARD
        | {
            "name": _TEXT,
            "ready": {"type": "boolean"},
            "model_version_status": {"type": "array", "items": _VERSION_STATUS},
        },
        {"error": _TEXT, "code": _TEXT},
    ),
)
_SIGNATURE = Component(
    "Signature",
    _object({"model_spec": _object({"name": _TEXT, "version": _TEXT}), "metadata": {"type": "object"}}),
)

# Inference

_COMMON = {
    "signature_name": {"enum": [None, "", SIGNATURE]},
    "parameters": {"anyOf": [REQUEST_PARAMETERS, {"type": "null"}]},
}
_ROWS = _object({"instances": {"type": "array", "minItems": 1, "description": "The rows."}}, _COMMON)
_COLUMNS = _object({"inputs": {"description": "`{name: value}`, or with one input its value alone."}}, _COMMON)
_PREDICT_REQUEST = Component("PredictRequest", {"oneOf": [_ROWS, _COLUMNS]})
_PREDICT_RESPONSE = Component(
    "PredictResponse",
    {"oneOf": [_object({"predictions": {"type": "array"}}), _object({"outputs": {"description": "The columns."}})]},
)
_VERSION_HEADER = {
    "Guepard-Model-Version": {"description": "The version that answered.", "required": True, "schema": _TEXT}
}

# Operations

MODEL_LIST = Operation(MODELS, "The models that serve", answers("For clients of OpenAI and KServe V1.", _MODEL_LIST))
MODEL_STATUS = Operation(
    MODELS,
    "State of a model",
    {
        200: Answer("It serves.", {JSON: _MODEL_STATUS}),
        503: Answer("It does not, or the server shuts down.", {JSON: {"anyOf": [_MODEL_STATUS, ERROR]}}),
    },
    description="One document for clients of OpenAI, TensorFlow Serving and KServe V1.",
    refusals=(404,),
)
SIGNATURE_DEF = Operation(
    MODELS, "TensorFlow Serving's signature of a model", answers("The only one.", _SIGNATURE), refusals=(404, 503)
)
PREDICT = Operation(
    INFERENCE,
    "Ask a model, in rows or columns",
    {200: Answer("Rows for rows, columns for columns.", {JSON: _PREDICT_RESPONSE}, _VERSION_HEADER)},
    body=Body({JSON: _PREDICT_REQUEST}, required=True),
    parameters=INFERENCE_HEADERS,
    refusals=(404, 406, 504),
)
NOT_SERVED = Operation(
    INFERENCE,
    "Not served",
    {501: Answer("Use `:predict`.", {JSON: ERROR})},
    body=body({}),
    refusals=(404,),
)
PING = Operation(
    SERVER, "Whether every required model serves, for SageMaker", {200: Answer("They do.")}, refusals=(503,)
)
INVOCATIONS = replace(
    PREDICT,
    summary="Ask a model, for SageMaker",
    description="`inputs` that are a list of objects make the body an inference request of V2, answered as such; "
    f"any other is a predict request. Tensors as bytes come with `{SAGEMAKER_BINARY};json-header-size=N`.",
    answers={
        200: Answer(
            "In the form of the request.",
            {JSON: {"anyOf": [_PREDICT_RESPONSE, INFERENCE_RESPONSE]}, SAGEMAKER_BINARY: _BYTES, BINARY: _BYTES},
            _VERSION_HEADER,
        )
    },
    body=Body(
        {JSON: {"anyOf": [_PREDICT_REQUEST, INFERENCE_REQUEST]}, SAGEMAKER_BINARY: _BYTES, BINARY: _BYTES},
        required=True,
    ),
    parameters=(
        header("X-Amzn-SageMaker-Target-Model", "The model, where there are several; `.tar.gz` is ignored.", _TEXT),
        *INFERENCE_HEADERS,
    ),
).refusing(403)  # shared memory, where it is off
