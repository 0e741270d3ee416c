"""The steps around a model, by their names in the configuration."""

from collections.abc import Mapping

from msgspec import Struct

from guepard.settings import image_steps, tensor_steps, text_steps

PREPROCESS: Mapping[str, type[Struct]] = {
    "decode_image": image_steps.DecodeImageSettings,
    "resize": image_steps.ResizeSettings,
    "normalize": image_steps.NormalizeSettings,
    "cast": image_steps.CastSettings,
    "tokenize": text_steps.TokenizeSettings,
}
POSTPROCESS: Mapping[str, type[Struct]] = {
    "softmax": tensor_steps.SoftmaxSettings,
    "sigmoid": tensor_steps.SigmoidSettings,
    "top_k": tensor_steps.TopKSettings,
    "argmax": tensor_steps.ArgmaxSettings,
    "labels": tensor_steps.LabelsSettings,
    "l2_normalize": tensor_steps.L2NormalizeSettings,
    "pool": text_steps.PoolSettings,
    "classify": text_steps.ClassifySettings,
    "entities": text_steps.EntitiesSettings,
    "finite": tensor_steps.FiniteSettings,
    "keep": text_steps.KeepSettings,
}
