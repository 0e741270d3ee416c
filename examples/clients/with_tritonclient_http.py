"""Ask with Triton's client over HTTP: tensors travel as bytes, which costs neither side any JSON.

pip install 'tritonclient[http]'
python examples/clients/with_tritonclient_http.py [HOST:PORT]
"""

import json
import sys
from pathlib import Path

import numpy as np
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

SAMPLE = Path(__file__).parents[1] / "model_repository" / "breast_cancer" / "sample.json"


def main(address: str) -> None:
    row = np.array(json.loads(SAMPLE.read_text())["inputs"][0]["data"], np.float32).reshape(1, 30)
    features = InferInput("features", row.shape, "FP32")
    features.set_data_from_numpy(row, binary_data=True)
    outputs = [InferRequestedOutput(name, binary_data=True) for name in ("label", "probabilities")]
    # `concurrency` is the number of connections; async_infer uses them all from one thread.
    with InferenceServerClient(address, concurrency=8, connection_timeout=5, network_timeout=5) as client:
        waiting = [
            client.async_infer("breast_cancer", [features], outputs=outputs, timeout=2_000_000) for _ in range(64)
        ]
        answers = [each.get_result() for each in waiting]
    probabilities = [round(value, 4) for value in answers[0].as_numpy("probabilities")[0].tolist()]
    print(len(answers), "answers, label", answers[0].as_numpy("label").tolist(), "probabilities", probabilities)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8000")
