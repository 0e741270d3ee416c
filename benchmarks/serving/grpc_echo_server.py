"""The bare gRPC echo: the least that grpc.aio can do for a call. The yardstick of gRPC's overhead.

Bytes in, bytes out, on uvloop: no message is parsed and the same answer is always given, as long as the model's own.
"""

import argparse
from typing import Any

import grpc
import uvloop

from benchmarks.models import MLP
from benchmarks.serving.grpc_payload import METHOD, SERVICE, answer_message


async def serve(port: int) -> None:
    answer = answer_message(MLP)

    async def echo(message: bytes, context: Any) -> bytes:
        return answer

    server = grpc.aio.server()
    handlers = {METHOD: grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(serve(parser.parse_args().port))
