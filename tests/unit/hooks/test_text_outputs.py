"""What is made of a language model's outputs: pool, classify, entities, keep."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guepard.core.errors import LoadError, ModelError
from guepard.core.tensor import TensorSpec
from guepard.hooks.classify import Classify
from guepard.hooks.entities import Entities
from guepard.hooks.keep import Keep
from guepard.hooks.pool import Pool
from guepard.hooks.tokenize import OFFSETS, TEXT

HERE = Path()
HIDDEN = TensorSpec("last_hidden_state", "FP32", [-1, 2])
MASK = TensorSpec("attention_mask", "INT64", [-1])
TOKENS = np.array([[[1, -2], [3, 4], [100, 100]], [[5, 6], [100, 100], [100, 100]]], np.float32)
KEPT = {"attention_mask": np.array([[1, 1, 0], [1, 0, 0]])}


class TestPool:
    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            ("mean", [[2, 1], [5, 6]]),
            ("cls", [[1, -2], [5, 6]]),
            ("max", [[3, 4], [5, 6]]),
            ("last", [[3, 4], [5, 6]]),
        ],
    )
    def test_padding_is_left_out(self, mode: Any, expected: list[list[float]]) -> None:
        step = Pool(HERE, mode)
        assert step.after([HIDDEN], [MASK]) == (TensorSpec("embedding", "FP32", [2]),)
        made = step.run({"last_hidden_state": TOKENS}, KEPT)
        assert made["embedding"].tolist() == expected
        assert made["embedding"].dtype == np.float32

    @pytest.mark.parametrize("mode", ["mean", "max", "last"])
    def test_a_text_without_tokens_is_zeros(self, mode: Any) -> None:
        step = Pool(HERE, mode)
        step.after([HIDDEN], [MASK])
        made = step.run({"last_hidden_state": TOKENS}, {"attention_mask": np.zeros((2, 3), np.int64)})
        assert made["embedding"].tolist() == [[0, 0], [0, 0]]
        none = step.run({"last_hidden_state": TOKENS[:, :0]}, {"attention_mask": np.zeros((2, 0), np.int64)})
        assert none["embedding"].tolist() == [[0, 0], [0, 0]]

    def test_half_precision_is_added_up_in_full(self) -> None:
        step = Pool(HERE)
        step.after([TensorSpec("h", "FP16", [-1, 1])], [MASK])
        many = np.full((1, 4000, 1), 30.0, np.float16)
        assert step.run({"h": many}, {"attention_mask": np.ones((1, 4000), np.int64)})["embedding"].tolist() == [[30]]

    def test_it_wants_a_mask_and_one_output_of_tokens(self) -> None:
        with pytest.raises(LoadError, match=r"pool\.mask: the model has no input 'attention_mask'"):
            Pool(HERE).after([HIDDEN], [TensorSpec("input_ids", "INT64", [-1])])
        with pytest.raises(LoadError, match=r"the step takes \[length, width\]"):
            Pool(HERE).after([TensorSpec("y", "FP32", [2])], [MASK])


class TestClassify:
    def run(self, logits: Sequence[Sequence[float]], **options: Any) -> dict[str, NDArray[Any]]:
        step = Classify(HERE, ("bad", "good"), **options)
        step.after([TensorSpec("logits", "FP32", [len(logits[0])])], [])
        return dict(step.run({"logits": np.array(logits, np.float32)}, {}))

    def test_one_label(self) -> None:
        made = self.run([[0, np.log(3)], [1000, -1000]])
        assert made["label"].tolist() == [b"good", b"bad"]
        np.testing.assert_allclose(made["score"], [0.75, 1.0], rtol=1e-6)
        np.testing.assert_allclose(made["scores"], [[0.25, 0.75], [1.0, 0.0]], rtol=1e-6)

    def test_several_labels(self) -> None:
        made = self.run([[0, 2], [-1000, 1000]], kind="multi_label")
        assert made["label"].tolist() == [b"good", b"good"]
        np.testing.assert_allclose(made["scores"], [[0.5, 0.880797], [0.0, 1.0]], rtol=1e-6)

    def test_a_value(self) -> None:
        step = Classify(HERE, ("score",), kind="regression")
        assert step.after([TensorSpec("logits", "FP32", [1])], []) == (TensorSpec("score", "FP32", []),)
        assert step.run({"logits": np.array([[3.5]], np.float32)}, {})["score"].tolist() == [3.5]

    def test_nan_is_a_failure(self) -> None:
        with pytest.raises(ModelError, match="holds NaN"):
            self.run([[np.nan, 1]])

    def test_labels_and_scores_are_as_many(self) -> None:
        with pytest.raises(LoadError, match=r"classify\.labels: there are 2, and output 'logits' has 3"):
            self.run([[1, 2, 3]])


TEXT_OF = "Ada Lovelace lived in New York"
# [CLS] Ada Love ##lace lived in New York [SEP] [PAD]
WHERE = [
    (0, 0, -1),
    (0, 3, 0),
    (4, 8, 1),
    (8, 12, 1),
    (13, 18, 2),
    (19, 21, 3),
    (22, 25, 4),
    (26, 30, 5),
    (0, 0, -1),
    (0, 0, 0),
]
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def entities(chosen: Sequence[int], aggregation: Any = "simple") -> list[dict[str, Any]]:
    """`chosen`: the class of each token, which gets 0.9 of its probabilities."""
    logits = np.full((1, len(WHERE), len(LABELS)), np.log(0.025), np.float32)
    logits[0, np.arange(len(WHERE)), chosen] = np.log(0.9)
    return found(logits, aggregation)


def found(logits: NDArray[Any], aggregation: Any) -> list[dict[str, Any]]:
    step = Entities(HERE, LABELS, aggregation)
    assert step.after([TensorSpec("logits", "FP32", [-1, 5])], []) == (TensorSpec("entities", "BYTES", []),)
    inputs = {TEXT: np.array([TEXT_OF.encode()], object), OFFSETS.name: np.array([WHERE], np.int32)}
    answer: list[dict[str, Any]] = json.loads(step.run({"logits": logits}, inputs)["entities"][0])
    return answer


class TestEntities:
    def test_neighbours_of_a_class_are_one_span(self) -> None:
        people, places = entities([0, 1, 2, 2, 0, 0, 3, 4, 0, 1])
        assert (people["entity_group"], people["word"], people["start"], people["end"]) == (
            "PER",
            "Ada Lovelace",
            0,
            12,
        )
        assert (places["entity_group"], places["word"]) == ("LOC", "New York")
        assert people["score"] == pytest.approx(0.9)

    def test_one_may_begin_beside_another(self) -> None:
        assert [each["word"] for each in entities([0, 1, 1, 2, 0, 0, 3, 3, 0, 0])] == ["Ada", "Lovelace", "New", "York"]

    def test_tokens_by_themselves(self) -> None:
        found_tokens = entities([0, 1, 2, 2, 0, 0, 0, 0, 0, 0], "none")
        assert [(each["entity"], each["word"]) for each in found_tokens] == [
            ("B-PER", "Ada"),
            ("I-PER", "Love"),
            ("I-PER", "lace"),
        ]

    @pytest.mark.parametrize(
        ("aggregation", "expected"), [("first", []), ("average", ["Lovelace"]), ("max", ["Lovelace"])]
    )
    def test_words_go_by_their_first_token_their_mean_or_their_surest(
        self, aggregation: str, expected: list[str]
    ) -> None:
        logits = np.full((1, len(WHERE), 5), -9, np.float32)
        logits[..., 0] = 5
        logits[0, 2] = np.log([0.5, 0.1, 0.2, 0.1, 0.1])
        logits[0, 3] = np.log([0.05, 0.05, 0.8, 0.05, 0.05])
        assert [each["word"] for each in found(logits, aggregation)] == expected

    def test_nothing_found_is_an_empty_list(self) -> None:
        assert entities([0] * 10) == []

    def test_nan_is_a_failure(self) -> None:
        with pytest.raises(ModelError, match="holds NaN"):
            found(np.full((1, len(WHERE), 5), np.nan, np.float32), "simple")

    def test_labels_and_classes_are_as_many(self) -> None:
        with pytest.raises(LoadError, match=r"the step takes \[length, 5\]"):
            Entities(HERE, LABELS).after([TensorSpec("logits", "FP32", [-1, 4])], [])


class TestKeep:
    def test_names_and_order(self) -> None:
        given = [TensorSpec("a", "FP32", [1]), TensorSpec("b", "BYTES", [2]), TensorSpec("c", "FP32", [3])]
        step = Keep(HERE, {"second": "b", "a": "a"})
        assert step.after(given, []) == (TensorSpec("second", "BYTES", [2]), TensorSpec("a", "FP32", [1]))
        arrays = {name: np.zeros(1) for name in "abc"}
        assert list(step.run(arrays, {})) == ["second", "a"]

    def test_outputs_that_are_not_there(self) -> None:
        with pytest.raises(LoadError, match=r"keep\.outputs: there is no output 'z'; there are 'a'"):
            Keep(HERE, {"y": "z"}).after([TensorSpec("a", "FP32", [1])], [])
        with pytest.raises(LoadError, match=r"keep\.outputs: names no output"):
            Keep(HERE, {})
