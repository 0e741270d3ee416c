"""A backend of another package, exactly as the page "Add a backend" prints it, is found, serves and is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from guepard.testing.running_server import RunningServer

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-backend.md"
WEIGHTS = {
    "w0": np.array([[1.0, -1.0], [0.5, 2.0]], np.float32),
    "b0": np.array([0.0, 1.0], np.float32),
    "w1": np.array([[2.0], [1.0]], np.float32),
    "b1": np.array([-1.0], np.float32),
}


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with the package, as pip would leave it."""
    folder = tmp_path / "packages"
    metadata = folder / "guepard_npz-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "guepard_npz.py").write_text(block("python"))
    entry_points = re.search(r"^npz = (.*)$", block("toml"), re.MULTILINE)
    assert entry_points is not None
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: guepard-npz\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[guepard.backends]\nnpz = {entry_points[1].strip(chr(34))}\n")
    return folder


def write_model(folder: Path) -> Path:
    np.savez(folder / "digits.npz", allow_pickle=False, **WEIGHTS)
    (folder / "guepard.yaml").write_text(block("yaml"))
    return folder / "guepard.yaml"


def check(config: Path, packages: Path | None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PYTHONPATH": str(packages)} if packages else {})
    command = [sys.executable, "-m", "guepard", "serve", "--check", "--config", str(config)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_page_s_backend_takes_no_more_than_sixty_lines() -> None:
    assert len(block("python").splitlines()) <= 60


def test_it_serves_batches_and_blames_the_row(tmp_path: Path, packages: Path) -> None:
    config = write_model(tmp_path)
    with RunningServer("--config", config, env={"PYTHONPATH": str(packages)}) as server:
        server.wait_for_record("model digits version 1 is ready")
        url = f"{server.url}/v2/models/digits"
        x = np.array([[1, 2], [3, -4]], np.float32)
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": x.tolist()}]}
        answer = httpx.post(f"{url}/infer", json=body).json()
        hidden = np.maximum(x @ WEIGHTS["w0"] + WEIGHTS["b0"], 0)
        expected = hidden @ WEIGHTS["w1"] + WEIGHTS["b1"]
        np.testing.assert_allclose(answer["outputs"][0]["data"], expected.ravel(), rtol=1e-6)
        assert httpx.get(f"{url}/config").json()["backend"] == "npz"
        bad = np.array([[np.inf, 0]], np.float32).tobytes()
        head = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}]}'
        refused = httpx.post(
            f"{url}/infer", content=head + bad, headers={"Inference-Header-Content-Length": str(len(head))}
        )
        assert refused.status_code == 400
        assert "NaN or infinity" in refused.json()["error"]


def test_what_is_not_installed_is_no_choice(tmp_path: Path, packages: Path) -> None:
    config = write_model(tmp_path)
    assert check(config, packages).returncode == 0
    refused = check(config, None)
    assert refused.returncode == 2
    assert "models[0].backend: expected one of auto, onnxruntime, " in refused.stderr
    assert 'python, identity, got "npz"' in refused.stderr
    config.write_text(config.read_text().replace("npz\n", "nzp\n").replace("digits.nzp", "digits.npz"))
    assert 'python, identity, npz, got "nzp"' in check(config, packages).stderr


def test_one_that_cannot_be_imported_costs_its_own_model_alone(tmp_path: Path, packages: Path) -> None:
    (packages / "guepard_npz.py").write_text("import a_library_that_is_not_there\n")
    with RunningServer("--config", write_model(tmp_path), env={"PYTHONPATH": str(packages)}) as server:
        entry = httpx.post(f"{server.url}/v2/repository/index").json()[0]
        while entry["state"] == "LOADING":
            entry = httpx.post(f"{server.url}/v2/repository/index").json()[0]
        assert entry["state"] == "UNAVAILABLE"
        assert entry["reason"] == "the backend 'npz' is installed, but importing it failed: ModuleNotFoundError"
        assert httpx.get(f"{server.url}/v2/health/live").status_code == 200
