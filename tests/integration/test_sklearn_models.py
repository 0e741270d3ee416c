"""Models of scikit-learn on a real server: converted, as they are, in a process, and not trusted."""

from pathlib import Path

import joblib
import numpy as np
import pytest
import tritonclient.grpc as triton

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.sklearn_models import FLOWERS, MAKERS, PASSENGERS, PATIENTS, logarithms

CONFIGURATION = """
models:
  - {name: flowers, path: flowers.joblib, trust: true}
  - {name: passengers, path: passengers.pkl, trust: true, sklearn: {convert: never}}
  - name: logarithms
    path: logarithms.joblib
    trust: true
    sklearn: {convert: never}
    instance_group: {execution: process, count: 1}
  - {name: stranger, path: flowers.joblib, required: false}
"""


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    joblib.dump(MAKERS["names"]().estimator, models / "flowers.joblib")
    joblib.dump(MAKERS["columns"]().estimator, models / "passengers.pkl")
    joblib.dump(logarithms().estimator, models / "logarithms.joblib")
    (models / "guepard.yaml").write_text(CONFIGURATION)
    return serve("--config", models / "guepard.yaml", "--cache-dir", models / "cache")


def test_rows_become_names(server: RunningServer) -> None:
    answer = server.request("POST", "/v1/models/flowers:predict", {"instances": FLOWERS[:60].tolist()})
    estimator = MAKERS["names"]().estimator
    rows = FLOWERS[:60].astype(np.float32)
    assert [row["label"] for row in answer.json["predictions"]] == estimator.predict(rows).tolist()
    found = [row["probabilities"] for row in answer.json["predictions"]]
    np.testing.assert_allclose(found, estimator.predict_proba(rows), atol=1e-4)
    engine = server.request("GET", "/v2/models/flowers/config").json["guepard"]["engine"]
    assert engine["name"] == "onnxruntime"
    assert engine["estimator"] == "Pipeline"
    assert engine["conversion"].startswith("it answers as the estimator does")


def test_nan_is_refused_as_the_estimator_refuses_it(server: RunningServer) -> None:
    rows = FLOWERS[:3].astype(np.float32)
    rows[1, 2] = np.nan
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        tensor = triton.InferInput("input", list(rows.shape), "FP32")
        tensor.set_data_from_numpy(rows)
        with pytest.raises(triton.InferenceServerException, match="input 'input' holds NaN, which the model does not"):
            client.infer("flowers", [tensor])


def test_columns_come_by_name(server: RunningServer) -> None:
    rows = PASSENGERS[["age", "port", "fare"]].iloc[[0, 1, 3]]
    answer = server.request("POST", "/v1/models/passengers:predict", {"instances": rows.to_dict("records")})
    expected = MAKERS["columns"]().estimator.predict(rows).tolist()
    assert [row["label"] for row in answer.json["predictions"]] == expected


def test_what_has_no_converter_answers_from_a_process(server: RunningServer) -> None:
    rows = np.abs(PATIENTS[:5]).astype(np.float32)
    answer = server.request("POST", "/v1/models/logarithms:predict", {"instances": rows.tolist()})
    np.testing.assert_allclose(answer.json["predictions"], logarithms().estimator.predict(rows), rtol=1e-4)
    refused = server.request("POST", "/v1/models/logarithms:predict", {"instances": [[-5.0] * 10]})
    assert refused.status == 400
    assert "the model refuses the input: Input X contains NaN" in refused.json["error"]


def test_a_stranger_s_pickle_is_not_loaded(server: RunningServer) -> None:
    index = {entry["name"]: entry for entry in server.request("POST", "/v2/repository/index").json}
    assert index["stranger"]["state"] == "UNAVAILABLE"
    assert "flowers.joblib is a pickle" in index["stranger"]["reason"]
