"""Requests on their way through the engine, and their bytes."""

from collections.abc import Sequence

import numpy as np

from benchmarks.micro.stage.models import TOKENS, X, config
from benchmarks.models import MLP
from benchmarks.serving.payload import Payload
from guepard.core.padding import PaddedInput, Padding
from guepard.core.phases import BatchStamps
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY, ResponseSender
from guepard.core.tensor import Tensor, TensorSpec
from guepard.engine.padded_signature import PaddedSignature
from guepard.engine.signature import Signature
from guepard.protocols.reply_format import JSON, ReplyFormat


def message(payload: Payload) -> bytes:
    """The payload as a whole HTTP request."""
    head = [f"POST {payload.path} HTTP/1.1", "Host: 127.0.0.1:8000"]
    head += [f"{name}: {value}" for name, value in payload.headers.items()]
    head += [f"Content-Length: {len(payload.body)}", "", ""]
    return "\r\n".join(head).encode() + payload.body


def request(sender: ResponseSender = NOBODY, reply_format: ReplyFormat = JSON) -> InferenceRequest:
    """One row for the MLP, as a codec leaves it."""
    read = InferenceRequest([Tensor(X.name, "FP32", MLP.sample(1))], sender, 1_000)
    read.reply_format = reply_format
    return read


def text_request(length: int = 128) -> InferenceRequest:
    """So many tokens for a transformer: three inputs."""
    ids = np.arange(length, dtype=np.int64).reshape(1, length)
    names = ("input_ids", "attention_mask", "token_type_ids")
    return InferenceRequest([Tensor(name, "INT64", ids) for name in names], NOBODY, 1_000)


PADDING = Padding(tuple([PaddedInput(spec.name, place, 1, 0) for place, spec in enumerate(TOKENS)]))
"""Of that transformer."""

_LENGTHS = (24, 9, 40, 31, 17, 64, 12, 28)


def texts(count: int) -> Sequence[InferenceRequest]:
    """Requests of lengths that come in no order, with their lengths set."""
    requests = [text_request(_LENGTHS[index % 8] + index // 8) for index in range(count)]
    for each in bound(PaddedSignature(config(inputs=TOKENS), PADDING), requests):
        each.length = PADDING.length_of(each.arrays)
    return requests


def bound(signature: Signature, requests: Sequence[InferenceRequest]) -> Sequence[InferenceRequest]:
    """`requests` as the data plane leaves them, in time for any deadline."""
    for each in requests:
        signature.bind(each)
        each.deadline = 2**62
        each.queue_start = 41_000
    return requests


def stamps() -> BatchStamps:
    """Of an execution that took 12 µs, half of it in the engine."""
    taken = BatchStamps()
    taken.compute_start, taken.compute_input_end = 60_000, 63_000
    taken.compute_output_start, taken.compute_end = 69_000, 72_000
    return taken


def executed(reply_format: ReplyFormat = JSON) -> InferenceRequest:
    """A request that has been executed."""
    done = request(reply_format=reply_format)
    done.queue_start = 41_000
    done.stamps = stamps()
    return done


def specs(prefix: str, count: int) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(f"{prefix}{index}", "FP32", [2]) for index in range(count))
