"""Which operators of a model run where, as ONNX Runtime itself has it once a session is made.

Source: ONNX Runtime, `Session_GetEpGraphAssignmentInfo` of its C API (1.24 and later). What it counts are the nodes of
the graph as they were handed out, before copies between devices are put in.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from guepard.backends.onnxruntime_providers import SHORT_NAMES

_LOGGER = logging.getLogger("guepard.backends.onnxruntime")
_MOST_NAMED = 10  # of operators, in the log

PLACEMENT_KEY = "session.record_ep_graph_assignment_info"


class Placement(NamedTuple):
    """`nodes`: how many each provider has. `on_cpu`: operators that the CPU has, and how often."""

    nodes: Mapping[str, int]
    on_cpu: Mapping[str, int]

    def facts(self) -> dict[str, Any]:
        """Plain data for the metadata."""
        return {"nodes": dict(self.nodes), "on_cpu": dict(self.on_cpu)}


def read_placement(session: Any) -> Placement | None:
    """Of a session whose options had `PLACEMENT_KEY`; None where ONNX Runtime cannot say, which it can from 1.24 on.

    Cost: below a millisecond for a hundred nodes.
    """
    ask = getattr(session, "get_provider_graph_assignment_info", None)
    if ask is None:
        return None
    nodes: Counter[str] = Counter()
    on_cpu: Counter[str] = Counter()
    for part in ask():
        operators = [node.op_type for node in part.get_nodes()]
        provider = SHORT_NAMES.get(part.ep_name, part.ep_name)
        nodes[provider] += len(operators)
        if provider == "cpu":
            on_cpu.update(operators)
    return Placement(dict(nodes), dict(on_cpu.most_common()))


def warn_of_cpu(model: str, placement: Placement) -> None:
    """Say which operators of a model for a GPU run on the CPU: their tensors travel to and fro in each execution."""
    if not placement.on_cpu:
        return
    names = [f"{count} x {name}" for name, count in placement.on_cpu.items()]
    more = ", ..." if len(names) > _MOST_NAMED else ""
    _LOGGER.warning(
        "model %s: %d of its %d operators run on the CPU: %s%s",
        model,
        sum(placement.on_cpu.values()),
        sum(placement.nodes.values()),
        ", ".join(names[:_MOST_NAMED]),
        more,
    )
