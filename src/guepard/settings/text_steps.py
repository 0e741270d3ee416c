"""Options of the steps that language models want."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from guepard.settings.markers import DefaultText
from guepard.settings.tensor_steps import OutputName

Labels = Annotated[tuple[str, ...], Meta(description="Names of the classes, in the order of the output.")]


class TokenizeSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Texts into `input_ids`, `attention_mask` and `token_type_ids`, as far as the model takes them."""

    tokenizer: Annotated[str, Meta(description="File in the model's folder, of the library tokenizers.")] = (
        "tokenizer.json"
    )
    text: Annotated[str, Meta(description="What the input with the text is called.")] = "text"
    pair: Annotated[
        str | None, Meta(description="An input with a second text for each, for models of pairs."), DefaultText("none")
    ] = None
    max_length: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The model's window in tokens, special ones included; longer texts are refused."),
        DefaultText("any length"),
    ] = None
    truncation: Annotated[bool, Meta(description="Cut longer texts off instead of refusing them.")] = False
    add_special_tokens: Annotated[bool, Meta(description="Add what the model's texts begin and end with.")] = True
    pad_id: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="The id that fills up shorter texts."),
        DefaultText("the tokenizer's"),
    ] = None


class PoolSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One vector for each text out of those of its tokens, padding left out."""

    mode: Annotated[
        Literal["mean", "cls", "max", "last"],
        Meta(description="The mean or the largest of all tokens, the first token, or the last."),
    ] = "mean"
    output: OutputName = None
    mask: Annotated[str, Meta(description="The model's input that is 0 for padding.")] = "attention_mask"
    name: Annotated[str, Meta(description="What the vectors are called.")] = "embedding"


class ClassifySettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Scores of classes into `label`, `score` and `scores`."""

    labels: Labels
    kind: Annotated[
        Literal["single_label", "multi_label", "regression"],
        Meta(description="One class (softmax), any number of them (sigmoid), or a value."),
    ] = "single_label"
    output: OutputName = None


class EntitiesSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A class for each token into spans of the text, as JSON in `entities`. Follows on `tokenize`."""

    labels: Labels
    aggregation: Annotated[
        Literal["none", "simple", "first", "average", "max"],
        Meta(description="How tokens make up spans: not at all, by neighbours of a class, or by whole words."),
    ] = "simple"
    output: OutputName = None


class KeepSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Which outputs are answered, in which order, and under which names."""

    outputs: Annotated[dict[str, str], Meta(description="New name: the output's own.")]
