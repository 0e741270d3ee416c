"""How long does `engine: auto` take to decide, how long when it knows, and what is the engine worth that it chose?

MiniLM (128 tokens) and ResNet-50. The model is loaded three times by `guepard.load`: with an empty cache, again, and on
ONNX Runtime. The last two then take turns under a closed loop of `CALLERS` callers in this process: requests per second
and the CPU time of the process per request, of which the median of the turns is told. CPU time is what strangers on the
machine stretch less.

Not shown: what a protocol adds, which `make compare` does.

    python -m benchmarks.studies.engine_choice [--models minilm resnet50] [--turns 3] [--seconds 3]
"""

import argparse
import threading
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import guepard
from benchmarks.models import MINILM, RESNET50, ReferenceModel

MODELS = {model.name: model for model in (MINILM, RESNET50)}
CALLERS = 8
SETTLED_S = 2.5  # from when on a file's stamp is believed: a model was not written just before it is served


class Turn(NamedTuple):
    requests_per_second: float
    cpu_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    for name in chosen.models:
        study(MODELS[name], chosen.turns, chosen.seconds)


def study(model: ReferenceModel, turns: int, seconds: float) -> None:
    path = model.path()
    with TemporaryDirectory(prefix="guepard-") as cache:
        time.sleep(SETTLED_S)
        engine = load(path, cache, "auto", "empty cache").engine
        auto = load(path, cache, "auto", "known")
        reference = load(path, cache, "onnxruntime", "named")
        print(f"{model.name}: {engine['name']} in {engine['precision']}: {engine['reason']}")
        found: dict[str, list[Turn]] = {"auto": [], "onnxruntime": []}
        inputs = {model.input_name: model.sample(1)}
        for _ in range(turns):
            found["auto"].append(drive(auto.model, inputs, seconds))
            found["onnxruntime"].append(drive(reference.model, inputs, seconds))
        for name, each in found.items():
            print(
                f"{model.name}: {name:12} {median(turn.requests_per_second for turn in each):8.1f} requests/s, "
                f"{median(turn.cpu_ms for turn in each):7.2f} ms of CPU each"
            )
        pairs = list(zip(found["auto"], found["onnxruntime"], strict=True))
        rate = median(one.requests_per_second / other.requests_per_second for one, other in pairs)
        cpu = median(other.cpu_ms / one.cpu_ms for one, other in pairs)
        print(f"{model.name}: auto / onnxruntime: {rate:.2f} by rate, {cpu:.2f} by CPU time", flush=True)
        auto.model.close()
        reference.model.close()


class Loaded(NamedTuple):
    model: guepard.LocalModel
    engine: dict[str, Any]


def load(path: Path, cache: str, engine: str, how: str) -> Loaded:
    started = time.perf_counter()
    model = guepard.load(path, cache_dir=cache, engine=engine)
    took = time.perf_counter() - started
    facts: dict[str, Any] = model.config["guepard"]["engine"]
    decided = f", decided in {facts['decision_seconds']:.3f} s" if "decision_seconds" in facts else ""
    print(f"{path.stem}: engine {engine} ({how}): loaded in {took:.2f} s{decided}", flush=True)
    if how == "empty cache":
        model.close()
    return Loaded(model, facts)


def drive(model: guepard.LocalModel, inputs: dict[str, Any], seconds: float) -> Turn:
    ends = time.perf_counter() + seconds
    counts = [0] * CALLERS

    def call(place: int) -> None:
        while time.perf_counter() < ends:
            model.infer(inputs)
            counts[place] += 1

    threads = [threading.Thread(target=call, args=(place,)) for place in range(CALLERS)]
    wall, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Turn(sum(counts) / wall, cpu * 1e3 / sum(counts))


if __name__ == "__main__":
    main()
