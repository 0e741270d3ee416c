"""The documents say what the code says: links, names, tables and commands."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from benchmarks.micro.timing.subjects import subjects
from guepard.cli.main import VERBS
from guepard.core.errors import ErrorCode
from guepard.protocols.error_body import STATUSES
from guepard.server.http.api_routes import api_routes
from guepard.server.http.guard import Guard
from guepard.server.http.metrics_routes import MetricsRoutes

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "guepard"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_OPTIONAL = re.compile(r"\[(.*)\]")


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def prose(document: Path) -> str:
    """The text without its code blocks."""
    return _FENCE.sub("", document.read_text())


def commands(document: Path) -> Iterator[str]:
    """Lines of code blocks and code within lines."""
    text = document.read_text()
    for block in _FENCE.findall(text):
        yield from block.splitlines()[1:-1]
    yield from _CODE.findall(_FENCE.sub("", text))


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def rows(document: Path, header: str) -> list[list[str]]:
    """The cells of every table that begins with `header`."""
    found = []
    inside = False
    for line in document.read_text().splitlines():
        if line == header:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    assert found, f"{name_of(document)} has no table {header}"
    return found


def section(document: Path, heading: str) -> str:
    _, _, rest = document.read_text().partition(f"\n{heading}\n")
    assert rest, f"{name_of(document)} has no {heading}"
    depth = heading.partition(" ")[0]
    return re.split(rf"^#{{1,{len(depth)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in _LINK.findall(prose(document)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_command_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    unknown = []
    for command in commands(document):
        words = re.sub(r"^\$ ", "", command.strip()).partition("#")[0].split()
        if words[:1] == ["make"]:
            unknown += [command for word in words[1:] if re.fullmatch(r"[a-z-]+", word) and word not in targets]
        elif words[:1] == ["guepard"] and len(words) > 1:
            unknown += [command] if re.fullmatch(r"[a-z]+", words[1]) and words[1] not in VERBS else []
    assert not unknown


def test_every_test_that_a_document_names_exists() -> None:
    named = {path for document in DOCUMENTS for path in re.findall(r"tests/[\w/]+\.py", document.read_text())}
    assert named
    assert not [path for path in sorted(named) if not (ROOT / path).is_file()]


def test_the_code_map_names_every_file_and_no_other() -> None:
    mapped = set()
    code_map = section(ROOT / "ARCHITECTURE.md", "## Code map").partition("### Around the package")[0]
    for part in re.split(r"^### ", code_map, flags=re.MULTILINE)[1:]:
        heading, _, lines = part.partition("\n")
        folder = heading.strip("`/ ").removeprefix(".")
        mapped |= {(Path(folder) / name).as_posix() for name in re.findall(r"^- `([\w.]+)` \S", lines, re.MULTILINE)}
    files = {path.relative_to(PACKAGE).as_posix() for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.c"))}
    assert mapped == {path for path in files if path == "__init__.py" or not path.endswith("/__init__.py")}


def test_every_path_around_the_package_exists() -> None:
    paths = re.findall(r"^- `([\w/]+)` \S", section(ROOT / "ARCHITECTURE.md", "### Around the package"), re.MULTILINE)
    assert paths
    assert not [path for path in paths if not (ROOT / path).is_dir()]


def test_every_source_file_that_architecture_names_exists() -> None:
    text = section(ROOT / "ARCHITECTURE.md", "## The hot path") + section(ROOT / "ARCHITECTURE.md", "## Where to add")
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert named
    assert not [path for path in named if not (PACKAGE / path).is_file()]


def test_every_file_of_the_hot_path_has_a_micro_benchmark_of_its_name_and_none_is_without_its_file() -> None:
    hot = [
        Path(path).stem
        for path in re.findall(r"`((?:\w+/)+\w+\.py)`", section(ROOT / "ARCHITECTURE.md", "## The hot path"))
    ]
    assert len(hot) == len(set(hot)), "two files of one name: mirror their folders in benchmarks/micro"
    timed = set(subjects())
    assert not set(hot) - timed
    assert not timed - {path.stem for path in PACKAGE.rglob("*.py")}


def test_the_table_of_errors_is_the_table_in_the_code() -> None:
    header = "| code | HTTP | gRPC | meaning | try again? | remedy |"
    table = rows(ROOT / "docs" / "reference" / "errors.md", header)
    assert [len(row) for row in table] == [6] * len(ErrorCode)
    written = {row[0].strip("`"): (int(row[1]), row[2]) for row in table}
    assert written == {code.value: tuple(STATUSES[code]) for code in ErrorCode}


def test_the_status_table_of_server_behaviour_is_complete() -> None:
    table = rows(ROOT / "docs" / "explanation" / "server-behaviour.md", "| | situation |")
    written = set(chain.from_iterable(re.findall(r"\d{3}", row[0]) for row in table))
    reserved = {ErrorCode.UNAUTHENTICATED, ErrorCode.CANCELLED}
    assert written == {"200", *(str(STATUSES[code].http) for code in ErrorCode if code not in reserved)}


def test_the_tables_of_routes_are_the_routes() -> None:
    nothing: Any = None
    guard = Guard(loopback=True, hosts=frozenset(), anonymous=frozenset())
    routes = api_routes(nothing, nothing, guard) + MetricsRoutes(nothing, guard).routes()
    written = set()
    for method, path, _ in rows(ROOT / "docs" / "reference" / "protocols.md", "| method | path | answer |"):
        path = path.strip("`")
        written |= {(method, _OPTIONAL.sub("", path)), (method, _OPTIONAL.sub(r"\1", path))}
    assert written == {(route.method, route.template) for route in routes}


def test_the_readme_shows_how_to_begin_on_one_screen() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 90
    for command in ("make serve", "make test", "venv/bin/pip install .", "venv/bin/guepard serve"):
        assert re.search(rf"^{re.escape(command)}( |$)", text, re.MULTILINE)
