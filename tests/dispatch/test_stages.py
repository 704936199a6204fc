from __future__ import annotations

import ast
import asyncio
import inspect

import pytest
from attrs import frozen

from pegboard import (
    CallError,
    FileContent,
    TextContent,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    tool,
)
from pegboard.dispatch import stages

IN_ORDER = [
    "find",
    "parse_arguments",
    "parse",
    "parse_again",
    "validate",
    "repair",
    "before",
    "asking_of",
    "start",
    "run_locked",
    "quick_result",
    "shape",
]


def names_in(function):
    """The functions that a function calls by name, in the order of its text."""
    calls = (node for node in ast.walk(ast.parse(inspect.getsource(function))) if isinstance(node, ast.Call))
    named = sorted((each.lineno, each.func.id) for each in calls if isinstance(each.func, ast.Name))
    return list(dict.fromkeys(name for _, name in named if name in {*IN_ORDER, "on_error", "after"}))


def test_the_stages_stand_by_name_in_order():
    assert names_in(stages.run_call) == IN_ORDER
    assert names_in(stages._end) == ["on_error", "after"]


@pytest.mark.parametrize("kind", ["unknown_tool", "not_offered", "denied", "limit"])
def test_a_call_error_is_a_result_of_its_kind(make, send, kind):
    state = send(CallError(kind, "why not", detail="for the operator"))
    assert (state.result.kind, state.result.text, state.result.detail) == (kind, "why not", "for the operator")
    assert (state.result.is_error, state.tool) == (True, None)


def fail_at_once(*_given, **_named):
    raise ValueError("broken")


async def exit_later(*_given, **_named):
    await asyncio.sleep(0)
    raise SystemExit


@pytest.mark.parametrize(
    ("stage", "function"),
    [
        ("find", exit_later),
        ("parse", fail_at_once),
        ("validate", exit_later),
        ("start", fail_at_once),
        ("shape", exit_later),
        ("on_error", exit_later),
        ("after", exit_later),
    ],
)
def test_any_exception_of_a_stage_gives_a_result_for_the_last_stages(make, prepare, monkeypatch, stage, function):
    seen = []
    state = prepare(
        make(print, schema={"type": "array"} if stage == "validate" else {"type": "object"}),
        after=[lambda context, tool, arguments, result: seen.append(result.kind)],
        on_error=[lambda *_: None],
    )
    monkeypatch.setattr(stages, stage, function)
    asyncio.run(stages.run_call(state))
    assert (state.result is not None, state.error, len(seen)) == (True, None, stage != "after")
    assert stage == "on_error" or state.result.kind == "tool_failure"


def test_a_hook_without_implementations_costs_nothing(make, send, monkeypatch):
    """Its stage isn't entered at all."""
    for stage in ("before", "on_error", "after", "_end"):
        monkeypatch.setattr(stages, stage, lambda *_: pytest.fail("it was entered"))
    assert not send(make(lambda: "done")).result.is_error
    assert send(make(fail)).result.kind == "tool_failure"


# One way, however a call comes ------------------------------------------------------------------------------------


@frozen
class Found:
    """What was found."""

    text: str
    rows: list[float]


def give_up():
    raise SystemExit(3)


def fail():
    raise ToolError("no luck", retryable=True)


def refuse():
    raise CallError("limit", "too much", detail="for the operator")


OUTCOMES = {
    "text": lambda: "done",
    "odd text": lambda: "\ud800 ä",
    "content": lambda: TextContent("done"),
    "file": lambda: FileContent("a:", b"1", "application/octet-stream"),
    "nothing": lambda: None,
    "data": lambda: {"a": [1, 2.5, None], "b": {"mime_type": "text/plain"}},
    "class": lambda: Found("a", [1.0, 2.0]),
    "result": lambda: ToolResult("done", title="Title", metadata={"a": 1}),
    "error result": lambda: ToolResult.error("tool_failure", "no"),
    "set": lambda: {1},
    "not a number": lambda: float("nan"),
    "object": lambda: {"a": object()},
    "large": lambda: ["a" * 100] * 6_000,
    "exception": lambda: 1 // 0,
    "tool error": fail,
    "call error": refuse,
    "exit": give_up,
}
ARGUMENTS = [
    '{"number": 1}',
    {"number": 1},
    '{"number": "1"}',
    '"{\\"number\\": 1}"',
    "{",
    '{"number": 1, "number": 2}',
    "[]",
]


def a_registry(make, *, waits=False, callbacks=False, shows=False, exclusive=False):
    """A registry with one tool, `probe`, and one that calls it."""

    @tool(concurrency="exclusive" if exclusive else "shared")
    async def probe(number: int):
        """Probes."""
        if waits:
            await asyncio.sleep(0)
        return make()

    @tool(name="probe")
    def plain_probe(context: ToolContext, number: int):
        """Probes."""
        context.metadata("Shown", number=number)
        context.state["seen"] = number
        return make()

    @tool
    async def outer(context: ToolContext, arguments: str | dict[str, int | str]) -> str:
        """Calls the other."""
        inner.append(await context.call("probe", arguments))
        return ""

    inner = []
    registry = ToolRegistry()
    registry.register(plain_probe if shows else probe)
    registry.register(outer)
    if callbacks:
        registry.add_callback("before_tool", lambda context, tool, arguments: None)
        registry.add_callback("after_tool", lambda context, tool, arguments, result: None)
    return registry, inner


async def by_each_way(registry, inner, arguments):
    """The results of a call alone, in a batch, in a batch that is sequential, and nested."""
    call = ToolCall("probe", arguments)
    results = [await registry.call("probe", arguments)]
    for options in ({}, {"sequential": True}, {"max_concurrency": 1}, {"timeout": 60}):
        results += (await registry.dispatch([call], **options)).results
    await registry.call("outer", {"arguments": arguments})
    for each in (found := [each.to_data() for each in (*results, *inner)]):
        each.pop("detail", None)  # it may have a traceback, which shows the way
    return found


@pytest.mark.parametrize("facts", [{}, {"waits": True}, {"callbacks": True}, {"exclusive": True}, {"shows": True}])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_each_way_of_a_call_gives_the_same_result(outcome, facts):
    registry, inner = a_registry(OUTCOMES[outcome], **facts)
    first, *others = asyncio.run(by_each_way(registry, inner, '{"number": 1}'))
    assert len(others) == 5
    if outcome != "large":  # each large result is stored under a name of its own
        assert [each for each in others if each != first] == []
    assert len({len(each["content"]) for each in (first, *others)}) == 1


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_each_way_of_a_call_reads_arguments_alike(arguments):
    registry, inner = a_registry(lambda: "done")
    first, *others = asyncio.run(by_each_way(registry, inner, arguments))
    assert [each for each in others if each != first] == []
