"""Shared memory through Triton's own Python client and its `utils.shared_memory`, unmodified."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.http import aio as triton_aio
from tritonclient.utils import InferenceServerException, serialize_byte_tensor
from tritonclient.utils import shared_memory as shm

from guepard.core.datatypes import DATATYPES
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models, shared_regions
from tests.services.identities import onnx_identities
from tests.services.shared_objects import PREFIX
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
    with InferenceServerClient(server.address) as client:
        yield client
        client.unregister_system_shared_memory()


@pytest.fixture
def region(client: InferenceServerClient) -> Iterator[MakeRegion]:
    with registered_regions(client) as make:
        yield make


@pytest.mark.parametrize("datatype", [name for name, entry in DATATYPES.items() if entry.size and name != "BF16"])
def test_every_datatype_there_and_back(client: InferenceServerClient, region: MakeRegion, datatype: str) -> None:
    array = (np.arange(6) % 2).astype(DATATYPES[datatype].dtype).reshape(2, 3)
    source, target = region(array.nbytes), region(array.nbytes + 32)
    shm.set_shared_memory_region(source[1], [array])
    result = client.infer(
        f"ident_{datatype.lower()}",
        [placed("x", array.shape, datatype, source, array.nbytes)],
        outputs=[wanted("y", target, array.nbytes, 32)],
    )
    output = result.get_output("y")
    assert "data" not in output
    assert (output["datatype"], output["shape"]) == (datatype, [2, 3])
    assert output["parameters"] == {
        "shared_memory_region": target[0],
        "shared_memory_offset": 32,
        "shared_memory_byte_size": array.nbytes,
    }
    assert contents(target, datatype, (2, 3), 32).tobytes() == array.tobytes()


def test_byte_strings(client: InferenceServerClient, region: MakeRegion) -> None:
    array = np.array([[b"hello", b"", '😀 "q"\n'.encode()]], object)
    serialised = serialize_byte_tensor(array)
    size = len(serialised.item())
    source, target = region(size), region(256)
    shm.set_shared_memory_region(source[1], [serialised])
    result = client.infer(
        "ident_bytes", [placed("x", array.shape, "BYTES", source, size)], outputs=[wanted("y", target, 256)]
    )
    assert result.get_output("y")["parameters"]["shared_memory_byte_size"] == size
    assert contents(target, "BYTES", (1, 3)).tolist() == array.tolist()


@pytest.mark.parametrize("slash", [True, False])
def test_two_inputs_of_one_region_and_an_output_of_another(
    client: InferenceServerClient, region: MakeRegion, slash: bool
) -> None:
    a, b = np.arange(16, dtype=np.int32).reshape(1, 16), np.ones((1, 16), np.int32)
    source, target = region(128, slash=slash), region(64, slash=slash)
    shm.set_shared_memory_region(source[1], [a, b])
    inputs = [placed("a", (1, 16), "INT32", source, 64), placed("b", (1, 16), "INT32", source, 64, 64)]
    for turn in range(3):
        shm.set_shared_memory_region(source[1], [a + turn])
        client.infer("add", inputs, outputs=[wanted("y", target, 64)])
        assert np.array_equal(contents(target, "INT32", (1, 16)), a + turn + b)


@pytest.mark.parametrize("binary", [True, False])
def test_shared_memory_beside_data(client: InferenceServerClient, region: MakeRegion, binary: bool) -> None:
    b = np.full((1, 16), 5, np.int32)
    source = region(64)
    shm.set_shared_memory_region(source[1], [np.arange(16, dtype=np.int32)])
    beside = InferInput("b", [1, 16], "INT32")
    beside.set_data_from_numpy(b, binary_data=binary)
    result = client.infer("add", [placed("a", (1, 16), "INT32", source, 64), beside])
    assert result.as_numpy("y").tolist() == [list(range(5, 21))]


@pytest.mark.parametrize("binary", [True, False])
def test_one_output_here_and_one_there(client: InferenceServerClient, region: MakeRegion, binary: bool) -> None:
    target = region(32)
    given = InferInput("x", [1, 4], "INT64")
    given.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.int64), binary_data=binary)
    outputs = [wanted("negated", target, 32), InferRequestedOutput("total", binary_data=binary)]
    result = client.infer("two_outputs", [given], outputs=outputs)
    assert result.as_numpy("total").tolist() == [10]
    assert contents(target, "INT64", (1, 4)).tolist() == [[-1, -2, -3, -4]]


def test_the_client_s_own_view_of_regions(client: InferenceServerClient, region: MakeRegion) -> None:
    assert client.get_system_shared_memory_status() == []
    name, _ = region(64)
    entry = {"name": name, "key": f"/{name}", "offset": 0, "byte_size": 64}
    assert client.get_system_shared_memory_status() == client.get_system_shared_memory_status(name) == [entry]
    with pytest.raises(InferenceServerException, match="already in manager") as caught:
        client.register_system_shared_memory(name, f"/{name}", 64)
    assert caught.value.status() == "400"
    client.unregister_system_shared_memory(name)
    assert client.get_system_shared_memory_status() == []
    with pytest.raises(InferenceServerException, match="CUDA shared memory is not served") as caught:
        client.get_cuda_shared_memory_status()
    assert caught.value.status() == "501"


def test_by_asyncio(server: RunningServer, region: MakeRegion) -> None:
    source = region(64 * 20)
    arrays = [np.full((1, 16), number, np.int32) for number in range(20)]
    shm.set_shared_memory_region(source[1], arrays)

    async def one(client: triton_aio.InferenceServerClient, number: int) -> None:
        inputs = [placed(name, (1, 16), "INT32", source, 64, 64 * number) for name in "ab"]
        await client.infer("add", inputs, outputs=[wanted("y", source, 64, 64 * number)])

    async def together() -> None:
        async with triton_aio.InferenceServerClient(server.address) as client:
            await asyncio.gather(*[one(client, number) for number in range(20)])

    asyncio.run(together())
    for number, array in enumerate(arrays):
        assert np.array_equal(contents(source, "INT32", (1, 16), 64 * number), 2 * array)
