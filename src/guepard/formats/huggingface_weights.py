"""PyTorch weights of a Hugging Face folder as a module: what the format `huggingface` has the PyTorch backend build."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guepard.core.errors import LoadError
from guepard.core.extras import missing_extra

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything lies in the folder, and nothing is to be asked for elsewhere

_CLASSES = {
    "feature-extraction": "AutoModel",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
}


def build(path: Path, parameters: Mapping[str, Any]) -> Any:
    """The module for `parameters["task"]`, which takes input_ids and attention_mask and gives one tensor.

    No Python code of the folder is run. A pickle is read with `weights_only`, by which it cannot run code either.
    Raises: LoadError.
    """
    try:
        import torch
        import transformers
    except ImportError:
        raise missing_extra("hf,torch", "a Hugging Face folder with PyTorch weights") from None

    kind = getattr(transformers, _CLASSES[str(parameters["task"])])
    is_pickle = str(parameters["weights"]).startswith("pytorch_model.bin")
    shows_bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()  # they would stand between the lines of the log
    try:
        model = kind.from_pretrained(
            path,
            trust_remote_code=False,
            local_files_only=True,
            use_safetensors=not is_pickle,
            dtype=torch.float32,
        )
    except Exception as error:  # whatever the library raises for files that do not fit
        raise LoadError(f"transformers refuses the folder: {type(error).__name__}: {_public(error, path)}") from error
    finally:
        if shows_bars:
            transformers.utils.logging.enable_progress_bar()

    class Tensors(torch.nn.Module):  # type: ignore[misc]  # torch is not there for those who check types
        """Tensors in, a tensor out."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask)[0]

    return Tensors().eval()


def _public(error: Exception, path: Path) -> str:
    """The first line of the library's text, without the server's paths."""
    line = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return line.replace(str(path), path.name)[:300]
