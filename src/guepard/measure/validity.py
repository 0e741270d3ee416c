"""What a run's figures are worth: `invalid` findings void it, since its figures would mislead.

A rule looks at one run and says what is wrong with figures, and what to do. docs/reference/bench-findings.md lists
every code.
"""

from collections.abc import Callable, Iterator

import msgspec

from guepard.measure import caveats, generator_rules, server_rules
from guepard.measure.evidence import Evidence
from guepard.measure.results import Finding, Run

GENERATOR_CODES = frozenset(
    ("send-lag", "generator-shortfall", "generator-saturated", "generator-starved", "self-test-slow")
)
"""Findings that speak of the load generator, not of the server."""

Rule = Callable[[Evidence], Iterator[Finding]]

_RULES: tuple[Rule, ...] = (*server_rules.RULES, *generator_rules.RULES, *caveats.RULES)
_EXPLAIN_UNREST = frozenset(("server-died", "overloaded", "no-success"))
_SEVERITIES = ("invalid", "warning", "note")


def find_all(evidence: Evidence) -> tuple[Finding, ...]:
    """Every finding, those that void the run first.

    `unsteady` is left out where the server died, was overloaded or never answered: then that is why.
    """
    found = [finding for rule in _RULES for finding in rule(evidence)]
    if any(finding.code in _EXPLAIN_UNREST for finding in found):
        found = [finding for finding in found if finding.code != "unsteady"]
    return tuple(sorted(found, key=lambda finding: _SEVERITIES.index(finding.severity)))


def judged(evidence: Evidence) -> Run:
    """The run with its findings and its verdict."""
    found = find_all(evidence)
    is_valid = all(finding.severity != "invalid" for finding in found)
    return msgspec.structs.replace(evidence.run, findings=found, is_valid=is_valid)


def excused(run: Run, codes: frozenset[str]) -> Run:
    """The run with these findings as warnings, where what surrounds it makes them good. Judged anew."""
    found = tuple(
        msgspec.structs.replace(each, severity="warning") if each.code in codes else each for each in run.findings
    )
    is_valid = all(each.severity != "invalid" for each in found)
    return msgspec.structs.replace(run, findings=found, is_valid=is_valid)


def blames_generator(run: Run) -> bool:
    """Is the run void for the load generator's sake, so that it says nothing of the server?"""
    return any(finding.severity == "invalid" and finding.code in GENERATOR_CODES for finding in run.findings)
