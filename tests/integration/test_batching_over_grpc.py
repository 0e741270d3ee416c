"""Dynamic batching over gRPC and HTTP: the right answer to the right caller, whoever shares the batch or leaves it."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import one_input
from tests.services.grpc_calls import INFER, infer_message, int_row, set_parameter
from tests.services.memory import rss_mib
from tests.services.raw_http import gauge
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"

EIGHT = "max_batch_size: 8, dynamic_batching: {max_queue_delay: 20s}"
NEVER_FULL = "max_batch_size: 1024, dynamic_batching: {max_queue_delay: 20s}"
SOON = "max_batch_size: 8, dynamic_batching: {max_queue_delay: 20ms}"
PYTHON = {
    "echo": ("EchoParameters", SOON),
    "fail": ("FailNegative", EIGHT),
    "refuse": ("RefuseNegative", EIGHT),
    "refuse_once": ("RefuseNegativeOnce", EIGHT),
    "sleep": ("Sleep", "max_batch_size: 8"),
    "pair": ("Sleep", "max_batch_size: 2, dynamic_batching: {max_queue_delay: 20s}"),
    "queue": ("Sleep", "max_batch_size: 1, dynamic_batching: {max_queue_size: 10}"),
}

BUSY = re.compile(r"^guepard_(grpc_calls|inflight_bytes|queue_depth|executing_requests)\b.* [1-9]", re.MULTILINE)

Infer = Any  # a ModelInfer of grpc.aio
T = TypeVar("T")


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    onnx_models.write_model(models / "ident.onnx", onnx_models.identity("INT64", ["n", 1]))
    onnx_models.write_model(models / "wide.onnx", onnx_models.identity("FP32", ["n", "m"]))
    entries = [f"  - {{name: ident, path: ident.onnx, {SOON}}}", f"  - {{name: hold, path: wide.onnx, {NEVER_FULL}}}"]
    for name, (entry, options) in PYTHON.items():
        path = f"'{PYTHON_MODELS}:{entry}'"
        entries.append(f"  - {{name: {name}, path: {path}, backend: python, trust: true, {options}}}")
    (models / "guepard.yaml").write_text("\n".join(["models:", *entries]))
    return serve("--config", models / "guepard.yaml")


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """One loop for all calls: the client library minds to see several."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(autouse=True)
def nothing_is_left(server: RunningServer) -> Any:
    """However calls end, what they held is given back."""
    yield
    wait_until(lambda: not BUSY.search(server.metrics()))
    noise = [
        record for record in server.records() if record.get("logger", "raw").startswith(("raw", "grpc", "asyncio"))
    ]
    assert not noise


Act = Callable[[Infer], Awaitable[T]]
OnChannel = Callable[[Act[Any]], Any]


@pytest.fixture
def on_channel(server: RunningServer, loop: asyncio.Runner) -> OnChannel:
    """Run what is given with the ModelInfer of one channel, which all its calls share."""

    async def run(act: Act[T]) -> T:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            return await act(channel.unary_unary(INFER))

    return lambda act: loop.run(run(act))


async def outcome(infer: Infer, message: bytes) -> Any:
    """The response, or the name of the status."""
    try:
        return service_pb2.ModelInferResponse.FromString(await infer(message, timeout=20))
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details()


async def all_together(infer: Infer, messages: Sequence[bytes]) -> list[Any]:
    return list(await asyncio.gather(*[outcome(infer, message) for message in messages]))


def float_row(model: str, *values: float) -> bytes:
    return infer_message(model, "FP32", [len(values), 1], np.array(values, np.float32).tobytes())


def numbers(response: Any, dtype: Any = np.float32) -> list[Any]:
    assert not isinstance(response, tuple), response
    (data,) = response.raw_output_contents
    return list(np.frombuffer(data, dtype).tolist())


def batch_sizes(server: RunningServer, model: str) -> Counter[int]:
    """Executions by their rows, so far."""
    (document,) = server.request("GET", f"/v2/models/{model}/stats").json["model_stats"]
    return Counter({entry["batch_size"]: entry["compute_infer"]["count"] for entry in document["batch_stats"]})


def test_each_of_a_hundred_callers_gets_its_own_integer(server: RunningServer, on_channel: OnChannel) -> None:
    """SeldonIO/MLServer#1306: one caller got the predictions of three, the others nothing."""
    before = batch_sizes(server, "ident")

    async def rounds(infer: Infer) -> None:
        for round_number in range(10):
            values = [round_number * 1_000 + caller for caller in range(100)]
            replies = await asyncio.gather(*[outcome(infer, int_row("ident", value)) for value in values])
            assert [numbers(reply, np.int64) for reply in replies] == [[value] for value in values]
            assert {tuple(reply.outputs[0].shape) for reply in replies} == {(1, 1)}

    on_channel(rounds)
    sizes = batch_sizes(server, "ident") - before
    assert sum(rows * count for rows, count in sizes.items()) == 1_000
    assert 1 < max(sizes) <= 8
    assert sum(sizes.values()) < 1_000


def test_callers_over_http_and_grpc_share_batches(server: RunningServer, on_channel: OnChannel) -> None:
    before = batch_sizes(server, "fail")

    async def act(infer: Infer) -> list[float]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def over_http(value: float) -> float:
                body = one_input("FP32", [value])
                async with session.post(f"{server.url}/v2/models/fail/infer", json=body) as answer:
                    return float((await answer.json())["outputs"][0]["data"][0])

            async def over_grpc(value: float) -> float:
                return float(numbers(await outcome(infer, float_row("fail", value)))[0])

            ways = [over_http, over_grpc]
            return list(await asyncio.gather(*[ways[number % 2](float(number)) for number in range(8)]))

    assert on_channel(act) == [2.0 * number for number in range(8)]
    assert batch_sizes(server, "fail") - before == {8: 1}


@pytest.mark.parametrize(
    ("model", "status", "details"),
    [
        ("fail", "INTERNAL", "model 'fail' failed: ArithmeticError"),
        ("refuse", "INVALID_ARGUMENT", "x must not be negative"),
    ],
)
def test_one_bad_row_fails_alone(
    server: RunningServer, on_channel: OnChannel, model: str, status: str, details: str
) -> None:
    """Lightning-AI/LitServe#340: one bad item made every request of the same batch fail."""
    values = [1.0, 2.0, 3.0, -1.0, 4.0, 5.0, 6.0, 7.0]
    replies = on_channel(lambda infer: all_together(infer, [float_row(model, value) for value in values]))
    assert replies.pop(3) == (status, details)
    assert [numbers(reply) for reply in replies] == [[2.0 * value] for value in range(1, 8)]


def test_a_refused_row_is_not_blamed_on_those_who_shared_its_batch(
    server: RunningServer, on_channel: OnChannel
) -> None:
    values = [1.0, 2.0, 3.0, -1.0, 4.0, 5.0, 6.0, 7.0]
    replies = on_channel(lambda infer: all_together(infer, [float_row("refuse_once", value) for value in values]))
    assert replies.pop(3) == ("INVALID_ARGUMENT", "x must not be negative")
    assert {status for status, _ in replies} == {"INTERNAL"}


def test_a_large_request_is_split_and_joined_in_order(server: RunningServer, on_channel: OnChannel) -> None:
    values = np.arange(100)
    large = infer_message("ident", "INT64", [100, 1], values.tobytes())
    first, *others = on_channel(
        lambda infer: all_together(infer, [large, *[int_row("ident", 1_000 + caller) for caller in range(20)]])
    )
    assert numbers(first, np.int64) == values.tolist()
    assert [numbers(reply, np.int64) for reply in others] == [[1_000 + caller] for caller in range(20)]


@pytest.mark.parametrize("copies", [1, 2, 8])
def test_parameters_come_back_as_they_were_sent(server: RunningServer, on_channel: OnChannel, copies: int) -> None:
    """SeldonIO/MLServer#1541: "123" became "1", and an integer raised."""
    sent: list[dict[str, Any]] = [{"id": "123", "n": 7 + copy, "flag": True, "half": 0.5} for copy in range(copies)]
    sent[-1] = {}
    messages = []
    for parameters in sent:
        request = service_pb2.ModelInferRequest.FromString(float_row("echo", 0.0))
        for key, value in parameters.items():
            set_parameter(request.parameters[key], value)
        messages.append(request.SerializeToString())
    told = [
        json.loads(reply.raw_output_contents[0][4:])
        for reply in on_channel(lambda infer: all_together(infer, messages))
    ]
    assert told == sent
    assert [[type(each[key]) for key in sorted(each)] for each in told] == [
        [type(each[key]) for key in sorted(each)] for each in sent
    ]


class TestCallersWhoLeave:
    def test_while_they_wait_in_a_batch_with_others(self, server: RunningServer, on_channel: OnChannel) -> None:
        """Their rows are not run; the batch fills up with those who stayed."""

        async def act(infer: Infer) -> list[Any]:
            leaving = [infer(float_row("fail", -100.0)) for _ in range(5)]
            await until(lambda: gauge(server, 'guepard_queue_depth{model="fail",version="1"}') == 5)
            for call in leaving:
                call.cancel()
            await until(lambda: gauge(server, 'guepard_queue_depth{model="fail",version="1"}') == 0)
            replies = await asyncio.gather(*[outcome(infer, float_row("fail", float(value))) for value in range(8)])
            assert all(call.cancelled() for call in leaving)
            return list(replies)

        assert [numbers(reply) for reply in on_channel(act)] == [[2.0 * value] for value in range(8)]

    def test_while_their_batch_runs(self, server: RunningServer, on_channel: OnChannel) -> None:
        async def act(infer: Infer) -> Any:
            staying = asyncio.ensure_future(outcome(infer, int_row("pair", 150, "INT32")))
            leaving = infer(int_row("pair", 150, "INT32"))
            await until(lambda: gauge(server, 'guepard_executing_requests{model="pair",version="1"}') == 2)
            leaving.cancel()
            return await staying

        assert numbers(on_channel(act), np.int32) == [150]

    def test_queued_callers_who_leave_make_room(self, server: RunningServer, on_channel: OnChannel) -> None:
        """ray-project/ray#60118: each of them kept its place in the queue's count, until everybody was refused."""

        async def act(infer: Infer) -> list[Any]:
            running = asyncio.ensure_future(outcome(infer, int_row("queue", 1_000, "INT32")))
            await until(lambda: gauge(server, 'guepard_executing_requests{model="queue",version="1"}') == 1)
            for _ in range(3):
                leaving = [infer(int_row("queue", 1, "INT32")) for _ in range(10)]
                await until(lambda: gauge(server, 'guepard_queue_depth{model="queue",version="1"}') == 10)
                for call in leaving:
                    call.cancel()
                await until(lambda: gauge(server, 'guepard_queue_depth{model="queue",version="1"}') == 0)
            good = [outcome(infer, int_row("queue", 2, "INT32")) for _ in range(5)]
            return list(await asyncio.gather(running, *good))

        assert [numbers(reply, np.int32) for reply in on_channel(act)] == [[1_000]] + [[2]] * 5

    def test_thousands_of_them_cost_no_memory(self, server: RunningServer, on_channel: OnChannel) -> None:
        """grpc/grpc#43360: every cancelled call of an asyncio server left memory behind. Here each has 32 KiB."""
        message = infer_message("hold", "FP32", [1, 8_192], bytes(32_768))

        async def leave(infer: Infer, rounds: int) -> None:
            for _ in range(rounds):
                calls = [infer(message) for _ in range(500)]
                await until(lambda: gauge(server, 'guepard_queue_depth{model="hold",version="1"}') == 500)
                for call in calls:
                    call.cancel()
                await until(lambda: gauge(server, "guepard_inflight_bytes") == 0)

        on_channel(lambda infer: leave(infer, 3))
        before = rss_mib(server)
        on_channel(lambda infer: leave(infer, 4))
        assert rss_mib(server) - before < 40  # of the 63 that they were

    def test_whoever_follows_the_health_and_leaves_costs_no_memory(
        self, server: RunningServer, loop: asyncio.Runner
    ) -> None:
        async def leave(count: int) -> None:
            async with grpc.aio.insecure_channel(server.grpc_address) as channel:
                watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
                for _ in range(count // 50):
                    calls = [watch(b"") for _ in range(50)]
                    assert set(await asyncio.gather(*[call.read() for call in calls])) == {b"\x08\x01"}
                    for call in calls:
                        call.cancel()

        loop.run(leave(200))
        before = rss_mib(server)
        loop.run(leave(1_000))
        assert rss_mib(server) - before < 15


async def until(condition: Callable[[], bool]) -> None:
    """Wait for `condition` in a thread, so that calls go on meanwhile."""
    await asyncio.to_thread(wait_until, condition)


def test_hundreds_of_calls_share_one_connection(server: RunningServer, on_channel: OnChannel) -> None:
    """No bound on streams is in their way: 500 wait at once for the one instance."""

    async def act(infer: Infer) -> list[Any]:
        calls = [outcome(infer, int_row("sleep", 5, "INT32")) for _ in range(500)]
        return list(await asyncio.gather(*calls))

    assert [numbers(reply, np.int32) for reply in on_channel(act)] == [[5]] * 500
