"""HTML that can only be built escaped."""

from guepard.bench.html_report.markup import Markup, joined, table, tag, text


def test_text_is_escaped_in_content_and_in_attributes() -> None:
    assert tag("p", "a < b & 'c'", title='"><script>') == (
        '<p title="&quot;&gt;&lt;script&gt;">a &lt; b &amp; &#39;c&#39;</p>'
    )


def test_markup_is_not_escaped_twice_and_absent_parts_leave_nothing() -> None:
    inner = tag("b", "x")
    assert tag("p", inner, None, " & ", class_="quiet", id=None) == '<p class="quiet"><b>x</b> &amp; </p>'
    assert joined((inner, "<", None), ", ") == "<b>x</b>, &lt;"
    assert isinstance(joined(()), Markup)


def test_adding_text_to_markup_is_text_again() -> None:
    assert tag("p", tag("b", "x") + "<i>") == "<p>&lt;b&gt;x&lt;/b&gt;&lt;i&gt;</p>"


def test_names_of_attributes_and_figures_are_written_as_svg_wants_them() -> None:
    assert tag("rect", x=1.0, y=2.345, stroke_width=3) == '<rect x="1" y="2.35" stroke-width="3"/>'
    assert tag("br") == "<br>"


def test_characters_that_cannot_be_seen_are_escapes() -> None:
    assert text("a\x00\x1b[5m\u202eb\ud800\u2028") == "a\\x00\\x1b[5m\\u202eb\N{REPLACEMENT CHARACTER}\u2028"
    assert text("line\nline\ttab") == "line\nline\ttab"


def test_a_table_has_headers_for_columns_and_rows_and_a_name() -> None:
    made = table(("run", "p99"), [("<first>", "12")], caption="All runs", classes=[None, "n"])
    assert '<caption class="unseen">All runs</caption>' in made
    assert '<th scope="col" class="n">p99</th>' in made
    assert '<tr><th scope="row">&lt;first&gt;</th><td class="n">12</td></tr>' in made
    assert made.startswith('<div class="wide" tabindex="0" role="region" aria-label="All runs">')
