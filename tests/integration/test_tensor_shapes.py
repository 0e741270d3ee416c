"""Requests whose tensors do not fit: shapes, counts, names, ids. Each is told what is wrong and the server goes on.

Left to later parts: the same over gRPC; chains of models, where the first step's input is checked like any model's.
"""

import json
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import deserialize_bytes_tensor

from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Models, Serve
from tests.services import onnx_models
from tests.services.python_models import MIXED_BYTES
