"""`tokenize`: texts into the token ids that a language model takes.

The library lets go of the interpreter's lock while it works, and every request is tokenised by one thread: requests
side by side fill the CPUs, and a large one does not take those of others.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guepard.core.errors import InputError, LoadError
from guepard.core.extras import missing_extra
from guepard.core.tensor import Array, TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.model_file import model_file

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # read by the library when it is first used

try:
    from tokenizers import Tokenizer
except ImportError:
    raise missing_extra("text", "tokenize") from None

OFFSETS = TensorSpec("token_offsets", "INT32", [-1, 3])
"""Of each token the first character, the one after its last, and the number of its word; special tokens are of no word,
and padding is as long as nothing."""

TEXT = "token_text"

_IDS, _MASK, _TYPES = "input_ids", "attention_mask", "token_type_ids"
_CHARACTERS = 100  # of one token, beyond which a text is not looked at: long ones are of spaces or made to tire us
_SPARE_CHARACTERS = 4_096


class Tokenize:
    """Makes `input_ids`, `attention_mask` and `token_type_ids`, of which a model takes some or all.

    Shapes: [rows] BYTES → [rows, length] each, `length` being that of the longest text; the end of shorter ones is
        filled with what the tokenizer pads with, and `attention_mask` 0.
    """

    def __init__(
        self,
        folder: Path,
        tokenizer: str = "tokenizer.json",
        text: str = "text",
        pair: str | None = None,
        max_length: int | None = None,
        truncation: bool = False,
        add_special_tokens: bool = True,
        pad_id: int | None = None,
    ) -> None:
        path = model_file(folder, tokenizer, "tokenize.tokenizer")
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain ones
            raise LoadError(f"tokenize.tokenizer: {tokenizer!r} cannot be read as a tokenizer: {error}") from None
        found = self._tokenizer.padding
        self.pad_id: int = pad_id if pad_id is not None else found["pad_id"] if found else 0
        self._pad_type = found["pad_type_id"] if found else 0
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        if truncation:
            if max_length is None:
                raise LoadError("tokenize.truncation: to what length? write max_length, the model's window, too")
            self._tokenizer.enable_truncation(max_length)
        self._input, self._pair = text, pair
        self._max_length = max_length
        self._truncates = truncation
        self._add_special_tokens = add_special_tokens
        self._characters = None if max_length is None else max_length * _CHARACTERS + _SPARE_CHARACTERS

    @property
    def largest_id(self) -> int:
        """Of all tokens, those that were added included."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)

    def before(self, wanted: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        made = {spec.name: spec for spec in wanted if spec.name in (_IDS, _MASK, _TYPES)}
        if _IDS not in made:
            names = ", ".join(repr(spec.name) for spec in wanted)
            raise LoadError(f"tokenize: it makes {_IDS!r}, and the model takes {names}")
        for spec in made.values():
            if spec.datatype.kind != "int" or len(spec.dims) != 1:
                raise LoadError(f"tokenize: the model's input {spec.name!r} is {spec}, not whole numbers by length")
        lengths = {spec.dims[0] for spec in made.values()}
        if len(lengths) > 1:
            raise LoadError(f"tokenize: the model's inputs {', '.join(made)} differ in length")
        self._length = lengths.pop()
        if self._length >= 0 and (self._max_length is None or self._max_length > self._length):
            raise LoadError(
                f"tokenize.max_length: the model takes {self._length} tokens; write max_length: {self._length}"
            )
        self._makes = tuple((spec.name, spec.datatype.dtype) for spec in made.values())
        rides = {spec.name for spec in wanted} & {OFFSETS.name, TEXT}
        self._gives_offsets, self._gives_text = OFFSETS.name in rides, TEXT in rides
        takes = [TensorSpec(name, "BYTES", ()) for name in (self._input, self._pair) if name is not None]
        return (*takes, *[spec for spec in wanted if spec.name not in made and spec.name not in rides])

    def run(self, tensors: Tensors) -> Tensors:
        texts = self._texts(self._input, tensors)
        items: list[Any] = texts
        if self._pair is not None:
            items = list(zip(texts, self._texts(self._pair, tensors), strict=True))
        encode = self._tokenizer.encode_batch if self._gives_offsets else self._tokenizer.encode_batch_fast
        encodings = encode(items, add_special_tokens=self._add_special_tokens)
        lengths = [len(encoding) for encoding in encodings]
        longest = max(lengths, default=0)
        if self._max_length is not None and longest > self._max_length:
            row = next(row for row, length in enumerate(lengths) if length > self._max_length)
            raise self._too_long(row, f"{lengths[row]} tokens")
        shape = (len(encodings), self._length if self._length >= 0 else longest)
        made: dict[str, Array] = {
            name: array for name, array in tensors.items() if name not in (self._input, self._pair)
        }
        for name, dtype in self._makes:
            made[name] = self._filled(name, dtype, shape, encodings)
        if self._gives_offsets:
            made[OFFSETS.name] = _offsets(shape, encodings)
        if self._gives_text:
            made[TEXT] = tensors[self._input]
        return made

    def _texts(self, name: str, tensors: Tensors) -> list[str]:
        texts = []
        for row, value in enumerate(tensors[name]):
            try:
                text = value.decode()
            except UnicodeDecodeError as error:
                raise InputError(
                    f"input {name!r} must be UTF-8; in row {row} the byte {value[error.start]:#04x} at offset "
                    f"{error.start} is not",
                    row=row,
                ) from None
            if self._characters is not None and len(text) > self._characters:
                if not self._truncates:
                    raise self._too_long(row, f"{len(text)} characters")
                text = text[: self._characters]
            texts.append(text)
        return texts

    def _too_long(self, row: int, size: str) -> InputError:
        return InputError(
            f"input {self._input!r}: the text in row {row} has {size}, and the model's window is {self._max_length} "
            "tokens; send shorter texts, or have the operator set truncation: true, which cuts them off",
            row=row,
        )

    def _filled(self, name: str, dtype: Any, shape: tuple[int, int], encodings: Sequence[Any]) -> Array:
        padding = {_IDS: self.pad_id, _MASK: 0, _TYPES: self._pad_type}[name]
        array: Array = np.full(shape, padding, dtype)
        for row, encoding in enumerate(encodings):
            values = encoding.ids if name == _IDS else 1 if name == _MASK else encoding.type_ids
            array[row, : len(encoding)] = values
        return array


def _offsets(shape: tuple[int, int], encodings: Sequence[Any]) -> Array:
    array: Array = np.zeros((*shape, 3), np.int32)
    for row, encoding in enumerate(encodings):
        if len(encoding):
            array[row, : len(encoding), :2] = encoding.offsets
            array[row, : len(encoding), 2] = [-1 if word is None else word for word in encoding.word_ids]
            special = np.array(encoding.special_tokens_mask, bool)
            array[row, : len(encoding)][special] = (0, 0, -1)
    return array
