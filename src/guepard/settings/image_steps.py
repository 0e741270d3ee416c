"""Options of the steps that make tensors of what requests hold."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from guepard.settings.markers import DefaultText

Side = Annotated[int, Meta(ge=1, le=65_535)]
Level = Annotated[int, Meta(ge=0, le=255)]
Number = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"
]
InputName = Annotated[
    str | None, Meta(description="Which input of the model the step is for."), DefaultText("the only one that fits")
]


class DecodeImageSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Image files into pictures, UINT8 of height x width x channels: JPEG, PNG, WebP, BMP, GIF (its first picture)."""

    name: Annotated[str, Meta(description="What the input is called for callers; each row is a file, BYTES.")] = "image"
    color: Annotated[Literal["RGB", "BGR", "GRAY"], Meta(description="Channels, in this order.")] = "RGB"
    background: Annotated[
        tuple[Level, ...],
        Meta(description="Red, green and blue of what shows through transparent places."),
        DefaultText("255, 255, 255"),
    ] = (255, 255, 255)
    max_pixels: Annotated[
        Annotated[int, Meta(ge=1, le=178_956_970)],
        Meta(description="Images with more are refused by their header, before they are decoded."),
    ] = 60_000_000
    truncated: Annotated[
        Literal["refuse", "accept"],
        Meta(description="Whether of a JPEG that is cut off or damaged what there is of it is taken."),
    ] = "refuse"
    reduce: Annotated[
        bool,
        Meta(
            description="May a JPEG be decoded at a half, a quarter or an eighth of its size, where `resize` follows "
            "and that is at least twice what it makes?"
        ),
    ] = True
    input: InputName = None


class ResizeSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Pictures of any size into pictures of one size. Always antialiased, as in Pillow."""

    size: Annotated[
        Side | tuple[Side, ...] | None,
        Meta(description="Height and width, or one number for both; for shortest_edge the length of that edge."),
        DefaultText("what the model takes"),
    ] = None
    mode: Annotated[
        Literal["exact", "shortest_edge", "fit"],
        Meta(
            description="exact: both sides, whatever becomes of the proportions; shortest_edge: that edge gets `size`; "
            "fit: as large as fits into `size`, in the middle of `fill`."
        ),
    ] = "exact"
    crop: Annotated[
        Side | tuple[Side, ...] | None,
        Meta(description="After shortest_edge: height and width of the middle that is kept, or one number for both."),
    ] = None
    filter: Annotated[
        Literal["nearest", "box", "bilinear", "bicubic", "lanczos"], Meta(description="Pillow's filter of that name.")
    ] = "bilinear"
    fill: Annotated[
        tuple[Level, ...], Meta(description="Red, green and blue around what fit leaves free."), DefaultText("0, 0, 0")
    ] = (0, 0, 0)
    input: InputName = None


class NormalizeSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Pictures into numbers of the model's datatype and layout: (value * scale - mean) / std."""

    scale: Annotated[
        float | None, Meta(description="Factor for the bytes of the picture."), DefaultText("1/255; 1 for UINT8")
    ] = None
    mean: Annotated[float | tuple[float, ...], Meta(description="One number, or one a channel.")] = 0.0
    std: Annotated[float | tuple[float, ...], Meta(description="One number, or one a channel.")] = 1.0
    layout: Annotated[
        Literal["NCHW", "NHWC"] | None,
        Meta(description="Where the model has its channels."),
        DefaultText("as the model's shape tells"),
    ] = None
    input: InputName = None


class CastSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Numbers of one datatype, which callers send, into those that the model takes."""

    datatype: Annotated[Number, Meta(description="Datatype before the step.")]
    input: InputName = None
