"""Estimators of scikit-learn: converted to ONNX where that answers the same, else served as they are.

As ONNX a model runs without the interpreter, and any engine may execute it. Whether it can be converted, and then says
the same on rows made for it, is found out in a process of its own (`sklearn_child.py`) and remembered.
"""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.sklearn_file import source_file
from guepard.core.errors import LoadError
from guepard.core.hooks import Hooks, StepSpec
from guepard.formats.base import Resolved
from guepard.formats.sklearn_conversion import FAILED_TO_LOAD, MODEL, REPORT, Conversion

log = logging.getLogger(__name__)

_SHOWN = ("estimator", "fitted_with")


class SklearnFormat:
    """Files that joblib, pickle or skops wrote, or a folder that holds one called `model`."""

    name = "sklearn"

    def resolve(self, source: ModelSource) -> Resolved:
        file = source_file(source)
        as_it_is = replace(source, path=file)
        options = source.policy.engines.sklearn
        if options.convert == "never":
            return Resolved(as_it_is, self.name, facts=(("conversion", "not wanted (sklearn.convert: never)"),))
        folder = Conversion(source, file).folder()
        report = _report(folder)
        if FAILED_TO_LOAD in report:
            raise LoadError(str(report[FAILED_TO_LOAD]))
        reason = str(report["reason"])
        facts = tuple((key, report[key]) for key in _SHOWN if report.get(key))
        if report["converted"]:
            log.info("model %s: %s is served as ONNX: %s", source.name, report["estimator"], reason)
            odd = {"nan": bool(report["nan"]), "infinity": bool(report["infinity"])}
            hooks = Hooks() if all(odd.values()) else Hooks(postprocess=(StepSpec("finite", odd),))
            converted = replace(source, path=folder / MODEL)
            return Resolved(converted, "onnxruntime", hooks, (*facts, ("conversion", reason)))
        if options.convert == "always":
            raise LoadError(f"sklearn.convert: always, and it is not converted: {reason}")
        log.warning("model %s is served as it is, and not as ONNX: %s", source.name, reason)
        return Resolved(as_it_is, self.name, facts=(*facts, ("conversion", reason)))


def _report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / REPORT).read_text())
    return found
