"""Options of the steps that work on outputs."""

from typing import Annotated

from msgspec import Meta, Struct

from guepard.settings.markers import DefaultText

OutputName = Annotated[
    str | None, Meta(description="Which output the step works on."), DefaultText("the only one that fits")
]


class SoftmaxSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Scores into probabilities along the last dimension; FP16 and BF16 become FP32. NaN makes its row NaN."""

    output: OutputName = None


class SigmoidSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Each score into a probability of its own; FP16 and BF16 become FP32. NaN stays NaN."""

    output: OutputName = None


class L2NormalizeSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Vectors along the last dimension to length 1; FP16 and BF16 become FP32. Zeros stay zeros, NaN stays NaN."""

    output: OutputName = None


class TopKSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The highest values of the last dimension, as `scores` and `indices`, in the stead of the output.

    They fall; of equals the first comes first. NaN fails the request, as it cannot be ranked.
    """

    k: Annotated[Annotated[int, Meta(ge=1)], Meta(description="How many.")] = 5
    output: OutputName = None


class ArgmaxSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The index of the highest value of the last dimension, INT64, under the output's name.

    Of equals the first. NaN fails the request, as it cannot be ranked.
    """

    output: OutputName = None


class LabelsSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Names for indices, which `top_k` or `argmax` made, as one more output."""

    file: Annotated[
        str | None,
        Meta(
            description="File in the model's folder: a label a line; or, as .json, a list, a mapping from numbers, or "
            "such a mapping under `id2label`."
        ),
    ] = None
    values: Annotated[tuple[str, ...], Meta(description="The labels themselves, in place of a file.")] = ()
    name: Annotated[str, Meta(description="What the output is called.")] = "labels"
    output: OutputName = None


class FiniteSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Requests whose inputs hold NaN or infinity are refused. Outputs pass through."""

    nan: Annotated[bool, Meta(description="Take NaN.")] = False
    infinity: Annotated[bool, Meta(description="Take infinity.")] = False
