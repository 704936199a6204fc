from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import assume, given, strategies as st

from pegboard.dispatch.executors.response import ExecutionResponse, PermissionRequired, response_of, result_of
from pegboard.tools.content import (
    AudioContent,
    ErrorKind,
    FileContent,
    ImageContent,
    LinkContent,
    TextContent,
    ToolResult,
)

TEXT = st.text(max_size=8)
CONTENT = (
    st.builds(TextContent, TEXT)
    | st.builds(ImageContent, st.binary(max_size=4))
    | st.builds(AudioContent, st.binary(max_size=4))
    | st.builds(FileContent, TEXT, st.binary(max_size=4) | TEXT)
    | st.builds(LinkContent, TEXT, TEXT)
)
DATA = st.none() | st.dictionaries(TEXT, st.integers() | st.lists(TEXT, max_size=2), max_size=2)
FACTS = {
    "content": st.lists(CONTENT, max_size=3),
    "structured_content": DATA,
    "display": st.none() | TEXT,
    "title": st.none() | TEXT,
    "metadata": st.dictionaries(TEXT, st.integers(), max_size=2),
    "detail": st.none() | TEXT,
    "attachments": st.lists(CONTENT, max_size=2),
    "details": DATA,
}
RESULTS = st.builds(ToolResult, **FACTS) | st.builds(
    ToolResult, **FACTS, is_error=st.sampled_from([True]), kind=st.sampled_from(get_args(ErrorKind))
)


@given(RESULTS)
def test_a_result_goes_there_and_comes_back(result):
    assume(result.content or result.kind != "not_executed")  # that one gets words where it has none
    response = ExecutionResponse.from_json(json.loads(json.dumps(response_of(result).to_json())))
    assert response == response_of(result)
    assert result_of(response) == result


def test_a_plain_text_is_the_output_and_nothing_else():
    assert response_of(ToolResult("hi")).to_json() == {"output": "hi"}


def test_what_json_cant_say_is_written_as_text():
    class Broken:
        def keys(self):
            raise RuntimeError

    data = ExecutionResponse(details=Broken(), metadata={"o": Broken()}, structured_content={1: (2,)}).to_json()
    assert data["structured_content"] == {"1": [2]}
    assert (data["details"], data["metadata"]) == ("<Broken>", {"o": "<Broken>"})


def test_what_a_call_asks_of_its_host_travels_with_it():
    response = ExecutionResponse(actions={"escalate": True})
    assert ExecutionResponse.from_json(response.to_json()) == response


def test_an_error_of_another_language_needs_no_kind():
    response = ExecutionResponse.from_json({"error": "no such file", "is_error": True})
    assert result_of(response) == ToolResult.error("tool_failure", "no such file")


def test_what_needs_a_permission_is_an_error_that_says_so():
    required = PermissionRequired("edit", ("a.txt", "b.txt"), "Edits", {"diff": 1}, "sha256:1")
    response = ExecutionResponse(permission_required=required)
    again = ExecutionResponse.from_json(json.loads(json.dumps(response.to_json())))
    assert again.permission_required == required
    assert result_of(again) == ToolResult.error(
        "confirmation_required", "This needs the permission edit (a.txt, b.txt)."
    )


def test_what_is_not_executed_says_so_with_or_without_words():
    assert result_of(ExecutionResponse(not_executed=True)).text == "There is nothing to run it with."
    assert result_of(ExecutionResponse.failed("not_executed", "Not here.")) == ToolResult.error(
        "not_executed", "Not here."
    )
    assert ExecutionResponse.failed("not_executed", "x").not_executed
    assert not ExecutionResponse.failed("crashed", "x").not_executed


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"output": 1}, "output: expected a text"),
        ({"kind": "unheard of"}, "kind: 'unheard of' is no kind of error"),
        ({"content": [{"type": "smell"}]}, r"content\[0\].type: must be one of"),
        ({"attachments": [1]}, r"attachments\[0\]: must be an object"),
        ({"structured_content": float("inf")}, "structured_content: must be a finite number"),
        ({"details": float("nan")}, "details: must be a finite number"),
        ({"permission_required": {}}, "permission: missing"),
        ({"permission_required": {"permission": "a", "patterns": [1]}}, "patterns: expected a list of texts"),
    ],
)
def test_what_is_no_response_is_refused_by_name(data, problem):
    with pytest.raises(ValueError, match=problem):
        ExecutionResponse.from_json(data)
