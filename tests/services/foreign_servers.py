"""HTTP and gRPC servers that are not ours, each a few lines of a test: what they answer is a function."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import grpc
import orjson

from tests.services.certificates import Certificate


class Asked(NamedTuple):
    """Names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class Told(NamedTuple):
    status: int
    body: object = b""
    headers: Mapping[str, str] = {}


class ForeignServer:
    """`url` and what it was `asked`, in order."""

    def __init__(self, url: str, port: int) -> None:
        self.url = url
        self.port = port
        self.asked: list[Asked] = []


@contextmanager
def foreign_server(answer: Callable[[Asked], Told], certificate: Certificate | None = None) -> Iterator[ForeignServer]:
    """An HTTP/1.1 server on a port of the system's choice, until the context ends. A dict or list is sent as JSON."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "Foreign/2"
        sys_version = ""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body)
            served.asked.append(asked)
            status, told, extra = answer(asked)
            data = told if isinstance(told, bytes) else orjson.dumps(told)
            kind = {} if isinstance(told, bytes) else {"Content-Type": "application/json"}
            self.send_response(status)
            for name, value in {**kind, **extra, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_HEAD = do_PUT = _answer  # noqa: N815 - names of http.server

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *arguments: object) -> None:
            pass  # clients that are no HTTP, or that do not trust the certificate

    with Server(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            server.socket = certificate.context().wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        port = server.server_address[1]
        served = ForeignServer(f"http{'s' * (certificate is not None)}://127.0.0.1:{port}", port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def foreign_grpc_server(
    methods: Mapping[str, Callable[[bytes, Any], bytes]], certificate: Certificate
) -> Iterator[int]:
    """The port of a gRPC server with TLS whose methods, by their paths, are functions of bytes."""

    class Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            method = methods.get(details.method)
            return None if method is None else grpc.unary_unary_rpc_method_handler(method)

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Methods()])
    pair = (certificate.key.read_bytes(), certificate.file.read_bytes())
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()
