"""What is each engine worth for a model of each kind on this machine? The table in "Choose an engine".

Each engine in each precision by itself, as fast as it can be driven (`benchmarks/serving/engines.py`): rows per second
with as many threads as there are cores, the better of batches of 1 and of 8 rows, the median of the turns. Engines take
turns, each in a fresh process. And the worst cosine of a row of its answers with ONNX Runtime's.

    python -m benchmarks.studies.engines [--models mlp minilm resnet50] [--turns 3] [--seconds 3]
"""

import argparse
from collections.abc import Iterator
from statistics import median

import numpy as np

from benchmarks.models import DENSE_STACK, MINILM, MLP, RESNET50, Array, ReferenceModel
from benchmarks.serving import raw_engine
from benchmarks.serving.engines import ENGINES

MODELS = {model.name: model for model in (MLP, DENSE_STACK, MINILM, RESNET50)}
REFERENCE = ("onnxruntime", "f32")
PRECISIONS = ("f32", "bf16", "f16")
BATCH_SIZES = (1, 8)
ROWS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    print("| model | engine | precision | rows/s | of ONNX Runtime | worst cosine |\n|---|---|---|---|---|---|")
    for name in chosen.models:
        for line in study(MODELS[name], chosen.turns, chosen.seconds):
            print(line, flush=True)


def study(model: ReferenceModel, turns: int, seconds: float) -> Iterator[str]:
    cosines = dict(able(model))
    rates: dict[tuple[str, str], list[float]] = {each: [] for each in cosines}
    for _ in range(turns):
        for engine, precision in rates:
            found = [
                raw_engine.measure(model, rows, seconds, engine=engine, precision=precision) for rows in BATCH_SIZES
            ]
            rates[engine, precision].append(max(found))
    for (engine, precision), each in rates.items():
        # Both sides of a turn met the same machine.
        ratio = median(mine / reference for mine, reference in zip(each, rates[REFERENCE], strict=True))
        yield (
            f"| {model.name} | {engine} | {precision} | {median(each):,.0f} | {ratio:.2f} × "
            f"| {cosines[engine, precision]:.6f} |"
        )


def able(model: ReferenceModel) -> Iterator[tuple[tuple[str, str], float]]:
    """Each engine and precision that the model and this machine have, with the worst cosine of its answers."""
    rows = model.sample(ROWS)
    expected = ENGINES[REFERENCE[0]](model, 1, REFERENCE[1])()(rows).copy()
    for engine, open_engine in ENGINES.items():
        for precision in PRECISIONS:
            try:
                answers = open_engine(model, 1, precision)()(rows)
            except (ValueError, RuntimeError):
                continue
            yield (engine, precision), worst_cosine(expected, answers)


def worst_cosine(expected: Array, answers: Array) -> float:
    left, right = expected.reshape(ROWS, -1).astype(float), np.asarray(answers).reshape(ROWS, -1).astype(float)
    products = (left * right).sum(1) / (np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1))
    return float(products.min())


if __name__ == "__main__":
    main()
