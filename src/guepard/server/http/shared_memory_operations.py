"""What the routes of shared memory do, as `/openapi.json` says it."""

from dataclasses import replace

from guepard.server.http.operation import ERROR, JSON, Answer, Body, Component, Operation, Tag, answers, body

_SYSTEM = Tag(
    "Shared memory",
    "Places in `/dev/shm` instead of data, where `--allow-client-shm` allows it. Needs the verb `manage`.",
)
_CUDA = Tag("CUDA shared memory", "Not served.")

_COUNT = {"type": "integer", "minimum": 0}
_REGION = Component(
    "SharedMemoryRegion",
    {
        "type": "object",
        "required": ["name", "key", "offset", "byte_size"],
        "properties": {
            "name": {"type": "string"},
            "key": {"type": "string", "description": "The name of the object."},
            "offset": {**_COUNT, "description": "Where in the object the region begins, in bytes."},
            "byte_size": _COUNT,
        },
    },
)
_EMPTY = {"type": "object", "maxProperties": 0}

STATUS = Operation(
    _SYSTEM, "All registered regions", answers("An entry for each.", {"type": "array", "items": _REGION})
)
REGION_STATUS = Operation(
    _SYSTEM,
    "One registered region",
    answers("A list of one entry.", {"type": "array", "items": _REGION}),
    refusals=(404,),
)
REGISTER = Operation(
    _SYSTEM,
    "Register a region",
    answers("It may be named in requests.", _EMPTY),
    body=Body(
        {
            JSON: {
                "type": "object",
                "required": ["key", "byte_size"],
                "properties": {
                    "key": {"type": "string", "minLength": 1},
                    "offset": _COUNT,
                    "byte_size": {"type": "integer", "minimum": 1},
                },
            }
        },
        required=True,
    ),
)
UNREGISTER = Operation(_SYSTEM, "Forget a region", answers("It is forgotten, if there was one.", _EMPTY), body=body({}))
UNREGISTER_ALL = Operation(_SYSTEM, "Forget all regions", answers("There are none any more.", _EMPTY), body=body({}))

CUDA_STATUS = Operation(
    _CUDA, "Refused", {501: Answer("Tensors are read and written by the CPU; use system shared memory.", {JSON: ERROR})}
)
CUDA_CHANGE = replace(CUDA_STATUS, body=body({}))
