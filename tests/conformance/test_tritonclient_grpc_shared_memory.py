"""Shared memory through Triton's own Python client over gRPC: the regions are those of the HTTP routes."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.grpc import aio as triton_aio
from tritonclient.utils import InferenceServerException, serialize_byte_tensor
from tritonclient.utils import shared_memory as shm

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models, shared_regions
from tests.services.identities import onnx_identities
from tests.services.shared_objects import PREFIX, SharedObject
from tests.services.shared_regions import MakeRegion, contents, registered_regions

placed = partial(shared_regions.placed, InferInput)
wanted = partial(shared_regions.wanted, InferRequestedOutput)


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    built = {"add": onnx_models.add("INT32", ("n", 16)), "two_outputs": onnx_models.two_outputs()}
    arguments = [f"{name}={onnx_models.write_model(models / f'{name}.onnx', model)}" for name, model in built.items()]
    return serve(*onnx_identities(models), *arguments, "--allow-client-shm", PREFIX)


@pytest.fixture
def client(server: RunningServer) -> Iterator[InferenceServerClient]:
    with InferenceServerClient(server.grpc_address) as client:
        yield client
        client.unregister_system_shared_memory()


@pytest.fixture
def region(client: InferenceServerClient) -> Iterator[MakeRegion]:
    with registered_regions(client) as make:
        yield make


@pytest.mark.parametrize("count", [6, 3_000_000], ids=["small", "copied beside the loop"])
def test_there_and_back(client: InferenceServerClient, region: MakeRegion, count: int) -> None:
    array = np.arange(count, dtype=np.float32).reshape(2, -1)
    source, target = region(array.nbytes), region(array.nbytes + 32)
    shm.set_shared_memory_region(source[1], [array])
    result = client.infer(
        "ident_fp32",
        [placed("x", array.shape, "FP32", source, array.nbytes)],
        outputs=[wanted("y", target, array.nbytes, 32)],
    )
    output = result.get_output("y")
    assert (output.datatype, tuple(output.shape)) == ("FP32", array.shape)
    assert output.parameters["shared_memory_region"].string_param == target[0]
    assert output.parameters["shared_memory_offset"].int64_param == 32
    assert output.parameters["shared_memory_byte_size"].int64_param == array.nbytes
    assert list(result.get_response().raw_output_contents) == [b""]
    assert np.array_equal(contents(target, "FP32", array.shape, 32), array)


def test_byte_strings(client: InferenceServerClient, region: MakeRegion) -> None:
    array = np.array([[b"hello", b"", "😀".encode()]], object)
    serialised = serialize_byte_tensor(array)
    size = len(serialised.item())
    source, target = region(size), region(256)
    shm.set_shared_memory_region(source[1], [serialised])
    client.infer("ident_bytes", [placed("x", array.shape, "BYTES", source, size)], outputs=[wanted("y", target, 256)])
    assert contents(target, "BYTES", (1, 3)).tolist() == array.tolist()


def test_shared_memory_beside_data(client: InferenceServerClient, region: MakeRegion) -> None:
    source, target = region(64), region(32)
    shm.set_shared_memory_region(source[1], [np.arange(16, dtype=np.int32)])
    beside = InferInput("b", [1, 16], "INT32")
    beside.set_data_from_numpy(np.full((1, 16), 5, np.int32))
    in_memory = placed("a", (1, 16), "INT32", source, 64)
    for inputs in ([in_memory, beside], [beside, in_memory]):
        assert client.infer("add", inputs).as_numpy("y").tolist() == [list(range(5, 21))]
    given = InferInput("x", [1, 4], "INT64")
    given.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.int64))
    for outputs in (
        [wanted("negated", target, 32), InferRequestedOutput("total")],
        [InferRequestedOutput("total"), wanted("negated", target, 32)],
    ):
        result = client.infer("two_outputs", [given], outputs=outputs)
        assert result.as_numpy("total").tolist() == [10]
        assert contents(target, "INT64", (1, 4)).tolist() == [[-1, -2, -3, -4]]


def test_the_client_s_own_view_of_regions(
    server: RunningServer, client: InferenceServerClient, region: MakeRegion
) -> None:
    assert not client.get_system_shared_memory_status().regions
    name, _ = region(64)
    (found,) = client.get_system_shared_memory_status().regions.values()
    assert (found.name, found.key, found.offset, found.byte_size) == (name, f"/{name}", 0, 64)
    assert server.request("GET", "/v2/systemsharedmemory/status").json[0]["name"] == name
    with pytest.raises(InferenceServerException, match="already in manager"):
        client.register_system_shared_memory(name, f"/{name}", 64)
    client.unregister_system_shared_memory(name)
    assert not client.get_system_shared_memory_status().regions
    for call in (client.get_cuda_shared_memory_status, client.unregister_cuda_shared_memory):
        with pytest.raises(InferenceServerException, match="CUDA shared memory is not served") as caught:
            call()
        assert caught.value.status() == "StatusCode.UNIMPLEMENTED"


def test_an_object_that_was_cut_short_harms_nobody(client: InferenceServerClient) -> None:
    with SharedObject(64) as held:
        client.register_system_shared_memory("held", f"/{held.key}", 64)
        inputs = [placed("x", (1, 16), "FP32", ("held", None), 64)]
        assert client.infer("ident_fp32", inputs).as_numpy("y").shape == (1, 16)
        held.truncate(8)
        with pytest.raises(InferenceServerException, match="held") as caught:
            client.infer("ident_fp32", inputs)
        assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert client.is_server_live()


def test_it_is_off_unless_asked_for(models: Path) -> None:
    model = onnx_models.write_model(models / "off.onnx", onnx_models.identity())
    with RunningServer(f"ident={model}") as server, InferenceServerClient(server.grpc_address) as client:
        for call in (
            client.get_system_shared_memory_status,
            lambda: client.register_system_shared_memory("r", "/r", 4),
            lambda: client.infer("ident", [placed("x", (1, 4), "FP32", ("r", None), 16)]),
        ):
            with pytest.raises(InferenceServerException, match="--allow-client-shm") as caught:
                call()
            assert caught.value.status() == "StatusCode.PERMISSION_DENIED"


def test_by_asyncio(server: RunningServer, region: MakeRegion) -> None:
    source = region(64 * 20)
    arrays = [np.full((1, 16), number, np.int32) for number in range(20)]
    shm.set_shared_memory_region(source[1], arrays)

    async def one(client: triton_aio.InferenceServerClient, number: int) -> None:
        inputs = [placed(name, (1, 16), "INT32", source, 64, 64 * number) for name in "ab"]
        await client.infer("add", inputs, outputs=[wanted("y", source, 64, 64 * number)])

    async def together() -> None:
        async with triton_aio.InferenceServerClient(server.grpc_address) as client:
            await asyncio.gather(*[one(client, number) for number in range(20)])

    asyncio.run(together())
    for number, array in enumerate(arrays):
        assert np.array_equal(contents(source, "INT32", (1, 16), 64 * number), 2 * array)
