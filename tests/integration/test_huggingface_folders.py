"""Hugging Face folders on a real server: text in and meaning out, over HTTP and gRPC."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.huggingface_folders import VOCABULARY, WIDTH, head, table, write_folder

CONFIGURATION = """
models:
  - {name: embed, path: embed}
  - {name: judge, path: judge, huggingface: {truncation: true, max_length: 6}}
  - {name: names, path: names, instance_group: {execution: process, count: 1}}
  - {name: stranger, path: stranger, required: false}
"""


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    write_folder(models / "embed")
    write_folder(models / "judge", "text-classification")
    write_folder(models / "names", "token-classification")
    write_folder(models / "stranger", vocab_size=len(VOCABULARY) - 3)
    (models / "guepard.yaml").write_text(CONFIGURATION)
    return serve("--config", models / "guepard.yaml")


def predict(server: RunningServer, model: str, instances: list[Any]) -> Any:
    answer = server.request("POST", f"/v1/models/{model}:predict", {"instances": instances})
    assert answer.status == 200, answer.body
    return answer.json["predictions"]


def expected(*words: str) -> Any:
    """The mean of the embeddings of [CLS], `words` and [SEP]."""
    ids = [VOCABULARY.index(word) for word in ("[CLS]", *words, "[SEP]")]
    return table()[ids].mean(0)


def test_a_text_becomes_its_embedding(server: RunningServer) -> None:
    metadata = server.request("GET", "/v2/models/embed").json
    assert metadata["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert metadata["outputs"] == [{"name": "embedding", "datatype": "FP32", "shape": [-1, WIDTH]}]
    config = server.request("GET", "/v2/models/embed/config").json
    assert config["guepard"]["engine"]["task"] == "feature-extraction"
    answers = predict(server, "embed", ["Ada lived in Paris", "", "london"])
    np.testing.assert_allclose(answers[0], expected("ada", "lived", "in", "paris"), rtol=1e-5)
    np.testing.assert_allclose(answers[1], expected(), rtol=1e-5)
    np.testing.assert_allclose(answers[2], expected("london"), rtol=1e-5)


def test_texts_of_many_lengths_share_batches_and_keep_their_answers(server: RunningServer) -> None:
    def ask(count: int) -> None:
        words = ["paris", "and", "london"] * 4
        (answer,) = predict(server, "embed", [" ".join(words[:count])])
        np.testing.assert_allclose(answer, expected(*words[:count]), rtol=1e-4, atol=1e-6)

    before = server.request("GET", "/v2/models/embed/stats").json["model_stats"][0]
    with ThreadPoolExecutor(16) as clients:
        list(clients.map(ask, [1 + index % 12 for index in range(240)]))
    after = server.request("GET", "/v2/models/embed/stats").json["model_stats"][0]
    assert after["inference_count"] - before["inference_count"] == 240
    assert after["execution_count"] - before["execution_count"] < 240


def test_a_text_gets_its_label(server: RunningServer) -> None:
    logits = expected("ada", "wrote", "notes", ".") @ head(3)
    scores = np.exp(logits) / np.exp(logits).sum()
    (answer,) = predict(server, "judge", ["Ada wrote notes."])
    assert answer["label"] == ("bad", "fair", "good")[int(scores.argmax())]
    np.testing.assert_allclose(answer["scores"], scores, rtol=1e-5)
    np.testing.assert_allclose(answer["score"], scores.max(), rtol=1e-5)
    (cut,) = predict(server, "judge", ["Ada wrote notes. And London lived in Paris."])
    np.testing.assert_allclose(cut["scores"], scores, rtol=1e-5)


def test_entities_over_grpc_from_a_process(server: RunningServer) -> None:
    text = "Ada Lovelace lived in London"
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        tensor = triton.InferInput("text", [2], "BYTES")
        tensor.set_data_from_numpy(np.array([text.encode(), b""], object))
        answer = client.infer("names", [tensor]).as_numpy("entities")
    assert answer is not None
    assert answer.shape == (2,)
    assert json.loads(answer[1]) == []
    found = json.loads(answer[0])
    assert found, "the seeded weights find entities in this text"
    for entity in found:
        assert entity["word"] == text[entity["start"] : entity["end"]]
        assert entity["entity_group"] in ("PER", "LOC")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("paris " * 40, "42 tokens, and the model's window is 16 tokens"),
        ("x" * 10**6, "1000000 characters, and the model's window is 16 tokens"),
    ],
)
def test_a_text_beyond_the_window_is_refused_with_the_remedy(server: RunningServer, text: str, reason: str) -> None:
    answer = server.request("POST", "/v1/models/embed:predict", {"instances": ["paris", text]})
    assert answer.status == 400
    assert f"input 'text': the text in row 1 has {reason}" in answer.json["error"]
    assert "truncation: true" in answer.json["error"]


def test_bytes_that_are_no_text_are_refused(server: RunningServer) -> None:
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        tensor = triton.InferInput("text", [1], "BYTES")
        tensor.set_data_from_numpy(np.array([b"a\xff"], object))
        with pytest.raises(triton.InferenceServerException, match="input 'text' must be UTF-8; in row 0"):
            client.infer("embed", [tensor])


def test_a_tokenizer_that_is_not_the_model_s_keeps_it_out(server: RunningServer) -> None:
    index = {entry["name"]: entry for entry in server.request("POST", "/v2/repository/index").json}
    assert index["stranger"]["state"] == "UNAVAILABLE"
    assert "tokenizer.json is not this model's" in index["stranger"]["reason"]


def test_a_folder_on_the_command_line(serve: Serve, tmp_path: Path) -> None:
    started = serve(write_folder(tmp_path / "judge", "text-classification"))
    answer = started.request("POST", "/v1/models/judge:predict", {"instances": ["Ada wrote notes."]})
    assert answer.json["predictions"][0]["label"] in ("bad", "fair", "good")
