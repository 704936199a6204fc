from __future__ import annotations

import asyncio
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from pegboard import (
    Deny,
    Limits,
    ModelRequest,
    Once,
    Origin,
    PendingCalls,
    PluginRecord,
    ReadonlyContext,
    StaticToolset,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    tool,
)
from pegboard.errors import DuplicateToolError, FatalToolError, RegistrationError, UnknownToolError
from pegboard.tools.handler import LazyHandler

PATIENCE = 60  # seconds; only a broken test waits so long
FILES = Origin("files", "pegboard-files", "0.1.0")


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
async def greet(name: str) -> str:
    """Greet a person."""
    return f"Hello, {name}."


def named(name, answer="answer", **options):
    return Tool.from_function(lambda: answer, name=name, blocking=False, **options)


@pytest.fixture
def registry():
    made = ToolRegistry()
    yield made
    asyncio.run(made.aclose())


def names(registry):
    return [each.name for each in registry.tools()]


# Registration ---------------------------------------------------------------------------------------------------------


def test_get_returns_a_tool_or_raises_with_near_misses(registry):
    registry.register(add, greet)
    assert registry.get("add").spec.description == "Add two numbers."
    with pytest.raises(UnknownToolError, match=r"no tool is called 'gret'\. Did you mean 'greet'") as caught:
        registry.get("gret")
    assert caught.value.near == ("greet",)


def test_a_handle_removes_exactly_what_it_registered(registry):
    source = StaticToolset("source", [named("from_source")])
    registry.register(add)
    handle = registry.register(greet, source)
    assert [each.name for each in handle.tools] == ["greet"]
    handle.dispose()
    assert names(registry) == ["add"]
    assert registry.contributions.catalogue.toolsets == ()


def test_disposing_twice_removes_nothing_more(registry):
    """Leaving the `with` disposes as well."""
    with registry.register(add) as handle:
        assert [each.name for each in handle.tools] == names(registry) == ["add"]
    assert names(registry) == []
    registry.register(add)
    handle.dispose()
    assert names(registry) == ["add"]


def test_a_refused_registration_changes_nothing(registry):
    registry.register(add)
    with pytest.raises(DuplicateToolError, match="'add' from the host can't be registered"):
        registry.register(greet, StaticToolset("source", []), add)
    assert names(registry) == ["add"]
    assert registry.contributions.catalogue.toolsets == ()


def test_the_conflict_policy_is_the_registrys_unless_the_registration_says_otherwise():
    registry = ToolRegistry(on_conflict="replace")
    registry.register(named("read", "first"))
    registry.register(named("read", "second"))
    assert registry.call_sync("read").text == "second"
    with pytest.raises(DuplicateToolError):
        registry.register(named("read"), on_conflict="error")


def test_an_origin_marks_everything_that_is_registered_with_it(registry):
    registry.register(add, StaticToolset("source", [greet]), origin=FILES)
    assert registry.get("add").origin is FILES
    (from_source,) = [each for each in asyncio.run(registry.resolve()).tools if each.name == "greet"]
    assert (from_source.origin.plugin, from_source.origin.toolset) == ("files", "source")


def test_unregister_removes_a_tool_or_a_toolset_by_name(registry):
    """Of one name, the tool first."""
    registry.register(add, named("both"), StaticToolset("source", []), StaticToolset("both", []))
    assert [registry.unregister(name) for name in ("source", "both", "nosuch")] == [True, True, False]
    assert names(registry) == ["add"]
    assert [each.name for each in registry.contributions.catalogue.toolsets] == ["both"]
    assert registry.unregister("both") is True
    assert registry.contributions.catalogue.toolsets == ()


def test_a_toolset_has_the_time_limit_of_the_registry():
    class Slow(StaticToolset):
        async def tools(self, context):
            await asyncio.Event().wait()

    registry = ToolRegistry(limits=Limits(toolset_timeout=0.01))
    registry.register(add, Slow("slow", []))
    resolved = asyncio.run(registry.resolve())
    assert resolved.names == ("add",)
    assert "no answer within 0.01 s (toolset_timeout)" in str(resolved.problems[0])
    assert registry.call_sync("late").kind == "unknown_tool"


def test_notebooks_show_tools_as_a_table(registry):
    registry.register(named("odd", description="<b>\u202e & more\nNot this."), origin=FILES)
    row = "<tr><td>odd</td><td>files</td><td>&lt;b&gt;\\u{202e} &amp; more</td></tr>"
    assert row in registry._repr_html_()
    assert row in asyncio.run(registry.resolve())._repr_html_()


def test_extras_are_added_by_kind_and_name(registry):
    handle = registry.add("exporters", "openai", "an exporter")
    assert registry.contributions.catalogue.extras["exporters"] == {"openai": "an exporter"}
    with pytest.raises(RegistrationError, match="exporter 'openai' is already registered"):
        registry.add("exporters", "openai", "another")
    handle.dispose()
    assert registry.contributions.catalogue.extras["exporters"] == {}
    with pytest.raises(RegistrationError, match="'tools' can't be registered by add; use one of predicates"):
        registry.add("tools", "x", "y")


# Calls ----------------------------------------------------------------------------------------------------------------


def test_the_tool_gets_the_context_of_the_call(registry):
    seen = []

    @registry.register
    def look(context: ToolContext) -> None:
        """Store the context."""
        seen.append(context)

    registry.provide(dict, {"a": "service"})
    request = ReadonlyContext(user="ada", session="s1")
    asyncio.run(registry.call("look", {}, request, call_id="c1"))
    (context,) = seen
    assert (context.user, context.session, context.call_id, context.tool) == ("ada", "s1", "c1", "look")
    assert context.service(dict) == {"a": "service"}
    with pytest.raises(LookupError, match=r"registry.provide\(list, \.\.\.\)"):
        context.service(list)


def test_a_hosts_tool_context_is_completed_for_each_call(registry):
    """Two calls at once must not write their names into one context."""
    seen = []

    def look(context: ToolContext) -> str:
        context.values[context.tool] = context.service(str)
        seen.append(context)
        return context.service(int)

    registry.register(Tool.from_function(look, name="one"), Tool.from_function(look, name="two"))
    registry.provide(int, "of the registry")
    registry.provide(str, "of the registry")
    own = ToolContext(call_id="mine", services={str: "of the context"})
    assert registry.call_sync("one", {}, own).text == "of the registry"
    asyncio.run(registry.call("two", {}, own, call_id="c2"))
    assert [(each.tool, each.call_id) for each in seen] == [("one", "mine"), ("two", "c2")]
    assert (own.tool, own.values) == ("", {"one": "of the context", "two": "of the context"})


def test_a_fatal_error_is_raised_after_the_callbacks_have_seen_the_result(registry):
    seen = []

    @registry.register
    def stop() -> None:
        """Stop."""
        raise FatalToolError("enough")

    registry.add_callback("after_tool", lambda result: seen.append(result.kind))
    with pytest.raises(FatalToolError, match="enough") as caught:
        registry.call_sync("stop")
    assert caught.value.__context__ is None
    assert seen == ["tool_failure"]


def test_the_limits_are_the_registrys():
    registry = ToolRegistry(limits=Limits(timeout=0.001, expose_errors=True))

    @registry.register
    async def stuck() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    @registry.register
    async def broken() -> None:
        """Break."""
        raise ValueError("no such row")

    assert registry.call_sync("stuck").kind == "timeout"
    assert registry.call_sync("broken").text == "broken failed: ValueError: no such row."


async def test_a_call_in_place_of_a_name_is_refused(registry):
    for take in (registry.call, partial(asyncio.to_thread, registry.call_sync)):
        with pytest.raises(TypeError, match=r"dispatch\(\[\.\.\.\]\) takes ToolCalls"):
            await take(ToolCall("add", {"a": 1}))


async def test_an_argument_of_another_type_is_refused_by_name(registry):
    with pytest.raises(TypeError, match=r"^limits must be Limits, got 3$"):
        ToolRegistry(limits=3)
    for what, find in (("an exporter", registry.exporter), ("a model", registry.model)):
        with pytest.raises(TypeError, match=rf"^{what}'s name must be str, got None$"):
            find(None)
    for take in (registry.resolve("ann"), registry.dispatch([], None, "ann"), registry.process(ModelRequest(), "ann")):
        with pytest.raises(TypeError, match=r"^context must be ReadonlyContext or ToolContext, got 'ann'$"):
            await take
    registry.register(add)
    with pytest.raises(TypeError, match=r"^permissions must be Permissions, got 'allow'$"):
        registry.permissions = "allow"


async def test_calls_go_on_after_closing(registry):
    registry.register(add)
    async with registry:
        first = await registry.call("add", {"a": 1})
    assert await registry.call("add", {"a": 1}) == first


def test_closing_closes_every_toolset_and_executor_even_if_some_fail_or_hang(monkeypatch, caplog):
    monkeypatch.setattr("pegboard.toolsets.toolset.CLOSE_SECONDS", 0.05)
    registry, gate, closed = ToolRegistry(), threading.Event(), []

    class Closing(StaticToolset):
        def __init__(self, name, close):
            super().__init__(name, [])
            self.close = self.aclose = close

    async def exits():  # at once, without a thread, which may come too late
        raise SystemExit(3)

    async def interrupts():
        raise KeyboardInterrupt

    async def hangs():
        await asyncio.Event().wait()

    async def ignores_cancellation():
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def closes():
        closed.append(True)

    closes = [exits, interrupts, hangs, ignores_cancellation, lambda: gate.wait(PATIENCE), closes]
    for number, close in enumerate(closes):
        registry.register(Closing(f"set_{number}", close))
        registry.add("executors", f"executor_{number}", Closing("executor", close))
    registry.call_sync("none")
    asyncio.run(registry.aclose())
    gate.set()
    assert closed == [True, True]
    failed = [str(record.exc_info[1]) for record in caplog.records if "closing" in record.getMessage()]
    assert len(failed) == 10
    assert sum("was not closed within 0.05 s" in each for each in failed) == 6


def test_validate_lists_every_problem_without_running_anything(registry):
    def explode(a: int, b: int) -> None:
        """Must not run."""
        raise AssertionError

    registry.register(explode)
    problems = registry.get("explode").check({"a": "x", "c": 1})
    assert [problem.split(":")[0] for problem in problems] == ["a", "b", "c"]
    assert registry.get("explode").check({"a": 1, "b": 2}) == ()
    with pytest.raises(UnknownToolError):
        registry.get("explod").check({})


def test_validate_loads_a_lazy_tool(registry):
    live = Tool.from_function(lambda a: a, name="late", input_schema={"type": "object", "required": ["a"]})
    registry.register(live.evolve(handler=LazyHandler(lambda: live)))
    assert [problem.split(":")[0] for problem in registry.get("late").check({})] == ["a"]


# Calls of what a request offered --------------------------------------------------------------------------------------


async def test_a_request_runs_exactly_what_it_was_offered(registry):
    """Even if it was replaced or removed since."""
    registry.register(named("read", "as offered"), named("gone", "still here"))
    resolved = await registry.resolve()
    registry.unregister("gone")
    registry.register(named("read", "replaced"), on_conflict="replace")
    registry.register(named("new"))
    read, gone, new, missing = [
        (result.text, result.kind)
        for name in ("read", "gone", "new", "gon")
        for result in [await registry.call(name, {}, resolved=resolved)]
    ]
    assert (read, gone) == (("as offered", None), ("still here", None))
    assert new == ("new is not available for this request. Available: gone, read.", "not_offered")
    assert missing[1] == "unknown_tool"
    assert "Did you mean 'gone'?" in missing[0]


def test_a_toolset_is_asked_for_the_context_of_the_call(registry):
    class Source:
        name = "source"

        async def tools(self, context):
            return [named(f"of_{context.user}")]

    registry.register(Source())
    assert registry.call_sync("of_ada", {}, ReadonlyContext(user="ada")).text == "answer"
    assert registry.call_sync("of_ada", {}, ToolContext(ReadonlyContext(user="ada"))).text == "answer"
    assert registry.call_sync("of_ada", {}, ReadonlyContext(user="bob")).kind == "unknown_tool"


# Callbacks ------------------------------------------------------------------------------------------------------------


def test_a_disposed_callback_isnt_called(registry):
    registry.register(add)
    with registry.add_callback("before_tool", lambda: Deny("no")):
        assert registry.call_sync("add", {"a": 1}).kind == "denied"
    assert not registry.call_sync("add", {"a": 1}).is_error


def test_an_unknown_stage_or_argument_of_a_callback_is_refused(registry):
    with pytest.raises(RegistrationError, match=r"unknown stage 'before_tools'\. Did you mean 'before_tool'"):
        registry.add_callback("before_tools", lambda: None)
    with pytest.raises(RegistrationError, match=r"after_tool: .* has a parameter 'outcome'; it may have context"):
        registry.add_callback("after_tool", lambda outcome: None)


def test_a_tool_registered_twice_counts_as_two(registry):
    registry.register(add)
    registry.register(add, on_conflict="shadow").dispose()
    assert names(registry) == ["add"]


def test_the_problem_of_a_held_back_tool_is_removed_with_it(registry):
    registry.register(Tool.from_function(lambda: 1, name="same"))
    held = registry.register(Tool.from_function(lambda: 2, name="same"), on_conflict="keep")
    assert held.tools == ()
    assert len(registry.problems()) == 1
    assert "held back" in str(asyncio.run(registry.resolve()).explain("same"))
    held.dispose()
    assert registry.problems() == ()
    assert registry.call_sync("same").text == "1"


def test_where_may_be_a_function_or_several_predicates_that_all_have_to_match():
    registry = ToolRegistry(where=["name:a*", lambda tool, context: tool.name != "ab", None])
    for name in ("a", "ab", "b"):
        registry.register(Tool.from_function(lambda: 1, name=name))
    assert asyncio.run(registry.resolve()).names == ("a",)
    assert asyncio.run(registry.resolve(where=lambda tool, context: False)).names == ()
    assert not asyncio.run(registry.resolve()).explain("b").offered


def test_a_predicate_has_to_be_a_function_with_a_name_of_its_own(registry):
    with pytest.raises(RegistrationError, match="the word is reserved"):
        registry.add("predicates", "and", lambda tool, context: True)
    with pytest.raises(RegistrationError, match="'mine' has to be a plain function"):
        registry.add("predicates", "mine", 3)


# Plugins that are listed and not imported -----------------------------------------------------------------------------


def list_plugin(registry, hook, *things, log):
    def load():
        log.append(threading.current_thread() is threading.main_thread())
        registry.register(*things, origin=FILES)
        registry.contributions.change(lambda catalogue: catalogue.evolve(plugins={}))

    plugin = PluginRecord("files", hooks=(f"pegboard_{hook}",), load=load)
    registry.contributions.change(lambda catalogue: catalogue.evolve(plugins={"files": plugin}))


@pytest.mark.parametrize(("hook", "expected"), [("before_tool", [False]), ("register_tools", [])])
def test_a_plugin_with_callbacks_is_loaded_at_the_first_call_off_the_loop(registry, hook, expected):
    """One with nothing but tools isn't loaded."""
    loads = []
    registry.register(add)
    list_plugin(registry, hook, log=loads)
    for _ in range(2):
        registry.call_sync("add", {"a": 1})
    asyncio.run(registry.resolve())
    assert loads == expected


def test_a_plugin_with_toolsets_is_loaded_when_they_are_queried(registry):
    loads = []
    source = StaticToolset("source", [named("late")])
    registry.register(add)
    list_plugin(registry, "register_toolsets", source, named("static"), log=loads)
    registry.call_sync("add", {"a": 1})
    assert loads == []
    assert registry.call_sync("late").text == "answer"
    assert asyncio.run(registry.resolve()).names == ("add", "late", "static")
    assert loads == [False]


# Concurrency ----------------------------------------------------------------------------------------------------------


def test_readers_see_consistent_catalogues_while_threads_write(registry):
    """Each writer registers and removes pairs; a reader never sees half of one."""
    torn, stop = [], threading.Event()

    def write(number):
        for _ in range(40):
            registry.register(named(f"left_{number}"), named(f"right_{number}")).dispose()

    def read():
        while not stop.is_set():
            seen = names(registry)
            if sum(name.startswith("left") for name in seen) != sum(name.startswith("right") for name in seen):
                torn.append(seen)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join(PATIENCE)
    stop.set()
    for thread in readers:
        thread.join(PATIENCE)
    assert torn == []
    assert names(registry) == []


def test_calls_from_several_threads_and_loops_run_concurrently(registry):
    registry.register(add)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: registry.call_sync("add", {"a": number}), range(8)))
    assert [result.structured_content["result"] for result in results] == list(range(1, 9))


@pytest.mark.parametrize(
    "name", ["self", "function", "arguments", "keywords", "context", "work", "handler", "tool", "name"]
)
def test_a_parameter_may_have_any_name(registry, name):
    """Names that our own functions use inside are ordinary names."""
    namespace: dict = {}
    exec(
        f"def plain({name}: str) -> str:\n    return {name}\n\nasync def later({name}: str) -> str:\n    return {name}",
        namespace,
    )
    registry.register(Tool.from_function(namespace["plain"]), Tool.from_function(namespace["later"]))
    assert registry.call_sync("plain", {name: "x"}).text == "x"
    assert registry.call_sync("later", {name: "x"}).text == "x"


def test_a_model_may_send_any_key_to_open_arguments(registry):
    """Such as those that our own functions use inside."""

    def everything(**rest: int) -> dict[str, int]:
        return rest

    registry.register(everything)
    sent = {"self": 1, "function": 2, "arguments": 3, "keywords": 4}
    assert registry.call_sync("everything", sent).structured_content == sent


@pytest.mark.parametrize("error", [GeneratorExit, StopIteration, KeyboardInterrupt, SystemExit])
def test_any_exception_of_a_plain_tool_becomes_its_result(registry, error):
    """Even what ends coroutines when it is raised into them."""

    def broken() -> str:
        raise error

    registry.register(broken)
    assert registry.call_sync("broken").kind == "tool_failure"


def test_a_call_without_a_context_has_no_user(registry):
    """As `None`, from hosts without users."""

    def whose(context: ToolContext) -> str:
        return repr(context.user)

    registry.register(whose)
    assert asyncio.run(registry.call("whose", {}, None)).text == "None"
    assert registry.call_sync("whose", None, None).text == "None"


# The registry's `where` -----------------------------------------------------------------------------------------------


@pytest.fixture
def bound():
    """A registry for read-only tools, with one that is, one that isn't, and one that calls it."""
    made = ToolRegistry(where=["read_only", lambda tool, context: context.user != "eve"])

    async def calls(context: ToolContext) -> str:
        return (await context.call("write")).text

    made.register(named("read", read_only=True), named("write"), Tool.from_function(calls, read_only=True))
    made.register(StaticToolset("late", [named("late_read", read_only=True), named("late_write")]))
    yield made
    asyncio.run(made.aclose())


@pytest.mark.parametrize(
    ("name", "user", "kind"),
    [
        ("read", None, None),
        ("read", "eve", "not_offered"),
        ("write", None, "not_offered"),
        ("late_read", None, None),
        ("late_write", None, "not_offered"),
        ("nowhere", None, "unknown_tool"),
    ],
)
@pytest.mark.parametrize("method", ["call", "dispatch", "call_sync"])
def test_where_binds_calls_without_resolved_tools(bound, method, name, user, kind):
    context = ReadonlyContext(user=user)
    if method == "call_sync":
        result = bound.call_sync(name, None, context)
    elif method == "call":
        result = asyncio.run(bound.call(name, None, context))
    else:
        result = asyncio.run(bound.dispatch([ToolCall(name)], context=context)).results[0]
    assert result.kind == kind


def test_where_binds_calls_inside_calls(bound):
    assert bound.call_sync("calls").text == "write is not available for this request. Available: calls, read."


async def test_tools_that_another_registry_has_resolved_are_refused(registry):
    """Otherwise its `where` would not apply to them."""
    wider, call = ToolRegistry(), ToolCall("add", {"a": 1}, "1")
    for each in (wider, registry):
        each.register(add)
    resolved = (await wider.resolve()).without("active", {})
    for run in (wider.call("add", {"a": 1}, resolved=resolved), wider.dispatch([call], resolved)):
        await run
    for run in (
        registry.call("add", {"a": 1}, resolved=resolved),
        registry.dispatch([call], resolved),
        registry.resume(PendingCalls(), {}, resolved),
        registry.process(ModelRequest("hello", tools=resolved)),
    ):
        with pytest.raises(ValueError, match="another registry"):
            await run


@pytest.mark.parametrize(
    ("facts", "names"), [({}, ["add", "greet", "look"]), ({"where": "not name:add"}, ["greet", "look"])]
)
def test_a_call_without_resolved_tools_sees_those_that_it_may_call(facts, names):
    registry, seen = ToolRegistry(**facts), []

    def look(context: ToolContext):
        seen.append([each.name for each in context.offered])

    registry.register(greet, add, Tool.from_function(look, name="look"))
    registry.add_callback("repair_call", lambda request: seen.append([each.name for each in request.tools]))
    registry.call_sync("look")
    registry.call_sync("look", {"no": "such"})
    assert seen == [names, names]


# Tools that hang ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_hanging_tools_take_no_threads_from_callbacks_and_approvers_and_are_named(registry, monkeypatch):
    monkeypatch.setattr("pegboard.threads.STALL_SECONDS", 0.01)
    gate, begun, called = threading.Event(), queue.SimpleQueue(), []

    def hang():
        begun.put(None)
        gate.wait(PATIENCE)

    registry.register(*(Tool.from_function(hang, name=f"stuck_{each}") for each in range(5)))
    registry.register(greet, Tool.from_function(lambda: "asked", name="asks", destructive=True))
    registry.approver = lambda request, context: Once()
    registry.add_callback("before_tool", lambda tool: called.append(tool.name))
    hanging = [asyncio.ensure_future(registry.dispatch([ToolCall(f"stuck_{each}")] * 64)) for each in range(5)]
    for _ in range(256):
        await asyncio.to_thread(begun.get, timeout=PATIENCE)
    denied = await registry.call("asks")
    assert denied.kind == "not_executed"
    assert "too many calls of stuck_" in denied.text
    assert (await registry.call("greet", {"name": "Ann"})).text == "Hello, Ann."
    assert {"greet", "asks"} <= set(called)
    gate.set()
    await asyncio.gather(*hanging)
    assert (await registry.call("asks")).text == "asked"


async def test_a_tool_with_many_hanging_calls_is_refused():
    async with ToolRegistry(limits=Limits(timeout=0.02)) as registry:
        gate = threading.Event()
        registry.register(Tool.from_function(lambda: gate.wait(PATIENCE), name="stuck"), add)
        kinds = [(await registry.call("stuck")).kind for _ in range(16)]
        while (refused := await registry.call("stuck")).kind == "timeout":
            kinds.append("timeout")  # not all of the others had begun
        assert set(kinds) == {"timeout"}
        assert refused.kind == "not_executed"
        assert refused.text == "stuck was not run: too many calls of stuck hang. Don't try again for now."
        gate.set()


@pytest.mark.slow
def test_recursion_through_a_tools_own_threads_is_ended(registry):
    """The call that started a thread isn't known there."""
    texts = []

    async def again():
        thread = threading.Thread(target=lambda: texts.append(registry.call_sync("again").text))
        thread.start()
        await asyncio.to_thread(thread.join)

    registry.register(Tool.from_function(again, name="again"))
    assert registry.call_sync("again").is_error is False
    assert texts[0] == "again was not run: 256 calls of it are under way. Does it call itself?"
    assert len(texts) == 256
