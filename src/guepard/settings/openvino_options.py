"""What can be said about OpenVINO."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from guepard.settings.markers import DefaultText

Count = Annotated[int, Meta(ge=1, le=1_024)]


class OpenVinoSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    num_streams: Annotated[
        Count | None,
        Meta(description="Executions that OpenVINO prepares to run side by side (NUM_STREAMS)."),
        DefaultText("as many as the instances, by the CPU budget"),
    ] = None
    inference_num_threads: Annotated[
        Count | None,
        Meta(description="Threads of all streams together (INFERENCE_NUM_THREADS)."),
        DefaultText("the CPU budget"),
    ] = None
    cache: Annotated[
        bool,
        Meta(description="Keep the compiled model in `server.cache_dir`, for the next start."),
    ] = True
    properties: Annotated[
        dict[str, Any],
        Meta(description="More properties of the CPU device, by OpenVINO's names: DYNAMIC_QUANTIZATION_GROUP_SIZE."),
    ] = msgspec.field(default_factory=dict)
