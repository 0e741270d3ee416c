"""A page of metrics in Prometheus's text format, as far as it concerns inference.

Source: prometheus.io/docs/instrumenting/exposition_formats.
"""

import math
import re
from collections.abc import Iterator

_PREFIXES = ("guepard_", "nv_", "process_")
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+([^ \t]+)(?:[ \t]+[0-9.+-]+)?[ \t]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"')
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}

Labels = dict[str, str]


class MetricsPage:
    """The samples of the servers' own families and of their processes; lines that are none are passed over."""

    def __init__(self, text: str) -> None:
        self._samples: dict[str, list[tuple[Labels, float]]] = {}
        for line in text.split("\n"):
            if line.startswith(_PREFIXES) and "_bucket{" not in line:
                self._add(line)

    def _add(self, line: str) -> None:
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            return
        try:
            value = float(sample[3])
        except ValueError:
            return
        if math.isfinite(value):
            labels = {name: _unescaped(text) for name, text in _LABEL.findall(sample[2] or "")}
            self._samples.setdefault(sample[1], []).append((labels, value))

    def __bool__(self) -> bool:
        return bool(self._samples)

    @property
    def names(self) -> Iterator[str]:
        yield from self._samples

    def total(self, name: str, model: str | None = None, version: str | None = None) -> float | None:
        """The sum of a family's samples, without those of another model or version; None where there are none."""
        values = [
            value
            for labels, value in self._samples.get(name, ())
            if (model is None or labels.get("model", model) == model)
            and (version is None or labels.get("version", version) == version)
        ]
        return math.fsum(values) if values else None


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text) if "\\" in text else text
