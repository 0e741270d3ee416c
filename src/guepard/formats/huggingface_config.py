"""What the JSON files of a Hugging Face folder say of a model.

Sources: transformers, "Configuration" (config.json, tokenizer_config.json); sentence-transformers, "Custom Models"
(modules.json, sentence_bert_config.json, the configuration of Pooling).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from guepard.core.errors import LoadError
from guepard.hooks.classify import Kind
from guepard.hooks.pool import Mode

Task = Literal["feature-extraction", "text-classification", "token-classification"]

CONFIG = "config.json"
_LARGEST_BYTES = 16 << 20
_NO_WINDOW = 10**6  # transformers writes 10^30 where there is none

_TASKS: Mapping[str, Task] = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
}
_UNSUPPORTED = {
    "ForCausalLM": "text generation",
    "ForConditionalGeneration": "text generation",
    "LMHeadModel": "text generation",
    "ForQuestionAnswering": "question answering",
    "ForImageClassification": "image classification",
    "ForMultipleChoice": "multiple choice",
    "ForCTC": "speech recognition",
    "ForAudioClassification": "audio classification",
    "ForObjectDetection": "object detection",
}
_POSITION_OFFSETS = (
    "roberta",
    "xlm-roberta",
    "camembert",
    "longformer",
    "mpnet",
    "xlm-roberta-xl",
    "roberta-prelayernorm",
)
"""Families that count positions from the padding id on, so that their window is shorter than their table."""

_POOLINGS: Mapping[str, Mode] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}


@dataclass(frozen=True, slots=True)
class HuggingFaceConfig:
    """`vocabulary` 0 and `window` None: the files do not say. `pooling` and `normalize`: of sentence-transformers."""

    task: Task
    model_type: str
    labels: tuple[str, ...]
    kind: Kind
    width: int
    vocabulary: int
    pad_id: int | None
    window: int | None
    pooling: Mode | None
    normalize: bool
    facts: Mapping[str, str]


def read_config(folder: Path, task: Task | None) -> HuggingFaceConfig:
    """`task`: what the operator said of it. Raises: LoadError."""
    config = read_json(folder / CONFIG)
    if config.get("auto_map"):
        raise LoadError(
            f"{CONFIG} asks for Python code of its own (auto_map), which is never run; export the model to ONNX and "
            "put model.onnx beside it"
        )
    architectures = [name for name in config.get("architectures") or [] if isinstance(name, str)]
    pooling, normalize, facts = _sentence_transformers(folder)
    return HuggingFaceConfig(
        task=task or _task(architectures),
        model_type=str(config.get("model_type", "")),
        labels=_labels(config),
        kind=_kind(config),
        width=_integer(config, "hidden_size", "dim", "d_model") or 0,
        vocabulary=_integer(config, "vocab_size") or 0,
        pad_id=_integer(config, "pad_token_id"),
        window=_window(folder, config),
        pooling=pooling,
        normalize=normalize,
        facts=facts,
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file. Raises: LoadError."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise LoadError(f"{path.name} is larger than {_LARGEST_BYTES >> 20} MiB")
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise LoadError(f"cannot read {path.name}: {error.strerror}") from None
    except ValueError as error:
        raise LoadError(f"{path.name} is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise LoadError(f"{path.name} does not hold a JSON object")
    return found


def _task(architectures: list[str]) -> Task:
    for name in architectures:
        for ending, task in _TASKS.items():
            if name.endswith(ending):
                return task
        for ending, what in _UNSUPPORTED.items():
            if name.endswith(ending):
                raise LoadError(
                    f"{CONFIG}: {name} is a model for {what}, which this version does not serve from a folder; "
                    "set huggingface.task if you mean another part of it, or wrap it in a model.py"
                )
    return "feature-extraction"


def _labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """By id2label, or as many as num_labels says, called as transformers calls them."""
    named = config.get("id2label")
    if isinstance(named, dict) and named:
        try:
            by_id = {int(key): str(value) for key, value in named.items()}
        except ValueError:
            raise LoadError(f"{CONFIG}: id2label has keys that are no numbers") from None
        if sorted(by_id) != list(range(len(by_id))):
            raise LoadError(f"{CONFIG}: id2label does not number its labels from 0 on")
        return tuple(by_id[index] for index in range(len(by_id)))
    count = _integer(config, "num_labels", "_num_labels") or 2
    return tuple(f"LABEL_{index}" for index in range(count))


def _kind(config: Mapping[str, Any]) -> Kind:
    problem = config.get("problem_type")
    if problem == "multi_label_classification":
        return "multi_label"
    if problem == "regression" or (problem is None and len(_labels(config)) == 1):
        return "regression"
    return "single_label"


def _window(folder: Path, config: Mapping[str, Any]) -> int | None:
    """The shortest that any of the files says."""
    found = []
    positions = _integer(config, "max_position_embeddings", "n_positions")
    if positions:
        pad = _integer(config, "pad_token_id") or 0
        found.append(positions - pad - 1 if config.get("model_type") in _POSITION_OFFSETS else positions)
    for name, key in (("tokenizer_config.json", "model_max_length"), ("sentence_bert_config.json", "max_seq_length")):
        if (folder / name).is_file():
            length = read_json(folder / name).get(key)
            if isinstance(length, int) and 0 < length < _NO_WINDOW:
                found.append(length)
    return min(found, default=None)


def _sentence_transformers(folder: Path) -> tuple[Mode | None, bool, dict[str, str]]:
    """Pooling and normalisation, where modules.json has them."""
    path = folder / "modules.json"
    if not path.is_file():
        return None, False, {}
    try:
        modules = json.loads(path.read_bytes())
        types = [str(module["type"]).rpartition(".")[2] for module in modules]
        folders = {kind: str(module["path"]) for kind, module in zip(types, modules, strict=True)}
    except (OSError, ValueError, TypeError, KeyError):
        raise LoadError("modules.json is not a list of modules with type and path") from None
    other = [kind for kind in types if kind not in ("Transformer", "Pooling", "Normalize")]
    if other:
        raise LoadError(
            f"modules.json: the module {other[0]} is not one that is served here (Transformer, Pooling, Normalize); "
            "wrap the model in a model.py"
        )
    mode: Mode | None = None
    if "Pooling" in folders:
        mode = _pooling(folder, folders["Pooling"])
    return mode, "Normalize" in folders, {"sentence_transformers": " ".join(types)}


def _pooling(folder: Path, name: str) -> Mode:
    path = folder / name / CONFIG
    if not path.resolve().is_relative_to(folder.resolve()):
        raise LoadError("modules.json: the path of Pooling leads out of the folder")
    config = read_json(path)
    chosen = [mode for key, mode in _POOLINGS.items() if config.get(key)]
    others = [key for key, value in config.items() if key.startswith("pooling_mode") and value and key not in _POOLINGS]
    if len(chosen) != 1 or others:
        said = ", ".join((*chosen, *others)) or "none"
        raise LoadError(f"{name}/{CONFIG}: its way of pooling ({said}) is not served; set huggingface.pooling")
    return chosen[0]


def _integer(config: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
