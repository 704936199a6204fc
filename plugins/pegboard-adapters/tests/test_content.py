"""Content as the blocks of other frameworks, and back."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pegboard import AudioContent, FileContent, ImageContent, LinkContent, TextContent
from pegboard_adapters.content import blocks_of, content_of

PNG = b"\x89PNG\r\n"
TEXT = base64.b64encode(PNG).decode()

media = st.one_of(
    st.builds(TextContent, st.text()),
    st.builds(ImageContent, st.binary(min_size=1), st.just("image/png")),
    st.builds(AudioContent, st.binary(min_size=1), st.just("audio/wav")),
)


@given(st.lists(media))
def test_blocks_hold_text_and_media_whole(content: list[Any]) -> None:
    assert content_of(blocks_of(content)) == content


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": TEXT, "mime_type": "image/png"},
        {"type": "image", "data": PNG, "mime_type": "image/png"},
        {"type": "image", "data": TEXT},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{TEXT}"},
        {"type": "image", "url": f"data:image/png;base64,{TEXT}"},
    ],
)
def test_the_usual_forms_of_an_image_are_one(block: dict[str, Any]) -> None:
    assert content_of([block]) == [ImageContent(PNG)]


def test_files_links_and_texts_of_files() -> None:
    block = {"type": "file", "file_data": f"data:application/pdf;base64,{TEXT}", "filename": "a.pdf"}
    assert content_of(block) == [FileContent("a.pdf", PNG, "application/pdf")]
    assert content_of({"type": "image", "url": "https://a.example/b.png"}) == [
        LinkContent("https://a.example/b.png", "image")
    ]
    written = blocks_of(
        [FileContent("a.txt", "words"), LinkContent("https://a.example", "page"), FileContent("b", PNG)]
    )
    assert written[:2] == [{"type": "text", "text": "words"}, {"type": "text", "text": "page: https://a.example"}]
    assert written[2] == {"type": "file", "base64": TEXT, "mime_type": "application/octet-stream"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("hi", "hi"),
        ({"a": 1}, '{"a":1}'),
        ({"type": "image", "base64": "no base64!"}, '{"type":"image","base64":"no base64!"}'),
        ([5], "5"),
        ([object], None),
    ],
)
def test_what_is_no_block_is_json_or_text(value: object, text: str | None) -> None:
    (item,) = content_of(value)
    assert isinstance(item, TextContent)
    assert text is None or item.text == text


def test_nothing_is_no_content() -> None:
    assert content_of(None) == []
