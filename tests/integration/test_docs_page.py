"""`/docs`, `/openapi.json` and `/`: what a browser gets, and that it gets it from this server alone."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from guepard.server.http import docs_routes
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import RawClient, message

PAGE = Path(docs_routes.__file__).with_name("docs_page.html").read_text()
MAX_PAGE_BYTES = 40_000


@pytest.fixture(scope="module")
def model(models: Path) -> Path:
    return write_model(models / "ident.onnx", identity("FP32", ("n", 2)))


@pytest.fixture(scope="module")
def server(serve: Serve, model: Path) -> RunningServer:
    return serve(f"ident={model}")


def test_the_page_comes_with_the_headers_that_keep_it_safe(server: RunningServer) -> None:
    page = server.request("GET", "/docs")
    assert page.status == 200
    assert page.body.decode() == PAGE
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-cache"
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "style-src": source("style"),
        "script-src": source("script"),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def source(kind: str) -> str:
    """The hash of the page's one style or script, as the policy names it."""
    ((_, text),) = re.findall(rf"<({kind})[^>]*>(.*?)</{kind}>", PAGE, re.DOTALL)
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_that_it_was_told() -> None:
    assert len(PAGE.encode()) < MAX_PAGE_BYTES
    assert not re.search(r"(https?:)?//\w", PAGE.replace("// ", ""))
    assert set(re.findall(r'(?:href|src)="([^"#]+)"', PAGE)) == {"openapi.json", "data:,"}
    assert set(re.findall(r'fetch\("([^"]+)"', PAGE)) == {"openapi.json", "v2/health/ready"}
    for risky in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "Function(",
        " style=",
        "onclick",
    ):
        assert risky not in PAGE


def test_a_browser_is_led_from_the_root_to_the_page(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        for accept in ("text/html", "text/html,application/xhtml+xml,*/*;q=0.8", "TEXT/HTML"):
            answer = client.ask(message("GET", "/", None, (f"Accept: {accept}",)))
            assert answer.status == 307
            assert answer.headers["location"] == "docs"
            assert answer.headers["vary"] == "accept"
        for headers in ((), ("Accept: */*",), ("Accept: application/json",)):
            answer = client.ask(message("GET", "/", None, headers))
            assert answer.status == 404
            assert answer.json["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/docs/", 404),
        ("GET", "/docs_page.html", 404),
        ("GET", "/openapi.yaml", 404),
        ("GET", "/favicon.ico", 404),
        ("POST", "/", 405),
        ("POST", "/docs", 405),
        ("DELETE", "/openapi.json", 405),
        ("OPTIONS", "/docs", 405),
    ],
)
def test_what_is_not_there_is_refused_as_json(server: RunningServer, method: str, path: str, status: int) -> None:
    answer = server.request(method, path, headers={"Accept": "text/html"})
    assert answer.status == status
    assert answer.json["code"] == {404: "not_found", 405: "method_not_allowed"}[status]


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
def test_head_says_what_get_would(server: RunningServer, path: str) -> None:
    whole, head = server.request("GET", path), server.request("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.body))


def test_beyond_loopback_the_page_works_and_management_stays_closed(serve: Serve, model: Path) -> None:
    server = serve(f"ident={model}", "--host", "0.0.0.0")
    assert server.request("GET", "/docs").status == 200
    document = server.request("GET", "/openapi.json").json
    question = document["components"]["examples"]["ident"]["value"]
    assert server.infer("ident", question).status == 200
    assert server.request("POST", "/v2/repository/index", {}).status == 403
    marked = [
        path for path in document["paths"] for each in document["paths"][path].values() if "x-guepard-guarded" in each
    ]
    assert "/v2/repository/index" in marked
    assert "/v2/models/{model}/infer" not in marked
