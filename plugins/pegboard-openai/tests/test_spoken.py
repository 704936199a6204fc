from __future__ import annotations

import base64

import pytest

from pegboard.tools.content import FileContent, ImageContent, LinkContent, TextContent, ToolResult
from pegboard_openai._openai import CHAT, RESPONSES, Spoken, file_name, joined, spoken, spoken_result
from vendors.samples import BMP, LINK, PDF, PNG, WAV


def test_pictures_sounds_and_files_go_as_such():
    data = base64.b64encode(PNG.data).decode()
    assert spoken(PNG, CHAT) == Spoken("image", f"data:image/png;base64,{data}")
    assert spoken(WAV, CHAT) == Spoken("audio", base64.b64encode(b"RIFF").decode(), "wav")
    assert spoken(PDF, CHAT).kind == "file"
    assert spoken(PDF, CHAT).name == "re port.pdf"
    assert spoken(FileContent("a.png", b"x", "image/png"), CHAT).kind == "image"


def test_what_isnt_taken_is_described():
    assert spoken(BMP, CHAT).value == "[an image (image/bmp, 2 bytes) that can't be shown here]"
    assert spoken(WAV, RESPONSES).value == "[a sound (audio/wav, 4 bytes) that can't be shown here]"
    other = FileContent("a.zip", b"x" * 1_000, "application/zip")
    assert spoken(other, CHAT).value == "[file a.zip (application/zip, 1,000 bytes) that can't be shown here]"
    assert spoken(FileContent("a", b"x"), CHAT).value == "[file a (1 bytes) that can't be shown here]"


def test_text_in_files_goes_as_text():
    assert spoken(FileContent("a.txt", "words"), CHAT) == Spoken("text", "a.txt:\nwords")
    assert spoken(FileContent("", "words"), CHAT) == Spoken("text", "words")
    assert spoken(FileContent("a.json", b"{}", "application/json"), CHAT).value == "a.json:\n{}"
    assert "can't be shown" in spoken(FileContent("a.txt", b"\xff", "text/plain"), CHAT).value


def test_a_link_to_a_picture_is_fetched_only_where_the_user_gave_it():
    assert spoken(LINK, CHAT, links=True) == Spoken("image", LINK.uri)
    assert spoken(LINK, CHAT) == Spoken("text", f"[link to A picture (image/png): {LINK.uri}]")
    local = LinkContent("file:///p.png", "", "image/png")
    assert spoken(local, CHAT, links=True) == Spoken("text", "[link (image/png): file:///p.png]")


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
    said = spoken_result(result, CHAT)
    assert [each.kind for each in said] == ["text", "text"]
    assert not any(word in joined(said) for word in ("shown:", "secret", '"s"', '"d"', '"m"'))


def test_structured_content_goes_where_there_is_no_other():
    assert joined(spoken_result(ToolResult(structured_content={"a": [1, None]}), CHAT)) == '{"a":[1,null]}'
    assert joined(spoken_result(ToolResult(), CHAT)) == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [("bad", "Error: bad"), ("Error: bad", "Error: bad"), ((), "Error."), ([PNG], "Error.")],
)
def test_an_error_says_so_in_its_text(content, said):
    assert spoken_result(ToolResult(content, is_error=True, kind="tool_failure"), CHAT)[0].value == said


def test_pictures_of_other_types_can_be_allowed():
    from attrs import evolve

    allowed = evolve(CHAT, images=["image/bmp"])
    assert spoken(BMP, allowed).kind == "image"
    assert spoken(ImageContent(b"x", "image/png"), allowed).kind == "text"
