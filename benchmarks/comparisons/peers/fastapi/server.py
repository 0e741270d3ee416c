"""The model behind two routes: JSON that pydantic checks, and raw bytes."""

from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from benchmarks.comparisons.assignment import read_assignment
from benchmarks.comparisons.engine import Array, load
from benchmarks.comparisons.setting import SMALL_MODELS

ASSIGNMENT = read_assignment()
DTYPE, SHAPE = ASSIGNMENT.input_dtype, (1, *ASSIGNMENT.input_shape)
ROW: Any = list[float] if DTYPE == "float32" else list[int]
for _ in ASSIGNMENT.input_shape[1:]:
    ROW = list[ROW]

infer = load(ASSIGNMENT)
app = FastAPI()


class Input(BaseModel):
    data: ROW


class Output(BaseModel):
    output: list[float]


def output_of(row: Input) -> Output:
    return Output(output=infer(np.array([row.data], DTYPE))[0].tolist())


def bytes_of(rows: Array) -> Response:
    return Response(infer(rows).tobytes(), media_type="application/octet-stream")


async def read_rows(request: Request) -> Array:
    return np.frombuffer(await request.body(), DTYPE).reshape(SHAPE)


if ASSIGNMENT.model in SMALL_MODELS:

    @app.post("/predict")
    async def predict_at_once(row: Input) -> Output:
        return output_of(row)

    @app.post("/bytes")
    async def predict_bytes_at_once(request: Request) -> Response:
        return bytes_of(await read_rows(request))

else:
    from fastapi.concurrency import run_in_threadpool

    @app.post("/predict")
    def predict(row: Input) -> Output:
        return output_of(row)

    @app.post("/bytes")
    async def predict_bytes(request: Request) -> Response:
        return await run_in_threadpool(bytes_of, await read_rows(request))
