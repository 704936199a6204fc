"""What pages contain: their type by their bytes, charsets, HTML as Markdown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings, strategies as st

from pegboard import FileContent, ImageContent, ToolError
from pegboard_web.markdown import to_markdown

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
URL = "https://example.com/docs/page"


def test_text_and_json_stay_as_they_are(web, server):
    text = '{"a": [1, 2],\n "b": "<p>&amp;</p>"}'
    for kind in ("application/json", "text/plain", "text/csv", "application/ld+json", "text/markdown", "image/svg+xml"):
        assert web.body_of(web.fetch(server.page("/a", text, kind))) == text, kind


@pytest.mark.parametrize(
    "kind", ["image/png", "text/html", "text/plain", "application/octet-stream", "application/pdf"]
)
def test_an_image_is_one_whatever_it_is_called(web, server, kind):
    result = web.fetch(server.page("/a", PNG, kind))
    note, image = result.content
    assert image == ImageContent(PNG, "image/png")
    assert "Others made it" in note.text


def test_a_pdf_is_a_file(web, server):
    url = server.page("/a", b"%PDF-1.7 x", "text/html")
    assert web.fetch(url).content[1] == FileContent(url, b"%PDF-1.7 x", "application/pdf")


@pytest.mark.parametrize("content", [PNG, b"%PDF-1.7"])
def test_an_image_or_pdf_beyond_the_limit_is_refused(web, server, content):
    result = web.fetch(server.page("/a", content + bytes(5_000)), most_bytes=1_000)
    assert result.is_error
    assert "which is the limit" in result.text


@pytest.mark.parametrize(
    ("content", "kind", "what"),
    [
        (b"PK\3\4" + bytes(50), "text/html", "is a file of type application/zip"),
        (b"\x7fELF\0\1", "text/html", "is called text/html, but is a binary file"),
        (bytes(9), "", "is a file of type application/octet-stream"),
        (b"RIFF....AVI ", "video/avi", "is a file of type video/avi"),
    ],
)
def test_other_files_are_refused(web, server, content, kind, what):
    result = web.fetch(server.page("/a", content, kind))
    assert result.is_error
    assert f"{what}, which can't be shown" in result.text


def test_html_that_is_called_an_image_is_read(web, server):
    assert web.body_of(web.fetch(server.page("/a", "<!doctype html><p>words", "image/png"))) == "words"


def test_bytes_of_no_type_are_text_if_they_are_utf8(web, server):
    assert web.body_of(web.fetch(server.page("/a", "wörds", "application/octet-stream"))) == "wörds"
    assert web.fetch(server.page("/a", b"w\xf6rds\1", "application/octet-stream")).is_error


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("wörds".encode(), "text/plain"),
        ("wörds".encode("latin-1"), "text/plain"),
        ("wörds".encode("latin-1"), "text/html; charset=iso-8859-1"),
        ("wörds".encode("utf-16"), "text/plain"),
        ('<meta charset="koi8-r"><p>слова'.encode("koi8-r"), "text/html"),
        ('<meta charset="utf-16"><p>wörds'.encode(), "text/html"),
        ('<meta charset="nothing"><p>wörds'.encode(), "text/html"),
        ("wörds".encode(), "text/plain; charset=none"),
    ],
)
def test_charsets(web, server, content, kind):
    assert web.body_of(web.fetch(server.page("/a", content, kind))) in ("wörds", "слова")


@pytest.mark.parametrize("name", ["iso-8859-1", "US-ASCII", "'latin1'"])
def test_what_is_called_latin_is_read_as_by_browsers(web, server, name):
    url = server.page("/a", b"\x93words\x94 for 5 \x80", f"text/plain; charset={name}")
    assert web.body_of(web.fetch(url)) == "“words” for 5 €"


@pytest.mark.parametrize("name", ["gbk", "shift_jis", "euc-jp", "big5", "utf-16-le"])
def test_a_text_that_is_cut_within_a_letter_keeps_its_charset(web, server, name):
    url = server.page("/a", ("文字" * 100).encode(name), f"text/plain; charset={name}")
    assert web.body_of(web.fetch(url, most_bytes=51)).startswith("文字" * 12 + "文")


def test_a_text_that_is_cut_within_a_letter_stays_utf8(web, server):
    assert web.body_of(web.fetch(server.page("/a", "ö" * 100, "text/plain"), most_bytes=51)) == "ö" * 25 + "\\u{fffd}"


# Markdown -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        ("<h2>A</h2><p>b<p>c", "## A\n\nb\n\nc"),
        ("<ul><li>a<ul><li>b</ul></ul>", "- a\n  - b"),
        (
            "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
            "| a | b |\n| --- | --- |\n| 1 | 2 |",
        ),
        ("<pre><code>x = 1\ny</code></pre>", "```\nx = 1\ny\n```"),
        ("<a href=../b>c</a> <a href='//d.example/e'>f</a>", "[c](https://example.com/b) [f](https://d.example/e)"),
        ("<a href='javascript:alert(1)'>a</a> <a href='http://[::1'>b</a> <a href='#c'>d</a>", "a b d"),
        (
            "<img alt=a src=b.png> <img alt=c src='data:image/png;base64,AAAA'>",
            "![a](https://example.com/docs/b.png) ![c]()",
        ),
        ("<base href='https://e.example/f/'><a href=g>h</a>", "[h](https://e.example/f/g)"),
        ("a<script>b</script><style>c</style><!-- d --><template>e</template><noscript>f</noscript>", "a"),
        ("<nav>a</nav><main>b</main><footer>c</footer><button>d</button>", "b"),
        ("a<p hidden>b<p style='DISPLAY : none'>c</p><div style='x:y;visibility:hidden'><b hidden>d</b></div>", "a"),
        ("<p>a</p>\n\n<div> \n </div>\n\n<div></div><p>b</p>", "a\n\nb"),
        ("", ""),
    ],
)
def test_markdown(html, wanted):
    assert to_markdown(html, URL)[1] == wanted


@pytest.mark.parametrize(
    "html",
    [
        "<b>" * 200 + "<br>words " * 4_000,
        "<table><tr><td>" * 70 + "words<br>" * 4_000,
        "<blockquote>" * 200 + "words<br>" * 4_000,
    ],
)
def test_a_page_that_costs_too_much_is_read_as_words(html):
    """Each element costs as much as there are elements around it, or writes much more than the page has."""
    text = to_markdown(html, URL)[1]
    assert set(text.split()) == {"words"}
    assert len(text) < 2 * len(html)


@pytest.mark.slow
@pytest.mark.parametrize(
    "html",
    [
        "<p>x" + " " * 200_000 + "y",
        "<pre>x" + " " * 200_000 + "y</pre>",
        "<ol>" + "<li>x" * 10_000,
        "<table><thead>" + "<tr><td>x" * 4_000,
        "<table>" + "<tbody><tr><td>x" * 4_000,
        "x<i hidden>y</i>" * 10_000,
        "<b>" * 1_900 + "x" + "</i>" * 100_000,
    ],
    ids=["blanks", "blanks in code", "items", "rows of a head", "bodies of a table", "hidden elements", "levels"],
)
def test_no_page_takes_quadratic_time(html):
    started = time.process_time()
    assert "x" in to_markdown(html, URL)[1]
    assert time.process_time() - started < 15, "each took a minute at least"


@pytest.mark.parametrize("end", ["", "</b>", "</i>"])
def test_a_page_that_is_nested_without_end_is_refused(end):
    with pytest.raises(ToolError, match="nested too deep"):
        to_markdown("<b>" * 80_000 + "x" + end * 60_000, URL)


def test_links_to_a_long_base_dont_multiply_it():
    html = f"<base href='https://example.com/{'x' * 200_000}/'>" + "<a href=b>c</a>" * 1_000
    assert to_markdown(html, URL)[1].count("[c](https://example.com/docs/b)") == 1_000
    html = html.replace("x" * 200_000, "x" * 3_000) + "<a href=b>c</a>" * 20_000
    assert len(to_markdown(html, URL)[1]) < 100_000


@pytest.mark.parametrize(
    "html",
    [
        "<ol start=½><li>words</ol>",
        f"<ol start={'9' * 5_000}><li>words</ol>",
        "<soup>words</soup>",
        "<table><tr><td colspan=²>words",
    ],
)
def test_odd_elements_do_no_harm(html):
    text = to_markdown(html, URL)[1]
    assert "words" in text
    assert len(text) < 50


def test_lists_and_tables_keep_their_order():
    assert to_markdown("<ol start=9><li>a<p>b<li>c</ol>", URL)[1] == "9. a\n\n   b\n10. c"
    assert to_markdown("<ol><li>a<ol><li>b</ol><li>c</ol>", URL)[1] == "1. a\n   1. b\n2. c"
    bodies = "<table><tbody><tr><td>1<td>2<tbody><tr><td>3<td>4</table>"
    assert to_markdown(bodies, URL)[1] == "|  |  |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"


def test_a_wide_cell_is_one():
    text = to_markdown("<table><tr>" + "<td colspan=1000>words" * 1_000, URL)[1]
    assert text.count("words") == 1_000
    assert len(text) < 20_000
    assert to_markdown("<table><tr><th colspan=2>a<tr><td>1<td>2</table>", URL)[1].startswith("| a | |\n| --- | --- |")


def test_a_large_page_of_the_usual_kind_is_markdown():
    html = "<div>" * 25 + "<h2>a</h2><p>some <b>words</b> <a href=x>here</a>" * 300
    assert to_markdown(html, URL)[1].count("## a\n\nsome **words** [here](https://example.com/docs/x)") == 300


def test_the_title_is_one_line():
    assert to_markdown("<title>a\n b</title><svg><title>c</title></svg>", URL)[0] == "a b"


def test_a_page_that_is_nested_too_deep_is_read_as_words():
    assert to_markdown("<div>" * 1_200 + "<p>words</p>", URL)[1].split() == ["words"]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["<b>", "</b>", "<p", "<a href='", "'>", "<ul><li>", "<table><tr><td>", "x", "&#x0;", "<!--", "]]>", "\0"]
        )
    )
)
def test_no_page_is_too_broken(parts):
    title, text = to_markdown("".join(parts), URL)
    assert isinstance(title + text, str)
