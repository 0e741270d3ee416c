"""How one output of a model is described in OIP V2 messages over HTTP."""

import orjson

from guepard.core.memo import Memo
from guepard.core.tensor import TensorSpec

_MEMO_LIMIT = 256


class OutputWords:
    """What stands around the data of one output, kept for every shape that has been answered.

    `place` is where the output stands among the model's. `json` and `binary` have what was worked out before; for what
    they lack there are the methods.
    """

    __slots__ = ("_opening", "binary", "datatype", "is_fixed", "json", "name", "place", "spec")

    def __init__(self, place: int, spec: TensorSpec) -> None:
        self.place = place
        self.spec = spec
        self.name = spec.name
        self.datatype = spec.datatype.name
        self.is_fixed = spec.datatype.kind != "bytes"  # whether the shape tells how many bytes the data has
        self.json: Memo[tuple[int, ...], bytes] = Memo(_MEMO_LIMIT)
        self.binary: Memo[tuple[int, ...], bytes] = Memo(_MEMO_LIMIT)
        self._opening = b'{"name":%b,"datatype":"%b","shape":' % (orjson.dumps(self.name), self.datatype.encode())

    def before_parameters(self, shape: tuple[int, ...]) -> bytes:
        return b"%b%b," % (self._opening, orjson.dumps(shape))

    def before_data(self, shape: tuple[int, ...]) -> bytes:
        head = self.before_parameters(shape) + b'"data":'
        self.json.keep(shape, head)
        return head

    def of_bytes(self, shape: tuple[int, ...], size: int) -> bytes:
        """All there is to say of an output whose `size` bytes follow the JSON."""
        text = b'%b"parameters":{"binary_data_size":%d}}' % (self.before_parameters(shape), size)
        if self.is_fixed:
            self.binary.keep(shape, text)
        return text
