"""From method and path to an endpoint."""

import pytest

from guepard.core.errors import MethodNotAllowed, NotFound
from guepard.server.http.request_head import RequestHead
from guepard.server.http.router import Route, Router
from tests.unit.server.http_parts import Endpoint

ROUTES = [
    Route("GET", "/v2/models/{model}", Endpoint("model")),
    Route("GET", "/v2/models/stats", Endpoint("stats")),
    Route("POST", "/v2/models/{model}/infer", Endpoint("infer")),
    Route("GET", "/v2/models/{model}/versions/{version}", Endpoint("version")),
    Route("GET", "/v2/things", Endpoint("list")),
    Route("POST", "/v2/things", Endpoint("make")),
    Route("GET", "/v1/models/{model}", Endpoint("status")),
    Route("POST", "/v1/models/{model}:predict", Endpoint("predict")),
    Route("POST", "/v1/models/special:predict", Endpoint("special")),
    Route("POST", "/v1/models/{model}/versions/{version}:predict", Endpoint("predict version")),
]


@pytest.fixture
def router() -> Router:
    return Router(ROUTES)


def asked(method: str, path: str) -> RequestHead:
    return RequestHead(method, path.encode(), [])


@pytest.mark.parametrize(
    ("method", "path", "label", "params"),
    [
        ("GET", "/v2/models/a", "model", {"model": "a"}),
        ("HEAD", "/v2/models/a", "model", {"model": "a"}),
        ("GET", "/v2/models/stats", "stats", {}),
        ("POST", "/v2/models/stats/infer", "infer", {"model": "stats"}),
        ("GET", "/v2/models/a/versions/1", "version", {"model": "a", "version": "1"}),
        ("GET", "/v2/models/", "model", {"model": ""}),
        ("GET", "/v2/models/..", "model", {"model": ".."}),
        ("GET", "/v2/models/{model}", "model", {"model": "{model}"}),
        ("GET", "/v2/models/" + "a" * 5_000, "model", {"model": "a" * 5_000}),
        ("GET", "/v2/things", "list", {}),
        ("POST", "/v2/things", "make", {}),
        ("POST", "/v1/models/a:predict", "predict", {"model": "a"}),
        ("POST", "/v1/models/a%3Apredict", "predict", {"model": "a"}),
        ("POST", "/v1/models/a:predict:predict", "predict", {"model": "a:predict"}),
        ("POST", "/v1/models/special:predict", "special", {}),
        ("POST", "/v1/models/a/versions/1:predict", "predict version", {"model": "a", "version": "1"}),
        ("GET", "/v1/models/a:predicts", "status", {"model": "a:predicts"}),
        ("GET", "/v1/models/:predict", "status", {"model": ":predict"}),
    ],
)
def test_routes(router: Router, method: str, path: str, label: str, params: dict[str, str]) -> None:
    for _ in range(2):  # the second time from memory
        head = asked(method, path)
        assert router.resolve(head).label == label
        assert head.params == params


@pytest.mark.parametrize(
    "path",
    ["", "/", "*", "/v2/models", "/v2/models/a/", "/V2/models/a", "//v2/models/a", "v2/things", "/v2/models/a/b"],
)
def test_anything_else_is_not_found(router: Router, path: str) -> None:
    for _ in range(2):
        with pytest.raises(NotFound):
            router.resolve(asked("GET", path))


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v2/models/a/infer", "POST"),
        ("HEAD", "/v2/models/a/infer", "POST"),
        ("POST", "/v2/models/a", "GET, HEAD"),
        ("DELETE", "/v2/things", "GET, HEAD, POST"),
        ("get", "/v2/things", "GET, HEAD, POST"),
        ("GET", "/v1/models/a:predict", "POST"),
        ("POST", "/v1/models/a", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(router: Router, method: str, path: str, allow: str) -> None:
    for _ in range(2):
        with pytest.raises(MethodNotAllowed) as caught:
            router.resolve(asked(method, path))
        assert caught.value.allow == allow


def test_many_paths_do_not_crowd_out_the_right_answer(router: Router) -> None:
    for number in range(3_000):
        head = asked("GET", f"/v2/models/m{number}")
        assert router.resolve(head).label == "model"
        assert head.params == {"model": f"m{number}"}
