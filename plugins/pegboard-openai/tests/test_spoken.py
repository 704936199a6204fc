from __future__ import annotations

import base64

import pytest

from fake_vendors.rules.samples import BMP, LINK, PDF, PNG, WAV
from pegboard.tools.content import FileContent, ImageContent, LinkContent, TextContent, ToolResult
from pegboard_openai._openai import CHAT, RESPONSES, Rendered, file_name, joined, render_content, render_result


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


def test_a_result_says_its_content_and_nothing_else():
    result = ToolResult(
        [TextContent("a"), WAV],
        display="shown",
        detail="secret",
        metadata={"m": 1},
        details={"d": 1},
        attachments=(PNG,),
        structured_content={"s": 1},
    )
    said = render_result(result, CHAT)
    assert [each.kind for each in said] == ["text", "text"]
    assert not any(word in joined(said) for word in ("shown:", "secret", '"s"', '"d"', '"m"'))


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
