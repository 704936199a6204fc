from __future__ import annotations

import asyncio
import json
from typing import get_args

import pytest
from hypothesis import assume, given, strategies as st

from pegboard import (
    AudioContent,
    CallError,
    Confirmation,
    FileContent,
    ImageContent,
    LinkContent,
    Progress,
    ReadonlyContext,
    TextContent,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
)
from pegboard.errors import FatalToolError
from pegboard.execution import ExecutionRequest, ExecutionResponse, ExecutorCall, PermissionRequired
from pegboard.tools import DisplayUpdate, ErrorKind

TEXTS = st.none() | st.text(max_size=5)
OBJECTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)
REQUESTS = st.builds(
    ExecutionRequest,
    tool=st.text(max_size=5),
    arguments=OBJECTS,
    call_id=st.text(max_size=5),
    session=TEXTS,
    work_dir=TEXTS,
    user=TEXTS,
    queue=TEXTS,
    timeout=st.none() | st.floats(0, 1000),
    memory_limit=st.none() | st.integers(0),
    expose_errors=st.booleans(),
    state=OBJECTS,
    extra=OBJECTS,
    values=OBJECTS,
    approvals=st.lists(st.text(max_size=5), max_size=2),
    depth=st.integers(0, 9),
    key=TEXTS,
    attempt=st.integers(1, 9),
    digest=TEXTS,
    distribution=TEXTS,
)


@given(REQUESTS)
def test_a_request_round_trips_through_json(request):
    assert ExecutionRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


def test_empty_members_are_left_out():
    assert ExecutionRequest(tool="add").to_json() == {"tool": "add", "callId": "", "depth": 0, "attempt": 1}
    assert ExecutionRequest(tool="add", timeout=0.0).to_json()["timeout"] == 0.0


def test_a_request_of_0_2_is_still_read():
    data = {"tool": "add", "callId": "c1", "depth": 0, "arguments": {"a": 1}, "timeout": 5.0, "user": "ann"}
    request = ExecutionRequest.from_json(data)
    assert (request.key, request.attempt, request.digest, request.distribution) == (None, 1, None, None)
    assert request.to_json() == {**data, "attempt": 1}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "tool: missing"),
        ([], "request: must be an object, got list"),
        ({"tool": 1}, "tool: must be a string, got int"),
        ({"tool": "a", "timeout": "1"}, "timeout: must be a number, got str"),
        ({"tool": "a", "arguments": []}, "arguments: must be an object"),
        ({"tool": "a", "depth": True}, "depth: must be a whole number"),
        ({"tool": "a", "approvals": [1]}, r"approvals\[0\]: must be a string"),
    ],
)
def test_an_invalid_request_is_refused(data, problem):
    with pytest.raises(ValueError, match=problem):
        ExecutionRequest.from_json(data)


def test_a_context_round_trips_as_far_as_it_is_json():
    confirmation = Confirmation("sure?", confirmed=True, payload=[1], patterns=("a",), permission="edit").after(
        [Confirmation("before", confirmed=False, feedback="no")]
    )
    context = ToolContext(
        ReadonlyContext(user="ann", session="s", work_dir="/w", state={"a": 1, "b": object()}, messages=["secret"]),
        "c1",
        "add",
        values={"v": [1], "f": print},
        confirmation=confirmation,
        depth=3,
    )
    request = ExecutionRequest.of_call("add", {"x": 1}, context, timeout=5.0)
    again = ExecutionRequest.from_json(request.to_json()).context()
    assert again.request == ReadonlyContext(user="ann", session="s", work_dir="/w", state={"a": 1})
    assert (again.call_id, again.tool, again.values, again.depth) == ("c1", "add", {"v": [1]}, 3)
    assert again.confirmation == confirmation
    assert again.confirmation.earlier == confirmation.earlier
    assert request.timeout == 5.0


@pytest.mark.parametrize(
    "confirmation", [{}, {"hint": 1, "confirmed": True}, {"hint": "", "confirmed": True, "patterns": [1]}]
)
def test_an_invalid_confirmation_is_refused(confirmation):
    with pytest.raises(ValueError, match=r"hint|patterns"):
        ExecutionRequest(tool="a", confirmation=confirmation).context()


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
def test_a_result_round_trips_through_a_response(result):
    assume(result.content or result.kind != "not_executed")  # that one gets a default text
    response = ExecutionResponse.from_json(json.loads(json.dumps(ExecutionResponse.of_result(result).to_json())))
    assert response == ExecutionResponse.of_result(result)
    assert response.to_result() == result


def test_a_plain_text_is_the_output_and_nothing_else():
    assert ExecutionResponse.of_result(ToolResult("hi")).to_json() == {"output": "hi"}


def test_data_that_isnt_json_is_written_as_text():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    data = ExecutionResponse(details=Broken(), metadata={"o": Broken()}, structured_content={1: (2,)}).to_json()
    assert data["structuredContent"] == {"1": [2]}
    assert (data["details"], data["metadata"]) == ("<Broken>", {"o": "<Broken>"})


def test_an_error_without_a_kind_is_a_tool_failure():
    response = ExecutionResponse.from_json({"error": "no such file", "is_error": True})
    assert response.to_result() == ToolResult.error("tool_failure", "no such file")


def test_a_required_permission_becomes_an_error():
    required = PermissionRequired("edit", ("a.txt", "b.txt"), "Edits", {"diff": 1}, "sha256:1")
    response = ExecutionResponse(permission_required=required, actions={"escalate": True})
    again = ExecutionResponse.from_json(json.loads(json.dumps(response.to_json())))
    assert again == response
    assert again.to_result() == ToolResult.error(
        "confirmation_required", "This needs the permission edit (a.txt, b.txt)."
    )


def test_a_response_that_is_not_executed_becomes_an_error():
    assert ExecutionResponse.failed("not_executed", "Not here.").to_result() == ToolResult.error(
        "not_executed", "Not here."
    )
    assert ExecutionResponse.failed("not_executed", "x").not_executed
    assert not ExecutionResponse.failed("crashed", "x").not_executed


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"output": 1}, "output: must be a string"),
        ({"kind": "unheard of"}, "kind: must be one of unknown_tool, .*, got 'unheard of'"),
        ({"content": [{"type": "smell"}]}, r"content\[0\].type: must be one of"),
        ({"attachments": [1]}, r"attachments\[0\]: must be an object"),
        ({"structuredContent": float("inf")}, "structuredContent: must be a finite number"),
        ({"details": float("nan")}, "details: must be a finite number"),
        ({"permissionRequired": {}}, "permissionRequired.permission: missing"),
        (
            {"permissionRequired": {"permission": "a", "patterns": [1]}},
            r"permissionRequired.patterns\[0\]: must be a string",
        ),
    ],
)
def test_an_invalid_response_is_refused(data, problem):
    with pytest.raises(ValueError, match=problem):
        ExecutionResponse.from_json(data)


@pytest.mark.parametrize(
    ("emitted", "event"),
    [
        (Progress(1, 2.5, "half"), {"type": "progress", "progress": 1, "total": 2.5, "message": "half"}),
        (Progress(1), {"type": "progress", "progress": 1}),
        (DisplayUpdate("T", {"a": 1}), {"type": "display", "title": "T", "facts": {"a": 1}}),
        (TextContent("t"), {"type": "text", "text": "t"}),
        ([1], {"type": "partial", "data": [1]}),
        (None, {"type": "partial"}),
    ],
)
def test_events_round_trip(emitted, event):
    sent, received = [], []
    request = ExecutionRequest(tool="near")
    request.context(emit=sent.append).listener(emitted)
    assert sent == [event]
    ExecutorCall(Tool.from_function(plain), request, ToolContext(listener=received.append)).emit(event)
    assert received == [emitted]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "progress", "progress": "half"},
        {"type": "progress"},
        {"type": "progress", "progress": 1, "message": 3},
        {"type": "progress", "progress": True},
        {"type": "display", "facts": 1},
        {"type": "display", "title": 1},
        {"type": "smell"},
        {"facts": {}},
        "progress",
    ],
)
def test_an_invalid_event_is_refused(event):
    with pytest.raises(ValueError, match=r"progress: |message: |facts: |title: |type: |event: must be an object"):
        ExecutorCall(Tool.from_function(plain), ExecutionRequest(tool="near")).emit(event)


def plain(a: int) -> int:
    return a + 1


async def later(a: int) -> int:
    await asyncio.sleep(0)
    return a + 1


def loose(a: int):
    return later(a)


def items(a: int):
    yield a
    return a + 1


async def items_later(a: int):
    yield a


def run_async(call):
    async def awaited():
        return await call()

    return asyncio.run(awaited())


@pytest.mark.parametrize(
    ("function", "output", "emitted"),
    [
        (plain, '{"result": 2}', []),
        (later, '{"result": 2}', []),
        (loose, "2", []),
        (items, "2", [1]),
        (items_later, "[1]", [1]),
    ],
)
def test_functions_of_every_kind_are_run_to_their_end(function, output, emitted):
    seen = []
    context = ToolContext(listener=seen.append)
    context.actions.title = "T"
    context.actions.escalate = True
    response = ExecutionResponse.of_function(Tool.from_function(function), context, (1,), {}, run_async)
    assert (response.output, seen) == (output, emitted)
    assert (response.title, response.actions) == ("T", {"escalate": True})


@pytest.mark.parametrize(
    ("error", "expose", "kind", "text"),
    [
        (ValueError("secret"), False, "tool_failure", "plain failed: ValueError."),
        (ValueError("secret"), True, "tool_failure", "plain failed: ValueError: secret."),
        (ToolError("busy", hint="Wait."), False, "tool_failure", "busy\nWait."),
        (CallError("limit", "too much"), False, "limit", "too much"),
        (FatalToolError("over"), False, "tool_failure", "plain failed: FatalToolError."),
    ],
)
def test_an_error_is_worded_as_a_registry_words_it(error, expose, kind, text):
    context = ToolContext(tool="plain")
    response = ExecutionResponse.of_error(Tool.from_function(plain), context, error, expose=expose)
    assert (response.kind, response.error, response.is_error) == (kind, text, True)
