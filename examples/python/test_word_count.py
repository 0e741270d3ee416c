"""Tests of a model and of its API, with pytest: one server for all of them, on ports that were free.

python -m pytest examples/python/test_word_count.py
"""

import pytest
from serve_in_a_program import WordCount, ask

import guepard


@pytest.fixture(scope="module")
def url():
    with guepard.serve(WordCount, http_port=0, metrics_port=0) as server:
        yield server.url


@pytest.fixture(scope="module")
def model():
    with guepard.load(WordCount) as model:
        yield model


def test_the_api_counts_words(url):
    assert ask(url, "one two three") == 3


def test_the_model_counts_words_of_every_row(model):
    assert model.infer({"text": [["a b"], [""], ["c"]]})["words"].tolist() == [[2], [0], [1]]


def test_a_number_is_no_text(model):
    with pytest.raises(guepard.InputError, match="expected bytes or str"):
        model.infer({"text": [[1]]})
