"""The model as a LitServe API."""

from typing import Any

import litserve
import numpy as np

from benchmarks.comparisons.assignment import read_assignment
from benchmarks.comparisons.engine import Array, load

ASSIGNMENT = read_assignment()


class ModelApi(litserve.LitAPI):
    def setup(self, device: str) -> None:
        self._infer = load(ASSIGNMENT)

    def decode_request(self, request: dict[str, Any]) -> Array:
        return np.array(request["data"], ASSIGNMENT.input_dtype)

    def batch(self, inputs: list[Array]) -> Array:
        return np.stack(inputs)

    def predict(self, rows: Array) -> Array:
        # A single row comes without the dimension of a batch where there is no batching.
        return self._infer(rows) if ASSIGNMENT.max_batch_size > 1 else self._infer(rows[None])[0]

    def unbatch(self, output: Array) -> list[Array]:
        return list(output)

    def encode_response(self, output: Array) -> dict[str, Any]:
        return {"output": output.tolist()}


if __name__ == "__main__":
    api = ModelApi(max_batch_size=ASSIGNMENT.max_batch_size, batch_timeout=ASSIGNMENT.delay_ms / 1000)
    server = litserve.LitServer(
        api, accelerator="cpu", workers_per_device=ASSIGNMENT.instances, timeout=60, fast_queue=True
    )
    server.run(
        host="127.0.0.1",
        port=ASSIGNMENT.http_port,
        num_api_servers=1,
        log_level="warning",
        access_log=False,
        generate_client_file=False,
    )
