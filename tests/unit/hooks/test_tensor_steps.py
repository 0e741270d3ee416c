"""What the steps behind a model make of its outputs."""

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guepard.core.errors import LoadError, ModelError
from guepard.core.hooks import StepSpec
from guepard.core.tensor import Array, TensorSpec
from guepard.hooks.chain import PostChain

SCORES = TensorSpec("y", "FP32", [4])
RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def chain(steps: Mapping[str, Mapping[str, Any]], *given: TensorSpec, folder: Path = Path()) -> PostChain:
    return PostChain([StepSpec(kind, options) for kind, options in steps.items()], folder, given or (SCORES,), ())


def after(steps: Mapping[str, Mapping[str, Any]], values: Any, spec: TensorSpec = SCORES) -> Mapping[str, Array]:
    array = values if isinstance(values, np.ndarray) else np.array(values, spec.datatype.dtype)
    links = chain(steps, spec)
    answers = links.run({spec.name: array}, {}, [0] * len(steps))
    assert set(answers) == {each.name for each in links.gives}
    for each in links.gives:
        assert answers[each.name].dtype == each.datatype.dtype
        assert answers[each.name].shape[1:] == tuple(
            [dim if dim != -1 else have for dim, have in zip(each.dims, answers[each.name].shape[1:], strict=True)]
        )
    return answers


def brain(values: Any) -> Array:
    return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


class TestSoftmax:
    def test_against_the_definition(self) -> None:
        scores = RANDOM.normal(size=(3, 4))
        expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        np.testing.assert_allclose(after({"softmax": {}}, scores.astype(np.float32))["y"], expected, rtol=1e-5)

    def test_high_scores_do_not_overflow(self) -> None:
        answer = after({"softmax": {}}, [[1e30, 1e30, 0, -1e30], [-1e30, -1e30, -1e30, -1e30]])["y"]
        np.testing.assert_array_equal(answer, [[0.5, 0.5, 0, 0], [0.25] * 4])

    def test_a_mask_of_minus_infinity(self) -> None:
        np.testing.assert_array_equal(after({"softmax": {}}, [[0, 0, -np.inf, -np.inf]])["y"], [[0.5, 0.5, 0, 0]])

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_what_is_no_number_is_seen_in_its_row_alone(self, bad: float) -> None:
        answer = after({"softmax": {}}, [[0, bad, 0, 0], [0, 0, 0, 0]])["y"]
        assert np.isnan(answer[0]).any()
        np.testing.assert_array_equal(answer[1], [0.25] * 4)

    def test_half_precision_is_computed_and_answered_in_full(self) -> None:
        scores = [[60000, 60000, 0, 0]]
        answer = after({"softmax": {}}, np.array(scores, np.float16), TensorSpec("y", "FP16", [4]))["y"]
        np.testing.assert_array_equal(answer, [[0.5, 0.5, 0, 0]])
        answer = after({"softmax": {}}, brain(scores), TensorSpec("y", "BF16", [4]))["y"]
        np.testing.assert_array_equal(answer, [[0.5, 0.5, 0, 0]])

    def test_double_precision_stays(self) -> None:
        assert after({"softmax": {}}, [[0, 0, 0, 0]], TensorSpec("y", "FP64", [4]))["y"].dtype == np.float64

    def test_the_models_own_array_is_left_alone(self) -> None:
        scores = np.ones((1, 4), np.float32)
        after({"softmax": {}}, scores)
        assert (scores == 1).all()

    def test_no_rows_and_no_scores(self) -> None:
        assert after({"softmax": {}}, np.empty((0, 4), np.float32))["y"].shape == (0, 4)
        assert after({"softmax": {}}, np.empty((2, 0), np.float32), TensorSpec("y", "FP32", [-1]))["y"].shape == (2, 0)


class TestSigmoid:
    def test_against_the_definition_far_out_too(self) -> None:
        scores = np.array([[-200.0, -20.0, 0.5, 200.0]], np.float32)
        expected = [[0, 1 / (1 + np.exp(20.0)), 1 / (1 + np.exp(-0.5)), 1]]
        np.testing.assert_allclose(after({"sigmoid": {}}, scores)["y"], expected, rtol=1e-5)

    def test_nan_stays(self) -> None:
        assert np.isnan(after({"sigmoid": {}}, [[np.nan, 0, 0, 0]])["y"]).tolist() == [[True, False, False, False]]

    def test_brain_floats(self) -> None:
        answer = after({"sigmoid": {}}, brain([[0, 0, 0, 0]]), TensorSpec("y", "BF16", [4]))["y"]
        np.testing.assert_array_equal(answer, [[0.5] * 4])


class TestL2Normalize:
    def test_length_one(self) -> None:
        vectors = RANDOM.normal(size=(5, 4)).astype(np.float32)
        answer = after({"l2_normalize": {}}, vectors)["y"]
        np.testing.assert_allclose(answer, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), rtol=1e-6)

    def test_nothing_overflows_or_is_divided_by_zero(self) -> None:
        answer = after({"l2_normalize": {}}, [[3e38, 0, 0, 0], [0, 0, 0, 0], [1e-30, 0, 0, 0]])["y"]
        np.testing.assert_allclose(answer, [[1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]])

    def test_nan_spreads_over_its_vector_alone(self) -> None:
        answer = after({"l2_normalize": {}}, [[np.nan, 1, 1, 1], [2, 0, 0, 0]])["y"]
        assert np.isnan(answer[0]).all()
        assert answer[1].tolist() == [1, 0, 0, 0]


class TestTopK:
    def test_falling_with_their_places(self) -> None:
        answer = after({"top_k": {"k": 3}}, [[0.1, 0.7, 0.05, 0.15], [4, 3, 2, 1]])
        assert answer["indices"].tolist() == [[1, 3, 0], [0, 1, 2]]
        np.testing.assert_array_equal(answer["scores"], np.array([[0.7, 0.15, 0.1], [4, 3, 2]], np.float32))

    @pytest.mark.parametrize("count", [16, 5_000])
    def test_of_equals_the_first(self, count: int) -> None:
        scores = RANDOM.integers(0, 5, (3, count)).astype(np.float32)
        answer = after({"top_k": {"k": 7}}, scores, TensorSpec("y", "FP32", [count]))["indices"]
        for row, indices in zip(scores, answer, strict=True):
            assert indices.tolist() == sorted(range(count), key=lambda index: (-row[index], index))[:7]

    def test_over_the_last_of_several_dimensions(self) -> None:
        scores = RANDOM.normal(size=(2, 3, 5_000)).astype(np.float32)
        answer = after({"top_k": {"k": 2}}, scores, TensorSpec("y", "FP32", [3, 5_000]))
        np.testing.assert_array_equal(answer["indices"][..., 0], scores.argmax(-1))

    def test_fewer_scores_than_k_where_their_number_is_free(self) -> None:
        assert after({"top_k": {}}, [[1, 2, 3]], TensorSpec("y", "FP32", [-1]))["indices"].tolist() == [[2, 1, 0]]

    def test_more_than_there_are(self) -> None:
        with pytest.raises(LoadError, match=r"top_k.k: output 'y' has 4 scores a row, so at most 4"):
            chain({"top_k": {"k": 5}})

    def test_infinities_have_their_places(self) -> None:
        answer = after({"top_k": {"k": 4}}, [[0, np.inf, -np.inf, 1]])
        assert answer["indices"].tolist() == [[1, 3, 0, 2]]


@pytest.mark.parametrize("step", ["top_k", "argmax"])
def test_what_cannot_be_ranked_is_a_failure_of_the_model(step: str) -> None:
    with pytest.raises(ModelError, match="output 'y' of the model holds NaN, which cannot be ranked"):
        after({step: {"k": 1} if step == "top_k" else {}}, [[0, np.nan, 0, 0]])


class TestArgmax:
    def test_the_first_of_the_highest(self) -> None:
        assert after({"argmax": {}}, [[1, 5, 5, 0], [9, 5, 5, 0]])["y"].tolist() == [1, 0]

    def test_of_brain_floats_whose_bits_would_mislead(self) -> None:
        answer = after({"argmax": {}}, brain([[-1, -2, 0.5, -3]]), TensorSpec("y", "BF16", [4]))
        assert answer["y"].tolist() == [2]


class TestLabels:
    NAMES = ("ant", "bee", "çat", "dog")

    def test_of_the_best(self) -> None:
        answer = after({"top_k": {"k": 2}, "labels": {"values": self.NAMES}}, [[0, 1, 2, 0]])
        assert answer["labels"].tolist() == [["çat".encode(), b"bee"]]
        assert [spec.name for spec in chain({"top_k": {"k": 2}, "labels": {"values": self.NAMES}}).gives] == [
            "scores",
            "indices",
            "labels",
        ]

    def test_of_one(self) -> None:
        answer = after({"argmax": {}, "labels": {"values": self.NAMES, "name": "animal"}}, [[0, 1, 2, 0], [1, 0, 0, 0]])
        assert answer["animal"].tolist() == ["çat".encode(), b"ant"]
        assert answer["y"].tolist() == [2, 0]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("labels.txt", "ant\nbee\nçat\ndog\n"),
            ("labels.txt", "\ufeffant\r\nbee\r\nçat\r\ndog"),
            ("labels.json", json.dumps(NAMES)),
            ("labels.json", json.dumps({"3": "dog", "0": "ant", "1": "bee", "2": "çat"})),
            ("config.json", json.dumps({"id2label": dict(enumerate(NAMES)), "other": 1})),
        ],
    )
    def test_from_a_file(self, tmp_path: Path, name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        links = chain({"argmax": {}, "labels": {"file": name}}, folder=tmp_path)
        answer = links.run({"y": np.array([[0, 0, 1, 0]], np.float32)}, {}, [0, 0])
        assert answer["labels"].tolist() == ["çat".encode()]

    @pytest.mark.parametrize(
        ("name", "text", "reason"),
        [
            ("labels.txt", "", "holds no labels for 0, 1, 2"),
            ("labels.json", '{"1": "a"}', "holds no labels for 0, 1, 2"),
            ("labels.json", "[1, 2]", "holds no labels for 0, 1, 2"),
            ("labels.json", "[", "labels.file: 'labels.json' cannot be read"),
            ("labels.txt", b"\xff", "labels.file: 'labels.txt' cannot be read"),
        ],
    )
    def test_from_a_file_that_holds_none(self, tmp_path: Path, name: str, text: str | bytes, reason: str) -> None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(LoadError, match=reason):
            chain({"argmax": {}, "labels": {"file": name}}, folder=tmp_path)

    @pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "link.txt", "a/../../secret.txt", "a\0b", ""])
    def test_a_file_outside_of_the_folder_is_not_read(self, tmp_path: Path, name: str) -> None:
        folder = tmp_path / "model"
        folder.mkdir()
        (tmp_path / "secret.txt").write_text("a\nb")
        (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
        with pytest.raises(LoadError, match=r"labels.file: .* is not in the model's folder") as error:
            chain({"argmax": {}, "labels": {"file": name}}, folder=folder)
        assert str(tmp_path) not in str(error.value)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(LoadError, match=r"labels.file: there is no file 'x' in the model's folder"):
            chain({"argmax": {}, "labels": {"file": "x"}}, folder=tmp_path)

    @pytest.mark.parametrize("options", [{}, {"file": "x", "values": ["a"]}])
    def test_one_source(self, options: dict[str, Any]) -> None:
        with pytest.raises(LoadError, match="labels: write either `file`"):
            chain({"argmax": {}, "labels": options})

    def test_an_index_without_a_label_is_a_failure_of_the_model(self) -> None:
        with pytest.raises(ModelError, match="output 'y' holds an index outside of 0 to 1"):
            after({"argmax": {}, "labels": {"values": ["a", "b"]}}, [[0, 0, 1, 0]])

    def test_scores_have_none(self) -> None:
        with pytest.raises(LoadError, match=r"labels: none of the outputs 'y' is indices, .* such as top_k and argmax"):
            chain({"labels": {"values": ["a"]}})


class TestSeveralOutputs:
    OTHER = TensorSpec("z", "FP32", [2])

    def test_the_one_that_is_named(self) -> None:
        links = chain({"softmax": {"output": "z"}}, SCORES, self.OTHER)
        scores = np.zeros((1, 4), np.float32)
        answer = links.run({"y": scores, "z": np.zeros((1, 2), np.float32)}, {}, [0])
        assert answer["y"] is scores
        assert answer["z"].tolist() == [[0.5, 0.5]]

    def test_or_none_is_meant(self) -> None:
        with pytest.raises(LoadError, match=r"softmax: 'y', 'z' all are floating-point .* say by `output` which"):
            chain({"softmax": {}}, SCORES, self.OTHER)

    def test_the_order_is_kept(self) -> None:
        links = chain({"top_k": {"k": 1, "output": "y"}}, SCORES, self.OTHER)
        assert [spec.name for spec in links.gives] == ["scores", "indices", "z"]

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"output": "w"}, "softmax: there is no output 'w'; there are 'y', 'n'"),
            ({"output": "n"}, "softmax: output 'n' is .*, and the step takes floating-point"),
        ],
    )
    def test_one_that_does_not_do(self, options: dict[str, Any], reason: str) -> None:
        with pytest.raises(LoadError, match=reason):
            chain({"softmax": options}, SCORES, TensorSpec("n", "INT64", [4]))


def test_steps_are_told_apart_and_timed() -> None:
    links = PostChain([StepSpec("softmax"), StepSpec("l2_normalize"), StepSpec("softmax")], Path(), (SCORES,), ())
    assert links.names == ("softmax", "l2_normalize", "softmax_2")
    spent = [0, 0, 0]
    links.run({"y": np.zeros((2, 4), np.float32)}, {}, spent)
    assert all(spent)


def test_a_step_that_there_is_not() -> None:
    with pytest.raises(LoadError, match="postprocess: there is no step 'soft_max'; did you mean 'softmax'"):
        PostChain([StepSpec("soft_max")], Path(), (SCORES,), ())
