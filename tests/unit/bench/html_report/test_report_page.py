"""The report: one file that needs nothing else, whatever is in the result."""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from guepard.bench import html_report
from guepard.measure import result_file
from guepard.measure.results import Document, Run
from tests.services import result_documents

VOID = {"meta", "link", "br", "hr", "col"}
SVG_ALONE = {"path", "rect", "circle", "line"}
ALLOWED = {
    "html", "head", "body", "meta", "title", "link", "style", "script", "header", "main", "footer", "section", "div",
    "h1", "h2", "h3", "p", "b", "strong", "span", "code", "svg", "g", "desc", "text", "figure", "figcaption",
    "ul", "li", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "details", "summary",
    *SVG_ALONE,
}  # fmt: skip


class Page(HTMLParser):
    """Elements, attributes and texts of a page, whose elements must be closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", data))

    def text_of(self, *tags: str) -> str:
        return "\n".join(text for tag, text in self.texts if not tags or tag in tags)

    @property
    def titles(self) -> list[str]:
        """Of charts."""
        return re.findall(r"<figcaption><h3>([^<]+)</h3>", self.source)


def rendered(document: Document) -> Page:
    return Page(html_report.render(document))


@cache
def page_of(build: Callable[[], Document]) -> Page:
    return rendered(build())


@pytest.fixture(params=result_documents.BUILDERS.values(), ids=list(result_documents.BUILDERS))
def build(request: pytest.FixtureRequest) -> Callable[[], Document]:
    found: Callable[[], Document] = request.param
    return found


def test_the_page_is_well_formed_and_asks_for_nothing(build: Callable[[], Document]) -> None:
    page = page_of(build)
    assert {tag for tag, _ in page.elements} <= ALLOWED
    for tag, attributes in page.elements:
        assert not {name for name in attributes if name.startswith("on") or name in ("style", "srcset", "action")}
        for name in ("src", "href", "xlink:href", "data"):
            assert attributes.get(name, "data:,") == "data:,", (tag, attributes)
    assert "url(" not in page.source
    assert "@import" not in page.source


def test_ids_are_unique_and_what_refers_to_them_finds_them(build: Callable[[], Document]) -> None:
    page = page_of(build)
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert not [name for name, count in ids.items() if count > 1]
    named = [attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes]
    assert {name for names in named for name in (names or "").split()} <= set(ids)


def test_the_result_is_read_back_from_the_page(build: Callable[[], Document], tmp_path: Path) -> None:
    document = build()
    html_report.write(document, tmp_path / "report.html")
    assert result_file.read(tmp_path / "report.html") == document


def test_no_figure_is_missing_or_more_than_a_number(build: Callable[[], Document]) -> None:
    page = page_of(build)
    for _, attributes in page.elements:
        for name in ("d", "x", "y", "x1", "y1", "cx", "cy", "width", "height"):
            assert not re.search(r"nan|inf|None|e[-+]\d", attributes.get(name) or "")
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", page.text_of("td", "dd", "strong", "p", "text"))


def test_hostile_names_are_text_and_only_text() -> None:
    page = page_of(result_documents.hostile)
    assert [tag for tag, _ in page.elements].count("script") == 2, "the result and the page's own"
    assert "alert(1)" in page.text_of("code", "td", "p", "dd")
    outside = re.sub(r'<script type="application/json".*?</script>', "", page.source, flags=re.DOTALL)
    assert "<script>alert" not in outside
    assert "\x1b" not in page.source
    assert "\u202e" not in outside


def test_the_policy_allows_the_page_its_own_style_and_script_alone() -> None:
    source = html_report.render(result_documents.tiny())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', source)
    assert policy
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]
    for tag in ("style", "script"):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)
        assert content
        digest = b64encode(sha256(content[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]


@pytest.mark.parametrize(
    ("build", "style", "words"),
    [
        (result_documents.valid, "good", ["VALID", "1,001/s, p50 12.1 ms, p99 29.9 ms, 0 % failed"]),
        (result_documents.invalid, "bad", ["INVALID", "because requests left late", "give the generator a free core"]),
        (result_documents.no_run, "bad", ["NO RESULT", "because it was interrupted before any run ended"]),
        (result_documents.interrupted, "good", ["VALID, PARTIAL", "interrupted"]),
    ],
)
def test_the_banner_says_the_verdict_in_words_and_in_colour(
    build: Callable[[], Document], style: str, words: list[str]
) -> None:
    source = html_report.render(build())
    banner = source[source.index('<div class="banner') : source.index("</header>")]
    assert banner.startswith(f'<div class="banner {style}" role="status">')
    assert not [word for word in words if word not in banner]


def test_findings_come_with_their_remedies_worst_first() -> None:
    page = page_of(result_documents.invalid)
    assert re.findall(r"<td><code>([a-z-]+)</code></td>", page.source) == ["send-lag", "unstable", "same-machine"]
    assert "measure longer (--duration 120s)" in page.text_of("td")


def test_equal_findings_of_many_runs_are_one_row() -> None:
    document = result_documents.comparison()
    shared = result_documents.valid().runs[0].findings
    runs = tuple(msgspec.structs.replace(run, findings=shared) for run in document.runs)
    page = rendered(msgspec.structs.replace(document, runs=runs))
    assert page.source.count("<code>same-machine</code>") == 1
    assert "A1, B1, B2, A2, A3, B3 and 4 more" in page.text_of("td")


def charts_of(run: Run) -> list[str]:
    return rendered(result_documents.a_document(run)).titles


def test_a_run_has_every_chart_that_it_has_figures_for() -> None:
    assert charts_of(result_documents.errors().runs[0]) == [
        "Latency over time", "Latency by percentile", "Errors over time", "Throughput over time",
        "Histogram of latencies", "Requests in flight", "The generator&#39;s own lag", "Where the time went",
    ]  # fmt: skip
    assert "Streams by percentile" in charts_of(result_documents.stream().runs[0])
    assert charts_of(result_documents.nothing_succeeded().runs[0]) == [
        "Errors over time", "Throughput over time", "Requests in flight", "The generator&#39;s own lag",
    ]  # fmt: skip
    empty = msgspec.structs.replace(result_documents.tiny().runs[0], slices=())
    assert "Latency over time" not in charts_of(empty)


def test_throughput_against_latency_needs_two_loads() -> None:
    assert "Throughput against latency" in page_of(result_documents.search).titles
    assert "Throughput against latency" not in page_of(result_documents.valid).titles
    assert "Throughput against latency" not in page_of(result_documents.comparison).titles
    one, two = result_documents.valid().runs[0], result_documents.errors().runs[0]
    same = result_documents.a_document(one, msgspec.structs.replace(two, name="again"))
    assert "Throughput against latency" not in rendered(same).titles


def test_a_search_marks_its_edge_and_the_runs_beyond_it() -> None:
    page = page_of(result_documents.search)
    classes = Counter(attributes.get("class") for tag, attributes in page.elements if tag == "circle")
    assert classes["dot s3"] == classes["dot s1"] == 4
    assert classes["dot s3 hollow"] == 5, "four runs and the legend"
    assert "edge, 2,050/s" in page.text_of("li")
    assert page.text_of("span").count("missed") == 8, "in the table of runs, and run by run"


def test_a_comparison_draws_the_differences_and_both_sides() -> None:
    page = page_of(result_documents.comparison)
    assert page.titles[:2] == ["B against A", "A and B by percentile"]
    assert "p50: faster" in page.text_of("text")
    styles = [attributes["class"] for tag, attributes in page.elements if tag == "path" and "class" in attributes]
    assert styles.count("line good whisker") == 1
    assert styles.count("line unknown whisker") == 3, "two that cannot tell and the legend"


def test_every_chart_has_its_figures_as_a_table() -> None:
    page = page_of(result_documents.errors)
    assert page.source.count("<summary>The same as a table</summary>") == len(page.titles)


def test_percentiles_without_enough_samples_are_grey_and_say_what_they_need() -> None:
    page = page_of(result_documents.tiny)
    assert "n too small: needs 10,000, has 10" in page.text_of("span")
    assert page.source.count("<strong>n too small</strong>") == 2
    assert 'class="line s1 unsure"' in page.source


def test_a_closed_loop_carries_its_remark() -> None:
    assert "not what users wait under open traffic" in page_of(result_documents.closed_loop).text_of("p")


def test_the_origin_is_told_command_machine_versions_and_hash_of_the_payloads() -> None:
    words = page_of(result_documents.valid).text_of("code", "dd")
    for word in (
        "guepard bench http",
        "AMD EPYC, 8 cores",
        "numpy 2.4.6",
        "-dirty",
        "5f70bf18a086007016e948b04aed3b82",
    ):
        assert word in words


def test_a_histogram_that_was_damaged_by_hand_costs_its_charts_and_not_the_page() -> None:
    run = result_documents.tiny().runs[0]
    damaged = msgspec.structs.replace(run, latency=msgspec.structs.replace(run.latency, histogram="HISTFAAA"))
    titles = charts_of(damaged)
    assert "Latency over time" in titles
    assert "Histogram of latencies" not in titles


def test_phases_that_add_up_to_more_than_the_latency_are_remarked_on() -> None:
    run = result_documents.valid().runs[0]
    assert run.server
    phases = tuple(msgspec.structs.replace(phase, mean_ms=phase.mean_ms * 2) for phase in run.server.phases)
    server = msgspec.structs.replace(run.server, phases=phases, unexplained_ms=-4.0)
    page = rendered(result_documents.a_document(msgspec.structs.replace(run, server=server)))
    assert "add up to more than the latency" in page.text_of("p")
    assert "-4.00" in page.text_of("td")


def test_long_runs_stay_a_page_that_a_browser_can_bear() -> None:
    run = result_documents.valid().runs[0]
    slices = tuple(
        msgspec.structs.replace(run.slices[n % len(run.slices)], start_s=n * 0.5, end_s=n * 0.5 + 0.5)
        for n in range(4096)
    )
    window = msgspec.structs.replace(run.window, end_s=2048.0)
    source = html_report.render(result_documents.a_document(msgspec.structs.replace(run, slices=slices, window=window)))
    assert len(source) < 4_000_000
    assert "one in 11, the embedded result has all" in source
