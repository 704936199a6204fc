"""Requests prepared by a registry, and tools that only process them."""

from __future__ import annotations

import asyncio
import logging
import re
from functools import partial

import pytest

from pegboard import (
    BudgetTools,
    Message,
    ModelRequest,
    Permissions,
    Pipeline,
    PluginRecord,
    Position,
    ReadonlyContext,
    Rule,
    StaticToolset,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    hookimpl,
    nonblocking,
    register_plugin,
    tool,
)
from pegboard.errors import ProcessorError, RegistrationError

BUILT_IN = ("tool_requests", "instructions", "repair_history", "limit_results", "budget_tools", "pack_tools")


@tool(instructions="Add with the tool.")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def read(path: str) -> str:
    """Read a file."""
    return path


def adding(text):
    return nonblocking(lambda request: request.with_instructions(text))


def never(request):
    """A step that changes nothing."""


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(add, read)
    yield made
    asyncio.run(made.aclose())


def process(registry, request=None, context=None):
    return asyncio.run(registry.process(request or ModelRequest("hello"), context or ReadonlyContext(user="ann")))


def plugin_with(*named):
    """A plugin with these processors."""

    class Plugin:
        @hookimpl
        def pegboard_register_processors(self, register):
            for name, thing in named:
                register(name, thing)

    return Plugin()


# Preparing a request --------------------------------------------------------------------------------------------------


def test_tools_are_resolved_for_a_request_without_any(registry):
    registry.register(Tool.processor("mine", lambda context, request: request.with_instructions(context.user)))
    made = process(registry)
    assert made.tools.names == ("add", "read")
    assert made.tools.context.user == "ann"
    assert made.instructions == ("ann", "Add with the tool.")
    assert made.problems == ()


def test_resolved_tools_of_a_request_are_used(registry):
    resolved = asyncio.run(registry.resolve(active=["read"]))
    assert process(registry, ModelRequest("hello", tools=resolved)).tools.names == ("read",)


def test_a_plugins_failing_step_is_logged_and_left_out(registry, caplog):
    register_plugin(registry, plugin_with(("bad", lambda request: 1 / 0), ("good", adding("good"))), "rain")
    with caplog.at_level(logging.ERROR, "pegboard"):
        made = process(registry)
    assert made.instructions == ("Add with the tool.", "good")
    assert [str(problem) for problem in made.problems] == [
        "request processor 'bad' of plugin 'rain': ZeroDivisionError: division by zero"
    ]
    assert [record.getMessage() for record in caplog.records] == ["request processor 'bad' of plugin 'rain' failed"]


def test_a_hosts_failing_step_raises(registry):
    registry.pipeline = registry.pipeline.append("mine", lambda request: 1 / 0)
    with pytest.raises(ProcessorError, match=r"request processor 'mine': ZeroDivisionError"):
        process(registry)


def test_history_is_repaired_after_plugins_steps(registry):
    """A common step shortens a conversation, and may cut between a call and its result."""

    def shorten(request):
        return request.evolve(messages=request.messages[-2:])

    register_plugin(registry, plugin_with(("shorten", shorten)), "short")
    call = ToolCall("read", {"path": "a"}, "c1")
    outcome = asyncio.run(registry.dispatch([call]))
    history = ModelRequest(["go", Message.assistant(call), Message.tool(outcome), "on"])
    assert [message.role for message in process(registry, history).messages] == ["user"]


def test_the_results_of_a_batch_are_a_message(registry):
    calls = [ToolCall("add", {"a": 1, "b": 2}, "c1"), ToolCall("nosuch", {}, "c2")]
    message = Message.tool(asyncio.run(registry.dispatch(calls)))
    made = process(registry, ModelRequest(["go", Message.assistant(*calls), message]))
    assert made.messages[2] is message


# The steps ------------------------------------------------------------------------------------------------------------


def test_the_pipeline_has_built_in_and_registered_steps(registry):
    assert registry.pipeline.names == BUILT_IN
    register_plugin(registry, plugin_with(("b", never)), "second")
    handle = registry.add("processors", "mine", never)
    register_plugin(registry, plugin_with(("a", Position(never, before="pack_tools")), ("c", never)), "third")
    assert registry.pipeline.names == (*BUILT_IN[:2], "b", "c", "mine", *BUILT_IN[2:5], "a", "pack_tools")
    assert [registry.pipeline.get(name).owner.plugin for name in ("b", "mine", "a")] == ["second", None, "third"]
    handle.dispose()
    assert "mine" not in registry.pipeline


def test_the_host_sets_the_pipeline_and_later_steps_are_added(registry):
    registry.pipeline = registry.pipeline.insert_before("repair_history", "mine", adding("mine"))
    register_plugin(registry, plugin_with(("theirs", adding("theirs"))), "later")
    assert process(registry).instructions == ("Add with the tool.", "theirs", "mine")
    registry.pipeline = registry.pipeline.remove("theirs")
    assert process(registry).instructions == ("Add with the tool.", "mine")


def test_the_pipeline_may_be_empty(registry):
    registry.pipeline = Pipeline()
    made = process(registry)
    assert (registry.pipeline.names, made.instructions, made.tools.names) == ((), (), ("add", "read"))


def test_a_built_in_step_is_set_by_its_name(registry):
    registry.pipeline = registry.pipeline.replace("budget_tools", BudgetTools(1, pinned=["read"]))
    assert process(registry).tools.names == ("read",)


@pytest.mark.parametrize(
    ("name", "thing", "why"),
    [
        ("pack_tools", never, "processor 'pack_tools' is built in"),
        ("mine", lambda nosuch: None, "has a parameter 'nosuch'"),
        ("mine", 5, "is not a callable object"),
        ("", never, "name .*(has to|must) be a text"),
    ],
)
def test_an_invalid_step_is_refused_when_it_is_registered(registry, name, thing, why):
    with pytest.raises(RegistrationError, match=why):
        registry.add("processors", name, thing)
    record = register_plugin(registry, plugin_with((name, thing), ("good", never)), "odd")
    assert record.status == "partial"
    assert re.search(why, record.cause)
    assert "good" in registry.pipeline


def test_only_plugins_with_processors_are_loaded_for_the_pipeline(registry):
    loads = []
    hooks = {"steps": "pegboard_register_processors", "others": "pegboard_before_turn"}
    plugins = {
        name: PluginRecord(name, hooks=(hook,), load=partial(loads.append, name)) for name, hook in hooks.items()
    }
    registry.contributions.change(lambda catalogue: catalogue.evolve(plugins=plugins))
    assert registry.pipeline.names == BUILT_IN
    assert loads == ["steps"]


# Tools that aren't offered --------------------------------------------------------------------------------------------


def test_a_tool_that_only_processes_requests_is_resolved_and_never_called(registry):
    registry.register(Tool.processor("memory", adding("tea")))
    resolved = asyncio.run(registry.resolve())
    assert "memory" in resolved
    made = process(registry, ModelRequest("hello", tools=resolved))
    assert "tea" in made.instructions
    for offered in (made.tools, resolved, None):
        result = asyncio.run(registry.call("memory", {}, resolved=offered))
        assert result.kind == "not_offered"
        assert result.text == "memory is not available for this request. Available: add, read."
        (result,) = asyncio.run(registry.dispatch([ToolCall("memory")], offered)).results
        assert result.kind == "not_offered"


def test_predicates_apply_to_tools_that_only_process_requests():
    registry = ToolRegistry(where="not name:memory")
    registry.register(Tool.processor("memory", adding("tea")))
    made = process(registry)
    assert made.instructions == ()
    assert "- excluded by the default filter: not name:memory" in str(made.tools.explain("memory"))


def test_an_unknown_name_lists_only_offered_tools(registry):
    registry.register(Tool.processor("memory", never))
    for offered in (None, process(registry).tools):
        result = asyncio.run(registry.call("nosuch", {}, resolved=offered))
        assert (result.kind, result.text) == ("unknown_tool", "No tool is called 'nosuch'. Available: add, read.")


def test_tools_that_a_processor_adds_run_and_what_is_deferred_is_found(registry):
    extra = Tool.from_schema("extra", {"type": "object"}, lambda arguments: "ran")
    add_extra = nonblocking(lambda request: request.evolve(tools=request.tools.with_tools(extra)))
    registry.register(Tool.processor("bring", add_extra))
    paint = Tool.from_schema("paint_wall", {"type": "object"}, deferred=True)

    def seen(context: ToolContext) -> list[str]:
        return [tool.name for tool in context.offered]

    registry.register(StaticToolset("late", [paint, seen]))
    tools = process(registry).tools
    assert tools.names == ("add", "read", "seen", "extra")
    assert asyncio.run(registry.call("extra", {}, resolved=tools)).text == "ran"
    assert asyncio.run(registry.call("paint_wall", {}, resolved=tools)).kind == "not_offered"
    found = asyncio.run(registry.call("seen", {}, resolved=tools))
    assert found.structured_content["result"] == ["add", "read", "seen", "extra", "paint_wall"]


@pytest.mark.parametrize(
    ("name", "is_asked"), [("files__read", True), ("mcp-Files.read", True), ("other__read", False), ("read", False)]
)
async def test_a_toolset_isnt_queried_for_a_name_that_its_prefix_excludes(name, is_asked):
    asked = []

    class Slow:
        name = "slow"
        name_prefix = "files__"

        async def tools(self, context):
            asked.append(context)
            return []

    registry = ToolRegistry()
    registry.register(Slow())
    assert (await registry.call(name)).kind == "unknown_tool"
    assert bool(asked) is is_asked
    await registry.resolve(toolsets=lambda toolset: toolset.name == "slow")
    assert len(asked) == 1 + is_asked


async def test_each_call_of_a_batch_finds_its_toolset_and_an_invalid_name_fails_alone():
    registry = ToolRegistry()
    for name in ("alpha", "beta"):
        source = StaticToolset(name, [Tool.from_function(lambda: "ran", name=f"{name}_tool")])
        source.name_prefix = name
        registry.register(source)
    names = ["alpha_tool", ["alpha_tool"], "beta_tool", None]
    outcome = await registry.dispatch([ToolCall(name) for name in names])
    assert [result.kind for result in outcome.results] == [None, "unknown_tool", None, "unknown_tool"]
    for name in names[1::2]:
        for resolved in (None, await registry.resolve()):
            assert (await registry.call(name, resolved=resolved)).text == outcome.results[1].text
        assert (await asyncio.to_thread(registry.call_sync, name)).kind == "unknown_tool"


async def test_the_calls_of_one_request_follow_what_changes_between_them():
    registry, seen = ToolRegistry(), []

    async def probe() -> str:
        """Probes."""
        return "ran"

    registry.register(probe)
    resolved = await registry.resolve()
    assert (await registry.call("probe", resolved=resolved)).text == "ran"
    registry.add_callback("before_tool", lambda context, tool, arguments: seen.append(tool.name))
    assert (await registry.call("probe", resolved=resolved)).text == "ran"
    assert seen == ["probe"]
    registry.permissions = Permissions([Rule("probe", "*", "deny")])
    assert (await registry.call("probe", resolved=resolved)).kind == "denied"
    registry.permissions = None
    other = await registry.resolve(active=[])
    assert (await registry.call("probe", resolved=other)).kind == "not_offered"
    assert (await registry.call("probe", resolved=resolved)).text == "ran"
