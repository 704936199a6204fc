from __future__ import annotations

import pytest

from pegboard.tools.content import (
    AudioContent,
    FileContent,
    ImageContent,
    LinkContent,
    TextContent,
    ToolResult,
)


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
def test_content_is_written_in_mcps_words(content, data):
    assert content.to_json() == data


@pytest.mark.parametrize("given", ["a", TextContent("a"), ["a"], (TextContent("a"),)])
def test_a_result_takes_text_content_or_several(given):
    assert ToolResult(given).content == (TextContent("a"),)


@pytest.mark.parametrize("given", [b"a", 5, [5], None, {"a": 1}, ["a", b"b"]])
def test_a_result_takes_nothing_else(given):
    with pytest.raises(TypeError, match="content must be text or one of"):
        ToolResult(given)


def test_the_text_of_a_result_is_all_its_text():
    assert ToolResult(["a", ImageContent(b""), "b"]).text == "a\nb"
    assert ToolResult().text == ""


def test_a_result_is_written_in_mcps_words():
    assert ToolResult("a", structured_content={"result": 1}).to_json() == {
        "content": [{"type": "text", "text": "a"}],
        "structuredContent": {"result": 1},
        "isError": False,
    }


def test_an_error_keeps_its_detail_from_the_model():
    result = ToolResult.error("tool_failure", "it failed", detail="stack")
    assert (result.is_error, result.kind, result.text, result.detail) == (True, "tool_failure", "it failed", "stack")
    assert "stack" not in str(result.to_json())


def test_text_that_no_wire_takes_is_made_sayable():
    """An undecodable file name brings lone surrogates."""
    assert TextContent("zwölf \udcff!").text == "zwölf \ufffd!"
    assert TextContent("zwölf 🎺").text == "zwölf 🎺"
