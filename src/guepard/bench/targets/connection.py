"""A connection to a target, with or without TLS, and in words why there is none."""

import socket
import ssl
from typing import NoReturn

import msgspec

from guepard.bench.targets.target_refused import TargetRefused
from guepard.core.errors import ConfigurationError
from guepard.measure.load.plan import Endpoint
from guepard.measure.load.tls import tls_context

# OpenSSL's X509_V_ERR_*; source: openssl-verification-options(1).
_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_HOST, _OTHER_ADDRESS = 62, 64
# What OpenSSL calls an answer that is no TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")


class Unreachable(TargetRefused):
    """Nothing listens there, or not yet: what waiting may cure."""


def check_ca_file(ca_file: str | None) -> None:
    """Raises: ConfigurationError for a file of certificates that cannot be read."""
    if ca_file is None:
        return
    try:
        ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise ConfigurationError(f"--ca-file {ca_file}: holds no certificates in PEM form") from None
    except OSError as error:
        raise ConfigurationError(f"--ca-file {ca_file}: cannot be read ({error.strerror})") from None


def open_connection(endpoint: Endpoint, timeout_s: float, alpn: str = "http/1.1") -> socket.socket:
    """A connected socket; with TLS its handshake is done.

    Raises: TargetRefused (Unreachable where nothing answers).
    """
    context = tls_context(endpoint, (alpn,)) if endpoint.tls else None
    where = f"{endpoint.host}:{endpoint.port}"
    try:
        plain = socket.create_connection((endpoint.host, endpoint.port), timeout_s)
    except socket.gaierror as error:
        raise TargetRefused(f"{endpoint.host}: no such host ({error.strerror}); check the name") from None
    except ConnectionRefusedError:
        raise Unreachable(
            f"{where}: connection refused, nothing listens there; start the server or correct the port"
        ) from None
    except TimeoutError:
        raise Unreachable(
            f"{where}: no connection within {timeout_s:g} s; is the address right, and does a firewall let it through?"
        ) from None
    except OSError as error:
        raise Unreachable(f"{where}: unreachable ({error.strerror or error}); check address and network") from None
    if context is None:
        return plain
    try:
        return context.wrap_socket(plain, server_hostname=endpoint.host_name or endpoint.host)
    except (OSError, ValueError) as error:
        plain.close()
        _refuse_tls(error, endpoint, where, timeout_s)


def _refuse_tls(error: Exception, endpoint: Endpoint, where: str, timeout_s: float) -> NoReturn:
    plain = f"{'grpc' if endpoint.protocol == 'grpc' else 'http'}://{where}"
    if isinstance(error, ssl.SSLCertVerificationError):
        code = error.verify_code
        if code in (_OTHER_HOST, _OTHER_ADDRESS):
            why = f"its certificate is not for {endpoint.host_name or endpoint.host}"
            remedy = "use the name that it is for, or --insecure to measure without checking"
        elif code in (_NOT_YET_VALID, _EXPIRED):
            why = "its certificate has expired" if code == _EXPIRED else "its certificate is not valid yet"
            remedy = "renew it, check this machine's clock, or use --insecure to measure without checking"
        else:
            why = f"its certificate is not trusted ({error.verify_message})"
            remedy = "name the authority's certificate with --ca-file, or use --insecure to measure without checking"
        raise TargetRefused(f"{where}: TLS failed, {why}; {remedy}")
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        raise TargetRefused(f"{where}: TLS failed, the server does not speak TLS here; write {plain}")
    if isinstance(error, TimeoutError):
        raise TargetRefused(
            f"{where}: no TLS handshake within {timeout_s:g} s; if the server does not speak TLS here, write {plain}"
        )
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        raise TargetRefused(
            f"{where}: the server closed the connection in the TLS handshake; if it does not speak TLS here, "
            f"write {plain}"
        )
    raise TargetRefused(f"{where}: TLS failed ({error}); check the server's TLS settings")


def speaks_tls(endpoint: Endpoint, timeout_s: float) -> bool:
    """Whether a TLS handshake succeeds there, whoever the certificate is for."""
    try:
        with socket.create_connection((endpoint.host, endpoint.port), timeout_s) as plain:
            insecure = msgspec.structs.replace(endpoint, insecure=True, ca_file=None)
            tls_context(insecure).wrap_socket(plain, server_hostname=endpoint.host).close()
    except (OSError, ValueError):
        return False
    return True


def is_same_machine(host: str) -> bool:
    """Whether `host` is an address of this machine. Cost: one look-up of the name, no packet to the host."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, number, _, address in found:
        try:
            with socket.socket(family, kind, number) as probe:
                probe.bind(address)  # only an address of this machine can be bound
                return True
        except OSError:
            continue
    return False
