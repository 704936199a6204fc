from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re

import pytest
from attrs import frozen

from pegboard import (
    CallError,
    FileContent,
    Later,
    Once,
    Permissions,
    Reject,
    Rule,
    TextContent,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    tool,
)
from pegboard.dispatch import callbacks, find, stages
from pegboard.timeout import BLOCKS

FIRST = ["find", "parse_arguments", "parse", "parse_inner_text", "prepare", "validate", "repair"]
IN_ORDER = ["_prepare_call", "_call_before", "asking_of", "start", "run_locked", "quick_result", "shape"]
OF_STAGE = {"find": find, "before": callbacks, "on_error": callbacks, "after": callbacks}  # imported when needed


def names_in(function):
    """The functions that a function calls by name, in the order of its text."""
    calls = (node for node in ast.walk(ast.parse(inspect.getsource(function))) if isinstance(node, ast.Call))
    named = sorted((each.lineno, getattr(each.func, "attr", getattr(each.func, "id", ""))) for each in calls)
    return list(dict.fromkeys(name for _, name in named if name in {*FIRST, *IN_ORDER, "before", "on_error", "after"}))


def test_the_stages_stand_by_name_in_order():
    assert names_in(stages.run_call) == IN_ORDER
    assert names_in(stages._prepare_call) == FIRST
    assert names_in(stages._call_before) == ["before", "asking_of", "validate"]
    assert names_in(stages._run_last_stages) == ["on_error", "after"]


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
        *((each, exit_later) for each in ("shape", "on_error", "after")),
    ],
)
def test_any_exception_of_a_stage_gives_a_result_for_the_last_stages(make, prepare, monkeypatch, stage, function):
    seen = []
    state = prepare(
        make(print, schema={"type": "array"} if stage == "validate" else {"type": "object"}),
        after=[lambda context, tool, arguments, result: seen.append(result.kind)],
        on_error=[lambda *_: None],
    )
    monkeypatch.setattr(OF_STAGE.get(stage, stages), stage, function)
    asyncio.run(stages.run_call(state))
    assert (state.result is not None, state.error, len(seen)) == (True, None, stage != "after")
    assert stage == "on_error" or state.result.kind == "tool_failure"


def test_a_hook_without_implementations_costs_nothing(make, send, monkeypatch):
    """Its stage isn't entered at all."""
    for stage in ("before", "on_error", "after", "_run_last_stages"):
        monkeypatch.setattr(OF_STAGE.get(stage, stages), stage, lambda *_: pytest.fail("it was entered"))
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
ARGUMENTS = [{"number": 1}, '{"number": 1}', '{"number": "1"}', '{"number": 1, "number": 2}']
ARGUMENTS += ['"{\\"number\\": 1}"', "{", "[]"]


ASKED = {
    "suspend": lambda context: context.suspend("Which one?"),
    "confirm": lambda context: context.request_confirmation("Delete it?"),
    "ask": lambda context: context.ask("delete", ["a.txt"]),
}
OWN = ("detail", "time", "seconds", "call_id", "callId", "id", "request", "created", "once")
"""What differs from call to call; and details, as a traceback shows the way."""


def comparable(data):
    """JSON data without what is a call's own."""
    if isinstance(data, dict):
        return {key: comparable(member) for key, member in data.items() if key not in OWN}
    return [comparable(member) for member in data] if isinstance(data, list | tuple) else data


def a_registry(make, *, waits=False, callbacks=False, shows=False, exclusive=False, asks=None, **options):
    """A registry with one tool, `probe`, and one that calls it; the results of nested calls; and all events."""

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

    @tool(name="probe")
    async def asking_probe(context: ToolContext, number: int):
        """Probes."""
        asked = ASKED[asks](context)
        return (number, asked if asked is None else await asked)

    @tool
    async def outer(context: ToolContext, arguments: str | dict[str, int | str]) -> str:
        """Calls the other."""
        inner.append(await context.call("probe", arguments))
        return ""

    inner, events = [], []
    registry = ToolRegistry(**options)
    registry.register(asking_probe if asks else plain_probe if shows else probe)
    registry.register(outer)
    registry.add_callback("observe", events.append)
    if callbacks:
        registry.add_callback("before_tool", lambda context, tool, arguments: None)
        registry.add_callback("after_tool", lambda context, tool, arguments, result: None)
    return registry, inner, events


async def by(way, registry, inner, arguments):
    """The result and the actions of one call of `probe`: alone, in a batch with these options, or nested."""
    if way == "call":
        return await registry.call("probe", arguments), None
    if way == "host":
        context = ToolContext()
        return await registry.call("probe", arguments, context), context.actions.actions
    if way == "nested":
        outcome = await registry.dispatch([ToolCall("outer", {"arguments": arguments})])
        return inner[0], outcome.actions
    outcome = await registry.dispatch([ToolCall("probe", arguments)], **way)
    return outcome.results[0], outcome.actions


WAYS = ("call", "host", "nested", {}, {"sequential": True}, {"max_concurrency": 1}, {"timeout": 60})


async def all_of(way, caplog, outcome, arguments, **facts):
    """All that can be seen of a call: result, log, events, actions; without what is its own."""
    registry, inner, events = a_registry(outcome, **facts)
    caplog.clear()
    async with registry:
        result, actions = await by(way, registry, inner, arguments)
    seen = {
        "result": comparable(result.to_data()),
        "log": [
            (each.levelname, each.getMessage())
            for each in caplog.records
            if each.name == "pegboard" and each.msg != BLOCKS  # which a busy machine brings about
        ],
        "events": [comparable(each.to_json()) for each in events if each.name == "probe"],
    }
    kept = result.metadata.get("kept", "\0")  # the name of a stored large result, in a folder of its own
    text = re.sub("pegboard-\\w+", "folder", json.dumps(seen)).replace(kept, "name")
    return json.loads(text), None if actions is None else actions.to_json()


def differences(caplog, outcome, arguments, ways=WAYS, **facts):
    """What each way of a call shows, where that isn't what the first shows."""
    seen, actions = zip(*(asyncio.run(all_of(way, caplog, outcome, arguments, **facts)) for way in ways), strict=True)
    assert len(seen[0]["events"]) >= 2
    first = next((each for each in actions if each is not None), None)
    return [
        (way, here)
        for way, here, asked in zip(ways, seen, actions, strict=True)
        if here != seen[0] or asked not in (None, first)
    ]


@pytest.mark.parametrize("facts", [{}, {"waits": True}, {"callbacks": True}, {"exclusive": True}, {"shows": True}])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_each_way_of_a_call_shows_the_same(caplog, outcome, facts):
    assert differences(caplog, OUTCOMES[outcome], '{"number": 1}', **facts) == []


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_each_way_of_a_call_reads_arguments_alike(caplog, arguments):
    assert differences(caplog, lambda: "done", arguments) == []


ALONE = [way for way in WAYS if way != "nested"]  # a nested call can't wait for a later answer: it is denied
RULES = [Rule("*", "*", "allow"), Rule("probe", "*", "ask")]


@pytest.mark.parametrize("answer", [Once(), Reject(), Reject("not now"), Later()], ids=str)
@pytest.mark.parametrize("facts", [{"permissions": Permissions(RULES)}, *({"asks": each} for each in ASKED)], ids=str)
def test_each_way_of_a_call_asks_alike(caplog, facts, answer):
    ways = ALONE if isinstance(answer, Later) or facts.get("asks") == "suspend" else WAYS
    facts = {"approver": lambda *_: answer, **facts}
    assert differences(caplog, lambda: "done", '{"number": 1}', ways, **facts) == []
