"""Hugging Face folders: what is made of their files, and what is refused."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guepard.backends.base import ModelSource
from guepard.backends.registry import backend_for
from guepard.core.engine_options import EngineOptions, HuggingFaceOptions
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelPolicy
from guepard.core.padding import PaddingRules
from guepard.formats.base import Resolved
from guepard.formats.registry import resolve
from tests.services.huggingface_folders import LABELS, VOCABULARY, write_folder

SIZE = len(VOCABULARY)


def resolved(folder: Path, *, trusted: bool = False, padding: PaddingRules | None = None, **options: Any) -> Resolved:
    engines = EngineOptions(huggingface=HuggingFaceOptions(**options))
    policy = ModelPolicy(engines=engines, padding=padding)
    return resolve(ModelSource("m", "1", folder, policy, trusted=trusted), "huggingface")


def steps(found: Resolved) -> list[str]:
    return [step.kind for step in (*found.hooks.preprocess, *found.hooks.postprocess)]


def options_of(found: Resolved, kind: str) -> dict[str, Any]:
    return next(dict(step.options) for step in (*found.hooks.preprocess, *found.hooks.postprocess) if step.kind == kind)


def write_json(folder: Path, name: str, content: object) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


class TestWhatIsServed:
    def test_features(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m")
        assert backend_for("auto", folder) == "huggingface"
        found = resolved(folder)
        assert (found.backend, found.source.path) == ("onnxruntime", folder / "model.onnx")
        assert steps(found) == ["tokenize", "pool", "keep"]
        assert options_of(found, "tokenize") == {
            "tokenizer": "tokenizer.json",
            "max_length": 16,
            "truncation": False,
            "pad_id": 0,
        }
        assert dict(found.facts) == {"task": "feature-extraction", "weights": "model.onnx", "pooling": "mean"}
        padding = found.source.policy.padding
        assert padding is not None
        assert (padding.inputs, padding.outputs) == ({"input_ids": 0, "attention_mask": 0}, {})

    def test_text_classification(self, tmp_path: Path) -> None:
        found = resolved(write_folder(tmp_path / "m", "text-classification"))
        assert steps(found) == ["tokenize", "classify", "keep"]
        assert options_of(found, "classify")["labels"] == ("bad", "fair", "good")
        assert options_of(found, "classify")["kind"] == "single_label"
        assert list(options_of(found, "keep")["outputs"]) == ["label", "score", "scores"]

    @pytest.mark.parametrize(
        ("config", "kind"),
        [
            ({"problem_type": "multi_label_classification"}, "multi_label"),
            ({"problem_type": "regression"}, "regression"),
            ({"id2label": {"0": "stars"}}, "regression"),
            ({"id2label": {}, "num_labels": 3}, "single_label"),
        ],
    )
    def test_kinds_of_classification(self, tmp_path: Path, config: dict[str, Any], kind: str) -> None:
        found = resolved(write_folder(tmp_path / "m", "text-classification", **config))
        assert options_of(found, "classify")["kind"] == kind

    def test_token_classification(self, tmp_path: Path) -> None:
        found = resolved(write_folder(tmp_path / "m", "token-classification"), aggregation="max")
        assert steps(found) == ["tokenize", "entities", "keep"]
        assert options_of(found, "entities") == {"labels": LABELS, "aggregation": "max", "output": "logits"}
        assert found.source.policy.padding is not None
        assert found.source.policy.padding.inputs == {"input_ids": 0, "attention_mask": 0, "token_offsets": 0}

    def test_sentence_transformers(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m")
        modules = [
            {"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ]
        write_json(folder, "modules.json", modules)
        write_json(folder, "1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
        write_json(folder, "sentence_bert_config.json", {"max_seq_length": 8})
        found = resolved(folder)
        assert steps(found) == ["tokenize", "pool", "keep", "l2_normalize"]
        assert options_of(found, "pool")["mode"] == "cls"
        assert options_of(found, "tokenize")["max_length"] == 8
        assert dict(found.facts)["sentence_transformers"] == "Transformer Pooling Normalize"
        assert steps(resolved(folder, normalize=False, pooling="max")) == ["tokenize", "pool", "keep"]

    def test_the_window_is_the_shortest_that_is_said(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m", model_type="roberta", max_position_embeddings=514, pad_token_id=1)
        assert options_of(resolved(folder), "tokenize")["max_length"] == 512
        write_json(folder, "tokenizer_config.json", {"model_max_length": 10**30})
        assert options_of(resolved(folder), "tokenize")["max_length"] == 512
        write_json(folder, "tokenizer_config.json", {"model_max_length": 128})
        assert options_of(resolved(folder), "tokenize")["max_length"] == 128
        assert options_of(resolved(folder, max_length=64, truncation=True), "tokenize") == {
            "tokenizer": "tokenizer.json",
            "max_length": 64,
            "truncation": True,
            "pad_id": 1,
        }

    def test_the_operator_s_padding_comes_first(self, tmp_path: Path) -> None:
        found = resolved(write_folder(tmp_path / "m"), padding=PaddingRules(buckets=(8, 16)))
        assert found.source.policy.padding is not None
        assert (found.source.policy.padding.buckets, found.source.policy.padding.outputs) == ((8, 16), {})

    def test_onnx_in_a_folder_of_its_own_or_by_name(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m")
        (folder / "onnx").mkdir()
        (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
        assert resolved(folder).source.path == folder / "onnx" / "model.onnx"
        (folder / "onnx" / "model.onnx").rename(folder / "onnx" / "model_int8.onnx")
        assert resolved(folder, onnx_file="onnx/model_int8.onnx").source.path.name == "model_int8.onnx"
        with pytest.raises(LoadError, match=r"there are onnx/model_int8\.onnx: name one by huggingface\.onnx_file"):
            resolved(folder)

    def test_pytorch_weights(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m", "token-classification")
        (folder / "model.onnx").unlink()
        write_safetensors(folder, SIZE)
        found = resolved(folder)
        assert found.backend == "pytorch"
        pytorch = found.source.policy.engines.pytorch
        assert pytorch.factory == "guepard.formats.huggingface_weights:build"
        assert pytorch.factory_parameters == {"task": "token-classification", "weights": "model.safetensors"}
        assert [spec.name for spec in found.source.inputs] == ["input_ids", "attention_mask"]
        assert [(spec.name, spec.dims) for spec in found.source.outputs] == [("logits", (-1, 5))]


def write_safetensors(folder: Path, rows: int) -> None:
    """A header alone, as far as it is read."""
    header = json.dumps(
        {"embeddings.word_embeddings.weight": {"dtype": "F32", "shape": [rows, 8], "data_offsets": [0, 0]}}
    )
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode())


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("config", "reason"),
        [
            ({"architectures": ["GPT2LMHeadModel"]}, "GPT2LMHeadModel is a model for text generation"),
            ({"architectures": ["LlamaForCausalLM"]}, "set huggingface.task"),
            ({"architectures": ["ViTForImageClassification"]}, "image classification"),
            ({"auto_map": {"AutoModel": "modeling.Model"}}, "asks for Python code of its own"),
            ({"vocab_size": SIZE - 1}, f"makes ids up to {SIZE - 1}, and the model knows {SIZE - 1} tokens"),
        ],
    )
    def test_models_of_another_kind(self, tmp_path: Path, config: dict[str, Any], reason: str) -> None:
        with pytest.raises(LoadError, match=reason):
            resolved(write_folder(tmp_path / "m", **config))

    @pytest.mark.parametrize("labels", [{"0": "a", "2": "b"}, {"x": "a"}])
    def test_labels_without_numbers(self, tmp_path: Path, labels: dict[str, str]) -> None:
        with pytest.raises(LoadError, match="id2label"):
            resolved(write_folder(tmp_path / "m", "text-classification", id2label=labels))

    @pytest.mark.parametrize("content", ["", "[]", "{", "\x00"])
    def test_damaged_files(self, tmp_path: Path, content: str) -> None:
        folder = write_folder(tmp_path / "m")
        for name in ("config.json", "tokenizer_config.json", "tokenizer.json"):
            whole = (folder / name).read_text() if (folder / name).exists() else "{}"
            (folder / name).write_text(content)
            with pytest.raises(LoadError, match=name.replace(".", r"\.")) as refusal:
                resolved(folder)
            assert str(tmp_path) not in str(refusal.value)
            (folder / name).write_text(whole)

    def test_a_tokenizer_of_another_model(self, tmp_path: Path) -> None:
        """Found by the table of embeddings, whatever the configuration says."""
        folder = write_folder(tmp_path / "m", vocab_size=10**6)
        (folder / "model.onnx").unlink()
        write_safetensors(folder, SIZE - 4)
        with pytest.raises(
            LoadError, match=f"tokenizer.json is not this model's: .* the model knows {SIZE - 4} tokens"
        ):
            resolved(folder)

    def test_a_folder_without_a_tokenizer(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m")
        (folder / "tokenizer.json").unlink()
        (folder / "vocab.txt").write_text("[PAD]")
        with pytest.raises(LoadError, match=r"no tokenizer\.json in the folder, only vocab\.txt; .*save_pretrained"):
            resolved(folder)

    def test_a_folder_without_weights(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m")
        (folder / "model.onnx").unlink()
        with pytest.raises(LoadError, match=r"no weights: none of model\.onnx, onnx/model\.onnx, model\.safetensors"):
            resolved(folder)
        (folder / "tf_model.h5").touch()
        with pytest.raises(LoadError, match="holds TensorFlow weights"):
            resolved(folder)

    def test_a_pickle_without_trust(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m")
        (folder / "model.onnx").unlink()
        (folder / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
        with pytest.raises(LoadError, match=r"pytorch_model\.bin is a pickle, .*trust: true or --trust"):
            resolved(folder)
        assert resolved(folder, trusted=True).backend == "pytorch"

    @pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
    def test_pointers_of_git_lfs(self, tmp_path: Path, name: str) -> None:
        folder = write_folder(tmp_path / "m")
        (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        with pytest.raises(LoadError, match=f"{name} is a pointer of Git LFS, .*git lfs pull"):
            resolved(folder)

    @pytest.mark.parametrize("content", [b"", b"\xff" * 8, struct.pack("<Q", 9) + b"{}", struct.pack("<Q", 2) + b"[]"])
    def test_damaged_safetensors(self, tmp_path: Path, content: bytes) -> None:
        folder = write_folder(tmp_path / "m")
        (folder / "model.onnx").unlink()
        (folder / "model.safetensors").write_bytes(content)
        with pytest.raises(LoadError, match=r"model\.safetensors is not a valid safetensors file"):
            resolved(folder)

    @pytest.mark.parametrize("path", ["../other.onnx", "/etc/hostname"])
    def test_files_outside_of_the_folder(self, tmp_path: Path, path: str) -> None:
        with pytest.raises(LoadError, match=r"huggingface\.onnx_file: .* is not in the model's folder"):
            resolved(write_folder(tmp_path / "m"), onnx_file=path)

    def test_modules_that_are_not_served(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m")
        write_json(folder, "modules.json", [{"path": "1_Dense", "type": "sentence_transformers.models.Dense"}])
        with pytest.raises(LoadError, match="the module Dense is not one that is served here"):
            resolved(folder)
        write_json(folder, "modules.json", [{"path": "../x", "type": "sentence_transformers.models.Pooling"}])
        with pytest.raises(LoadError, match="leads out of the folder"):
            resolved(folder)
        write_json(folder, "modules.json", [{"path": "1_P", "type": "sentence_transformers.models.Pooling"}])
        write_json(folder, "1_P/config.json", {"pooling_mode_weightedmean_tokens": True})
        with pytest.raises(
            LoadError, match=r"pooling_mode_weightedmean_tokens.* is not served; set huggingface\.pooling"
        ):
            resolved(folder)

    def test_lengths_that_do_not_fit(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m")
        with pytest.raises(LoadError, match=r"huggingface\.max_length: 17 is beyond the model's window, 16"):
            resolved(folder, max_length=17)
        unbounded = write_folder(tmp_path / "n", max_position_embeddings=None)
        with pytest.raises(LoadError, match=r"huggingface\.truncation: no file says how long"):
            resolved(unbounded, truncation=True)

    def test_a_file_in_place_of_a_folder(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "m")
        with pytest.raises(LoadError, match=r"model\.onnx is a file, and the huggingface backend serves folders"):
            resolved(folder / "model.onnx")


def test_a_folder_with_a_model_of_ones_own_is_python(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.onnx").unlink()
    (folder / "model.py").touch()
    assert backend_for("auto", folder) == "python"


def test_what_a_format_adds_is_plain_data(tmp_path: Path) -> None:
    found = resolved(write_folder(tmp_path / "m", "token-classification"))
    assert replace(found.source, name="n").policy == found.source.policy
