"""Who may manage and observe: media types, web pages in a browser, and callers from beyond loopback.

Credentials come with a later part; until then `auth.anonymous` is the only way to open these routes.
"""

from pathlib import Path

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import RawClient, assert_alive, message

MANAGED = [
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/ident/load"),
    ("POST", "/v2/repository/models/other/unload"),
    ("POST", "/v2/logging"),
    ("POST", "/v2/trace/setting"),
    ("POST", "/v2/models/ident/trace/setting"),
]
OBSERVED = [
    ("GET", "/v2/models/stats"),
    ("GET", "/v2/models/ident/stats"),
    ("GET", "/v2/models/ident/versions/1/stats"),
    ("GET", "/v2/logging"),
    ("GET", "/v2/trace/setting"),
    ("GET", "/v2/models/ident/trace/setting"),
]
OPEN = [
    ("GET", "/v2"),
    ("GET", "/v2/health/live"),
    ("GET", "/v2/health/ready"),
    ("GET", "/v2/models/ident"),
    ("GET", "/v2/models/ident/ready"),
    ("GET", "/v2/models/ident/config"),
]
TENSOR = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]}'


@pytest.fixture(scope="module")
def model(models: Path) -> Path:
    return write_model(models / "ident", identity("FP32", ["n", "m"]))


@pytest.fixture(scope="module")
def local(serve: Serve, model: Path) -> RunningServer:
    return serve(f"ident={model}", f"other={model}", "--allowed-hosts", "models.example")


def statuses(
    port: int, method: str, path: str, *headers: str, host: str = "localhost", body: bytes = b"{}"
) -> list[int]:
    """What is answered to one request sent three times over one connection: the answer may not depend on memory."""
    request = message(method, path, body if method == "POST" else None, headers)
    request = request.replace(b"Host: localhost\r\n", f"Host: {host}\r\n".encode("latin-1"))
    with RawClient(port) as client:
        return [client.ask(request).status for _ in range(3)]


def ready_models(server: RunningServer) -> set[str]:
    index = server.request("POST", "/v2/repository/index", b"")
    assert index.status == 200
    return {entry["name"] for entry in index.json if entry["state"] == "READY"}


FOREIGN = [
    ("Origin: http://evil.example",),
    ("Origin: http://localhost:1",),
    ("Origin: https://localhost.evil.example",),
    ("Origin: null",),
    ("Origin: file://",),
    ("Origin: http://[::1",),
    ("Origin:",),
    ("Sec-Fetch-Site: cross-site",),
    ("Sec-Fetch-Site: same-site",),
    ("Sec-Fetch-Site: CROSS-SITE",),
    ("Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"),
    ("Origin: http://localhost", "Origin: http://evil.example"),
    ("Origin: http://localhost", "Sec-Fetch-Site: cross-site"),
]


@pytest.mark.parametrize("headers", FOREIGN, ids=" + ".join)
@pytest.mark.parametrize(("method", "path"), MANAGED + OBSERVED)
def test_a_page_of_another_site_gets_nothing(
    local: RunningServer, method: str, path: str, headers: tuple[str, ...]
) -> None:
    assert statuses(local.http_port, method, path, *headers) == [403] * 3
    assert ready_models(local) == {"ident", "other"}


HOSTS = {
    "localhost": 200,
    "localhost:8000": 200,
    "LOCALHOST": 200,
    "api.localhost": 200,
    "127.0.0.1:8000": 200,
    "[::1]:8000": 200,
    "10.1.2.3": 200,
    "models.example": 200,
    "models.example:8000": 200,
    "evil.example": 403,
    "localhost.evil.example": 403,
    "models.example.evil.example": 403,
    "127.0.0.1.evil.example": 403,
    "evil.example:8000": 403,
    "localhost@evil.example": 403,
    "evil.example#localhost": 403,
    "[::1": 403,
    "": 403,
    " ": 403,
    "0x7f000001.evil.example": 403,
    "\xe9": 403,
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("method", "path"), [MANAGED[0], OBSERVED[0]])
def test_a_name_that_a_page_could_point_here_is_not_ours(
    local: RunningServer, method: str, path: str, host: str
) -> None:
    assert statuses(local.http_port, method, path, host=host) == [HOSTS[host]] * 3


@pytest.mark.parametrize(
    "headers", [(), ("Origin: http://localhost",), ("Sec-Fetch-Site: same-origin",), ("Sec-Fetch-Site: none",)]
)
@pytest.mark.parametrize(("method", "path"), [MANAGED[0], *OBSERVED])
def test_tools_and_own_pages_pass(local: RunningServer, method: str, path: str, headers: tuple[str, ...]) -> None:
    assert statuses(local.http_port, method, path, *headers) == [200] * 3


def test_the_metrics_port_is_guarded_too(local: RunningServer) -> None:
    port = local.metrics_port
    assert statuses(port, "GET", "/metrics") == [200] * 3
    assert statuses(port, "GET", "/metrics", "Origin: http://evil.example") == [403] * 3
    assert statuses(port, "GET", "/metrics", host="evil.example") == [403] * 3


def test_health_and_inference_ask_for_no_origin(local: RunningServer) -> None:
    for headers in FOREIGN:
        assert statuses(local.http_port, "GET", "/v2/health/live", *headers, host="evil.example") == [200] * 3
        assert statuses(local.http_port, "POST", "/v2/models/ident/infer", *headers, body=TENSOR) == [200] * 3


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (None, 200),
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/octet-stream", 200),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/plain", 415),
        ("application/json; charset=utf-16", 415),
        ("application/python-pickle", 415),
        ("*/*", 415),
    ],
)
@pytest.mark.parametrize(("method", "path"), MANAGED[:2])
@pytest.mark.parametrize("body", [b"{}", b""])
def test_management_reads_json_and_what_a_form_cannot_send(
    local: RunningServer, method: str, path: str, body: bytes, content_type: str | None, status: int
) -> None:
    """Also where nothing follows the head: a page can send that without asking first."""
    headers = [f"Content-Type: {content_type}"] if content_type else []
    assert statuses(local.http_port, method, path, *headers, body=body) == [status] * 3


@pytest.mark.parametrize(
    "parameters",
    [
        '{"config": "{}"}',
        '{"config": ""}',
        '{"file:1/model.onnx": "aGVsbG8="}',
        '{"file:../../evil": ""}',
        '{"config": "{}", "file:1/model.py": "aW1wb3J0IG9z"}',
    ],
)
def test_no_client_sets_files_or_configuration(local: RunningServer, parameters: str) -> None:
    body = f'{{"parameters": {parameters}}}'.encode()
    with RawClient(local.http_port) as client:
        answer = client.ask(message("POST", "/v2/repository/models/ident/load", body))
        assert (answer.status, answer.json["code"]) == (403, "permission_denied")
    assert ready_models(local) == {"ident", "other"}
    assert_alive(local)


def test_beyond_loopback_all_but_health_and_inference_is_closed(serve: Serve, model: Path) -> None:
    server = serve(f"ident={model}", "--host", "0.0.0.0")
    for method, path in MANAGED + OBSERVED:
        for host in ("localhost", "127.0.0.1"):
            assert statuses(server.http_port, method, path, host=host) == [403] * 3, path
    assert statuses(server.metrics_port, "GET", "/metrics") == [403] * 3
    refusal = server.request("POST", "/v2/repository/index", b"")
    assert "auth.anonymous" in refusal.json["error"]
    for method, path in OPEN:
        assert statuses(server.http_port, method, path, host="models.example") == [200] * 3, path
    assert statuses(server.http_port, "POST", "/v2/models/ident/infer", body=TENSOR) == [200] * 3
    server.wait_for_record("403 from /metrics")


@pytest.mark.parametrize(("verb", "managed", "observed"), [("observe", 403, 200), ("manage", 200, 403)])
def test_anonymous_opens_what_it_names(serve: Serve, model: Path, verb: str, managed: int, observed: int) -> None:
    server = serve(f"ident={model}", "--host", "0.0.0.0", "--auth-anonymous", verb)
    address = f"127.0.0.1:{server.http_port}"
    assert statuses(server.http_port, *MANAGED[0], host=address) == [managed] * 3
    assert statuses(server.http_port, *OBSERVED[0], host=address) == [observed] * 3
    assert statuses(server.metrics_port, "GET", "/metrics", host=address) == [observed] * 3
    for path in (MANAGED[0], OBSERVED[0]):
        assert statuses(server.http_port, *path, "Origin: http://evil.example", host=address) == [403] * 3
