"""Models that answer with what they were asked, one for each datatype."""

from pathlib import Path

import yaml

from guepard.core.datatypes import DATATYPES
from tests.services import onnx_models


def onnx_identities(folder: Path) -> list[str]:
    """`ident_<datatype>` for every datatype, `x` [-1, -1] to `y`, through ONNX Runtime. Returns MODEL arguments."""
    arguments = []
    for datatype in DATATYPES:
        name = f"ident_{datatype.lower()}"
        model = onnx_models.identity(datatype, dims=("n", "m"))
        arguments.append(f"{name}={onnx_models.write_model(folder / f'{name}.onnx', model)}")
    return arguments


def every_datatype_at_once(folder: Path, ranks: range) -> Path:
    """`rank<r>` for every rank, without batches: one input for each datatype, named after it. Returns guepard.yaml."""
    models = [
        {
            "name": f"rank{rank}",
            "backend": "identity",
            "max_batch_size": 0,
            "inputs": [{"name": name, "datatype": name, "dims": [-1] * rank} for name in DATATYPES],
        }
        for rank in ranks
    ]
    file = folder / "guepard.yaml"
    file.write_text(yaml.safe_dump({"models": models}))
    return file
