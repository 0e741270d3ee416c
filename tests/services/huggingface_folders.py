"""Folders as transformers' `save_pretrained` writes them, in little, without transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from tests.services.onnx_models import build, tensor, write_model

WIDTH = 8
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = ("ada", "love", "##lace", "lived", "in", "london", "paris", "and", "wrote", "notes", ".", ",", "##s", "é", "東")
VOCABULARY = (*SPECIAL, *WORDS)
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def tokenizer() -> Tokenizer:
    """WordPiece over `VOCABULARY`, with [CLS] and [SEP] around each text."""
    made = Tokenizer(models.WordPiece({token: index for index, token in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.add_special_tokens(list(SPECIAL))
    return made


def table() -> NDArray[np.float32]:
    """The embedding of each token."""
    return np.random.default_rng(4).normal(size=(len(VOCABULARY), WIDTH)).astype(np.float32)


def head(classes: int) -> NDArray[np.float32]:
    return np.random.default_rng(5).normal(size=(WIDTH, classes)).astype(np.float32)


def network(task: str, classes: int = 3) -> bytes:
    """The embeddings of the tokens that the mask keeps: as they are, each times `head`, or their mean times `head`."""
    inputs = [tensor(name, "INT64", ["batch", "length"]) for name in ("input_ids", "attention_mask")]
    weights: dict[str, NDArray[Any]] = {"table": table(), "head": head(classes), "last": np.array([-1])}
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["embedded"]),
        helper.make_node("Cast", ["attention_mask"], ["kept"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["kept", "last"], ["weights"]),
        helper.make_node("Mul", ["embedded", "weights"], ["last_hidden_state"]),
    ]
    if task == "feature-extraction":
        del weights["head"]
        return build(nodes, inputs, [tensor("last_hidden_state", "FP32", ["batch", "length", WIDTH])], weights)
    if task == "token-classification":
        nodes.append(helper.make_node("MatMul", ["last_hidden_state", "head"], ["logits"]))
        return build(nodes, inputs, [tensor("logits", "FP32", ["batch", "length", classes])], weights)
    nodes += [
        helper.make_node("ReduceSum", ["last_hidden_state", "length_axis"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["weights", "length_axis"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("MatMul", ["mean", "head"], ["logits"]),
    ]
    weights["length_axis"] = np.array([1])
    return build(nodes, inputs, [tensor("logits", "FP32", ["batch", classes])], weights)


ARCHITECTURES = {
    "feature-extraction": "BertModel",
    "text-classification": "BertForSequenceClassification",
    "token-classification": "BertForTokenClassification",
}


def write_folder(folder: Path, task: str = "feature-extraction", **config: Any) -> Path:
    """A folder with config.json, tokenizer.json and model.onnx. `config` goes over what it would say."""
    labels = LABELS if task == "token-classification" else ("bad", "fair", "good")
    folder.mkdir(parents=True, exist_ok=True)
    said = {
        "architectures": [ARCHITECTURES[task]],
        "model_type": "bert",
        "hidden_size": WIDTH,
        "max_position_embeddings": 16,
        "vocab_size": len(VOCABULARY),
        "pad_token_id": 0,
    }
    if task != "feature-extraction":
        said["id2label"] = {str(index): label for index, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps(said | config))
    tokenizer().save(str(folder / "tokenizer.json"))
    write_model(folder, network(task, len(labels)))
    return folder
