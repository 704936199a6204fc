from __future__ import annotations

import json
import typing

import pytest
from hypothesis import given, strategies as st

from pegboard import AudioContent, FileContent, ImageContent, LinkContent, TextContent, ToolRegistry, ToolResult, tool
from pegboard.tools import ErrorKind, json_or_text, media_type, text_of_file


@pytest.mark.parametrize(
    ("content", "data"),
    [
        (TextContent("a"), {"type": "text", "text": "a"}),
        (ImageContent(b"\x00"), {"type": "image", "data": "AA==", "mimeType": "image/png"}),
        (AudioContent(b"\x00"), {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
        (FileContent("file:a", "text"), {"type": "resource", "resource": {"uri": "file:a", "text": "text"}}),
        (
            FileContent("file:a", b"\x00", "application/pdf"),
            {"type": "resource", "resource": {"uri": "file:a", "blob": "AA==", "mimeType": "application/pdf"}},
        ),
        (LinkContent("file:a", "a"), {"type": "resource_link", "uri": "file:a", "name": "a"}),
        (
            LinkContent("file:a", "a", "text/html"),
            {"type": "resource_link", "uri": "file:a", "name": "a", "mimeType": "text/html"},
        ),
    ],
)
def test_content_is_written_as_in_mcp(content, data):
    assert content.to_json() == data


@pytest.mark.parametrize("given", [b"a", 5, [5], None, {"a": 1}, ["a", b"b"]])
def test_a_result_refuses_other_content(given):
    for options in ({"content": given}, {"attachments": given}):
        with pytest.raises(TypeError, match="content must be text or one of"):
            ToolResult(**options)


def test_the_text_of_a_result_is_all_its_text():
    assert ToolResult(["a", ImageContent(b""), "b"]).text == "a\nb"
    assert ToolResult().text == ""


def test_an_error_keeps_its_detail_from_the_model():
    result = ToolResult.error("tool_failure", "it failed", detail="stack")
    assert (result.is_error, result.kind, result.text, result.detail) == (True, "tool_failure", "it failed", "stack")
    assert "stack" not in str(result.to_json())


def test_lone_surrogates_in_text_are_replaced():
    """An undecodable file name brings lone surrogates."""
    assert TextContent("zwölf \udcff!").text == "zwölf \ufffd!"
    assert TextContent("zwölf 🎺").text == "zwölf 🎺"


def test_attachments_and_details_are_not_for_the_model():
    picture = ImageContent(b"picture")
    result = ToolResult("a", attachments=[picture], details={"secret": object()})
    assert result.attachments == (picture,)
    assert result.to_json() == ToolResult("a").to_json()


def test_only_what_has_no_json_form_becomes_text():
    value = {"a": 1, "b": [object, {"c": 2.5, 3: object}]}
    assert json_or_text(value) == {"a": 1, "b": [repr(object), {"c": 2.5, "3": repr(object)}]}
    assert ToolResult("a", details=value).to_data()["details"] == json_or_text(value)


def test_what_contains_itself_becomes_text_of_bounded_size():
    value = {"a": 1}
    value["self"] = value
    assert json_or_text(value)["a"] == 1
    assert len(json.dumps(json_or_text(value))) < 2_000
    assert isinstance(json_or_text([object] * 2_000), str)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
data = st.binary(max_size=5)
optional = st.none() | texts

contents = st.one_of(
    st.builds(TextContent, texts),
    st.builds(ImageContent, data, texts),
    st.builds(AudioContent, data, texts),
    st.builds(FileContent, texts, data | texts, optional),
    st.builds(LinkContent, texts, texts, optional),
)

facts = st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(st.booleans(), max_size=2), max_size=2)

results = st.builds(
    ToolResult,
    content=st.lists(contents, max_size=3),
    structured_content=st.none() | facts,
    is_error=st.booleans(),
    kind=st.none() | st.sampled_from(typing.get_args(ErrorKind)),
    display=optional,
    title=optional,
    metadata=facts,
    detail=optional,
    attachments=st.lists(contents, max_size=2),
    details=facts,
)


@given(results)
def test_results_travel_as_json(result):
    assert ToolResult.from_data(json.loads(json.dumps(result.to_data()))) == result


def test_unknown_keys_of_an_mcp_server_are_ignored():
    content = {"type": "text", "text": "a", "annotations": {"audience": ["user"]}, "_meta": {}}
    result = ToolResult.from_json({"content": [content], "structuredContent": {"b": 1}, "isError": True, "_meta": {}})
    assert result == ToolResult("a", structured_content={"b": 1}, is_error=True, kind="tool_failure")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "result: must be an object, got list"),
        ({"isError": "no"}, "isError: must be a boolean, got str"),
        ({"content": {}}, "content: must be an array, got dict"),
        ({"content": ["a"]}, r"content\[0\]: must be an object, got str"),
        ({"content": [{}]}, r"content\[0\].type: missing"),
        ({"content": [{"type": ["text"]}]}, r"content\[0\].type: must be a string, got list"),
        ({"content": [{"type": "video"}]}, r"content\[0\].type: .*, got 'video'"),
        ({"content": [{"type": "text", "text": 5}]}, r"content\[0\].text: must be a string, got int"),
        ({"content": [{"type": "image", "data": "!", "mimeType": "a/b"}]}, r"content\[0\].data: not base64"),
        ({"content": [{"type": "audio", "data": "AA=="}]}, r"content\[0\].mimeType: missing"),
        ({"content": [{"type": "image", "data": 1, "mimeType": "a/b"}]}, r"content\[0\].data: must be a string"),
        ({"content": [{"type": "resource", "resource": 1}]}, r"content\[0\].resource: must be an object"),
        ({"content": [{"type": "resource", "resource": {"uri": "a"}}]}, r"content\[0\].resource.blob: missing"),
        ({"content": [{"type": "resource_link", "uri": "a"}]}, r"content\[0\].name: missing"),
        (
            {"content": [{"type": "resource_link", "uri": "a", "name": "b", "mimeType": 5}]},
            r"content\[0\].mimeType: must be a string",
        ),
        ({"kind": "odd"}, "kind: must be one of .*, got 'odd'"),
        ({"kind": ["limit"]}, "kind: must be a string, got list"),
        ({"metadata": []}, "metadata: must be an object, got list"),
        ({"title": 5}, "title: must be a string, got int"),
        ({"attachments": [5]}, r"attachments\[0\]: must be an object"),
    ],
)
def test_wrong_results_are_refused_with_a_path(given, message):
    with pytest.raises(ValueError, match=message):
        ToolResult.from_data(given)


class Broken:
    def __repr__(self):
        raise ValueError


def test_values_without_a_json_form_are_written_as_text():
    result = ToolResult("a", structured_content=float("nan"), metadata={"fine": 1, 5: {3, 1}}, details=Broken())
    data = result.to_data()
    assert (data["structuredContent"], data["metadata"], data["details"]) == (
        "nan",
        {"fine": 1, "5": [1, 3]},
        "<Broken>",
    )
    assert json.dumps(data, allow_nan=False)


@pytest.mark.parametrize("given", ["a", TextContent("a"), ["a"], (TextContent("a"),)])
def test_a_result_takes_text_content_or_several(given):
    assert ToolResult(given).content == (TextContent("a"),)


@pytest.mark.parametrize(
    "facts",
    [
        {"display": b"x"},
        {"title": 5},
        {"kind": 7},
        {"kind": "unheard of"},
        {"detail": b"x"},
        {"is_error": "no"},
        {"metadata": None},
    ],
    ids=str,
)
def test_a_result_that_cannot_be_stored_is_refused_at_once(facts):
    """In the tool that makes it, so that it costs that call and not the conversation."""
    with pytest.raises((TypeError, ValueError)):
        ToolResult("text", **facts)

    @tool
    def careless() -> ToolResult:
        """Makes an invalid result."""
        return ToolResult("text", **facts)

    registry = ToolRegistry()
    registry.register(careless)
    result = registry.call_sync("careless")
    assert result.kind == "tool_failure"
    assert ToolResult.from_data(json.loads(json.dumps(result.to_data()))).text == result.text


@pytest.mark.parametrize(
    "make",
    [
        lambda: TextContent(5),
        lambda: ImageContent("text"),
        lambda: AudioContent(b"", 5),
        lambda: FileContent(None, "text"),
        lambda: FileContent("file:a", 5),
        lambda: LinkContent("file:a", None),
    ],
    ids=range(6),
)
def test_content_of_wrong_types_is_refused_at_once(make):
    with pytest.raises(TypeError):
        make()


def test_lone_surrogates_elsewhere_in_a_result_are_replaced():
    data = ToolResult([LinkContent("file:\ud800", "a")], title="\ud800", display="\udfff", detail="\ud800").to_data()
    assert json.dumps(data, ensure_ascii=False).encode()
    assert data["title"] == "\ufffd"


def test_a_result_is_shown_in_notebooks_with_its_pictures_and_sounds():
    content = ["a < b", ImageContent(b"x"), AudioContent(b"y"), LinkContent("http://e/?a&b", "e")]
    assert ToolResult(content)._repr_html_() == (
        '<pre>a &lt; b</pre><img src="data:image/png;base64,eA==">'
        '<audio controls src="data:audio/wav;base64,eQ=="></audio><p>e: http://e/?a&amp;b</p>'
    )
    files = [FileContent(f"f:{n}", data, kind) for n, (data, kind) in enumerate([("<", None), (b"x", "image/png")])]
    assert ToolResult([*files, FileContent("f:2", b"y", "audio/wav"), FileContent("f:3", b"PK")])._repr_html_() == (
        '<p>f:0</p><pre>&lt;</pre><p>f:1</p><img src="data:image/png;base64,eA==">'
        '<p>f:2</p><audio controls src="data:audio/wav;base64,eQ=="></audio><p>f:3</p>'
    )
    assert ToolResult.error("denied", "no")._repr_html_() == "<b>denied</b><pre>no</pre>"
    assert '"><' not in ToolResult(ImageContent(b"", 'a"><script>'))._repr_html_()


def test_a_result_is_changed_into_another():
    result = ToolResult("a", title="t")
    assert (result.evolve(title="u").title, result.evolve(title="u").text, result.title) == ("u", "a", "t")
    with pytest.raises(TypeError):
        result.evolve(content=5)


def test_an_error_without_a_kind_is_the_tools_failure():
    assert [ToolResult("x", is_error=failed).kind for failed in (True, False)] == ["tool_failure", None]
    assert ToolResult("x").evolve(is_error=True).kind == "tool_failure"


@pytest.mark.parametrize(
    ("data", "declared", "kind"),
    [
        (b"\xff\xd8\xff\xe0", "image/png", "image/jpeg"),
        (b"\xff\xd8\xff\xe0", "image/jpg", "image/jpeg"),
        *((b"\x89PNG", each, "image/png") for each in ("IMAGE/PNG; charset=binary", None, "text/plain")),
        (b"no picture", "image/png", "application/octet-stream"),
        (b"no signature", "image/bmp", "image/bmp"),
        (b"<?xml version='1'?>\n<!-- a -->\n<svg>", "image/png", "image/svg+xml"),
        (b"<!doctype HTML>", "image/jpeg", "text/html"),
        (b"<html>", "text/plain", "text/plain"),
        (b"PK\x03\x04", "application/vnd.ms-excel", "application/vnd.ms-excel"),
        (b"PK\x03\x04", "application/pdf", "application/zip"),
        (b"\0\0\0 ftypM4A ", "audio/x-m4a", "audio/mp4"),
        (b"\0\0\0 ftypisom", "audio/wav", "video/mp4"),
        (b"RIFF", "audio/x-wav", "audio/wav"),
        (b"RIFF....WAVE", "image/webp", "audio/wav"),
        (b"words", "audio/wav", "application/octet-stream"),
        (b"", "", "application/octet-stream"),
    ],
)
def test_a_media_type_is_by_the_bytes_where_they_show_it(data, declared, kind):
    assert media_type(data, declared) == kind


@pytest.mark.parametrize("start", [b"<!---->", b"<!---->\n", b"<?", b" ", b"<!DOCTYPE svg>"])
def test_a_media_type_is_found_at_once(start):
    assert media_type(start * 1_000, "image/bmp") == "image/bmp"


@pytest.mark.parametrize(
    ("data", "declared", "text"),
    [
        ("words", None, "words"),
        (b"gr\xc3\xb6\xc3\x9fer", "text/plain", "größer"),
        (b"gr\xf6\xdfer", "text/plain; charset=ISO-8859-1", "größer"),
        (b"gr\xf6\xdfer", "text/plain", "gr\ufffd\ufffder"),
        (b"words", "text/plain; charset=unknown", "words"),
        ("größer".encode(), "text/plain; charset=ascii", "größer"),
        ("文字".encode("gbk")[:-1], "text/plain; charset=gbk", "文\ufffd"),
        ("größer".encode("utf-16"), "text/csv", "größer"),
        (b"\xef\xbb\xbf{}", "application/json", "{}"),
        (b"<a/>", "application/atom+xml", "<a/>"),
        (b"<svg/>", "image/png", "<svg/>"),
        (b"\x1b[1mwords\n", None, "\x1b[1mwords\n"),
        (b"words", "application/octet-stream", "words"),
        (b"words", "image/png", "words"),
        (b"\xff", None, None),
        (b"a\0b", "text/plain", None),
        (b"words", "application/zip", None),
        (b"%PDF-1.7", "text/plain", None),
        (b"%PDF settings", "text/x-tex", "%PDF settings"),
        (b"GIF89a is a format", "text/markdown", "GIF89a is a format"),
        (b"GIF89a\x01\0\x01\0", "text/markdown", None),
        (b"ID3 tags", "text/plain", "ID3 tags"),
        (b"a\x08b", "text/plain", "a\x08b"),
        (b"a\x08b", None, None),
        ("\ud83d", None, "\ufffd"),
        (b"+2D0-", "text/plain; charset=utf-7", "\ufffd"),
        (b"xn--bcher-kva", "text/plain; charset=-idna", "xn--bcher-kva"),
        (b"bcher-kva", "text/plain; charset=Punycode", "bcher-kva"),
    ],
)
def test_the_text_of_a_file_is_read_from_its_bytes(data, declared, text):
    assert text_of_file(FileContent("file:a", data, declared)) == text
