"""A model inside a program, without any port: from one thread, from many, and from asyncio code.

python examples/python/infer_without_a_server.py
"""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import guepard

MODEL = Path(__file__).parents[1] / "model_repository" / "breast_cancer"
MEASUREMENTS = json.loads((MODEL / "sample.json").read_text())["inputs"][0]["data"]


def main():
    with guepard.load(MODEL) as model:
        print("takes", *model.inputs)
        print("gives", *model.outputs)

        answer = model.infer({"features": [MEASUREMENTS]})  # one row: the first dimension is the batch
        print("label", answer["label"], "probabilities", answer["probabilities"].round(3))

        def label(factor):
            row = [value * factor for value in MEASUREMENTS]
            return int(model.infer({"features": [row]}, outputs=["label"], timeout=5)["label"][0])

        with ThreadPoolExecutor(16) as pool:  # rows that come together run as one batch
            print("smaller and smaller:", *pool.map(label, [1, 0.8, 0.6, 0.4]))

        async def ask_all():
            return await asyncio.gather(*[model.infer_async({"features": [MEASUREMENTS]}) for _ in range(3)])

        print(len(asyncio.run(ask_all())), "answers from asyncio")

        try:
            model.infer({"features": [[1.0, 2.0]]})
        except guepard.InputError as error:
            print("refused:", error)


if __name__ == "__main__":
    main()
