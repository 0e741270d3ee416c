"""The public `openai` client lists models."""

from pathlib import Path

import pytest
from openai import APIStatusError, NotFoundError, OpenAI

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    file = onnx_models.write_model(models / "double.onnx", onnx_models.double(1))
    (models / "broken.onnx").write_bytes(b"nothing")
    return serve(f"double={file}", f"another={file}", f"broken={models / 'broken.onnx'}")


@pytest.fixture(scope="module")
def client(server: RunningServer) -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0)


def test_the_list(client: OpenAI) -> None:
    page = client.models.list()
    assert page.object == "list"
    assert [(model.id, model.object, model.owned_by) for model in page] == [
        ("another", "model", "guepard"),
        ("double", "model", "guepard"),
    ]
    assert all(model.created > 1_700_000_000 for model in page)


def test_one_of_them(client: OpenAI) -> None:
    model = client.models.retrieve("double")
    assert (model.id, model.object, model.owned_by) == ("double", "model", "guepard")


def test_one_that_is_not_there(client: OpenAI) -> None:
    with pytest.raises(NotFoundError) as caught:
        client.models.retrieve("nobody")
    assert caught.value.body == "unknown model 'nobody'"


def test_one_that_does_not_serve(client: OpenAI) -> None:
    with pytest.raises(APIStatusError) as caught:
        client.models.retrieve("broken")
    assert caught.value.status_code == 503
    assert str(caught.value.body).startswith("model 'broken' is not ready")
