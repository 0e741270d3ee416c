"""Converts one estimator to ONNX and compares the two: `python -m guepard.formats.sklearn_child ORDER`.

ORDER is JSON: `file`, `trusted`, `datatype` and `folder`, where `report.json` is written, and `model.onnx` if it came
to that. In a process of its own, since pickles run code and converters walk through graphs of any size.
"""

import json
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

from guepard.backends.sklearn_file import load_estimator
from guepard.backends.sklearn_samples import accepted_sample
from guepard.backends.sklearn_signature import taken_by
from guepard.core.errors import LoadError
from guepard.formats.sklearn_agreement import disagreement
from guepard.formats.sklearn_conversion import FAILED_TO_LOAD, MODEL, REPORT
from guepard.formats.sklearn_odd_numbers import OddNumbers
from guepard.formats.sklearn_onnx import NotConverted, convert

ROWS = 512
"""On which both are compared."""


def main() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    order = json.loads(sys.argv[1])
    folder = Path(order["folder"])
    partial = folder / f".{REPORT}"
    partial.write_text(json.dumps(_result(order, folder)))
    partial.rename(folder / REPORT)
    # Threads and at-exit code of what was loaded are of no interest any more.
    os._exit(0)


def _result(order: dict[str, Any], folder: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    try:
        loaded = load_estimator(Path(order["file"]), trusted=order["trusted"])
        estimator = loaded.estimator
        taken = taken_by(estimator, order["datatype"])
        inputs, given = accepted_sample(estimator, taken, order["datatype"], ROWS)
    except LoadError as error:
        return {FAILED_TO_LOAD: str(error)}
    told: dict[str, Any] = {"estimator": type(estimator).__name__, "fitted_with": loaded.fitted_with}
    model = folder / MODEL
    try:
        convert(estimator, taken, given, model)
        reason = disagreement(estimator, taken, given, model, inputs)
        odd = OddNumbers(estimator, taken, given, model, inputs) if not reason else None
        reason = reason or (odd.objection if odd is not None else "")
    except NotConverted as error:
        return {**told, "converted": False, "reason": str(error)}
    if reason:
        model.unlink()
        return {**told, "converted": False, "reason": reason}
    assert odd is not None
    told |= {"nan": odd.takes_nan, "infinity": odd.takes_infinity}
    return {**told, "converted": True, "reason": f"it answers as the estimator does on {ROWS} rows made for it"}


def _end_with_parent() -> None:
    """The parent holds the other end of the standard input for as long as it lives."""
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
