"""What `/openapi.json` says is what the server does: generated requests to every route, by schemathesis."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from guepard.server.http.api_routes import api_routes
from guepard.server.http.guard import Guard
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.onnx_models import add, identity, two_outputs, write_model

EXAMPLES = 20
PYTHON_MODELS = Path(__file__).parents[1] / "services" / "python_models.py"
SERVED = ("add", "flags", "text", "told", "two_outputs")
# What a healthy server may answer beside successes and refusals: not served, not ready, too late.
NO_FAULTS = {501, 503, 504}
CHECKS: list[Any] = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    negative_data_rejection,
]

nothing: Any = None
ROUTES = [
    (route.method, route.template)
    for route in api_routes(nothing, nothing, Guard(loopback=True, hosts=frozenset(), anonymous=frozenset()))
]
generated = settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    built = {"add": add("INT32", ("n", 2)), "text": identity("BYTES"), "two_outputs": two_outputs()}
    files = [f"{name}={write_model(models / f'{name}.onnx', model)}" for name, model in built.items()]
    return serve(*files, f"told={PYTHON_MODELS}:EchoParameters", f"flags={PYTHON_MODELS}:Booleans")


@pytest.fixture(scope="module")
def schema(server: RunningServer) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


def test_the_document_is_openapi(schema: Any) -> None:
    schema.validate()


def ask(server: RunningServer, case: "Case[Any]") -> int:
    """Send `case` and check the answer against the document."""
    response = case.call(base_url=server.url)
    assert response.status_code < 500 or response.status_code in NO_FAULTS, response.text
    case.validate_response(response, checks=CHECKS)
    return int(response.status_code)


def aim(case: "Case[Any]", model: str | None) -> "Case[Any]":
    """`case` at a model that serves, unless there is none in its path or it should go astray.

    Unloading always goes astray: the models are needed.
    """
    if case.operation.path.endswith("/unload") and case.path_parameters["model"] in SERVED:
        model = "absent"
    if model is not None and "model" in case.path_parameters:
        case.path_parameters["model"] = model
    if model is not None and "version" in case.path_parameters:
        case.path_parameters["version"] = "1"
    return case


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_generated_requests_are_answered_as_the_document_says(
    server: RunningServer, schema: Any, method: str, path: str
) -> None:
    names = st.none() if path.endswith("/unload") else st.none() | st.sampled_from(SERVED)

    @generated
    @given(case=schema[path][method].as_strategy(generation_mode=GenerationMode.POSITIVE), name=names)
    def run(case: "Case[Any]", name: str | None) -> None:
        ask(server, aim(case, name))

    run()


BENT = [(method, path) for method, path in ROUTES if method == "POST" or "{" in path]


@pytest.mark.parametrize(("method", "path"), BENT)
def test_requests_that_the_document_forbids_are_refused(
    server: RunningServer, schema: Any, method: str, path: str
) -> None:
    @generated
    @given(case=schema[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def run(case: "Case[Any]") -> None:
        ask(server, aim(case, None))

    run()


def questions(server: RunningServer) -> dict[str, Any]:
    examples = server.request("GET", "/openapi.json").json["components"]["examples"]
    return {name: example["value"] for name, example in examples.items()}


@pytest.mark.parametrize("path", ["/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"])
@pytest.mark.parametrize("model", SERVED)
def test_each_example_is_answered(server: RunningServer, schema: Any, model: str, path: str) -> None:
    case = schema[path]["POST"].Case(
        path_parameters={"model": model, "version": "1"},
        body=questions(server)[model],
        media_type="application/json",
    )
    assert ask(server, case) == 200


@pytest.mark.parametrize("model", SERVED)
def test_examples_with_other_parameters_are_answered_as_the_document_says(
    server: RunningServer, schema: Any, model: str
) -> None:
    """Requests that reach the model: its own inputs, everything else generated."""
    question = questions(server)[model]
    seen = set()

    @generated
    @given(case=schema["/v2/models/{model}/infer"]["POST"].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def run(case: "Case[Any]") -> None:
        if isinstance(case.body, dict):
            case.body = {key: value for key, value in case.body.items() if key != "outputs"} | question
            case.headers.pop("Inference-Header-Content-Length", None)
            seen.add(ask(server, aim(case, model)))

    run()
    assert 200 in seen


def test_the_document_follows_the_models(server: RunningServer) -> None:
    def named() -> list[str]:
        document = server.request("GET", "/openapi.json").json
        return [model["name"] for model in document["x-guepard-models"]]

    assert named() == list(SERVED)
    assert server.request("POST", "/v2/repository/models/text/unload", {}).status == 200
    try:
        assert named() == [name for name in SERVED if name != "text"]
        assert "text" not in questions(server)
    finally:
        assert server.request("POST", "/v2/repository/models/text/load", {}).status == 200
    assert named() == list(SERVED)
