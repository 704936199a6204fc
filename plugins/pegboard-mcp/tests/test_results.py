"""Results of servers, as data."""

from __future__ import annotations

import base64
import textwrap

import pytest
from hypothesis import given, strategies as st

from pegboard import AudioContent, FileContent, ImageContent
from pegboard_mcp.toolset import result_of

FORMS = st.builds(
    lambda width, ends, prefix: lambda data: prefix + ends.join(textwrap.wrap(base64.b64encode(data).decode(), width)),
    st.integers(4, 80),
    st.sampled_from(["\n", "\r\n", " ", ""]),
    st.sampled_from(["", "data:image/png;base64,", "data:;base64,"]),
)


@given(st.binary(min_size=1), FORMS)
def test_base64_in_lines_or_in_a_data_url_is_read(data, form):
    text = form(data)
    content = [
        {"type": "image", "data": text, "mimeType": "image/png"},
        {"type": "audio", "data": text, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a:b", "blob": text, "mimeType": "image/png"}},
    ]
    assert result_of("shot", {"content": content}).content == (
        ImageContent(data, "image/png"),
        AudioContent(data, "audio/wav"),
        FileContent("a:b", data, "image/png"),
    )


@pytest.mark.parametrize("text", ["?", "data:image/png;base64", "QUJ", "data:a,data:b,QUJD"])
def test_what_isnt_base64_is_refused(text):
    result = result_of("shot", {"content": [{"type": "image", "data": text, "mimeType": "image/png"}]})
    assert (result.kind, "can't be read" in result.text) == ("invalid_output", True)


def test_a_part_that_cant_be_read_is_named_beside_the_others():
    image = {"type": "image", "data": "?", "mimeType": "image/png"}
    result = result_of("shot", {"content": [{"type": "text", "text": "done"}, image, 7], "isError": True})
    assert [part.text for part in result.content] == [
        "done",
        "[part 2 of the answer can't be read]",
        "[part 3 of the answer can't be read]",
    ]
    assert result.is_error
    assert result_of("shot", {"content": [image, image]}).kind == "invalid_output"
    assert result_of("shot", {"content": [{"type": "text", "text": "x"}], "isError": 3}).kind == "invalid_output"
