"""The example repository does what its model cards and its README say, through the real command."""

import importlib.util
import json
import logging
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from numpy.typing import NDArray

import guepard
from examples import build_breast_cancer, fetch_minilm

EXAMPLES = Path(build_breast_cancer.__file__).parent
REPOSITORY = EXAMPLES / "model_repository"
POLL_SECONDS = 0.05
READY_POLLS = 1_200
STOP_SECONDS = 40

SIMILAR = ("How do I get my money back?", "What is your refund policy?")
DIFFERENT = "How tall is the Eiffel Tower?"

Array = NDArray[Any]


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The version folder of minilm, weights and tokenizer in place."""
    fetch_minilm.fetch()
    return fetch_minilm.ASSETS.parent


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> Any:
    """An instance of the model's class in this process, loaded."""
    spec = importlib.util.spec_from_file_location("example_minilm", minilm_folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.MiniLM()
    logger = logging.getLogger("example_minilm")
    model.load(guepard.ModelContext("minilm", "1", minilm_folder, {}, logger, device="cpu", threads=1))
    return model


@pytest.fixture(scope="module")
def url(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where `guepard serve --config examples/guepard.yaml` answers, once it is ready."""
    log = tmp_path_factory.mktemp("examples") / "server.log"
    http_port, metrics_port = free_ports(2)
    command = [str(Path(sys.executable).parent / "guepard"), "serve", "--config", str(EXAMPLES / "guepard.yaml")]
    command += ["--http-port", str(http_port), "--grpc-port", "0", "--metrics-port", str(metrics_port)]
    address = f"http://127.0.0.1:{http_port}"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as server:
        try:
            assert is_ready(server, address), log.read_text()
            yield address
        finally:
            server.terminate()
            try:
                server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
    assert server.returncode == 0, log.read_text()


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def is_ready(server: subprocess.Popen[bytes], address: str) -> bool:
    """Wait for the server to say that it is ready; False once it has ended or let too much time pass."""
    for _ in range(READY_POLLS):
        try:
            with urlopen(f"{address}/v2/health/ready", timeout=5) as response:
                if response.status == 200:
                    return True
        except OSError:
            pass  # not listening yet, or listening and not ready
        try:
            server.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return False
    return False


def infer(address: str, model: str, question: dict[str, Any]) -> dict[str, Array]:
    """The outputs by name, as arrays of the shape that the server states."""
    request = Request(f"{address}/v2/models/{model}/infer", json.dumps(question).encode())
    with urlopen(request, timeout=60) as response:
        outputs = json.load(response)["outputs"]
    return {output["name"]: np.array(output["data"]).reshape(output["shape"]) for output in outputs}


def embed(address: str, texts: Sequence[str]) -> Array:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [len(texts), 1], "data": list(texts)}
    return infer(address, "minilm", {"inputs": [tensor]})["embedding"]


def sample(model: str) -> dict[str, Any]:
    question: dict[str, Any] = json.loads((REPOSITORY / model / "sample.json").read_text())
    return question


def test_breast_cancer_is_as_accurate_as_its_card_says() -> None:
    card = (REPOSITORY / "breast_cancer" / "README.md").read_text()
    stated = re.search(r"Held-out accuracy \| ([\d.]+) \((\d+) of (\d+)\)", card)
    assert stated is not None
    split = build_breast_cancer.split_data()
    labels, _ = build_breast_cancer.predict(build_breast_cancer.MODEL_FILE, split.test_features)
    right = int((labels == split.test_labels).sum())
    assert (right, len(labels)) == (int(stated[2]), int(stated[3]))
    assert f"{right / len(labels):.4f}" == stated[1]


def test_breast_cancer_answers_as_scikit_learn_does(url: str) -> None:
    split = build_breast_cancer.split_data()
    classifier = build_breast_cancer.train(split)
    features = split.test_features
    tensor = {"name": "features", "datatype": "FP32", "shape": list(features.shape), "data": features.ravel().tolist()}
    outputs = infer(url, "breast_cancer", {"inputs": [tensor]})
    np.testing.assert_array_equal(outputs["label"].ravel(), classifier.predict(features))
    np.testing.assert_allclose(outputs["probabilities"], classifier.predict_proba(features), atol=1e-5)


def test_breast_cancer_sample_is_a_malignant_tumour(url: str) -> None:
    assert infer(url, "breast_cancer", sample("breast_cancer"))["label"].tolist() == [build_breast_cancer.MALIGNANT]


def test_minilm_sample_is_answered_with_unit_vectors(url: str) -> None:
    embeddings = infer(url, "minilm", sample("minilm"))["embedding"]
    assert embeddings.shape == (2, 384)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)


def test_similar_sentences_are_closer_than_different_ones(url: str) -> None:
    first, second, other = embed(url, [*SIMILAR, DIFFERENT])
    assert first @ second > 0.4
    assert abs(first @ other) < 0.2
    assert abs(second @ other) < 0.2


def test_three_sentences_together_are_answered_as_each_alone(url: str) -> None:
    texts = [*SIMILAR, DIFFERENT]
    alone = np.concatenate([embed(url, [text]) for text in texts])
    np.testing.assert_allclose(embed(url, texts), alone, atol=1e-5)


def test_bytes_that_are_not_utf8_are_the_callers_fault(url: str) -> None:
    head = json.dumps(
        {
            "inputs": [
                {"name": "text", "datatype": "BYTES", "shape": [1, 1], "parameters": {"binary_data_size": 6}},
            ]
        }
    ).encode()
    body = head + (2).to_bytes(4, "little") + b"a\xff"
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    with pytest.raises(HTTPError) as refusal:
        urlopen(Request(f"{url}/v2/models/minilm/infer", body, headers), timeout=60)
    with refusal.value as response:
        assert response.status == 400
        assert "input 'text' must be UTF-8" in json.load(response)["error"]


def test_readme_snippet_prints_what_the_readme_shows(url: str) -> None:
    readme = (EXAMPLES / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    snippet, shown = found[1], found[2]
    assert "http://127.0.0.1:8000" in snippet
    command = [sys.executable, "-c", snippet.replace("http://127.0.0.1:8000", url)]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == shown


def test_minilm_names_the_row_that_is_not_utf8(minilm: Any) -> None:
    texts = np.array([[b"fine"], [b"caf\xe9"]], object)
    with pytest.raises(guepard.InputError, match="byte 0xe9 at offset 3") as refusal:
        minilm.predict({"text": texts}, None)
    assert refusal.value.row == 1


def test_minilm_reads_no_further_than_its_window(minilm: Any) -> None:
    def embedding(text: str) -> Array:
        answer: Array = minilm.predict({"text": np.array([[text.encode()]], object)}, None)["embedding"][0]
        return answer

    full_window = "word " * 254
    np.testing.assert_allclose(embedding(full_window + "and what comes then"), embedding(full_window), atol=1e-6)
    assert not np.allclose(embedding("word " * 253 + "cheetah"), embedding(full_window), atol=1e-4)


def test_empty_text_has_an_embedding(minilm: Any) -> None:
    embedding = minilm.predict({"text": np.array([[b""]], object)}, None)["embedding"]
    np.testing.assert_allclose(np.linalg.norm(embedding), 1, atol=1e-5)


def test_fetching_again_leaves_whole_files_alone(minilm_folder: Path) -> None:
    weights = minilm_folder / "assets" / "model.onnx"
    before = weights.stat()
    assert fetch_minilm.main() == 0
    assert weights.stat().st_mtime_ns == before.st_mtime_ns
    assert weights.stat().st_ino == before.st_ino


def test_fetching_without_an_index_says_so_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (closed_port,) = free_ports(1)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port}/simple")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(fetch_minilm.FetchError, match="PIP_INDEX_URL"):
        fetch_minilm.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []
