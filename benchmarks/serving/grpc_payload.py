"""A `ModelInfer` call and its answer as bytes, made with Triton's own messages rather than Guepard's.

A benchmark that shared the server's codec could not notice that it is wrong.
"""

import grpc
import numpy as np
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from benchmarks.models import ReferenceModel
from benchmarks.serving.payload import DATATYPES
from benchmarks.serving.raw_engine import open_session

SERVICE, METHOD = "inference.GRPCInferenceService", "ModelInfer"
PATH = f"/{SERVICE}/{METHOD}"


def request_message(model: ReferenceModel) -> bytes:
    """One row of the model's sample, as raw contents."""
    row = model.sample(1)
    message = service_pb2.ModelInferRequest(model_name=model.name, raw_input_contents=[row.tobytes()])
    message.inputs.add(name=model.input_name, datatype=DATATYPES[str(row.dtype)], shape=row.shape)
    encoded: bytes = message.SerializeToString()
    return encoded


def answer_message(model: ReferenceModel) -> bytes:
    """What a server should answer to it."""
    (output,) = open_session(model).run([model.output_name], {model.input_name: model.sample(1)})
    message = service_pb2.ModelInferResponse(
        model_name=model.name, model_version="1", raw_output_contents=[output.tobytes()]
    )
    message.outputs.add(name=model.output_name, datatype=DATATYPES[str(output.dtype)], shape=output.shape)
    encoded: bytes = message.SerializeToString()
    return encoded


def check_answer(model: ReferenceModel, port: int) -> None:
    """Ask a server for the model's first sample row and compare with the engine. Raises: AssertionError."""
    got = ask(port, request_message(model))
    assert_allclose(output_values(got), output_values(answer_message(model)), rtol=1e-3, atol=1e-5)


def ask(port: int, message: bytes) -> bytes:
    """Call once. Raises: grpc.RpcError."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer: bytes = channel.unary_unary(PATH)(message, timeout=30)
    return answer


def output_values(message: bytes) -> NDArray[np.float32]:
    """The values of the only output, in raw or in typed contents."""
    answer = service_pb2.ModelInferResponse.FromString(message)
    if answer.raw_output_contents:
        return np.frombuffer(answer.raw_output_contents[0], np.float32)
    return np.array(answer.outputs[0].contents.fp32_contents, np.float32)
