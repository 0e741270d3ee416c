"""A program that has a model as an API inside: the model is a class of its own, and the server a part of it.

python examples/python/serve_in_a_program.py           # asks itself, prints the answer and ends
python examples/python/serve_in_a_program.py --stay    # on port 8000, until Ctrl-C
"""

import json
import sys
from urllib.request import urlopen

import numpy as np

import guepard


class WordCount(guepard.Model):
    """How many words each text has."""

    inputs = [guepard.Tensor("text", "BYTES", [1])]
    outputs = [guepard.Tensor("words", "INT64", [1])]
    max_batch_size = 32

    def predict(self, inputs, ctx):
        counts = [[len(row[0].split())] for row in inputs["text"]]
        return {"words": np.array(counts, np.int64)}


def ask(url, text):
    question = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [text]}]}
    with urlopen(f"{url}/v2/models/word_count/infer", json.dumps(question).encode()) as answer:
        return json.load(answer)["outputs"][0]["data"][0]


def main():
    if "--stay" in sys.argv:
        with guepard.serve(WordCount) as server:
            print(f"serving on {server.url}; Ctrl-C ends it")
            server.wait()
        return
    with guepard.serve(WordCount, http_port=0, metrics_port=0) as server:
        print(ask(server.url, "the fastest animal on land"), "words")


if __name__ == "__main__":
    main()
