from __future__ import annotations

import base64

import pytest
from hypothesis import given, strategies as st

from fake_vendors.rules.samples import BMP, LINK, PDF, PNG, WAV
from pegboard.schema.json import json_text
from pegboard.tools.content import FileContent, ImageContent, LinkContent, ToolResult
from pegboard_openai._openai import (
    CHAT,
    RESPONSES,
    JsonEnd,
    Rendered,
    failure,
    file_name,
    joined,
    no_answer,
    render_content,
    render_result,
)


@pytest.mark.parametrize(
    ("error", "code", "status", "again"),
    [
        ({"message": "m", "type": "requests", "code": "rate_limit_exceeded"}, "rate_limit_exceeded", None, True),
        ({"message": "m", "type": "tokens", "code": "insufficient_quota"}, "insufficient_quota", None, False),
        ({"message": "m", "type": "invalid_request_error"}, "invalid_request_error", None, False),
        ({"message": "m", "code": 429}, None, 429, True),
        ({"message": "m", "code": 503}, None, 503, True),
        ({"message": "m", "code": 7}, None, None, False),
        ("m", None, None, False),
    ],
)
def test_an_error_says_its_code_and_whether_to_try_again(error, code, status, again):
    raised = failure(error, "openai")
    assert (str(raised), raised.code, raised.status, raised.retryable) == ("openai: m", code, status, again)


def test_an_error_that_says_nothing_is_one_all_the_same():
    assert str(failure([1], "openai")) == "openai: the provider answered with an error"
    assert no_answer("x", "openai").code == "invalid_response"


@given(
    st.dictionaries(st.text(max_size=4), st.text(alphabet='{}[]"\\a', max_size=6) | st.lists(st.integers())),
    st.integers(1, 4),
)
def test_an_object_is_whole_at_its_end_and_never_before(value, size):
    text = str(json_text(value))
    end = JsonEnd()
    reached = [end.reached(text[start : start + size]) for start in range(0, len(text), size)]

    assert reached == [False] * (len(reached) - 1) + [True]


def test_pictures_sounds_and_files_go_as_such():
    data = base64.b64encode(PNG.data).decode()
    assert render_content(PNG, CHAT) == Rendered("image", f"data:image/png;base64,{data}")
    assert render_content(WAV, CHAT) == Rendered("audio", base64.b64encode(b"RIFF").decode(), "wav")
    assert render_content(PDF, CHAT).kind == "file"
    assert render_content(PDF, CHAT).name == "re port.pdf"
    assert render_content(FileContent("a.png", b"x", "image/png"), CHAT).kind == "image"


def test_what_isnt_taken_is_described():
    assert render_content(BMP, CHAT).value == "[an image (image/bmp, 2 bytes) that can't be shown here]"
    assert render_content(WAV, RESPONSES).value == "[a sound (audio/wav, 4 bytes) that can't be shown here]"
    other = FileContent("a.zip", b"x" * 1_000, "application/zip")
    assert render_content(other, CHAT).value == "[file a.zip (application/zip, 1,000 bytes) that can't be shown here]"
    assert render_content(FileContent("a", b"x"), CHAT).value == "[file a (1 bytes) that can't be shown here]"


def test_text_in_files_goes_as_text():
    assert render_content(FileContent("a.txt", "words"), CHAT) == Rendered("text", "a.txt:\nwords")
    assert render_content(FileContent("", "words"), CHAT) == Rendered("text", "words")
    assert render_content(FileContent("a.json", b"{}", "application/json"), CHAT).value == "a.json:\n{}"
    assert "can't be shown" in render_content(FileContent("a.txt", b"\xff", "text/plain"), CHAT).value


def test_a_link_to_a_picture_is_fetched_only_where_the_user_gave_it():
    assert render_content(LINK, CHAT, links=True) == Rendered("image", LINK.uri)
    assert render_content(LINK, CHAT) == Rendered("text", f"[link to A picture (image/png): {LINK.uri}]")
    local = LinkContent("file:///p.png", "", "image/png")
    assert render_content(local, CHAT, links=True) == Rendered("text", "[link (image/png): file:///p.png]")


@pytest.mark.parametrize(("uri", "name"), [("file:///a/b.pdf", "b.pdf"), ("b.pdf/", "b.pdf"), ("", "file")])
def test_a_file_is_called_by_the_end_of_where_it_stands(uri, name):
    assert file_name(uri) == name


def test_structured_content_goes_where_there_is_no_other():
    assert joined(render_result(ToolResult(structured_content={"a": [1, None]}), CHAT)) == '{"a":[1,null]}'
    assert joined(render_result(ToolResult(), CHAT)) == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [("bad", "Error: bad"), ("Error: bad", "Error: bad"), ((), "Error."), ([PNG], "Error.")],
)
def test_an_error_says_so_in_its_text(content, said):
    assert render_result(ToolResult(content, is_error=True, kind="tool_failure"), CHAT)[0].value == said


def test_pictures_of_other_types_can_be_allowed():
    from attrs import evolve

    allowed = evolve(CHAT, images=["image/bmp"])
    assert render_content(BMP, allowed).kind == "image"
    assert render_content(ImageContent(b"x", "image/png"), allowed).kind == "text"
