"""Calls to a target over gRPC, as bytes. grpcio is imported with the first call."""

import os
import socket
import ssl
import time
from contextlib import closing
from types import TracebackType
from typing import Any, NamedTuple

from guepard.bench.targets.connection import open_connection, speaks_tls
from guepard.bench.targets.header_lines import Headers
from guepard.bench.targets.http_asker import Patience
from guepard.bench.targets.target_refused import TargetRefused
from guepard.measure.load.plan import Endpoint
from guepard.measure.load.tls import tls_context

_UNAVAILABLE = 14
_LOOK_S = 3.0
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class GrpcAnswer(NamedTuple):
    """`code` is gRPC's number, 0 for OK; `message` is empty unless it is."""

    code: int
    details: str
    message: bytes
    seconds: float


class GrpcAsker:
    """One target's server; close it, or use it as a context."""

    def __init__(self, endpoint: Endpoint, metadata: Headers, timeout_s: float, patience: Patience) -> None:
        self.endpoint = endpoint
        self._metadata = metadata
        self._timeout_s = timeout_s
        self._patience = patience
        self._channel: Any = None

    def __enter__(self) -> "GrpcAsker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._channel is not None:
            self._channel.close()

    def call(self, path: str, message: bytes) -> GrpcAnswer:
        """One unary call. Raises: TargetRefused where no gRPC server answers."""
        return self._patience.ask(lambda: self._call(path, message), lambda answer: answer.code == _UNAVAILABLE)

    def _call(self, path: str, message: bytes) -> GrpcAnswer:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails is told in our words, not in the library's
        import grpc

        if self._channel is None:
            # grpcio tells connections that fail apart badly: a connection of our own says first what is wrong.
            with closing(open_connection(self.endpoint, self._timeout_s, "h2")):
                pass
            self._channel = self._open(grpc)
        start = time.monotonic()
        method = self._channel.unary_unary(path)
        try:
            reply = method(message, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            self._channel.close()
            self._channel = None  # it would wait before it connects again
            code, details = error.code().value[0], error.details() or ""
            self._refuse_no_grpc(code, details)
            return GrpcAnswer(code, details, b"", time.monotonic() - start)
        return GrpcAnswer(0, "", reply, time.monotonic() - start)

    def _open(self, grpc: Any) -> Any:
        endpoint = self.endpoint
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        where = f"{host}:{endpoint.port}"
        if not endpoint.tls:
            return grpc.insecure_channel(where, _OPTIONS)
        options: list[tuple[str, Any]] = list(_OPTIONS)
        roots = None
        if endpoint.ca_file is not None:
            with open(endpoint.ca_file, "rb") as file:
                roots = file.read()
        name = endpoint.host_name
        if endpoint.insecure:  # grpcio always checks, so it is told to trust what the server shows
            roots, name = _shown_certificate(endpoint, self._timeout_s)
        if name:
            options.append(("grpc.ssl_target_name_override", name))
        return grpc.secure_channel(where, grpc.ssl_channel_credentials(roots), options)

    def _refuse_no_grpc(self, code: int, details: str) -> None:
        if code not in (2, 12, _UNAVAILABLE):
            return
        where = f"{self.endpoint.host}:{self.endpoint.port}"
        if "http1.x server" in details or "Received http2 header with status" in details:
            raise TargetRefused(
                f"{where}: the server answers in HTTP/1.1 here, not gRPC; name its gRPC port, or write "
                f"http{'s' * self.endpoint.tls}://{where}"
            )
        if code == _UNAVAILABLE and not self.endpoint.tls and speaks_tls(self.endpoint, _LOOK_S):
            raise TargetRefused(f"{where}: the server speaks TLS here; write grpcs://{where}")
        if "ALPN" in details:
            raise TargetRefused(
                f"{where}: the server agrees on no HTTP/2 over TLS, which gRPC needs; is it a gRPC port?"
            )


def _handshake(endpoint: Endpoint, context: ssl.SSLContext, timeout_s: float) -> ssl.SSLSocket:
    plain = socket.create_connection((endpoint.host, endpoint.port), timeout_s)
    try:
        return context.wrap_socket(plain, server_hostname=endpoint.host)
    except OSError:
        plain.close()
        raise


def _shown_certificate(endpoint: Endpoint, timeout_s: float) -> tuple[bytes, str]:
    """The certificate that the server shows, and a name that it is for."""
    with _handshake(endpoint, tls_context(endpoint), timeout_s) as shown:
        der = shown.getpeercert(binary_form=True)
    assert der is not None
    text = ssl.DER_cert_to_PEM_cert(der)
    context = ssl.create_default_context(cadata=text)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    names: list[str] = []
    try:
        with _handshake(endpoint, context, timeout_s) as checked:
            certificate: Any = checked.getpeercert() or {}
        names = [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
        names += [pair[1] for part in certificate.get("subject", ()) for pair in part if pair[0] == "commonName"]
    except ssl.SSLError as error:  # expired, for instance
        raise TargetRefused(
            f"{endpoint.host}:{endpoint.port}: TLS failed ({error.reason}), and over gRPC --insecure cannot help; "
            "renew the server's certificate"
        ) from None
    return text.encode(), names[0].replace("*", "any") if names else endpoint.host
