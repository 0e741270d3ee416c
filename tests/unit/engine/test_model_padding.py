"""Padding on real small models: what is found, what is proved, and what is refused before it can answer wrongly."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from guepard.core.errors import LoadError
from guepard.core.model_config import DynamicBatching, ModelConfig, ModelPolicy
from guepard.core.padding import NO_BOUND, PaddingRules
from guepard.engine import padding_trial
from guepard.engine.model_loader import load_version
from guepard.engine.model_repository import ModelDefinition
from guepard.engine.padding_trial import _paying_tokens
from guepard.engine.resources import Resources
from tests.services import onnx_models

IDS = {"ids": 0, "mask": 0}


def loaded(path: Path, **policy: Any) -> ModelConfig:
    definition = ModelDefinition("m", path, ModelPolicy(**policy), trusted=True)
    version = load_version(definition, "1", path, Resources(1, 2**30))
    version.model.close()
    return version.config


def onnx(folder: Path, model: bytes, **policy: Any) -> ModelConfig:
    return loaded(onnx_models.write_model(folder / "m.onnx", model), **policy)


def padded(config: ModelConfig) -> tuple[list[str], list[str]]:
    assert config.padding is not None
    return [each.name for each in config.padding.inputs], [each.name for each in config.padding.outputs]


MODEL = """
import guepard, numpy as np

class M(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [-1])]
    outputs = [guepard.Tensor("y", "FP32", DIMS)]
    max_batch_size = 4
    padding = PADDING

    def predict(self, inputs, ctx):
        x = inputs["x"]
        return {"y": np.asarray(RESULT, np.float32)}
"""


def python(
    folder: Path, result: str, dims: str = "[-1]", padding: str | None = None, rules: PaddingRules | None = None
) -> ModelConfig:
    path = folder / "m.py"
    declared = padding or "{'inputs': {'x': 0}, 'outputs': {'y': 0}}"
    path.write_text(MODEL.replace("DIMS", dims).replace("PADDING", declared).replace("RESULT", result))
    return loaded(path, padding=rules)


class TestOnnx:
    def test_an_exported_transformer_is_padded_unasked(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO):
            config = onnx(tmp_path, onnx_models.encoder(("input_ids", "attention_mask", "token_type_ids")))
        assert padded(config) == (["input_ids", "attention_mask", "token_type_ids"], ["hidden"])
        assert "by the names of their dimensions: hidden (axis 0)" in caplog.text
        assert "padded: input_ids with 0" in caplog.text

    def test_one_that_ignores_its_mask_is_not(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """tensorflow/tensor2tensor#1489: short sequences batched with long ones came back as garbage."""
        with caplog.at_level(logging.INFO):
            assert onnx(tmp_path, onnx_models.encoder(masked=False)).padding is None
        assert "gives another output 'hidden' than alone" in caplog.text
        assert "served without padding" in caplog.text

    @pytest.mark.parametrize(
        "model",
        [
            onnx_models.masked_mean(),
            onnx_models.encoder(("input_ids", "mask")),
            onnx_models.encoder(("attention_mask",)),
            onnx_models.encoder(sequence=None),
            onnx_models.encoder(rank=3),
            onnx_models.mlp(),
        ],
    )
    def test_what_bears_no_known_names_is_left_alone(self, tmp_path: Path, model: bytes) -> None:
        assert onnx(tmp_path, model).padding is None

    def test_an_operator_may_ask_for_it_and_for_none(self, tmp_path: Path) -> None:
        config = onnx(tmp_path, onnx_models.masked_mean(), padding=PaddingRules(IDS))
        assert padded(config) == (["ids", "mask"], [])
        assert onnx(tmp_path, onnx_models.encoder(), padding=PaddingRules({})).padding is None
        bare = onnx(tmp_path, onnx_models.encoder(), padding=PaddingRules(buckets=(4, 8)))
        assert bare.padding is not None
        assert bare.padding.buckets == (4, 8)

    def test_who_asks_for_what_is_wrong_is_told(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        config = onnx(tmp_path, onnx_models.masked_mean(), padding=PaddingRules({"ids": 0, "mask": 1}))
        assert config.padding is not None
        (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert "would make wrong answers; it is padded all the same" in record.getMessage()

    def test_metadata_of_the_file_says_what_is_padded(self, tmp_path: Path) -> None:
        metadata = json.dumps({"inputs": {"a": 0, "b": 0}, "buckets": [8, 16], "max_tokens": 64, "max_padding": 2})
        padding = onnx(tmp_path, onnx_models.encoder(("a", "b"), metadata=metadata)).padding
        assert padding is not None
        assert [each.name for each in padding.outputs] == ["hidden"]
        assert (padding.buckets, padding.max_tokens, padding.max_padding) == ((8, 16), 64, 2)

    def test_metadata_is_held_to_the_trial(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        metadata = '{"inputs": {"a": 0, "b": 0}}'
        assert onnx(tmp_path, onnx_models.encoder(("a", "b"), masked=False, metadata=metadata)).padding is None
        (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert "served without padding" in record.getMessage()

    @pytest.mark.parametrize(
        ("metadata", "words"),
        [
            ("{", "metadata guepard.padding: "),
            ('{"inputs": {"a": "0"}}', r"\$.inputs"),
            ('{"inputs": {"a": 0}, "length": 3}', "unknown field `length`"),
            ('{"inputs": {"a": 0}, "max_tokens": 0}', "max_tokens must be a positive integer, got 0"),
            ('{"inputs": {"c": 0}}', r"padding.inputs.c: the model has no such input"),
        ],
    )
    def test_metadata_that_says_nonsense_is_refused(self, tmp_path: Path, metadata: str, words: str) -> None:
        with pytest.raises(LoadError, match=words):
            onnx(tmp_path, onnx_models.encoder(("a", "b"), metadata=metadata))

    def test_outputs_without_names_of_dimensions_must_be_declared(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = onnx_models.encoder(("a", "b"), sequence=None)
        onnx(tmp_path, model, padding=PaddingRules({"a": 0, "b": 0}))
        assert "write padding.outputs: {hidden: 0}" in caplog.text
        caplog.clear()
        config = onnx(tmp_path, model, padding=PaddingRules({"a": 0, "b": 0}, {"hidden": 0}))
        assert padded(config) == (["a", "b"], ["hidden"])
        assert caplog.records == []

    def test_rows_that_depend_on_one_another_are_not_padded_either(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = onnx_models.running_sum()
        assert onnx(tmp_path, model, padding=PaddingRules({"x": 0})).padding is None
        assert "rows depend on one another" in caplog.text

    def test_no_batches_no_padding(self, tmp_path: Path) -> None:
        assert onnx(tmp_path, onnx_models.encoder(), max_batch_size=0).padding is None
        with pytest.raises(LoadError, match="max_batch_size is 0"):
            onnx(tmp_path, onnx_models.masked_mean(), max_batch_size=0, padding=PaddingRules(IDS))

    def test_a_batch_of_one_row_may_have_its_buckets(self, tmp_path: Path) -> None:
        rules = PaddingRules(buckets=(8, 16))
        assert onnx(tmp_path, onnx_models.encoder(), max_batch_size=1, padding=rules).padding is not None
        assert onnx(tmp_path, onnx_models.encoder(masked=False), max_batch_size=1, padding=rules).padding is None


class TestBounds:
    def test_what_is_named_is_kept(self, tmp_path: Path) -> None:
        rules = PaddingRules(IDS, buckets=(64,), max_tokens=128, max_padding=3)
        padding = onnx(tmp_path, onnx_models.masked_mean(), padding=rules).padding
        assert padding is not None
        assert (padding.max_tokens, padding.max_padding) == (128, 3)

    def test_what_is_not_named_is_measured(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(padding_trial.Trial, "worth", lambda self, lengths: padding_trial.Worth(96, 7))
        named: list[dict[str, Any]] = [
            {},
            {"max_batch_size": 64},
            {"dynamic_batching": DynamicBatching(1_000_000)},
            {"padding": PaddingRules(IDS, buckets=(64, 200))},
        ]
        found = [
            onnx(tmp_path, onnx_models.masked_mean(), **{"padding": PaddingRules(IDS)} | each).padding for each in named
        ]
        assert [each and (each.max_tokens, each.max_padding) for each in found] == [
            (96, 7),
            (NO_BOUND, 7),
            (NO_BOUND, 7),
            (200, 7),
        ]

    @pytest.mark.parametrize(
        ("by_rows", "crowd", "expected"),
        [
            ([700, 1_300, 5_000, 20_000], 64_000, 80),
            ([700, 710, 720, 730], 740, NO_BOUND),
            ([700, 1_300, 5_000, 16_000], 51_200, 320),
            ([100, 400, 1_600, 6_400], 20_000, 64),
        ],
    )
    def test_tokens_are_bounded_where_more_of_them_cost_no_less(
        self, by_rows: list[int], crowd: int, expected: int
    ) -> None:
        rows = (1, 4, 16, 64)
        times = {(count, 5): time for count, time in zip(rows, by_rows, strict=True)} | {(16, 64): crowd}
        assert _paying_tokens(times, rows, 5, (16, 64)) == expected


class TestPython:
    def test_a_class_says_what_is_padded(self, tmp_path: Path) -> None:
        config = python(tmp_path, "x * 2")
        assert padded(config) == (["x"], ["y"])
        assert config.padding is not None
        assert config.padding.max_tokens == NO_BOUND  # its code holds the interpreter: batches are as large as may be

    def test_the_configuration_wins(self, tmp_path: Path) -> None:
        assert python(tmp_path, "x * 2", rules=PaddingRules({})).padding is None
        padding = python(tmp_path, "x * 2", rules=PaddingRules(max_tokens=9)).padding
        assert padding is not None
        assert padding.max_tokens == 9

    @pytest.mark.parametrize(
        ("result", "dims", "words"),
        [
            ("x.mean(axis=1)", "[]", "gives another output 'y' than alone"),
            ("x.max(axis=1)", "[]", "gives another output 'y' than alone"),
            ("x.min(axis=1)", "[]", "gives another output 'y' than alone"),
            ("x[:, -1]", "[]", "gives another output 'y' than alone"),
            ("x * 2", "[-1]", "write padding.outputs: {y: 0}"),
            (
                "x[:, ::-1].cumsum(axis=1)[:, ::-1].sum(axis=1)**2 + x.shape[1]",
                "[]",
                "gives another output 'y' than alone",
            ),
        ],
    )
    def test_answers_that_padding_would_change_are_refused(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, result: str, dims: str, words: str
    ) -> None:
        assert python(tmp_path, result, dims, "{'inputs': {'x': 0}}").padding is None
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert words in record.getMessage()
        assert "served without padding" in record.getMessage()

    def test_an_output_that_does_not_follow_is_refused(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        assert python(tmp_path, "x[:, :3]").padding is None
        assert "padding.outputs says that dimension 1 is as long; remove it" in caplog.text

    def test_a_model_may_ask_for_the_lengths_instead_of_a_mask(self, tmp_path: Path) -> None:
        result = "[x[r.rows, : r.length].mean() for r in ctx.requests for _ in range(r.rows.stop - r.rows.start)]"
        assert python(tmp_path, result, "[]", "{'inputs': {'x': 0}}").padding is not None

    def test_one_that_takes_no_samples_is_taken_at_its_word(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert python(tmp_path, "1 / 0").padding is not None
        assert "padding could not be tried" in caplog.text

    @pytest.mark.parametrize(
        ("declared", "words"),
        [
            ("{'inputs': ['x']}", "class M: padding: Expected `object`, got `array`"),
            ("{'ids': 0}", "class M: padding: Object"),
            ("3", "class M: padding: Expected `object`, got `int`"),
            ("{'inputs': {'z': 0}}", "padding.inputs.z: the model has no such input"),
        ],
    )
    def test_a_class_that_says_nonsense_is_refused(self, tmp_path: Path, declared: str, words: str) -> None:
        with pytest.raises(LoadError, match=words):
            python(tmp_path, "x", padding=declared)

    @pytest.mark.parametrize(("pooled", "is_padded"), [("[:, 0]", True), (".mean(axis=1)", False)])
    def test_lengths_that_windows_and_kernels_take_are_found(
        self, tmp_path: Path, pooled: str, is_padded: bool
    ) -> None:
        """A handful of tokens would be refused, which proves nothing."""
        result = f"x.reshape(len(x), -1, 16).sum(axis=2){pooled}"
        assert (python(tmp_path, result, "[]", "{'inputs': {'x': 0}}").padding is not None) is is_padded
