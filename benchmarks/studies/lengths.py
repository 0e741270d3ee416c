"""What does it cost to serve texts of different lengths, and how much of it is padding?

All-MiniLM-L6-v2 in FP32 with a free sequence, one text a request, `CALLERS` requests at a time through
`guepard.load(...).infer_async`. Lengths are log-normal around 20 tokens, as questions and sentences are, from 4 to 128;
the same ones in the same order for every way of batching. A second round has every length multiplied by four, up to
512. CPU time of the whole process per request, which strangers on the machine stretch less than they do time on the
clock; the ways take turns and the median of the turns is told, with requests per second and padding's share of the
tokens.

Not shown: machines where a batch costs little more than a row. There padding costs little, and every way of batching
gains more.

    python -m benchmarks.studies.lengths [TURNS]
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import guepard
from benchmarks.models import MINILM_LENGTHS
from guepard.batching import dynamic_batcher
from guepard.batching.length_sorted import LengthSortedQueue
from guepard.batching.request_queue import RequestQueue
from guepard.core.padding import Padding
from guepard.core.request import InferenceRequest

REQUESTS = 192
CALLERS = 32
ROUNDS = {"around 20 tokens": 1, "around 80 tokens": 4}

Feed = dict[str, Any]


class ArrivalOrder(RequestQueue):
    """What others do: whoever came first, padded to the longest."""

    __slots__ = ("_padding",)

    def __init__(self, padding: Padding) -> None:
        super().__init__()
        self._padding = padding

    def push(self, request: InferenceRequest) -> None:
        request.length = self._padding.length_of(request.arrays)
        super().push(request)


class Way(NamedTuple):
    options: dict[str, Any]
    queue: type[Any] = LengthSortedQueue


UNBOUNDED = {"max_tokens": 1_000_000, "max_padding": 1_000_000}
WAYS = {
    "one batch for each length": Way({"padding": {"inputs": {}}}),
    "padded in order of arrival": Way({"padding": UNBOUNDED}, ArrivalOrder),
    "padded, neighbours in length": Way({"padding": UNBOUNDED}),
    "the same, bounds measured (default)": Way({}),
    "the same, buckets 8, 16, 32 … 512": Way({"padding": {"buckets": [8, 16, 32, 64, 128, 256, 512]}}),
}


class Run(NamedTuple):
    cpu_ms: float
    per_second: float
    padding_share: float
    rows: float


@contextmanager
def loaded(way: Way) -> Iterator[Any]:
    with patch.object(dynamic_batcher, "LengthSortedQueue", way.queue):
        model = guepard.load(str(MINILM_LENGTHS.path()), **way.options)
    with model:
        yield model


def texts(factor: int) -> list[Feed]:
    random = np.random.default_rng(1)
    lengths = np.clip(random.lognormal(np.log(20), 0.7, REQUESTS).round(), 4, 128).astype(int) * factor
    ids = [random.integers(1_000, 20_000, (1, length)) for length in lengths]
    return [{"input_ids": each, "attention_mask": np.ones_like(each)} for each in ids]


async def ask(model: Any, feeds: list[Feed]) -> None:
    waiting = iter(feeds)

    async def caller() -> None:
        for feed in waiting:
            await model.infer_async(feed)

    await asyncio.gather(*[caller() for _ in range(CALLERS)])


def run(model: Any, feeds: list[Feed]) -> Run:
    before = model._served.statistics.read()
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(ask(model, feeds))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    after = model._served.statistics.read()
    own, padding = (
        (new - (before.tokens[kind] if before.tokens else 0) for kind, new in enumerate(after.tokens))
        if after.tokens
        else (1, 0)
    )
    return Run(
        cpu / len(feeds) * 1e3,
        len(feeds) / wall,
        padding / (own + padding),
        (after.rows - before.rows) / (after.executions - before.executions),
    )


def main() -> None:
    turns = int(sys.argv[1]) if sys.argv[1:] else 5
    for title, factor in ROUNDS.items():
        feeds = texts(factor)
        found: dict[str, list[Run]] = {label: [] for label in WAYS}
        for turn in range(turns):
            for label, way in WAYS.items():
                with loaded(way) as model:
                    if not turn:
                        padding = model.config["guepard"].get("padding") or {}
                        print(f"{label}: {padding.get('max_tokens')}, {padding.get('max_padding')}", file=sys.stderr)
                    found[label].append(run(model, feeds))
        print(f"\n{title:38}{'CPU/request':>12}{'requests/s':>12}{'padding':>9}{'rows':>6}{'of the first':>14}")
        first = found[next(iter(WAYS))]
        for label, runs in found.items():
            ratio = median(one.cpu_ms / other.cpu_ms for one, other in zip(runs, first, strict=True))
            cpu_ms, rate, share, rows = (median(column) for column in zip(*runs, strict=True))
            print(f"{label:38}{cpu_ms:9.2f} ms{rate:12.1f}{share:9.1%}{rows:6.1f}{ratio:13.2f} ×")


if __name__ == "__main__":
    main()
