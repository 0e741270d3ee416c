"""Ask with Triton's client over gRPC: one channel for all threads, large messages allowed, dead peers noticed.

pip install 'tritonclient[grpc]'
python examples/clients/with_tritonclient_grpc.py [HOST:PORT]
"""

import json
import sys
from pathlib import Path

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput, KeepAliveOptions

SAMPLE = Path(__file__).parents[1] / "model_repository" / "breast_cancer" / "sample.json"

# gRPC clients take 4 MiB of an answer unless told otherwise; this one takes what the server sends by default.
LARGE_MESSAGES = [
    ("grpc.max_send_message_length", 128 * 1024 * 1024),
    ("grpc.max_receive_message_length", 128 * 1024 * 1024),
]
KEEP_ALIVE = KeepAliveOptions(
    keepalive_time_ms=30_000, keepalive_timeout_ms=10_000, keepalive_permit_without_calls=True
)


def main(address: str) -> None:
    row = np.array(json.loads(SAMPLE.read_text())["inputs"][0]["data"], np.float32).reshape(1, 30)
    features = InferInput("features", row.shape, "FP32")
    features.set_data_from_numpy(row)
    with InferenceServerClient(address, channel_args=LARGE_MESSAGES, keepalive_options=KEEP_ALIVE) as client:
        # `client_timeout` is the call's deadline in seconds: the server gives up when the client does.
        answer = client.infer("breast_cancer", [features], client_timeout=2)
    probabilities = [round(value, 4) for value in answer.as_numpy("probabilities")[0].tolist()]
    print("label", answer.as_numpy("label").tolist(), "probabilities", probabilities)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8001")
