"""Gates as JUnit XML, which CI systems show beside the results of tests.

Source: the elements that Jenkins, GitLab and the common GitHub actions read are described at
https://github.com/testmoapp/junitxml.
"""

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from guepard.measure.results import Gate

_SUITE = "guepard bench"


def to_junit(gates: Sequence[Gate], seconds: float) -> str:
    """One suite, a case for each gate. A gate that could not tell passes, and says so in its output."""
    failures = sum(not gate.passed for gate in gates)
    counts = f'tests="{len(gates)}" failures="{failures}" errors="0" skipped="0" time="{seconds:.3f}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="{_SUITE}" {counts}>',
        f'  <testsuite name="{_SUITE}" {counts}>',
        *(line for gate in gates for line in _case(gate)),
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(gate: Gate) -> list[str]:
    says = _printable(gate.says)
    inside = (
        f"      <system-out>{escape(says)}</system-out>"
        if gate.passed
        else f'      <failure type="regression" message={quoteattr(says)}>{escape(says)}</failure>'
    )
    return [
        f'    <testcase classname="{_SUITE}" name={quoteattr(_printable(gate.name))} time="0">',
        inside,
        "    </testcase>",
    ]


def _printable(text: str) -> str:
    """Without what XML cannot hold, even escaped."""
    return "".join(character if character.isprintable() else " " for character in text)
