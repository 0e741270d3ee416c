"""Answers of Hugging Face folders beside those of transformers' own pipelines, from PyTorch weights and from ONNX."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guepard
from tests.services.huggingface_folders import LABELS, VOCABULARY, tokenizer

CLASSES = {
    "feature-extraction": "BertModel",
    "text-classification": "BertForSequenceClassification",
    "token-classification": "BertForTokenClassification",
}
TEXTS = [
    "Ada Lovelace lived in London, and wrote notes.",
    "Paris",
    "",
    "in in é 東 Paris lovelaces Ada. London and Paris",
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small BERT with random weights for each task, as `save_pretrained` writes it."""
    import torch
    import transformers

    made = {}
    for task, name in CLASSES.items():
        torch.manual_seed(7)
        config = transformers.BertConfig(
            vocab_size=len(VOCABULARY),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=40,
            initializer_range=0.5,
            id2label=dict(enumerate(LABELS)),
            label2id={label: index for index, label in enumerate(LABELS)},
        )
        folder = made[task] = tmp_path_factory.mktemp("bert") / task
        getattr(transformers, name)(config).eval().save_pretrained(folder)
        fast = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer(), unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
        )
        fast.save_pretrained(folder)
    return made


@pytest.fixture(params=["safetensors", "onnx"])
def weights(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def with_weights(folder: Path, weights: str, tmp_path: Path) -> Path:
    """`folder`, or one that holds the same model as ONNX."""
    if weights == "safetensors":
        return folder
    import torch

    from guepard.formats.huggingface_weights import build

    exported = tmp_path / folder.name
    exported.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (exported / name).write_bytes((folder / name).read_bytes())
    output = "last_hidden_state" if folder.name == "feature-extraction" else "logits"
    names = ["input_ids", "attention_mask"]
    sample = torch.ones(2, 5, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            build(folder, {"task": folder.name, "weights": "model.safetensors"}),
            (sample, sample),
            str(exported / "model.onnx"),
            input_names=names,
            output_names=[output],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in (*names, output)}
            | ({"logits": {0: "batch"}} if folder.name == "text-classification" else {}),
            dynamo=False,
        )
    return exported


def answers(folder: Path, weights: str, tmp_path: Path, texts: list[str], **options: Any) -> dict[str, Any]:
    """All of them in one request."""
    with guepard.load(with_weights(folder, weights, tmp_path), **options) as model:
        return dict(model.infer({"text": np.array([text.encode() for text in texts], object)}))


def test_features(folders: dict[str, Path], weights: str, tmp_path: Path) -> None:
    import torch
    import transformers

    folder = folders["feature-extraction"]
    model = transformers.AutoModel.from_pretrained(folder)
    fast = transformers.AutoTokenizer.from_pretrained(folder)
    found = answers(folder, weights, tmp_path, TEXTS)["embedding"]
    for text, embedding in zip(TEXTS, found, strict=True):
        with torch.inference_mode():
            hidden = model(**fast(text, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(embedding, hidden.mean(0).numpy(), atol=1e-4)


def test_labels_of_texts(folders: dict[str, Path], weights: str, tmp_path: Path) -> None:
    import transformers

    folder = folders["text-classification"]
    pipeline = transformers.pipeline("text-classification", model=str(folder), top_k=None)
    found = answers(folder, weights, tmp_path, TEXTS)
    for row, theirs in enumerate(pipeline(TEXTS)):
        scores = {each["label"]: each["score"] for each in theirs}
        np.testing.assert_allclose(found["scores"][row], [scores[label] for label in LABELS], atol=1e-4)
        assert found["label"][row].decode() == max(scores, key=lambda label: scores[label])


@pytest.mark.parametrize("aggregation", ["none", "simple", "first", "average", "max"])
def test_entities(folders: dict[str, Path], aggregation: str) -> None:
    import transformers

    folder = folders["token-classification"]
    pipeline = transformers.pipeline("token-classification", model=str(folder), aggregation_strategy=aggregation)
    with guepard.load(folder, huggingface={"aggregation": aggregation}) as model:
        found = model.infer({"text": np.array([text.encode() for text in TEXTS], object)})["entities"]
    key = "entity" if aggregation == "none" else "entity_group"
    number = 0
    for text, mine in zip(TEXTS, found, strict=True):
        theirs = pipeline(text)
        ours = json.loads(mine)
        number += len(ours)
        assert [(each[key], each["start"], each["end"]) for each in ours] == [
            (each[key], each["start"], each["end"]) for each in theirs
        ]
        np.testing.assert_allclose([each["score"] for each in ours], [each["score"] for each in theirs], atol=1e-4)
    assert number > 3
