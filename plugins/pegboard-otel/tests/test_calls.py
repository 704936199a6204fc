"""A span and a duration for each call, with the real SDK."""

from __future__ import annotations

import asyncio
import contextvars

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from pegboard import Tool, ToolCall, ToolContext, tool
from pegboard.approval import Once, ask_later

DURATION = "gen_ai.execute_tool.duration"


@tool
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@tool(destructive=True)
def wipe() -> str:
    """Wipes."""
    return "wiped"


@tool
def fail(text: str) -> str:
    """Fails."""
    raise ValueError(text)


CALLS = [
    ("add", {"a": 1, "b": 2}, None),
    ("add", {"a": "x"}, "invalid_arguments"),
    ("add", "no json", "invalid_arguments"),
    ("nosuch_tool", {}, "unknown_tool"),
    ("wipe", {}, "denied"),
    ("fail", {"text": "secret"}, "tool_failure"),
    ("by_host", {}, "not_executed"),
]


@pytest.fixture
def filled(registry):
    registry.register(add, wipe, fail, Tool.from_schema("by_host", {}))
    return registry


async def one_by_one(registry):
    for name, arguments, _ in CALLS:
        await registry.call(name, arguments, call_id=name)


async def as_batch(registry):
    await registry.dispatch([ToolCall(name, arguments, name) for name, arguments, _ in CALLS])


async def sync(registry):
    for name, arguments, _ in CALLS:
        registry.call_sync(name, arguments, call_id=name)


@pytest.mark.parametrize("way", [one_by_one, as_batch, sync])
def test_every_call_has_a_span_below_the_callers_and_a_duration(filled, telemetry, way):
    before = telemetry.counts(DURATION, "gen_ai.tool.name", "error.type")

    async def run():
        with telemetry.span("request"):
            await way(filled)

    asyncio.run(run())
    assert sorted(telemetry.tree[:-1]) == sorted((f"execute_tool {name}", "request") for name, _, _ in CALLS)
    kinds = sorted((span.name, span.attributes.get("error.type", "")) for span in telemetry.spans[:-1])
    assert kinds == sorted((f"execute_tool {name}", kind or "") for name, _, kind in CALLS)
    assert {span.attributes["gen_ai.tool.call.id"] for span in telemetry.spans[:-1]} == {name for name, _, _ in CALLS}
    after = telemetry.counts(DURATION, "gen_ai.tool.name", "error.type")
    known = [("_OTHER" if name == "nosuch_tool" else name, kind) for name, _, kind in CALLS]
    assert {key: after[key] - before.get(key, 0) for key in known} == {key: known.count(key) for key in known}
    assert sum(after.values()) - sum(before.values()) == len(CALLS)


def test_a_span_has_the_attributes_of_the_conventions_and_no_content(filled, telemetry):
    asyncio.run(filled.call("add", {"a": 1, "b": 2}, call_id="c1"))
    asyncio.run(filled.call("fail", {"text": "secret"}))
    span, failed = telemetry.spans
    assert span.kind is SpanKind.INTERNAL
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.description": "Adds two numbers.",
    }
    assert (span.status.status_code, failed.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert "secret" not in failed.to_json()
    assert failed.events == ()


@pytest.mark.parametrize("threaded", [False, True])
def test_the_spans_of_a_tool_and_its_nested_calls_are_children(registry, telemetry, threaded):
    @tool
    async def outer(context: ToolContext) -> str:
        """Calls."""
        with telemetry.span("own"):
            return (await context.call("inner")).text

    def inner(context: ToolContext) -> str:
        """Works."""
        with telemetry.span("work"):
            return context.trace["traceparent"]

    async def inner_async(context: ToolContext) -> str:
        """Works."""
        return inner(context)

    registry.register(outer, Tool.from_function(inner if threaded else inner_async, name="inner"))
    result = asyncio.run(registry.call("outer"))
    assert telemetry.tree == [
        ("work", "execute_tool inner"),
        ("execute_tool inner", "own"),
        ("own", "execute_tool outer"),
        ("execute_tool outer", None),
    ]
    span = telemetry.named("execute_tool inner").context
    assert result.text == f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def test_the_calls_of_a_batch_are_siblings(registry, telemetry):
    started = asyncio.Event()

    @tool(read_only=True)
    async def meet(number: int) -> str:
        """Waits for the other."""
        started.set() if number else await started.wait()
        return str(number)

    registry.register(meet)

    async def run():
        with telemetry.span("request"):
            await registry.dispatch([ToolCall("meet", {"number": n}, str(n)) for n in range(2)])
            return trace.get_current_span()

    assert asyncio.run(run()).name == "request"
    assert telemetry.tree == [("execute_tool meet", "request")] * 2 + [("request", None)]


def test_a_call_without_a_current_span_continues_the_trace_of_its_context(filled, telemetry):
    given = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1"}
    asyncio.run(filled.call("add", {"a": 1, "b": 2}, ToolContext(trace=given)))
    (span,) = telemetry.spans
    assert (span.context.trace_id, span.parent.span_id) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert span.context.trace_state.to_header() == "a=1"


def test_a_suspended_call_has_a_span_each_time_it_runs_and_isnt_failed(filled, telemetry):
    async def run():
        first = await filled.dispatch([ToolCall("wipe", {}, "w")], approver=ask_later)
        await filled.resume(first.pending, {each.id: Once() for each in first.pending})

    asyncio.run(run())
    facts = [(span.attributes.get("error.type"), span.status.status_code) for span in telemetry.spans]
    assert facts == [("confirmation_required", StatusCode.UNSET), (None, StatusCode.UNSET)]


def test_a_repaired_call_has_the_name_that_ran(filled, telemetry):
    filled.add_callback("repair_call", lambda request: ToolCall("add", {"a": 1, "b": 2}, request.call.id))
    assert asyncio.run(filled.call("plus", {})).text == "3"
    (span,) = telemetry.spans
    assert (span.name, span.attributes["gen_ai.tool.name"]) == ("execute_tool add", "add")
    assert span.attributes["gen_ai.tool.description"] == "Adds two numbers."


def test_a_cancelled_call_ends_its_span(registry, telemetry):
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    registry.register(wait)

    async def run():
        with telemetry.span("request"):
            call = asyncio.create_task(registry.call("wait"))
            await started.wait()
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()

    asyncio.run(run())
    span = telemetry.named("execute_tool wait")
    assert (span.attributes["error.type"], span.status.status_code) == ("aborted", StatusCode.ERROR)


def test_a_call_that_is_closed_ends_its_span_and_leaves_the_current_one(registry, telemetry, caplog):
    @tool
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return "never"

    registry.register(wait)

    async def run():
        coroutine = registry.call("wait")
        contextvars.copy_context().run(coroutine.send, None)  # it waits, in a context of its own
        with telemetry.span("other") as other:
            coroutine.close()
            return trace.get_current_span() is other

    assert asyncio.run(run())
    assert [each.name for each in telemetry.spans] == ["execute_tool wait", "other"]
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]
