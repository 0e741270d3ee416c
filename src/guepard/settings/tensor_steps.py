"""Options of the steps that work on tensors."""

from typing import Annotated

from msgspec import Meta, Struct

from guepard.settings.markers import DefaultText

OutputName = Annotated[
    str | None, Meta(description="Which output the step works on."), DefaultText("the only one that it can work on")
]


class SoftmaxSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Scores into probabilities along the last dimension."""

    output: OutputName = None
