"""Sentence embeddings from plain text: tokenise, run the network, pool, normalise."""

from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from tokenizers import Tokenizer

import guepard

# The window that the published sentence-transformers configuration states (max_seq_length).
WINDOW_TOKENS = 256

Array = NDArray[Any]


class MiniLM(guepard.Model):
    """One text in, one embedding of unit length out: the dot product of two embeddings is their cosine similarity."""

    inputs = (guepard.Tensor("text", "BYTES", [1]),)
    outputs = (guepard.Tensor("embedding", "FP32", [384]),)
    max_batch_size = 32
    idempotent = True

    def load(self, ctx: guepard.ModelContext) -> None:
        weights, tokenizer = ctx.path / "assets" / "model.onnx", ctx.path / "assets" / "tokenizer.json"
        if not (weights.exists() and tokenizer.exists()):
            raise FileNotFoundError(
                "weights and tokenizer are not here yet: run `python examples/fetch_minilm.py` first"
            )
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.enable_truncation(WINDOW_TOKENS)
        self.tokenizer.enable_padding()  # to the longest text of the batch
        options = ort.SessionOptions()
        options.intra_op_num_threads = ctx.threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(weights, options, providers=["CPUExecutionProvider"])

    def predict(self, inputs: dict[str, Array], ctx: guepard.ModelContext) -> dict[str, Array]:
        texts = [decode_text(value, row) for row, value in enumerate(inputs["text"][:, 0])]
        encodings = self.tokenizer.encode_batch(texts)
        token_ids = np.array([encoding.ids for encoding in encodings], np.int64)
        mask = np.array([encoding.attention_mask for encoding in encodings], np.int64)
        feed = {"input_ids": token_ids, "attention_mask": mask, "token_type_ids": np.zeros_like(token_ids)}
        (token_embeddings,) = self.session.run(["last_hidden_state"], feed)
        return {"embedding": normalise(pool(token_embeddings, mask))}


def decode_text(value: bytes, row: int) -> str:
    """Raises: InputError for the row whose bytes are not UTF-8; the other rows of the batch are answered."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise guepard.InputError(
            f"input 'text' must be UTF-8; the byte {value[error.start]:#04x} at offset {error.start} is not",
            row=row,
        ) from None


def pool(token_embeddings: Array, mask: Array) -> Array:
    """The mean over a text's own tokens, padding left out. Shapes: [n, tokens, 384] and [n, tokens] to [n, 384]."""
    weights = mask[:, :, np.newaxis].astype(np.float32)
    means: Array = (token_embeddings * weights).sum(axis=1) / weights.sum(axis=1)
    return means


def normalise(vectors: Array) -> Array:
    """The same directions at unit length. Shapes: [n, 384] to [n, 384]."""
    unit_vectors: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit_vectors
