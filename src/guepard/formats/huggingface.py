"""Hugging Face folders: a tokenizer and weights, served as text in and meaning out.

The weights are ONNX, which any engine may execute that executes ONNX, or PyTorch's; what stands around them are native
steps. So texts of different lengths share batches, and nothing of transformers is needed for ONNX.
"""

from dataclasses import replace
from pathlib import Path

from guepard.backends.base import ModelSource
from guepard.backends.onnx_signature import OnnxSignature, read_signature
from guepard.core.engine_options import HuggingFaceOptions
from guepard.core.errors import LoadError
from guepard.core.hooks import Hooks, StepSpec
from guepard.core.padding import PaddingRules
from guepard.core.tensor import TensorSpec
from guepard.formats.base import Resolved
from guepard.formats.huggingface_config import HuggingFaceConfig, read_config
from guepard.formats.huggingface_files import Weights, embedding_rows, find_tokenizer, find_weights
from guepard.hooks.tokenize import OFFSETS, Tokenize

_TOKENS = ("input_ids", "attention_mask", "token_type_ids")
_HIDDEN = ("last_hidden_state", "token_embeddings", "hidden_states", "last_hidden_state_0", "output_0")
_POOLED = ("sentence_embedding", "embedding", "embeddings", "text_embeds")
_LOGITS = ("logits", "output", "output_0")
_FACTORY = "guepard.formats.huggingface_weights:build"


class HuggingFaceFormat:
    """Folders that `save_pretrained` wrote, with `config.json`, `tokenizer.json` and weights in them."""

    name = "huggingface"

    def resolve(self, source: ModelSource) -> Resolved:
        folder = source.path
        if not folder.is_dir():
            raise LoadError(f"{folder.name} is a file, and the huggingface backend serves folders with config.json")
        options = source.policy.engines.huggingface
        config = read_config(folder, options.task)
        weights = find_weights(folder, options.onnx_file, trusted=source.trusted)
        step = _tokenize(folder, config, options, weights)
        if weights.kind == "onnx":
            signature = read_signature(weights.path)
            inputs, outputs = _names(weights.path, signature), [value.name for value in signature.outputs]
            loaded, backend = replace(source, path=weights.path), "onnxruntime"
        else:
            loaded = _for_pytorch(source, config, weights)
            backend = "pytorch"
            inputs, outputs = [[spec.name for spec in specs] for specs in (loaded.inputs, loaded.outputs)]
        after = _after(config, options, inputs, outputs)
        pad_id = step.options["pad_id"]
        loaded = replace(loaded, policy=replace(loaded.policy, padding=_padding(loaded, inputs, config, pad_id)))
        facts = {"task": config.task, "weights": weights.path.name, **config.facts}
        if config.task == "feature-extraction":
            modes = [str(each.options["mode"]) for each in after if each.kind == "pool"]
            facts["pooling"] = modes[0] if modes else "of the model"
        return Resolved(loaded, backend, Hooks((step,), tuple(after)), tuple(facts.items()))


def _tokenize(folder: Path, config: HuggingFaceConfig, options: HuggingFaceOptions, weights: Weights) -> StepSpec:
    """The first step, tried on the tokenizer. Raises: LoadError for one that is not this model's."""
    name = find_tokenizer(folder)
    window = options.max_length or config.window
    if options.max_length and config.window and options.max_length > config.window:
        raise LoadError(f"huggingface.max_length: {options.max_length} is beyond the model's window, {config.window}")
    if options.truncation and window is None:
        raise LoadError("huggingface.truncation: no file says how long texts may be; set huggingface.max_length")
    tokenizer = Tokenize(folder, name)
    rows = embedding_rows(weights) or config.vocabulary
    if rows and tokenizer.largest_id >= rows:
        raise LoadError(
            f"{name} is not this model's: it makes ids up to {tokenizer.largest_id}, and the model knows {rows} tokens"
        )
    pad_id = config.pad_id if config.pad_id is not None else tokenizer.pad_id
    told = {"tokenizer": name, "max_length": window, "truncation": options.truncation, "pad_id": pad_id}
    return StepSpec("tokenize", told)


def _names(path: Path, signature: OnnxSignature) -> list[str]:
    names = [value.name for value in signature.inputs]
    other = [name for name in names if name not in _TOKENS]
    if other or "input_ids" not in names:
        raise LoadError(
            f"{path.name} takes {', '.join(names)}, and a tokenizer gives {', '.join(_TOKENS)}; export the model "
            "without past keys and the like (optimum: --task feature-extraction, or another that is served)"
        )
    return names


def _for_pytorch(source: ModelSource, config: HuggingFaceConfig, weights: Weights) -> ModelSource:
    """As the factory in `huggingface_weights` builds it: two inputs for all, and one output by the task."""
    inputs = tuple(TensorSpec(name, "INT64", [-1]) for name in _TOKENS[:2])
    labels = len(config.labels)
    outputs = {
        "feature-extraction": TensorSpec("last_hidden_state", "FP32", [-1, config.width or -1]),
        "text-classification": TensorSpec("logits", "FP32", [labels]),
        "token-classification": TensorSpec("logits", "FP32", [-1, labels]),
    }
    engines = source.policy.engines
    told = {"task": config.task, "weights": weights.path.name}
    pytorch = replace(engines.pytorch, factory=_FACTORY, weights="", factory_parameters=told)
    policy = replace(source.policy, engines=replace(engines, pytorch=pytorch))
    return replace(source, policy=policy, inputs=inputs, outputs=(outputs[config.task],))


def _after(
    config: HuggingFaceConfig, options: HuggingFaceOptions, inputs: list[str], outputs: list[str]
) -> list[StepSpec]:
    """The steps that make an answer of the model's outputs. Raises: LoadError where it has none of those they need."""
    if config.task == "feature-extraction":
        return _features(config, options, inputs, outputs)
    logits = _one_of(outputs, _LOGITS, config.task)
    if config.task == "text-classification":
        made = ["score"] if config.kind == "regression" else ["label", "score", "scores"]
        told = {"labels": config.labels, "kind": config.kind, "output": logits}
        return [StepSpec("classify", told), StepSpec("keep", {"outputs": {name: name for name in made}})]
    told = {"labels": config.labels, "aggregation": options.aggregation, "output": logits}
    return [StepSpec("entities", told), StepSpec("keep", {"outputs": {"entities": "entities"}})]


def _features(
    config: HuggingFaceConfig, options: HuggingFaceOptions, inputs: list[str], outputs: list[str]
) -> list[StepSpec]:
    pooled = next((name for name in _POOLED if name in outputs), None)
    mode = options.pooling or config.pooling
    if pooled is not None and options.pooling is None:
        steps = [StepSpec("keep", {"outputs": {"embedding": pooled}})]
    else:
        hidden = _one_of(outputs, _HIDDEN, config.task)
        if mode != "cls" and "attention_mask" not in inputs:
            raise LoadError(
                "the model has no input attention_mask, so padding cannot be told; set huggingface.pooling: cls"
            )
        steps = [
            StepSpec("pool", {"mode": mode or "mean", "output": hidden}),
            StepSpec("keep", {"outputs": {"embedding": "embedding"}}),
        ]
    normalizes = config.normalize if options.normalize is None else options.normalize
    return [*steps, StepSpec("l2_normalize", {})] if normalizes else steps


def _one_of(outputs: list[str], known: tuple[str, ...], task: str) -> str:
    for name in known:
        if name in outputs:
            return name
    if len(outputs) == 1:
        return outputs[0]
    raise LoadError(
        f"for {task} one of the outputs {', '.join(known)} is needed, and the model has {', '.join(outputs)}"
    )


def _padding(source: ModelSource, inputs: list[str], config: HuggingFaceConfig, pad_id: int) -> PaddingRules | None:
    """How texts of different lengths share a batch: not without a mask, which tells the model what is padding."""
    if "attention_mask" not in inputs:
        return source.policy.padding
    values: dict[str, int | float] = {name: pad_id if name == "input_ids" else 0 for name in inputs}
    if config.task == "token-classification":
        values[OFFSETS.name] = 0
    ours = PaddingRules(values, {}, origin="model")
    return ours if source.policy.padding is None else source.policy.padding.over(ours)
