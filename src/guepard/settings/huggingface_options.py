"""What can be said about Hugging Face folders."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from guepard.settings.markers import DefaultText

_FOLDER = DefaultText("as the folder's files say")


class HuggingFaceSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    task: Annotated[
        Literal["feature-extraction", "text-classification", "token-classification"] | None,
        Meta(description="What is made of the model's outputs."),
        DefaultText("by `architectures` in config.json"),
    ] = None
    pooling: Annotated[
        Literal["mean", "cls", "max", "last"] | None,
        Meta(description="How an embedding is made of those of the tokens."),
        DefaultText("as sentence-transformers' files say, else mean"),
    ] = None
    normalize: Annotated[bool | None, Meta(description="Bring embeddings to length 1."), _FOLDER] = None
    aggregation: Annotated[
        Literal["none", "simple", "first", "average", "max"],
        Meta(description="How the classes of tokens make up entities."),
    ] = "simple"
    max_length: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Most tokens of a text, special ones included."), _FOLDER
    ] = None
    truncation: Annotated[bool, Meta(description="Cut longer texts off instead of refusing them.")] = False
    onnx_file: Annotated[
        str | None,
        Meta(description="Which ONNX file to serve, such as onnx/model_quantized.onnx."),
        DefaultText("model.onnx, else onnx/model.onnx, else PyTorch's weights"),
    ] = None
