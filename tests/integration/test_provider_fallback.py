"""A model that is to run on a GPU, on a machine without one: refused with a reason, or served with a word about it."""

from pathlib import Path

from guepard.testing.running_server import RunningServer
from tests.services import onnx_models
from tests.services.onnx_models import write_model

WITHOUT_GPUS = {"CUDA_VISIBLE_DEVICES": ""}


def test_refused_and_served(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.onnx", onnx_models.mlp())
    file = tmp_path / "guepard.yaml"
    file.write_text(
        "models:\n"
        f"  - {{name: refused, path: {path}, required: false, onnxruntime: {{providers: [cuda, cpu]}}}}\n"
        f"  - {{name: left, path: {path}, instance_group: {{kind: KIND_GPU}}, onnxruntime: {{allow_fallback: true}}}}\n"
        f"  - {{name: asked, path: {path}, onnxruntime: {{report_placement: true}}}}\n"
    )
    with RunningServer("--config", file, env=WITHOUT_GPUS) as server:
        index = {entry["name"]: entry for entry in server.request("POST", "/v2/repository/index", b"{}").json}
        assert index["refused"]["state"] == "UNAVAILABLE"
        assert index["refused"]["reason"].startswith("cuda cannot be used: ")
        assert "onnxruntime.allow_fallback: true" in index["refused"]["reason"]

        config = server.request("GET", "/v2/models/left/config").json
        engine = config["guepard"]["engine"]
        assert engine["fallback"]["wanted"] == ["cuda", "cpu"]
        assert engine["fallback"]["used"] == ["cpu"]
        assert engine["fallback"]["reason"]
        assert engine["precision"] == "f32"
        assert config["instance_group"][0]["kind"] == "KIND_CPU"
        assert server.wait_for_record("model left runs on cpu without cuda")

        placement = server.request("GET", "/v2/models/asked/config").json["guepard"]["engine"]["placement"]
        assert placement == {"nodes": {"cpu": 4}, "on_cpu": {"Gemm": 2, "Relu": 1, "Softmax": 1}}

        metrics = server.metrics()
        assert 'guepard_model_provider_fallback{model="left",version="1"} 1.0' in metrics
        assert 'guepard_model_provider_fallback{model="asked",version="1"} 0.0' in metrics
