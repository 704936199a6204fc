"""Work that goes on after the first result of its call, through a registry."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from pegboard import ReadonlyContext, ToolCall, ToolContext, ToolError, ToolRegistry, ToolResult, tool
from pegboard.dispatch.operations import Operations
from pegboard.errors import OperationError


@tool(long_running=True)
async def order(item: str) -> str:
    """Order something."""
    return f"order of {item}"


@tool(long_running=True)
async def refuses() -> str:
    """Fail at once."""
    raise ToolError("sold out")


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(order, refuses)
    return made


def ordered(registry, call_id="1", session=None):
    call = ToolCall("order", {"item": "tea"}, call_id)
    return asyncio.run(registry.dispatch([call], context=ReadonlyContext(session=session))).results[0]


def test_a_long_running_tool_answers_with_an_id_and_a_pending_result(registry):
    result = ordered(registry)
    assert result.text.startswith("order of tea\n")
    assert result.metadata["pending"] is True
    assert result.metadata["operation"] in result.text
    assert "don't call order again" in result.text


def test_one_that_fails_at_once_isnt_pending(registry):
    result = asyncio.run(registry.call("refuses"))
    assert "pending" not in result.metadata
    with pytest.raises(OperationError):
        registry.complete("", "late")


def test_the_later_result_replaces_the_pending_one_once(registry):
    ordered(registry)
    completion = registry.complete("1", "it has arrived")
    assert (completion.call_id, completion.tool, completion.result.text) == ("1", "order", "it has arrived")
    with pytest.raises(OperationError, match="may have its result already"):
        registry.complete("1", "again")


def test_it_is_found_by_the_id_of_the_operation_too(registry):
    operation = ordered(registry).metadata["operation"]
    assert registry.complete(operation, "done").operation.id == operation


def test_two_pending_calls_of_one_id_have_to_be_told_apart(registry):
    first, second = ordered(registry).metadata["operation"], ordered(registry).metadata["operation"]
    with pytest.raises(OperationError, match="name the operation"):
        registry.complete("1", "done")
    registry.complete(second, "second")
    assert registry.complete("1", "first").operation.id == first


def test_what_has_come_is_taken_by_session_once(registry):
    ordered(registry, "1", "a")
    ordered(registry, "2", "b")
    registry.complete("1", "for a")
    registry.complete("2", "for b")
    assert [each.call_id for each in registry.completions("a")] == ["1"]
    assert registry.completions("a") == ()
    assert registry.completions(None) == ()
    assert [each.call_id for each in registry.completions("b")] == ["2"]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (ToolResult("done"), None, "done"),
        ({"state": "done"}, "invalid_output", "refused"),
        (ToolError("lost"), "tool_failure", "lost"),
        (ValueError("secret"), "tool_failure", "order failed: ValueError."),
    ],
)
def test_a_later_result_is_shaped_as_any(registry, value, kind, text):
    @registry.register
    @tool(long_running=True, name="typed")
    async def typed() -> int:
        """Give a number later."""
        return 0

    ordered(registry)
    asyncio.run(registry.call("typed", call_id="2"))
    result = registry.complete("2" if kind == "invalid_output" else "1", value).result
    assert result.kind == kind
    assert text in result.text


def in_background(doing, *, close=True, seconds=None, listen=False):
    """A tool that goes on with `doing`; gives its first result, what came later, and the events."""
    events = []

    async def main():
        registry = ToolRegistry()
        if listen:
            registry.add_callback("observe", events.append)

        @registry.register
        @tool
        async def start(context: ToolContext) -> str:
            """Start something."""
            return context.background(doing(context) if inspect.iscoroutinefunction(doing) else doing)

        first = await registry.call("start", call_id="1")
        operations = registry._dispatcher.operations
        if seconds is not None:
            operations.seconds = seconds
        while operations.pending and not close:  # noqa: ASYNC110  what ends it tells no event
            await asyncio.sleep(0)
        later = registry.completions()
        dispatcher = registry._dispatcher
        await registry.aclose()
        return first, later or dispatcher.operations.take()

    first, later = asyncio.run(main())
    return first, later, events


def test_a_tool_may_go_on_after_its_first_result():
    async def doing(context):
        await asyncio.sleep(0)
        return "later"

    first, (completion,), events = in_background(doing, close=False, listen=True)
    assert first.text == completion.operation.id
    assert (completion.call_id, completion.result.text) == ("1", "later")
    assert [(event.state, event.result.text) for event in events if event.state == "completed"][-1] == (
        "completed",
        "later",
    )


def test_plain_work_goes_on_in_a_thread():
    _, (completion,), _ = in_background(lambda: "from a thread", close=False)
    assert completion.result.text == "from a thread"


def test_work_in_the_background_that_fails_has_its_result():
    async def doing(context):
        raise SystemExit(1)

    _, (completion,), _ = in_background(doing, close=False)
    assert (completion.result.kind, completion.result.text) == ("tool_failure", "start failed: SystemExit.")


def test_closing_ends_what_goes_on_with_a_result():
    async def doing(context):
        await asyncio.Event().wait()

    _, (completion,), _ = in_background(doing)
    assert completion.result.kind == "aborted"


def test_a_plain_tool_may_go_on_too():
    async def main():
        registry = ToolRegistry()

        @registry.register
        @tool
        def start(context: ToolContext) -> str:
            """Start something from a thread."""
            return context.background(lambda: "later")

        await registry.call("start", call_id="1")
        while not (later := registry.completions()):  # noqa: ASYNC110  what ends it tells no event
            await asyncio.sleep(0)
        await registry.aclose()
        return later

    (completion,) = asyncio.run(main())
    assert completion.result.text == "later"


def test_beyond_the_most_the_oldest_that_nobody_completes_is_given_up(registry):
    """A host that never completes anything costs no later call its result."""
    ordered(registry, "0")
    registry._dispatcher.operations.most = 1
    assert ordered(registry, "1").metadata["pending"] is True
    (given_up,) = registry.completions()
    assert (given_up.call_id, given_up.result.kind) == ("0", "unknown_outcome")
    assert given_up.result.text.startswith("order ran, but nobody has said")
    assert [each.call_id for each in registry.operations()] == ["1"]
    with pytest.raises(OperationError, match="may have its result already"):
        registry.complete("0", "too late")


def test_where_all_go_on_in_this_process_no_more_can_be_awaited(registry):
    """The text says whether the tool ran."""

    async def main():
        never = asyncio.Event()

        @registry.register
        @tool
        async def start(context: ToolContext) -> str:
            """Start something."""
            return context.background(never.wait())

        await registry.call("start")
        registry._dispatcher.operations.most = 1
        refused = await registry.call("start"), await registry.call("order", {"item": "tea"})
        await registry.aclose()
        return refused

    started, bought = asyncio.run(main())
    assert (started.kind, bought.kind) == ("limit", "limit")
    assert started.text.startswith("start can't go on in the background: 1 operations go on already")
    assert bought.text.startswith("order ran, but 1 operations go on already")


def test_nothing_going_on_is_nothing_to_close():
    asyncio.run(Operations().aclose())
