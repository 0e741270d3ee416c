"""Texts into token ids."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guepard.core.errors import InputError, LoadError
from guepard.core.tensor import TensorSpec
from guepard.hooks.tokenize import OFFSETS, TEXT, Tokenize
from tests.services.huggingface_folders import VOCABULARY, tokenizer

IDS, MASK, TYPES = (TensorSpec(name, "INT64", [-1]) for name in ("input_ids", "attention_mask", "token_type_ids"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def texts(*values: str | bytes) -> dict[str, NDArray[Any]]:
    array = np.empty(len(values), object)
    array[:] = [value.encode() if isinstance(value, str) else value for value in values]
    return {"text": array}


def ids(*tokens: str) -> list[int]:
    return [VOCABULARY.index(token) for token in tokens]


def test_each_text_is_padded_to_the_longest(folder: Path) -> None:
    step = Tokenize(folder)
    assert step.before([IDS, MASK, TYPES]) == (TensorSpec("text", "BYTES", []),)
    made = step.run(texts("Ada Lovelace", "Paris"))
    assert made["input_ids"].tolist() == [
        ids("[CLS]", "ada", "love", "##lace", "[SEP]"),
        ids("[CLS]", "paris", "[SEP]", "[PAD]", "[PAD]"),
    ]
    assert made["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert made["token_type_ids"].tolist() == [[0] * 5, [0] * 5]
    assert {array.dtype for array in made.values()} == {np.dtype(np.int64)}


def test_only_what_the_model_takes_is_made_in_its_datatype(folder: Path) -> None:
    step = Tokenize(folder)
    other = TensorSpec("scale", "FP32", [1])
    assert step.before([TensorSpec("input_ids", "INT32", [-1]), other]) == (TensorSpec("text", "BYTES", []), other)
    made = step.run(texts("Paris") | {"scale": np.ones((1, 1), np.float32)})
    assert list(made) == ["scale", "input_ids"]
    assert made["input_ids"].dtype == np.int32


def test_models_of_one_length_get_that_length(folder: Path) -> None:
    step = Tokenize(folder, max_length=6)
    step.before([TensorSpec("input_ids", "INT64", [6])])
    assert step.run(texts("Paris"))["input_ids"].shape == (1, 6)
    with pytest.raises(LoadError, match=r"tokenize\.max_length: the model takes 6 tokens; write max_length: 6"):
        Tokenize(folder, max_length=7).before([TensorSpec("input_ids", "INT64", [6])])


def test_pairs(folder: Path) -> None:
    step = Tokenize(folder, text="question", pair="answer")
    assert [spec.name for spec in step.before([IDS, TYPES])] == ["question", "answer"]
    made = step.run({"question": texts("Paris")["text"], "answer": texts("London")["text"]})
    assert made["input_ids"].tolist() == [ids("[CLS]", "paris", "[SEP]", "london", "[SEP]")]
    assert made["token_type_ids"].tolist() == [[0, 0, 0, 1, 1]]


def test_offsets_and_texts_travel_along(folder: Path) -> None:
    step = Tokenize(folder)
    assert step.before([IDS, OFFSETS, TensorSpec(TEXT, "BYTES", [])]) == (TensorSpec("text", "BYTES", []),)
    made = step.run(texts("é Lovelace", "in"))
    assert made[OFFSETS.name].tolist() == [
        [[0, 0, -1], [0, 1, 0], [2, 6, 1], [6, 10, 1], [0, 0, -1]],
        [[0, 0, -1], [0, 2, 0], [0, 0, -1], [0, 0, 0], [0, 0, 0]],
    ]
    assert made[TEXT].tolist() == ["é Lovelace".encode(), b"in"]


class TestLongTexts:
    def test_are_refused_with_the_count_and_the_remedy(self, folder: Path) -> None:
        step = Tokenize(folder, max_length=4)
        step.before([IDS])
        assert step.run(texts("Paris London"))["input_ids"].shape == (1, 4)
        with pytest.raises(
            InputError, match=r"row 1 has 5 tokens, .* window is 4 tokens; .*truncation: true"
        ) as refusal:
            step.run(texts("Paris", "Paris London Paris"))
        assert refusal.value.row == 1

    def test_are_cut_off_if_asked(self, folder: Path) -> None:
        step = Tokenize(folder, max_length=4, truncation=True)
        step.before([IDS])
        assert step.run(texts("Paris London notes"))["input_ids"].tolist() == [ids("[CLS]", "paris", "london", "[SEP]")]

    @pytest.mark.parametrize("truncation", [True, False])
    def test_very_long_ones_are_not_looked_at_to_their_end(self, folder: Path, truncation: bool) -> None:
        step = Tokenize(folder, max_length=4, truncation=truncation)
        step.before([IDS])
        text = "paris " * 3_000_000
        if truncation:
            assert step.run(texts(text))["input_ids"].shape == (1, 4)
        else:
            with pytest.raises(InputError, match="row 0 has 18000000 characters"):
                step.run(texts(text))

    def test_truncation_wants_a_length(self, folder: Path) -> None:
        with pytest.raises(LoadError, match=r"tokenize\.truncation: to what length\? write max_length"):
            Tokenize(folder, truncation=True)


@pytest.mark.parametrize("text", ["", " ", "\n", "東京 é", "\x00", "a" * 1000, "👩‍🚀"])
def test_any_text_makes_tokens(folder: Path, text: str) -> None:
    step = Tokenize(folder)
    step.before([IDS, MASK])
    made = step.run(texts(text, "paris"))
    assert made["input_ids"].shape == made["attention_mask"].shape
    assert made["attention_mask"][0].sum() >= 2


def test_no_rows(folder: Path) -> None:
    step = Tokenize(folder)
    step.before([IDS, OFFSETS])
    made = step.run({"text": np.empty((0, 1), object)})
    assert (made["input_ids"].shape, made[OFFSETS.name].shape) == ((0, 0), (0, 0, 3))


def test_bytes_that_are_no_text_are_named(folder: Path) -> None:
    step = Tokenize(folder)
    step.before([IDS])
    with pytest.raises(InputError, match="must be UTF-8; in row 1 the byte 0xff at offset 2 is not") as refusal:
        step.run(texts("ok", b"ab\xff"))
    assert refusal.value.row == 1


def test_threads_side_by_side_make_what_one_makes(folder: Path) -> None:
    step = Tokenize(folder, max_length=8, truncation=True)
    step.before([IDS])
    said = [" ".join(["paris", "london", "notes"][: number % 4]) for number in range(200)]
    alone = [step.run(texts(text))["input_ids"].tolist() for text in said]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: step.run(texts(text))["input_ids"].tolist(), said)) == alone


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ([TensorSpec("x", "FP32", [4])], "it makes 'input_ids', and the model takes 'x'"),
        ([TensorSpec("input_ids", "FP32", [-1])], "not whole numbers by length"),
        ([TensorSpec("input_ids", "INT64", [-1, 2])], "not whole numbers by length"),
        ([IDS, TensorSpec("attention_mask", "INT64", [4])], "differ in length"),
    ],
)
def test_models_that_take_something_else(folder: Path, wanted: list[TensorSpec], reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        Tokenize(folder).before(wanted)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"model": {"type": "WordPiece"}}'])
def test_files_that_are_no_tokenizer(folder: Path, content: str) -> None:
    (folder / "broken.json").write_text(content)
    with pytest.raises(LoadError, match=r"tokenize\.tokenizer: 'broken\.json' cannot be read as a tokenizer"):
        Tokenize(folder, tokenizer="broken.json")


def test_files_outside_of_the_folder(folder: Path) -> None:
    with pytest.raises(LoadError, match=r"tokenize\.tokenizer: '\.\./x\.json' is not in the model's folder"):
        Tokenize(folder, tokenizer="../x.json")
