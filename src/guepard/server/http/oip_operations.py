"""What the routes of the Open Inference Protocol V2 do, as `/openapi.json` says it."""

from typing import Any

from guepard.core.datatypes import DATATYPES
from guepard.core.regions import MAX_REGION_NAME
from guepard.core.states import ModelReadyState
from guepard.protocols.oip_messages import MAX_ID, MAX_RANK, MAX_TENSORS, MAX_TEXT
from guepard.protocols.oip_parameters import PRIORITY_LEVELS
from guepard.server.http.operation import (
    BINARY,
    ERROR,
    JSON,
    Answer,
    Body,
    Component,
    Operation,
    Tag,
    answers,
    body,
    component_of,
    header,
)
from guepard.telemetry.model_stat import ModelStat

SERVER = Tag("Server", "The server as a whole.")
MODELS = Tag("Models", "What is known of a model. Without a version in the path: whichever serves.")
INFERENCE = Tag("Inference", "Asking a model.")
_STATISTICS = Tag("Statistics", "Counts and durations, in Triton's JSON form. Needs the verb `observe`.")
_REPOSITORY = Tag("Repository", "Which models there are; loading and unloading them. Needs the verb `manage`.")

_TEXT = {"type": "string"}
_SHORT_TEXT = {"type": "string", "maxLength": MAX_TEXT}
_COUNT = {"type": "integer", "minimum": 0}
_FLAG = {"type": "boolean"}
_DATATYPE = Component("Datatype", {"type": "string", "enum": list(DATATYPES)})
_DIMS = {"type": "array", "items": {"type": "integer", "minimum": -1}}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | (optional or {})}


def _list(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _or_null(schema: Any) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


# Documents

_SERVER_METADATA = Component(
    "ServerMetadata", _object({"name": {"const": "guepard"}, "version": _TEXT, "extensions": _list(_TEXT)})
)
_TENSOR_METADATA = Component(
    "TensorMetadata",
    _object({"name": _TEXT, "datatype": _DATATYPE, "shape": {**_DIMS, "description": "-1 is a free dimension."}}),
)
_MODEL_METADATA = Component(
    "ModelMetadata",
    _object(
        {
            "name": _TEXT,
            "versions": _list(_TEXT),
            "platform": _TEXT,
            "inputs": _list(_TENSOR_METADATA),
            "outputs": _list(_TENSOR_METADATA),
        }
    ),
)
_TENSOR_CONFIG = {"name": _TEXT, "data_type": {"type": "string", "pattern": "^TYPE_"}, "dims": _DIMS}
_MODEL_CONFIG = Component(
    "ModelConfig",
    _object(
        {
            "name": _TEXT,
            "platform": _TEXT,
            "backend": _TEXT,
            "version_policy": {"type": "object"},
            "max_batch_size": {**_COUNT, "description": "0: the model takes no batches."},
            "input": _list(_object(_TENSOR_CONFIG | {"optional": _FLAG})),
            "output": _list(_object(_TENSOR_CONFIG)),
            "instance_group": _list(_object({"name": _TEXT, "count": _COUNT, "kind": _TEXT, "execution": _TEXT})),
            "parameters": {"type": "object", "additionalProperties": _object({"string_value": _TEXT})},
            "model_transaction_policy": _object({"decoupled": _FLAG}),
            "guepard": {"type": "object", "description": "What Triton's configuration has no field for."},
        },
        {
            "dynamic_batching": _object(
                {
                    "preferred_batch_size": _list(_COUNT),
                    "max_queue_delay_microseconds": _COUNT,
                    "default_queue_policy": _object({"max_queue_size": _COUNT}),
                }
            )
        },
    ),
)
_STATISTICS_OF_MODELS = Component("ModelStatistics", _object({"model_stats": _list(component_of(ModelStat))}))
_INDEX_ENTRY = Component(
    "RepositoryIndexEntry",
    _object(
        {
            "name": _TEXT,
            "version": {**_TEXT, "description": "Empty while none is known."},
            "state": {"type": "string", "enum": [state.value for state in ModelReadyState]},
            "reason": {**_TEXT, "description": "Why it is not ready, or empty."},
        }
    ),
)
_EMPTY = {"type": "object", "maxProperties": 0}

# Inference

_PARAMETER = {"type": ["string", "number", "boolean"]}
_SHARED_MEMORY = {
    "shared_memory_region": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_REGION_NAME,
        "description": "The data lies, or is to be written, in this region.",
    },
    "shared_memory_offset": {**_COUNT, "description": "Where in the region, in bytes; 0 if left out."},
    "shared_memory_byte_size": {**_COUNT, "description": "How many bytes there are, or may be written."},
}
_INPUT_PARAMETERS = Component(
    "InputParameters",
    _object(
        {},
        {"binary_data_size": {**_COUNT, "description": "The data is so many bytes behind the JSON."}} | _SHARED_MEMORY,
    ),
)
_OUTPUT_PARAMETERS = Component(
    "RequestedOutputParameters",
    _object({}, {"binary_data": {**_FLAG, "description": "The data comes as bytes behind the JSON."}} | _SHARED_MEMORY),
)
_WHOLE = {"anyOf": [_COUNT, {"type": "string", "pattern": "^[0-9]{1,19}$"}]}
REQUEST_PARAMETERS = Component(
    "InferenceParameters",
    {
        "type": "object",
        "description": "What is not named here is handed to Python models and ignored by others.",
        "properties": {
            "timeout": {**_WHOLE, "description": "Microseconds until the deadline; 0 for the model's default."},
            "priority": {**_WHOLE, "description": f"1 is the highest of {PRIORITY_LEVELS}; 0 for the default."},
            "binary_data_output": {**_FLAG, "description": "Outputs come as binary data unless they say otherwise."},
        },
        "additionalProperties": _PARAMETER,
    },
)
_INPUT = Component(
    "InferenceInput",
    _object(
        {
            "name": _SHORT_TEXT,
            "shape": {"type": "array", "items": _COUNT, "maxItems": MAX_RANK, "description": "With the batch first."},
            "datatype": _DATATYPE,
        },
        {
            "data": {"type": "array", "description": "Flat in row-major order, or nested exactly as `shape` says."},
            "parameters": _or_null(_INPUT_PARAMETERS),
        },
    ),
)
_WANTED_OUTPUT = Component(
    "RequestedOutput",
    _object({"name": _SHORT_TEXT}, {"parameters": _or_null(_OUTPUT_PARAMETERS)}),
)
INFERENCE_REQUEST = Component(
    "InferenceRequest",
    _object(
        {"inputs": {"type": "array", "items": _INPUT, "maxItems": MAX_TENSORS}},
        {
            "id": _or_null({"type": "string", "maxLength": MAX_ID, "description": "Returned with the answer."}),
            "outputs": _or_null(
                {
                    "type": "array",
                    "items": _WANTED_OUTPUT,
                    "maxItems": MAX_TENSORS,
                    "description": "What to return, in this order; everything where it is left out.",
                }
            ),
            "parameters": _or_null(REQUEST_PARAMETERS),
        },
    ),
)
_OUTPUT = Component(
    "InferenceOutput",
    _object(
        {"name": _TEXT, "datatype": _DATATYPE, "shape": _list(_COUNT)},
        {
            "data": {"type": "array", "items": _PARAMETER, "description": "Flat, in row-major order."},
            "parameters": _object({}, {"binary_data_size": _COUNT} | _SHARED_MEMORY),
        },
    ),
)
INFERENCE_RESPONSE = Component(
    "InferenceResponse",
    _object(
        {"model_name": _TEXT, "model_version": _TEXT, "outputs": _list(_OUTPUT)},
        {"id": _TEXT, "parameters": {"type": "object"}},
    ),
)
_HEADER_LENGTH = {
    "description": "The length of the JSON part, where tensors follow it as bytes.",
    "schema": _COUNT,
}
INFERENCE_HEADERS = (
    header(
        "Guepard-Timeout-Ms",
        "Milliseconds until the deadline; the shorter of this and the parameter `timeout` holds.",
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e12},
    ),
    header(
        "Guepard-Priority",
        "As the parameter `priority`, over which it wins.",
        {"type": "integer", "minimum": 0, "maximum": PRIORITY_LEVELS},
    ),
)

# Operations

SERVER_METADATA = Operation(
    SERVER, "Name, version and extensions of the server", answers("The server's metadata.", _SERVER_METADATA)
)
LIVE = Operation(SERVER, "Whether the event loop turns", answers("It does.", _object({"live": {"const": True}})))
READY = Operation(
    SERVER,
    "Whether every required model serves",
    {
        200: Answer("They do.", {JSON: _object({"ready": {"const": True}})}),
        503: Answer(
            "They do not, or the server shuts down; `error` says which and why.",
            {JSON: {"anyOf": [_object({"ready": {"const": False}, "error": _TEXT}), ERROR]}},
        ),
    },
)
MODEL_METADATA = Operation(
    MODELS,
    "Inputs, outputs and platform of a model",
    answers("The model's metadata.", _MODEL_METADATA),
    refusals=(404,),
)
MODEL_READY = Operation(
    MODELS,
    "Whether a model serves",
    answers("It does.", _object({"name": _TEXT, "ready": {"const": True}})),
    refusals=(404,),
)
MODEL_CONFIG = Operation(
    MODELS,
    "The configuration in force",
    answers("Triton's model configuration in its JSON form, with what was decided at load.", _MODEL_CONFIG),
    refusals=(404,),
)
MODEL_STATISTICS = Operation(
    _STATISTICS, "Statistics of a model", answers("One entry.", _STATISTICS_OF_MODELS), refusals=(404,)
)
ALL_STATISTICS = Operation(
    _STATISTICS, "Statistics of all models", answers("An entry for each model that serves.", _STATISTICS_OF_MODELS)
)
INFER = Operation(
    INFERENCE,
    "Ask a model",
    {
        200: Answer(
            "The outputs: as JSON, or as bytes behind the JSON where the request asks for binary data.",
            {JSON: INFERENCE_RESPONSE, BINARY: {"type": "string", "format": "binary"}},
            {
                "Guepard-Model-Version": {
                    "description": "The version that answered.",
                    "required": True,
                    "schema": _TEXT,
                },
                "Inference-Header-Content-Length": _HEADER_LENGTH,
                "Server-Timing": {
                    "description": "Milliseconds of the phases decode, queue, input, compute and output.",
                    "schema": _TEXT,
                },
            },
        )
    },
    description="The body is JSON, whatever `Content-Type` of those that are read it comes with "
    "(`application/x-www-form-urlencoded`, which `curl -d` sends, is one). With `Inference-Header-Content-Length` "
    "only its beginning is JSON and tensors follow as bytes; a length of 0 makes the whole body the data of the "
    "model's only input.",
    body=Body(
        {JSON: INFERENCE_REQUEST, BINARY: {"type": "string", "format": "binary"}},
        required=True,
        takes_questions=True,
    ),
    parameters=(
        header("Inference-Header-Content-Length", str(_HEADER_LENGTH["description"]), _COUNT),
        *INFERENCE_HEADERS,
    ),
    refusals=(403, 404, 406, 504),
)
INDEX = Operation(
    _REPOSITORY,
    "All models with state and reason",
    answers("An entry for each model, loaded or not.", _list(_INDEX_ENTRY)),
    body=body({"ready": {**_FLAG, "description": "Only those that serve."}}),
)
LOAD = Operation(
    _REPOSITORY,
    "Load a model, or load it again",
    answers("It serves. Until then the version that served before went on.", _EMPTY),
    body=body({"parameters": {"type": "object", "description": "Overriding configuration or files is refused."}}),
    refusals=(404,),
)
UNLOAD = Operation(
    _REPOSITORY,
    "Unload a model",
    answers("It is gone; what it had taken in was answered.", _EMPTY),
    body=body({"parameters": {"type": "object"}}),
    refusals=(404,),
)
