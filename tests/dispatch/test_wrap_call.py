"""`wrap_call`: one hook around every call, from its lookup to the last callback."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from contextvars import ContextVar

import pytest

from pegboard import (
    Abort,
    Deny,
    Limits,
    Once,
    Permissions,
    ReadonlyContext,
    ResultLimits,
    Rule,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolResult,
    hookimpl,
    nonblocking,
    tool,
)
from pegboard.approval import ask_later
from pegboard.config import Config
from pegboard.errors import FatalToolError, RegistrationError, ToolError, TurnAbortedError
from pegboard.testing import plugin_registry

SPAN = ContextVar("span", default=None)


@tool
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@tool(destructive=True)
def wipe() -> str:
    """Wipes."""
    return "wiped"


@tool
def fail() -> str:
    """Fails."""
    raise ValueError("secret")


ALL = [
    ("add", {"a": 1, "b": 2}, None),
    ("add", {"a": "x"}, "invalid_arguments"),
    ("add", "no json", "invalid_arguments"),
    ("nosuch_tool", {}, "unknown_tool"),
    ("wipe", {}, "denied"),
    ("fail", {}, "tool_failure"),
    ("by_host", {}, "not_executed"),
]


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(add, wipe, fail, Tool.from_schema("by_host", {}))
    return made


class Seen(list):
    """Wrappers of each form, which note the calls."""

    def plain(self, call, call_next):
        self.append(call.name)
        return call_next()

    quick = nonblocking(plain)

    async def asynchronous(self, call, call_next):
        result = await call_next()
        self.append(call.name)
        return result


@pytest.mark.parametrize("form", ["plain", "quick", "asynchronous"])
@pytest.mark.parametrize("batch", [False, True])
def test_every_call_is_wrapped_whatever_becomes_of_it(registry, form, batch):
    """From a host and from a model."""
    seen = Seen()
    registry.add_callback("wrap_call", getattr(seen, form))
    if batch:
        calls = [ToolCall(name, arguments, str(place)) for place, (name, arguments, _) in enumerate(ALL)]
        kinds = [result.kind for result in asyncio.run(registry.dispatch(calls)).results]
    else:
        kinds = [registry.call_sync(name, arguments).kind for name, arguments, _ in ALL]
    assert kinds == [kind for _, _, kind in ALL]
    assert sorted(seen) == sorted(name for name, _, _ in ALL)


def test_a_wrapper_learns_what_a_span_needs(registry):
    spans = []

    async def span(call, context, call_next):
        facts = {"name": call.name, "id": call.id, "user": context.user, "given": call.arguments, "depth": call.depth}
        facts["description"] = call.tool and call.tool.spec.description
        result = await call_next()
        spans.append({**facts, "arguments": call.arguments, "kind": result.kind})
        return result

    registry.add_callback("wrap_call", span)
    ann = ReadonlyContext(user="ann")
    asyncio.run(registry.dispatch([ToolCall("Add", '{"a": 1, "b": 2}', "7")], context=ann))
    registry.call_sync("nosuch_tool", "not json", ann)
    registry.call_sync("add", {"a": [1]}, ann)
    assert spans[0] == {
        "name": "Add",
        "id": "7",
        "user": "ann",
        "given": '{"a": 1, "b": 2}',
        "depth": 0,
        "description": None,
        "arguments": {"a": 1, "b": 2},
        "kind": None,
    }
    assert [(each["given"], each["arguments"], each["description"]) for each in spans[1:]] == [
        ("not json", "not json", None),
        ({"a": [1]}, {"a": [1]}, "Adds two numbers."),
    ]
    with pytest.raises(TypeError):
        spans[2]["arguments"]["a"].append(2)


def test_a_resolved_tool_is_known_before_the_call_runs(registry):
    names = []

    async def wrap(call, call_next):
        names.append(call.tool.name)
        return await call_next()

    registry.add_callback("wrap_call", wrap)

    async def run():
        return await registry.call("add", {"a": 1, "b": 1}, resolved=await registry.resolve(where="name:add"))

    assert (asyncio.run(run()).text, names) == ("2", ["add"])


def test_it_encloses_the_other_callbacks_and_sees_the_last_result(registry):
    order = []

    def stage(name):
        async def note():
            order.append(name)

        registry.add_callback(name, note)

    async def wrap(call_next):
        order.append("begin")
        result = await call_next()
        order.append(result.text)
        return result

    registry.add_callback("wrap_call", wrap)
    for name in ("before_tool", "after_tool", "on_tool_error"):
        stage(name)
    registry.add_callback("after_tool", lambda: ToolResult("last"))
    registry.call_sync("fail")
    assert order == ["begin", "before_tool", "on_tool_error", "after_tool", "last"]


@pytest.mark.parametrize("count", [1, 3])
def test_each_call_has_its_own_context_variables(count):
    """In its tool, plain or async, its callbacks and nested calls; and the caller's are left as they were."""
    registry, seen = ToolRegistry(), []

    @tool
    async def outer(number: int, context: ToolContext) -> str:
        """Calls another."""
        seen.append(("outer", number, SPAN.get()))
        await context.call("inner", {"number": number})
        return SPAN.get()

    @tool
    def inner(number: int) -> str:
        """Is called."""
        seen.append(("inner", number, SPAN.get()))
        return SPAN.get()

    async def span(call, call_next):
        token = SPAN.set(f"{SPAN.get()}/{call.name}{call.id}")
        try:
            await asyncio.sleep(0)
            return await call_next()
        finally:
            SPAN.reset(token)

    async def run():
        SPAN.set("root")
        calls = [ToolCall("outer", {"number": number}, str(number)) for number in range(count)]
        outcome = await registry.dispatch(calls)
        return [result.text for result in outcome.results], SPAN.get()

    registry.register(outer, inner)
    registry.add_callback("wrap_call", span)
    texts, after = asyncio.run(run())
    assert (texts, after) == ([f"root/outer{number}" for number in range(count)], "root")
    assert sorted(seen) == sorted(
        [("inner", number, f"root/outer{number}/inner{number}/1") for number in range(count)]
        + [("outer", number, f"root/outer{number}") for number in range(count)]
    )


def test_the_trace_context_of_each_call_goes_along_to_its_tool():
    """A nested call begins with that of its caller, and a host's own context is left as it was."""
    registry, seen = ToolRegistry(), {}

    @tool
    async def traced(number: int, context: ToolContext) -> str:
        """Is traced."""
        await asyncio.sleep(0)
        seen[context.call_id] = dict(context.trace)
        if number < 2:
            await context.call("traced", {"number": number + 2})
        return context.trace["traceparent"]

    async def span(call, call_next):
        call.trace["traceparent"] = f"{call.trace.get('traceparent', '')}>{call.id}"
        return await call_next()

    registry.register(traced)
    registry.add_callback("wrap_call", span)
    calls = [ToolCall("traced", {"number": number}, f"c{number}") for number in range(2)]
    outcome = asyncio.run(registry.dispatch(calls))
    assert [result.text for result in outcome.results] == [">c0", ">c1"]
    assert seen["c1/1"] == {"traceparent": ">c1>c1/1"}
    own = ToolContext(call_id="mine", trace={"tracestate": "x"})
    assert registry.call_sync("traced", {"number": 5}, own).text == ">mine"
    assert (seen["mine"], own.trace) == ({"tracestate": "x", "traceparent": ">mine"}, {"tracestate": "x"})


def test_the_first_in_order_is_the_outermost(registry):
    order = []

    def wrapper(name):
        async def wrap(call_next):
            order.append(name)
            return await call_next()

        return wrap

    class Plugin:
        @hookimpl
        async def pegboard_wrap_call(self, call_next):
            order.append("plugin")
            return await call_next()

        @hookimpl
        def pegboard_register_tools(self, register):
            register(add)

    registry = plugin_registry(plugin=Plugin)
    registry.add_callback("wrap_call", wrapper("host 1"))
    registry.add_callback("wrap_call", wrapper("host 2"))
    assert registry.call_sync("add", {"a": 1, "b": 2}).text == "3"
    assert order == ["plugin", "host 1", "host 2"]


def test_a_plugin_may_be_untrusted():
    """It sees calls, and may refuse one, as by the other hooks."""

    class Plugin:
        @hookimpl
        async def pegboard_wrap_call(self, call, call_next):
            result = await call_next()
            seen.append((call.name, result.kind))
            return result

    seen = []
    registry = plugin_registry(strange=Plugin, config=Config(untrusted=["strange"]))
    registry.register(wipe)
    assert registry.call_sync("wipe").kind == "denied"
    assert seen == [("wipe", "denied")]


# What a wrapper returns and raises ------------------------------------------------------------------------------------


def wrapped_by(registry, *wrappers):
    for wrapper in wrappers:
        registry.add_callback("wrap_call", wrapper)
    return registry


async def before_raises(call_next):
    raise KeyError("mine")


async def never(call_next):
    return None


async def wrong_type(call_next):
    await call_next()
    return "text"


async def after_raises(call_next):
    await call_next()
    raise KeyError("mine")


async def after_refuses(call_next):
    await call_next()
    raise ToolError("too late")


@pytest.mark.parametrize("wrapper", [before_raises, never])
@pytest.mark.parametrize("batch", [False, True])
def test_a_failure_before_the_call_fails_it(registry, logged, wrapper, batch):
    """The tool doesn't run; the last callbacks and outer wrappers get the failure."""
    outcomes = []

    async def outer(call_next):
        result = await call_next()
        outcomes.append(("outer", result.kind))
        return result

    wrapped_by(registry, outer, wrapper)
    registry.add_callback("after_tool", lambda result: outcomes.append(("after", result.kind)))
    if batch:
        result = asyncio.run(registry.dispatch([ToolCall("add", {"a": 1, "b": 2})])).results[0]
    else:
        result = registry.call_sync("add", {"a": 1, "b": 2})
    assert (result.kind, result.text) == ("callback_failure", "add was not completed: a callback failed.")
    assert outcomes == [("after", "callback_failure"), ("outer", "callback_failure")]
    assert len(logged()) == 1


def test_a_wrapper_may_refuse_a_call_before_it_runs(registry):
    async def refuse(call):
        raise ToolError(f"{call.name} isn't wanted")

    wrapped_by(registry, refuse)
    assert registry.call_sync("add", {"a": 1, "b": 2}).text == "add isn't wanted"


@pytest.mark.parametrize("wrapper", [wrong_type, after_raises, after_refuses])
def test_a_failure_after_the_call_leaves_its_result(registry, logged, wrapper):
    results = []

    async def outer(call_next):
        results.append(await call_next())
        return results[0]

    wrapped_by(registry, outer, wrapper)
    result = registry.call_sync("add", {"a": 1, "b": 2})
    assert (result.text, result is results[0], len(logged())) == ("3", True, 1)


def test_a_wrapper_may_answer_instead_of_the_call_or_replace_its_result(registry):
    async def cached(call, call_next):
        return ToolResult("from the cache") if call.arguments == {"a": 1, "b": 1} else await call_next()

    async def loud(call_next):
        return ToolResult(f"{(await call_next()).text}!")

    wrapped_by(registry, loud, cached)
    assert registry.call_sync("add", {"a": 1, "b": 1}).text == "from the cache!"
    assert registry.call_sync("add", {"a": 1, "b": 2}).text == "3!"
    assert registry.call_sync("fail").is_error is False


def test_a_result_of_a_wrapper_is_held_to_the_limits():
    registry = ToolRegistry(limits=Limits(results=ResultLimits(lines=2)))
    registry.register(add)
    wrapped_by(registry, lambda: ToolResult("line\n" * 100))
    assert len(registry.call_sync("add", {"a": 1, "b": 2}).text.splitlines()) < 10


def test_a_call_runs_once(registry):
    errors = []

    async def twice(call_next):
        result = await call_next()
        try:
            await call_next()
        except RuntimeError as error:
            errors.append(str(error))
        return result

    wrapped_by(registry, twice)
    assert registry.call_sync("add", {"a": 1, "b": 2}).text == "3"
    assert "a call once" in errors[0]


def test_a_fatal_error_and_an_abort_still_end_the_turn(registry):
    @tool
    def fatal() -> str:
        """Ends it."""
        raise FatalToolError("over")

    seen = []

    async def wrap(call_next):
        result = await call_next()
        seen.append(result.kind)
        return result

    registry.register(fatal)
    wrapped_by(registry, wrap)
    with pytest.raises(FatalToolError):
        registry.call_sync("fatal")
    registry.add_callback("before_tool", lambda: Abort("stop"))
    with pytest.raises(TurnAbortedError):
        registry.call_sync("add", {"a": 1, "b": 2})
    assert seen == ["tool_failure", "aborted"]


def test_a_wrapper_that_calls_tools_itself_ends_at_the_depth_limit(registry):
    depths = []

    async def again(call, call_next):
        depths.append(call.depth)
        await registry.call("add", {"a": 1, "b": 2})
        return await call_next()

    wrapped_by(registry, again)
    assert registry.call_sync("add", {"a": 1, "b": 2}).text == "3"
    assert depths == list(range(9))


def test_predicates_dont_select_wrappers(registry):
    with pytest.raises(RegistrationError, match="where= selects tools"):
        registry.add_callback("wrap_call", never, where="read_only")


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["before", "after"])
def test_a_wrapper_has_a_time_limit_without_that_of_the_call(late):
    """A wrapper that ignores it, too."""
    registry, ran = ToolRegistry(limits=Limits(callback_timeout=0.05, grace=0.05)), []

    @tool
    async def slow() -> str:
        """Takes longer than a callback may."""
        await asyncio.sleep(0.15)
        ran.append("slow")
        return "done"

    async def hang():
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ran.append("ignored")

    async def wrap(call_next):
        if late == "before":
            await hang()
        result = await call_next()
        await hang()
        return result

    registry.register(slow)
    wrapped_by(registry, wrap)
    result = registry.call_sync("slow")
    expected = (["ignored"], "callback_failure") if late == "before" else (["slow", "ignored"], None)
    assert (ran[: len(expected[0])], result.kind) == expected


async def stuck(started):
    started.set()
    await asyncio.Event().wait()


@pytest.fixture
def stuck_tool():
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits for ever."""
        await stuck(started)

    return wait, started


@pytest.mark.parametrize("batch", [False, True])
def test_a_cancelled_call_has_one_result_and_its_last_callbacks_run(stuck_tool, batch):
    """However long they take, though the wrapper is over then."""
    wait, started = stuck_tool
    registry, seen = ToolRegistry(limits=Limits(grace=0.01)), []
    registry.register(wait)

    async def wrap(call_next):
        try:
            return await call_next()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def after(result):
        await asyncio.sleep(0.1)
        seen.append(result.kind)

    registry.add_callback("wrap_call", wrap)
    registry.add_callback("after_tool", after)

    async def run():
        made = await registry.batch([ToolCall("wait"), ToolCall("wait")])
        task = asyncio.create_task(made.run() if batch else registry.call("wait"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return made.outcome

    outcome = asyncio.run(run())
    assert sorted(seen) == (["aborted"] * 2 + ["cancelled"] * 2 if batch else ["aborted", "cancelled"])
    assert outcome is None or [result.kind for result in outcome.results] == ["aborted", "aborted"]


def test_a_wrapper_cant_catch_a_cancellation_of_the_caller(stuck_tool):
    wait, started = stuck_tool
    registry = ToolRegistry()
    registry.register(wait)

    async def catch(call_next):
        try:
            return await call_next()
        except asyncio.CancelledError:
            return ToolResult("caught")

    registry.add_callback("wrap_call", catch)

    async def run():
        task = asyncio.create_task(registry.call("wait"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_an_interrupted_batch_keeps_the_results_that_exist(stuck_tool):
    """Also of a call whose wrapper isn't over when it is interrupted or cancelled."""
    wait, _ = stuck_tool
    registry, reached, afters = ToolRegistry(limits=Limits(callback_timeout=3600)), asyncio.Event(), []
    registry.register(add, wait)

    async def linger(call, call_next):
        result = await call_next()
        if call.name == "add":
            reached.set()
            await asyncio.Event().wait()
        return result

    registry.add_callback("wrap_call", linger)
    registry.add_callback("after_tool", lambda result: afters.append(result.kind))

    async def run(*names):
        reached.clear()
        batch = await registry.batch([ToolCall(name, {"a": 1, "b": 2} if name == "add" else {}) for name in names])
        task = asyncio.create_task(batch.run())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)  # not the hour that the wrapper has
        return [(result.kind or result.text) for result in batch.outcome.results]

    assert asyncio.run(run("add")) == ["3"]
    assert afters == [None]


def test_a_wrapper_may_set_a_time_limit_of_its_own(stuck_tool):
    wait, _ = stuck_tool
    registry = ToolRegistry()
    registry.register(wait)

    async def limited(call_next):
        try:
            async with asyncio.timeout(0.02):
                return await call_next()
        except TimeoutError:
            return ToolResult.error("timeout", "too slow")

    async def in_a_task(call_next):
        try:
            return await asyncio.wait_for(call_next(), 0.02)
        except TimeoutError:
            return ToolResult.error("timeout", "too slow")

    async def left_behind(call_next):
        task = asyncio.ensure_future(call_next())
        await asyncio.wait([task], timeout=0.02)
        return ToolResult.error("timeout", "too slow")

    for wrapper in (limited, in_a_task, left_behind):
        with registry.add_callback("wrap_call", wrapper):
            result = registry.call_sync("wait")
            assert (result.kind, result.text) == ("timeout", "too slow")


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_a_call_may_be_closed_after_its_event_loop(stuck_tool, logged, is_wrapped):
    wait, started = stuck_tool
    registry, ended = ToolRegistry(), []
    registry.register(wait)

    async def wrap(call_next):
        try:
            return await call_next()
        finally:
            ended.append("wrapper")

    if is_wrapped:
        registry.add_callback("wrap_call", wrap)
    call = registry.call("wait")

    async def begin():
        call.send(None)
        await started.wait()

    asyncio.run(begin())
    call.close()
    assert (ended, logged()) == (["wrapper"] * is_wrapped, [])


# Calls that wait ------------------------------------------------------------------------------------------------------


def test_a_suspended_call_is_wrapped_each_time_it_runs_and_keeps_its_result_until_then(registry, logged):
    kinds = []

    async def wrap(call, call_next):
        result = await call_next()
        kinds.append((call.id, result.kind))
        return ToolResult("replaced")

    registry.add_callback("wrap_call", wrap)

    async def run():
        first = await registry.dispatch([ToolCall("wipe", {}, "1")], approver=ask_later)
        assert first.results[0].kind == "confirmation_required"
        answers = {each.id: Once() for each in first.pending}
        return await registry.resume(first.pending, answers)

    assert asyncio.run(run()).results[0].text == "replaced"
    assert kinds == [("1", "confirmation_required"), ("1", None)]
    assert len(logged()) == 1


def test_a_rejected_or_changed_resumption_is_wrapped_too(registry):
    kinds = []

    async def wrap(call_next):
        result = await call_next()
        kinds.append(result.kind)
        return result

    registry.add_callback("wrap_call", wrap)

    async def run():
        first = await registry.dispatch([ToolCall("wipe", {}, "1")], approver=ask_later)
        return await registry.resume(first.pending, {each.id: {"answer": "reject"} for each in first.pending})

    assert asyncio.run(run()).results[0].kind == "rejected"
    assert kinds == ["confirmation_required", "rejected"]


def test_rules_and_callbacks_refuse_inside_the_wrapper(registry):
    seen = []

    async def wrap(call_next):
        result = await call_next()
        seen.append(result.kind)
        return result

    registry.add_callback("wrap_call", wrap)
    registry.permissions = Permissions([Rule("add", "*", "deny")])
    registry.call_sync("add", {"a": 1, "b": 2})
    registry.add_callback("before_tool", lambda: Deny("no"))
    registry.call_sync("fail")
    assert seen == ["denied", "denied"]


# What it costs --------------------------------------------------------------------------------------------------------


def test_where_nobody_wraps_calls_it_costs_no_frame(registry):
    """And where somebody does, the call enters the same functions besides."""

    def entered():
        names = []

        def profile(frame, event, _):
            if event == "call" and frame.f_globals.get("__name__", "").startswith("pegboard."):
                names.append(frame.f_code.co_qualname)

        async def run():
            await registry.call("quick", {})
            sys.setprofile(profile)
            try:
                await registry.call("quick", {})
            finally:
                sys.setprofile(None)

        gc.disable()
        try:
            asyncio.run(run())
        finally:
            gc.enable()
        return names

    @tool
    async def quick() -> int:
        """Returns a number."""
        return 1

    async def wrap(call_next):
        return await call_next()

    registry.register(quick)
    plain = entered()
    registry.add_callback("wrap_call", wrap)
    inside = entered()
    assert not [name for name in plain if "wrap" in name.lower() or "WholeCall" in name]
    left = list(inside)
    for name in plain:
        left.remove(name)
    assert "ToolContext.__init__" not in inside


def test_a_plain_wrapper_runs_in_a_thread_and_the_call_in_its_own(registry):
    threads = []

    def plain(call_next):
        threads.append(threading.current_thread() is threading.main_thread())
        return call_next()

    registry.add_callback("wrap_call", plain)
    assert registry.call_sync("add", {"a": 1, "b": 2}).text == "3"
    assert threads == [False]
