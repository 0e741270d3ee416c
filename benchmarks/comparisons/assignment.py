"""What a server of the comparison is told: which model, where, with how much parallelism.

It travels in one environment variable, as JSON. Servers read it in environments of their own, so this file, `engine.py`
and the packages around them need nothing but the standard library, NumPy and ONNX Runtime.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

VARIABLE = "COMPARISON_ASSIGNMENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    model: str
    """The name under which it is served."""
    file: str
    input_name: str
    output_name: str
    input_dtype: str
    """NumPy's name."""
    input_shape: tuple[int, ...]
    """Of one row."""
    output_shape: tuple[int, ...]
    http_port: int
    grpc_port: int
    other_ports: tuple[int, ...]
    """For what else a server insists on listening at."""
    instances: int
    """Copies of the model that run at the same time."""
    threads: int
    """Of ONNX Runtime within one execution."""
    max_batch_size: int
    delay_ms: int
    """The longest that a request waits for others, where the server has a timer."""
    form: str
    """The kind of form in which it will be asked: all of a server's that are not started for one form alone."""

    def as_environment(self) -> Mapping[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}


def read_assignment() -> Assignment:
    """This process's. Raises: KeyError where it has none."""
    told = json.loads(os.environ[VARIABLE])
    for name in ("input_shape", "output_shape", "other_ports"):
        told[name] = tuple(told[name])
    return Assignment(**told)
