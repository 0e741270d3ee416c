"""The model as a MOSEC worker, in JSON or in raw bytes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mosec import Server, Worker

from benchmarks.comparisons.assignment import read_assignment
from benchmarks.comparisons.engine import load

ASSIGNMENT = read_assignment()


class JsonWorker(Worker):
    def __init__(self) -> None:
        super().__init__()
        self._infer = load(ASSIGNMENT)

    def forward(self, data: Any) -> Any:
        # Without batching it is one item, not a list of one.
        items: Sequence[Any] = data if self.max_batch_size > 1 else [data]
        answers = self.answers(items)
        return answers if self.max_batch_size > 1 else answers[0]

    def answers(self, items: Sequence[Any]) -> list[Any]:
        rows = np.array([item["data"] for item in items], ASSIGNMENT.input_dtype)
        return [{"output": row} for row in self._infer(rows).tolist()]


class BytesWorker(JsonWorker):
    def deserialize(self, data: bytes) -> bytes:
        return data

    def serialize(self, data: bytes) -> bytes:
        return data

    def answers(self, items: Sequence[Any]) -> list[Any]:
        rows = np.frombuffer(b"".join(items), ASSIGNMENT.input_dtype).reshape(len(items), *ASSIGNMENT.input_shape)
        return [row.tobytes() for row in self._infer(rows)]


if __name__ == "__main__":
    server = Server()
    server.append_worker(
        BytesWorker if ASSIGNMENT.form == "binary" else JsonWorker,
        num=ASSIGNMENT.instances,
        max_batch_size=ASSIGNMENT.max_batch_size,
        max_wait_time=ASSIGNMENT.delay_ms if ASSIGNMENT.max_batch_size > 1 else 0,
    )
    server.run()
