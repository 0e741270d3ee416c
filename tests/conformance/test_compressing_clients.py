"""Compression as public clients use it: requests, httpx, aiohttp and tritonclient."""

import asyncio
import gzip
import json
from pathlib import Path

import aiohttp
import httpx
import numpy as np
import pytest
import requests
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.onnx_models import identity, write_model

VALUES = np.arange(100_000, dtype=np.float32).reshape(1, -1) / 7
FEW = VALUES[:, :3]


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    return serve(f"ident={write_model(models / 'ident', identity('FP32', ['n', 'm']))}")


def body_of(values: np.ndarray) -> bytes:
    tensor = {"name": "x", "datatype": "FP32", "shape": list(values.shape), "data": values.ravel().tolist()}
    return json.dumps({"inputs": [tensor]}).encode()


def infer_url(server: RunningServer) -> str:
    return f"{server.url}/v2/models/ident/infer"


def check(document: dict[str, object], values: np.ndarray) -> None:
    outputs = document["outputs"]
    assert isinstance(outputs, list)
    assert np.array_equal(np.array(outputs[0]["data"], np.float32), values.ravel())


@pytest.mark.parametrize("values", [VALUES, FEW])
def test_requests(server: RunningServer, values: np.ndarray) -> None:
    """Accepts gzip and deflate, and br and zstd where it finds the libraries, unless told otherwise."""
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    with requests.Session() as session:
        for _ in range(2):
            answer = session.post(infer_url(server), gzip.compress(body_of(values)), headers=headers, timeout=30)
            assert ("Content-Encoding" in answer.headers) == (values is VALUES)
            check(answer.json(), values)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_httpx(server: RunningServer, coding: str) -> None:
    with httpx.Client(timeout=30) as client:
        for _ in range(2):
            answer = client.post(infer_url(server), content=body_of(VALUES), headers={"Accept-Encoding": coding})
            assert answer.headers["Content-Encoding"] == coding
            check(answer.json(), VALUES)


@pytest.mark.parametrize("compress", ["gzip", "deflate"])
def test_aiohttp(server: RunningServer, compress: str) -> None:
    """Sends the compressed body in chunks."""

    async def ask() -> None:
        async with aiohttp.ClientSession() as session:
            for values in (VALUES, FEW):
                headers = {"Content-Encoding": compress, "Content-Type": "application/json"}
                coded = body_of(values)
                async with session.post(infer_url(server), data=coded, headers={**headers}, compress=None) as answer:
                    assert answer.status == 400  # it says that it is coded, and is not
                headers.pop("Content-Encoding")
                async with session.post(infer_url(server), data=coded, headers=headers, compress=compress) as answer:
                    check(await answer.json(), values)

    asyncio.run(ask())


ALGORITHMS = [None, "gzip", "deflate"]


def triton_input(module: object, values: np.ndarray, binary: bool) -> object:
    given = module.InferInput("x", list(values.shape), "FP32")  # type: ignore[attr-defined]
    given.set_data_from_numpy(values, binary_data=binary)
    return given


@pytest.mark.parametrize("sent", ALGORITHMS)
@pytest.mark.parametrize("received", ALGORITHMS)
def test_tritonclient(server: RunningServer, sent: str | None, received: str | None) -> None:
    with triton.InferenceServerClient(server.address) as client:
        for values, binary in ((VALUES, True), (VALUES, False), (FEW, True), (FEW, False)):
            result = client.infer(
                "ident",
                [triton_input(triton, values, binary)],
                outputs=[triton.InferRequestedOutput("y", binary_data=binary)],
                request_compression_algorithm=sent,
                response_compression_algorithm=received,
            )
            assert np.array_equal(result.as_numpy("y"), values)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_tritonclient_asyncio(server: RunningServer, algorithm: str) -> None:
    async def ask() -> None:
        async with triton_aio.InferenceServerClient(server.address) as client:
            for values, binary in ((VALUES, True), (VALUES, False), (FEW, False)):
                result = await client.infer(
                    "ident",
                    [triton_input(triton_aio, values, binary)],
                    outputs=[triton_aio.InferRequestedOutput("y", binary_data=binary)],
                    request_compression_algorithm=algorithm,
                    response_compression_algorithm=algorithm,
                )
                assert np.array_equal(result.as_numpy("y"), values)

    asyncio.run(ask())
