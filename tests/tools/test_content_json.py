from __future__ import annotations

import json
import typing

import pytest
from hypothesis import given, strategies as st

from pegboard.tools.content import (
    AudioContent,
    ErrorKind,
    FileContent,
    ImageContent,
    LinkContent,
    TextContent,
    ToolResult,
    content_from_json,
)

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
    is_error=st.just(value=True),
    kind=st.sampled_from(typing.get_args(ErrorKind)),
    display=optional,
    title=optional,
    metadata=facts,
    detail=optional,
    attachments=st.lists(contents, max_size=2),
    details=facts,
)


@given(contents)
def test_content_is_read_from_what_it_writes(content):
    assert content_from_json(json.loads(json.dumps(content.to_json()))) == content


@given(results)
def test_results_travel_as_json(result):
    assert ToolResult.from_data(json.loads(json.dumps(result.to_data()))) == result


def test_what_else_an_mcp_server_says_is_left_out():
    content = {"type": "text", "text": "a", "annotations": {"audience": ["user"]}, "_meta": {}}
    result = ToolResult.from_json({"content": [content], "isError": True, "_meta": {}})
    assert result == ToolResult("a", is_error=True, kind="tool_failure")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], r"\(root\): must be an object, got list"),
        ({"isError": "no"}, "isError: must be a boolean, got str"),
        ({"content": {}}, "content: must be an array, got dict"),
        ({"content": ["a"]}, r"content\[0\]: must be an object, got str"),
        ({"content": [{}]}, r"content\[0\].type: must be one of text, .*, got None"),
        ({"content": [{"type": ["text"]}]}, r"content\[0\].type: must be one of"),
        ({"content": [{"type": "video"}]}, r"content\[0\].type: .*, got 'video'"),
        ({"content": [{"type": "text", "text": 5}]}, r"content\[0\].text: must be a string, got int"),
        ({"content": [{"type": "image", "data": "!", "mimeType": "a/b"}]}, r"content\[0\].data: not base64"),
        ({"content": [{"type": "audio", "data": "AA=="}]}, r"content\[0\].mimeType: must be a string, got NoneType"),
        ({"content": [{"type": "image", "data": 1}]}, r"content\[0\].data: must be a string, got int"),
        ({"content": [{"type": "resource", "resource": 1}]}, r"content\[0\].resource: must be an object"),
        ({"content": [{"type": "resource", "resource": {"uri": "a"}}]}, r"content\[0\].resource.blob: must be a str"),
        ({"content": [{"type": "resource_link", "uri": "a"}]}, r"content\[0\].name: must be a string"),
        (
            {"content": [{"type": "resource_link", "uri": "a", "name": "b", "mimeType": 5}]},
            r"content\[0\].mimeType: must be a string",
        ),
    ],
)
def test_what_is_no_result_is_refused_with_its_path(given, message):
    with pytest.raises(ValueError, match=message):
        ToolResult.from_json(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "odd"}, "kind: 'odd' is no kind of error"),
        ({"kind": ["limit"]}, "is no kind of error"),
        ({"metadata": []}, "metadata: must be an object, got list"),
        ({"title": 5}, "title: must be a string, got int"),
        ({"attachments": [5]}, r"attachments\[0\]: must be an object"),
    ],
)
def test_what_is_no_whole_result_is_refused_with_its_path(given, message):
    with pytest.raises(ValueError, match=message):
        ToolResult.from_data(given)


class Broken:
    def __repr__(self):
        raise ValueError


def test_what_json_cant_say_is_written_as_text():
    result = ToolResult("a", structured_content=float("nan"), metadata={"fine": 1, 5: {3, 1}}, details=Broken())
    data = result.to_data()
    assert (data["structuredContent"], data["metadata"], data["details"]) == (
        "nan",
        {"fine": 1, "5": [1, 3]},
        "<Broken>",
    )
    assert json.dumps(data, allow_nan=False)
