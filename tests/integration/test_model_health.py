"""A model that says it is unfit turns not-ready, and ready again when it is well.

Field case F197 asks more of health (hooks that hang for long, results that are no verdict, proof of work by samples);
that belongs to the supervision of models and is tested where that is built.
"""

from pathlib import Path

from guepard.testing.running_server import RunningServer
from tests.services.waiting import wait_until

MODEL = """
import pathlib
import guepard


class Moody(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [1])]
    outputs = [guepard.Tensor("y", "FP32", [1])]

    def predict(self, inputs, ctx):
        return {"y": inputs["x"]}

    def health(self):
        if pathlib.Path(SIGN).exists():
            raise RuntimeError("secret detail")
"""

REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.5]}]}


def wait_for_status(server: RunningServer, path: str, status: int) -> dict[str, object]:
    answers = []

    def has_come() -> bool:
        answers.append(server.request("GET", path))
        return answers[-1].status == status

    wait_until(has_come, 20.0)
    document: dict[str, object] = answers[-1].json
    return document


def test_readiness_follows_the_health_of_a_model(tmp_path: Path) -> None:
    sign = tmp_path / "unwell"
    (tmp_path / "moody.py").write_text(MODEL.replace("SIGN", repr(str(sign))))
    with RunningServer(f"{tmp_path}/moody.py:Moody") as server:
        assert server.request("GET", "/v2/health/ready").status == 200
        sign.touch()
        unready = wait_for_status(server, "/v2/health/ready", 503)
        assert "moody" in str(unready["error"])
        model = server.request("GET", "/v2/models/moody/ready")
        assert model.status == 503
        assert "RuntimeError" in model.json["error"]
        assert "secret" not in model.body.decode()
        assert server.request("GET", "/v2/health/live").status == 200
        assert server.infer("moody", REQUEST).status == 200
        sign.unlink()
        wait_for_status(server, "/v2/health/ready", 200)
        assert "secret detail" in server.log_text()
