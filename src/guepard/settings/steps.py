"""The steps around a model, by their names in the configuration."""

from collections.abc import Mapping

from msgspec import Struct

from guepard.settings.image_steps import CastSettings
from guepard.settings.tensor_steps import SoftmaxSettings

PREPROCESS: Mapping[str, type[Struct]] = {"cast": CastSettings}
POSTPROCESS: Mapping[str, type[Struct]] = {"softmax": SoftmaxSettings}
