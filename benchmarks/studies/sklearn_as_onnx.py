"""What is an estimator worth as ONNX? The same model by `guepard.load`, as it is and converted, in turns.

A closed loop of `CALLERS` callers in this process, one row each: CPU time of the process per request, of which the
median of the turns is told.

    python -m benchmarks.studies.sklearn_as_onnx [--turns 3] [--seconds 2]
"""

import argparse
import threading
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import joblib
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import guepard

CALLERS = 8
ESTIMATORS: dict[str, Any] = {
    "scaler and logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "random forest, 100 trees": RandomForestClassifier(100, random_state=0),
    "boosting over histograms": HistGradientBoostingClassifier(random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    chosen = parser.parse_args()
    features, kinds = load_breast_cancer(return_X_y=True)
    row = {"input": features[:1].astype(np.float32)}
    print("| model, one row a request | as it is, CPU ms | as ONNX, CPU ms | ratio |\n|---|---|---|---|")
    for name, estimator in ESTIMATORS.items():
        with TemporaryDirectory() as folder:
            path = Path(folder, "model.joblib")
            joblib.dump(estimator.fit(features, kinds), path)
            models = [
                guepard.load(path, trust=True, cache_dir="none", sklearn={"convert": convert})
                for convert in ("never", "always")
            ]
            found: list[list[float]] = [[], []]
            for _ in range(chosen.turns):
                for place, model in enumerate(models):
                    found[place].append(drive(model, row, chosen.seconds))
            for model in models:
                model.close()
        own, converted = (median(each) for each in found)
        print(f"| {name} | {own:.3f} | {converted:.3f} | {own / converted:.0f} × |", flush=True)


def drive(model: Any, row: dict[str, Any], seconds: float) -> float:
    """CPU milliseconds of a request."""
    until = time.monotonic() + seconds
    counts = [0] * CALLERS

    def ask(place: int) -> None:
        while time.monotonic() < until:
            model.infer(row)
            counts[place] += 1

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(CALLERS)]
    before = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.process_time() - before) * 1e3 / sum(counts)


if __name__ == "__main__":
    main()
