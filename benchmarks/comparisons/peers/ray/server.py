"""The model as a deployment of Ray Serve: `python server.py FOLDER`."""

import signal
import sys
from typing import Any

import numpy as np
import ray
from ray import serve
from starlette.requests import Request

from benchmarks.comparisons.assignment import read_assignment
from benchmarks.comparisons.engine import load

ASSIGNMENT = read_assignment()


@serve.deployment(
    num_replicas=ASSIGNMENT.instances,
    max_ongoing_requests=256,
    ray_actor_options={"num_cpus": 1 / ASSIGNMENT.instances},
)
class ModelDeployment:
    def __init__(self) -> None:
        self._infer = load(ASSIGNMENT)

    @serve.batch(max_batch_size=ASSIGNMENT.max_batch_size, batch_wait_timeout_s=ASSIGNMENT.delay_ms / 1000)
    async def infer_batch(self, rows: list[Any]) -> list[Any]:
        return self.infer(rows)

    def infer(self, rows: list[Any]) -> list[Any]:
        found: list[Any] = self._infer(np.array(rows, ASSIGNMENT.input_dtype)).tolist()
        return found

    async def __call__(self, request: Request) -> dict[str, Any]:
        row = (await request.json())["data"]
        if ASSIGNMENT.max_batch_size == 1:
            return {"output": self.infer([row])[0]}
        return {"output": await self.infer_batch(row)}


if __name__ == "__main__":
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=200 * 2**20,
        _temp_dir=sys.argv[1],
        runtime_env={"env_vars": dict(ASSIGNMENT.as_environment())},
    )
    serve.start(
        http_options={"host": "127.0.0.1", "port": ASSIGNMENT.http_port}, logging_config={"enable_access_log": False}
    )
    deployment: Any = ModelDeployment
    serve.run(deployment.bind(), name="compared", route_prefix="/predict")
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    ray.shutdown()
