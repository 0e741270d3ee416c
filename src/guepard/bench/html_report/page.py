"""The whole page: the verdict on top, what was asked, every chart and table, and the result itself for programs."""

import os
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from string import Template

from guepard.bench.html_report.comparison_charts import comparisons_table, differences_chart, sides_chart
from guepard.bench.html_report.document_sections import (
    banner,
    edge_section,
    findings_table,
    gates_table,
    heading,
    origin,
    runs_table,
    sides_table,
    state_pill,
)
from guepard.bench.html_report.knee_chart import knee_chart
from guepard.bench.html_report.markup import Markup, joined, tag, text
from guepard.bench.html_report.run_section import run_section
from guepard.bench.reading import headline_run, sides, verdict
from guepard.measure.result_file import to_script
from guepard.measure.results import Document, Run
from guepard.measure.whole_file import write_whole


def write(document: Document, path: str | os.PathLike[str]) -> None:
    """Write the report, whole or not at all. Raises: ConfigurationError if `path` cannot be written."""
    write_whole(path, render(document).encode())


def render(document: Document) -> str:
    """The page. It asks no server for anything, and its policy forbids it to."""
    style, script = _resource("report.css"), _resource("report.js")
    found = verdict(document)
    target = document.targets[0].url if document.targets else "no target"
    return Template(_resource("report.html")).substitute(
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:",
        title=text(f"{found.word}: {target}"),
        style=style,
        header=joined((heading(document), banner(document, found))),
        main=_main(document),
        footer=origin(document),
        result=to_script(document).decode(),
        script=script,
    )


@cache
def _resource(name: str) -> str:
    return files("guepard.bench.html_report").joinpath(name).read_text("utf-8")


def _hash(content: str) -> str:
    """What a Content-Security-Policy calls an inline element, whose content is exactly `content`."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _main(document: Document) -> Markup:
    found = verdict(document)
    compared = sides(document)
    parts = [
        _section("Findings", findings_table(found, is_of_many=len(document.runs) > 1)) if found.findings else None,
        _section("The edge", edge_section(document.edge)) if document.edge else None,
        _section(
            "Comparison",
            comparisons_table(document.comparisons),
            tag(
                "div",
                differences_chart(document.comparisons, "differences"),
                sides_chart(compared, "sides"),
                sides_table(compared),
                class_="charts",
            ),
        )
        if document.comparisons
        else None,
        _section("Gates", gates_table(document.gates)) if document.gates else None,
    ]
    if len(document.runs) > 1:
        knee, runs = knee_chart(document, "knee"), runs_table(document)
        parts.append(_section("All runs", tag("div", knee, runs, class_="charts") if knee else runs))
    headline = headline_run(document)
    if headline is not None and not document.comparisons:
        title = headline.name if len(document.runs) > 1 else "The run"
        parts.append(_section(title, run_section(headline, document.slo, "run", is_full=True)))
    others = [run for run in document.runs if run is not headline or document.comparisons]
    if others:
        parts.append(_section("Run by run", *(_folded(document, run, f"run{n}") for n, run in enumerate(others))))
    return joined(parts)


def _section(title: str, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", title), *content)


def _folded(document: Document, run: Run, name: str) -> Markup:
    return tag(
        "details",
        tag("summary", run.name, " ", state_pill(document, run)),
        tag("div", run_section(run, document.slo, name, is_full=False), class_="inside"),
        class_="run",
    )
