"""Builds the breast_cancer model of the example repository from scikit-learn's own data.

    python examples/build_breast_cancer.py

The same data, split and seed give the same model. Besides `model.onnx` it writes `sample.json`, a question about a
tumour that the model has not seen, and prints the held-out accuracy that the model card states.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split

MODEL_DIRECTORY = Path(__file__).parent / "model_repository" / "breast_cancer"
MODEL_FILE = MODEL_DIRECTORY / "1" / "model.onnx"
SAMPLE_FILE = MODEL_DIRECTORY / "sample.json"
SEED = 0
MALIGNANT = 0
# Old enough for every ONNX Runtime that guepard supports.
OPSETS = {"": 17, "ai.onnx.ml": 3}


class Split(NamedTuple):
    """Features are FP32 [n, 30], as the model takes them; labels are 0 (malignant) or 1 (benign)."""

    train_features: NDArray[np.float32]
    test_features: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test_labels: NDArray[np.int64]


def split_data() -> Split:
    """A quarter of the 569 samples is held out, with as large a share of malignant ones as in the whole."""
    features, labels = load_breast_cancer(return_X_y=True)
    parts = train_test_split(features.astype(np.float32), labels, test_size=0.25, stratify=labels, random_state=SEED)
    return Split(*parts)


def train(split: Split) -> GradientBoostingClassifier:
    return GradientBoostingClassifier(random_state=SEED).fit(split.train_features, split.train_labels)


def convert(classifier: GradientBoostingClassifier) -> bytes:
    """The classifier as ONNX, with plain tensors as outputs: `zipmap` would give a list of dictionaries."""
    model = to_onnx(
        classifier,
        initial_types=[("features", FloatTensorType([None, 30]))],
        options={"zipmap": False},
        target_opset=OPSETS,
    )
    serialized: bytes = model.SerializeToString()
    return serialized


def predict(model: bytes | Path, features: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Labels [n] and probabilities [n, 2] of an ONNX file, by ONNX Runtime itself."""
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(["label", "probabilities"], {"features": features})
    return labels.reshape(-1), probabilities


def sample_request(split: Split, model: bytes) -> dict[str, Any]:
    """An inference request for the first held-out malignant tumour, its features rounded to four digits.

    Raises: ValueError if the model is wrong about it or if the rounding changes the answer.
    """
    row = split.test_features[split.test_labels == MALIGNANT][:1]
    rounded = [float(f"{value:.4g}") for value in row[0]]
    labels, _ = predict(model, np.concatenate([row, np.array([rounded], np.float32)]))
    if labels.tolist() != [MALIGNANT, MALIGNANT]:
        raise ValueError(f"the sample must be answered with {MALIGNANT} as it is and rounded, got {labels.tolist()}")
    return {"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 30], "data": rounded}]}


def main() -> None:
    split = split_data()
    classifier = train(split)
    model = convert(classifier)
    labels, probabilities = predict(model, split.test_features)
    np.testing.assert_array_equal(labels, classifier.predict(split.test_features))
    np.testing.assert_allclose(probabilities, classifier.predict_proba(split.test_features), atol=1e-6)

    MODEL_FILE.parent.mkdir(parents=True, exist_ok=True)
    MODEL_FILE.write_bytes(model)
    SAMPLE_FILE.write_text(json.dumps(sample_request(split, model)) + "\n", encoding="utf-8")
    right = int((labels == split.test_labels).sum())
    print(f"{MODEL_FILE.name}: {len(model):,} bytes")
    print(f"held-out accuracy: {right / len(labels):.4f} ({right} of {len(labels)})")


if __name__ == "__main__":
    main()
