"""What can be said about scikit-learn."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from guepard.settings.markers import Positive
from guepard.settings.units import Duration


class SklearnSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    convert: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="Convert the estimator to ONNX: if it can be and then answers the same, or else not serve it, "
            "or never."
        ),
    ] = "auto"
    datatype: Annotated[Literal["FP32", "FP64"], Meta(description="Of the numbers that it takes and gives.")] = "FP32"
    convert_timeout: Annotated[
        Duration,
        Meta(description="How long converting may take; after that the estimator is served as it is."),
        Positive(),
    ] = Duration.read("60s")
