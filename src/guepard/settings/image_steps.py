"""Options of the steps that make tensors of images."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from guepard.settings.markers import DefaultText

InputName = Annotated[
    str | None, Meta(description="Which input of the model the step is for."), DefaultText("the only one that fits")
]


Number = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"
]


class CastSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Numbers of one datatype, which callers send, into those that the model takes."""

    datatype: Annotated[Number, Meta(description="Datatype before the step.")]
    input: InputName = None
