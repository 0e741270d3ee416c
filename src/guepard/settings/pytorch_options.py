"""What can be said about PyTorch."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from guepard.settings.markers import DefaultText, Positive
from guepard.settings.units import Duration


class PyTorchSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    factory: Annotated[
        Annotated[str, Meta(pattern=r"^[^:]+:[A-Za-z_][A-Za-z0-9_]*$")] | None,
        Meta(
            description="What builds the module: FILE.py:FUNCTION in the model's folder, or PACKAGE.MODULE:FUNCTION of "
            "an installed package, called with the path and `parameters`. Runs code, so it needs `trust`."
        ),
        DefaultText("none: the file is a whole model"),
    ] = None
    weights: Annotated[
        str | None,
        Meta(
            description="File in the model's folder that is loaded into what the factory built: safetensors, or what "
            "torch.save made of a state_dict."
        ),
        DefaultText("the file that is served, else none"),
    ] = None
    compile: Annotated[
        bool,
        Meta(description="Compile with torch.compile while loading. Needs a C++ compiler, and is not for TorchScript."),
    ] = False
    compile_mode: Annotated[
        Literal["default", "reduce-overhead", "max-autotune"],
        Meta(description="The mode of torch.compile."),
    ] = "default"
    compile_timeout: Annotated[
        Duration,
        Meta(description="How long compiling may take; after that the model is served as it is."),
        Positive(),
    ] = Duration.read("2m")
