"""Ask with `httpx` from asyncio: many questions at once over a few kept connections, answered in batches.

pip install httpx
python examples/clients/with_httpx.py [URL]
"""

import asyncio
import json
import sys
from pathlib import Path

import httpx

SAMPLE = Path(__file__).parents[1] / "model_repository" / "breast_cancer" / "sample.json"
QUESTIONS = 200
CONNECTIONS = 16


async def main(url: str) -> None:
    question = SAMPLE.read_bytes()
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=httpx.Timeout(5, pool=30)) as client:

        async def ask() -> int:
            answer = await client.post("/v2/models/breast_cancer/infer", content=question)
            answer.raise_for_status()
            label: int = answer.json()["outputs"][0]["data"][0]
            return label

        labels = await asyncio.gather(*[ask() for _ in range(QUESTIONS)])
        print(f"{len(labels)} answers, labels {sorted(set(labels))}")
        statistics = (await client.get("/v2/models/breast_cancer/stats")).json()["model_stats"][0]
        print(json.dumps({"rows": statistics["inference_count"], "executions": statistics["execution_count"]}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"))
