"""Plugins on one registry: who brought what, and whose failure costs whom."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pluggy
import pytest

import pegboard
from pegboard import (
    Deny,
    Injected,
    LocalExecutor,
    Memory,
    MemoryEntry,
    ReadonlyContext,
    StaticToolset,
    Tool,
    ToolContext,
    ToolRegistry,
    ToolResult,
    ToolSpec,
    hookimpl,
    only,
    tool,
)
from pegboard.errors import RegistrationError
from pegboard.plugins import discovery, hookspecs, load as load_module
from pegboard.plugins.discovery import FoundPlugin
from pegboard.plugins.manager import PluginManager, gather, register_plugin
from pegboard.plugins.manifest import PluginManifest, manifest_path, write_manifest
from pegboard.plugins.probe import probe
from pegboard.plugins.side_effects import run_in_thread
from pegboard.tools.spec import Origin


def named(name: str):
    """A tool that answers with its name."""

    @tool(name=name)
    def function() -> str:
        return name

    return function


def bringing(*names: str):
    """A plugin that brings tools of these names."""

    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(*map(named, names))

    return Plugin()


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture
def manager(registry) -> PluginManager:
    return PluginManager(registry)


def test_a_plugin_hangs_its_tools_under_its_name(registry, manager) -> None:
    """The record says what it brought; the tool says who brought it."""
    record = manager.register(bringing("b", "a"), Origin("mine", "pegboard-mine", "1.2"))
    assert (record.status, record.tools, record.hooks) == ("loaded", ("a", "b"), ("pegboard_register_tools",))
    assert str(registry.get("a").origin) == "plugin 'mine' (pegboard-mine 1.2)"
    assert registry.call_sync("a").text == "a"


def test_a_failing_plugin_costs_only_itself(registry, manager) -> None:
    """It is quarantined with its cause; its neighbours work."""

    class Bad:
        def __init__(self) -> None:
            raise SystemExit(7)

    record = manager.register(Bad, Origin("bad"))
    manager.register(bringing("a"), Origin("good"))
    assert (record.status, record.cause) == ("quarantined", "SystemExit: 7")
    assert [(problem.plugin, problem.cause) for problem in registry.problems()] == [("bad", "SystemExit: 7")]
    assert registry.call_sync("a").text == "a"


def test_a_plugin_that_takes_too_long_is_quarantined(registry) -> None:
    """Its thread is left behind."""
    go_on = threading.Event()

    class Slow:
        def __init__(self) -> None:
            go_on.wait()

    record = PluginManager(registry, seconds=0.01).register(Slow, Origin("slow"))
    go_on.set()
    assert record.status == "quarantined"
    assert "longer than 0.01 s" in record.cause


def test_of_two_plugins_the_earlier_keeps_the_name(registry, manager) -> None:
    """The later one's tool is held back, and the problem says which line settles it."""
    manager.register(bringing("same", "one"), Origin("first"))
    manager.register(bringing("same", "two"), Origin("second"))
    assert registry.get("same").origin.plugin == "first"
    (problem,) = registry.problems()
    assert (problem.plugin, problem.tool) == ("second", "same")
    assert '[prefix] second = "second_"' in problem.cause


def test_prefix_and_rename_settle_a_conflict(registry) -> None:
    """A rename may name the plugin, or the name as it would hang."""
    manager = PluginManager(registry, prefix={"second": "s_"}, rename={"first:one": "uno", "s_two": "due"})
    manager.register(bringing("same", "one"), Origin("first"))
    manager.register(bringing("same", "two"), Origin("second"))
    assert [hung.name for hung in registry.tools()] == ["due", "s_same", "same", "uno"]
    assert registry.call_sync("due").text == "two"
    assert registry.problems() == ()


def answering(text: str, **options):
    """A plugin whose before hook notes that it was asked."""

    class Plugin:
        def __init__(self, asked) -> None:
            self.asked = asked

        @hookimpl(**options)
        def pegboard_before_tool(self, tool) -> None:
            self.asked.append(text)

    return Plugin


ORDERS = [("a", {}), ("b", {"trylast": True}), ("c", {"tryfirst": True}), ("d", {}), ("e", {"trylast": True})]
ORDERS += [("f", {"tryfirst": True})]


def test_callbacks_stand_in_pluggys_order(registry, manager) -> None:
    """As pluggy itself would ask the same plugins."""
    ours: list[str] = []
    theirs: list[str] = []
    known = pluggy.PluginManager("pegboard")
    known.add_hookspecs(hookspecs)
    for text, options in ORDERS:
        manager.register(answering(text, **options)(ours), Origin(text))
        known.register(answering(text, **options)(theirs))
    manager.register(bringing("t"), Origin("tools"))
    registry.call_sync("t")
    known.hook.pegboard_before_tool(context=None, tool=None, arguments={})
    assert ours == theirs


def test_a_hook_may_be_limited_to_some_tools(registry, manager) -> None:
    class Careful:
        @hookimpl
        @only("tag:network")
        def pegboard_before_tool(self):
            return Deny("no")

    manager.register(Careful(), Origin("careful"))
    registry.register(
        *(Tool.from_function(lambda: "done", name=f"tool_{tag}", tags=[tag]) for tag in ("disk", "network"))
    )
    assert [registry.call_sync(name).kind for name in ("tool_disk", "tool_network")] == [None, "denied"]


def test_callbacks_round_a_call_work_plain_and_async(registry, manager) -> None:
    """Before may deny, on_error recovers, after sees the outcome; the host's own come last."""
    seen: list[str] = []

    class Round:
        @hookimpl
        async def pegboard_before_tool(self, arguments):
            await asyncio.sleep(0)
            seen.append("before")
            return Deny("no")

        @hookimpl
        def pegboard_on_tool_error(self, error):
            seen.append(f"error {error}")
            return ToolResult("recovered")

        @hookimpl
        async def pegboard_after_tool(self, result):
            seen.append(f"after {result.text}")

    manager.register(Round(), Origin("round"))
    manager.register(bringing("t"), Origin("tools"))
    registry.add_callback("after_tool", lambda result: seen.append("host"))
    assert registry.call_sync("t").text == "recovered"
    assert seen == ["before", "error t was denied: no", "after recovered", "host"]


def test_toolsets_predicates_and_other_things_come_with_their_owner(registry, manager) -> None:
    """A second one of the same name is refused and reported."""

    class Brings:
        @hookimpl
        def pegboard_register_predicates(self, register) -> None:
            register("short", lambda tool, context: len(tool.name) < 3)

        @hookimpl
        def pegboard_register_exporters(self, register) -> None:
            register("mine", object())

    manager.register(Brings(), Origin("first"))
    record = manager.register(Brings(), Origin("second"))
    manager.register(bringing("a", "longer"), Origin("tools"))
    assert asyncio.run(registry.resolve(where="short")).names == ("a",)
    assert registry.catalogue.owners["exporters:mine"].plugin == "first"
    assert record.name == "second"
    assert any("'mine' is taken" in problem.cause for problem in registry.problems())


def test_a_name_that_the_configuration_makes_wrongly_costs_only_the_renaming(registry) -> None:
    """The tool keeps its own name, and the problem says which line to change."""
    manager = PluginManager(registry, prefix={"mine": "x" * 62}, rename={"mine:ok": "not a name"})
    manager.register(bringing("long", "ok"), Origin("mine"))
    assert [hung.name for hung in registry.tools()] == ["long", "ok"]
    assert ["[prefix] or [rename]" in problem.cause for problem in registry.problems()] == [True, True]


def test_plugins_may_be_hung_beside_installed_ones(registry) -> None:
    """One manager keeps all of a registry's callbacks in order."""
    from pegboard import RegistrationError, register_plugin

    seen: list[str] = []

    class Noting:
        def __init__(self, settings) -> None:
            self.settings = settings

        @hookimpl
        def pegboard_before_tool(self) -> None:
            seen.append(self.settings["word"])

    register_plugin(registry, bringing("t"), "tools")
    register_plugin(registry, Noting, "one", settings={"word": "one"})
    register_plugin(registry, Noting, "two", settings={"word": "two"})
    registry.call_sync("t")
    assert seen == ["two", "one"]
    with pytest.raises(RegistrationError, match="'one' already"):
        register_plugin(registry, Noting, "one")


def test_an_async_register_hook_is_a_fault(registry, manager) -> None:
    """It would be awaited by nobody."""

    class Later:
        @hookimpl
        async def pegboard_register_tools(self, register) -> None:
            register(named("t"))

    record = manager.register(Later(), Origin("later"))
    assert (record.status, "register hooks are plain functions" in record.cause) == ("quarantined", True)


# What one plugin brings, gathered hook by hook -----------------------------------------------------------------------


def greet(name: str) -> str:
    """Greets."""
    return f"hello {name}"


class Greeter:
    """A plugin as a class."""

    @hookimpl
    def pegboard_register_tools(self, register, settings) -> None:
        register(Tool.from_function(greet, name=settings.get("as", "greet")))

    @hookimpl
    def pegboard_before_tool(self, tool) -> None:
        """Takes one of the three arguments."""


def test_of_a_class_one_instance_is_made() -> None:
    """Each time anew, so that registries never share a plugin's state."""
    first, second = gather(Origin("g"), Greeter, {}), gather(Origin("g"), Greeter, {})
    assert isinstance(first.plugin, Greeter)
    assert first.plugin is not second.plugin
    assert first.hooks == ("pegboard_before_tool", "pegboard_register_tools")


def test_settings_are_handed_over_read_only() -> None:
    """A plugin can't change them."""

    class Meddler:
        @hookimpl
        def pegboard_register_tools(self, settings) -> None:
            settings["a"] = 2

        @hookimpl
        def pegboard_before_tool(self) -> None:
            pass

    loaded = gather(Origin("m"), Meddler, {"a": 1})
    assert "TypeError" in loaded.faults[0]
    assert gather(Origin("g"), Greeter, {"as": "hello"}).tools[0].name == "hello"


def test_one_bad_registration_costs_only_itself() -> None:
    """What comes before and behind it is kept."""

    class Mixed:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(greet)
            register(3)
            register(greet)
            register(Tool.from_function(greet, name="again", description="a\u202eb"))
            register(Tool.from_schema("odd", {"type": "object", "properties": {"\u200b": {}}}))

        @hookimpl
        def pegboard_register_toolsets(self, register) -> None:
            register("no toolset")

        @hookimpl
        def pegboard_register_predicates(self, register) -> None:
            register("mine", lambda tool, context: True)
            register("mine", lambda tool, context: False)

    loaded = gather(Origin("mixed"), Mixed(), {})
    assert [kept.name for kept in loaded.tools] == ["greet", "again"]
    assert loaded.tools[1].spec.description == "a\\u{202e}b"
    assert list(loaded.extras["predicates"]) == ["mine"]
    assert "tool 'odd': properties: '\\u{200b}' holds hidden characters" in loaded.faults
    assert len(loaded.faults) == 5


class Hostile:
    """Interrupts whatever looks at it; as a text, whatever compares it; as a toolset, at the second look."""

    asked = 0

    @property
    def __class__(self):
        raise KeyboardInterrupt("looked at")

    class Text(str):
        __slots__ = ()

        def __hash__(self):
            raise KeyboardInterrupt("compared")

    class Toolset:
        tools = print

        @property
        def name(self):
            Hostile.asked += 1
            if Hostile.asked > 1:
                raise KeyboardInterrupt("asked twice")
            return "set"


def test_a_toolset_that_names_itself_only_once_is_called_as_its_class() -> None:
    registry = ToolRegistry()
    plugin = type("Plugin", (), {"pegboard_register_toolsets": hookimpl(lambda self, register: register(toolset))})
    toolset = Hostile.Toolset()
    assert PluginManager(registry).register(plugin, Origin("hostile")).status == "loaded"
    assert [each.name for each in registry.catalogue.toolsets] == ["Toolset"]


def _signed(self):
    pass


_signed.__signature__ = Hostile()


@pytest.mark.parametrize(
    ("hook", "brought"),
    [
        ("tools", (Hostile(),)),
        ("toolsets", (Hostile(),)),
        ("processors", ("one", Hostile())),
        ("predicates", ("one", Hostile())),
        ("exporters", (Hostile.Text("one"), print)),
        ("models", (5, print)),
        ("executors", ("x" * 1_001, print)),
        (None, ()),
    ],
)
def test_whatever_a_plugins_objects_do_when_they_are_looked_at_costs_only_the_plugin(hook, brought) -> None:
    hooks = {"pegboard_before_tool": hookimpl(_signed)}
    if hook is not None:
        hooks = {f"pegboard_register_{hook}": hookimpl(lambda self, register: register(*brought))}
    registry = ToolRegistry()
    record = PluginManager(registry).register(type("Plugin", (), hooks), Origin("hostile"))
    assert record.status in ("quarantined", "partial")
    assert asyncio.run(registry.resolve()).names == ()


def test_an_unknown_hook_is_a_fault_with_a_near_miss() -> None:
    """Unless it is marked optional, so that plugins for newer boards load on older ones."""

    class Typo:
        @hookimpl
        def pegboard_register_tool(self, register) -> None:
            pass

        @hookimpl(optionalhook=True)
        def pegboard_from_the_future(self) -> None:
            pass

    (fault,) = gather(Origin("typo"), Typo(), {}).faults
    assert fault.startswith("there is no hook 'pegboard_register_tool'. Did you mean 'pegboard_register_tools'")


def test_wrong_hook_arguments_fail_the_plugin() -> None:
    class Wrong:
        @hookimpl
        def pegboard_before_tool(self, context, nosuch) -> None:
            pass

    with pytest.raises(pluggy.PluginValidationError, match=r"before_tool\(context, nosuch\).*\nArgument.*'nosuch'"):
        gather(Origin("wrong"), Wrong(), {})


def test_a_wrapper_that_is_none_fails_the_plugin_by_pluggys_words() -> None:
    """What else pluggy checks."""

    class Wrong:
        @hookimpl(wrapper=True)
        def pegboard_before_tool(self, context) -> None:
            pass

    with pytest.raises(pluggy.PluginValidationError, match="not a generator function"):
        gather(Origin("wrong"), Wrong(), {})


def test_a_wrapper_is_refused_with_what_to_do() -> None:
    """Our chains aren't pluggy's."""

    class Wrapping:
        @hookimpl(wrapper=True)
        def pegboard_before_tool(self):
            return (yield)

    loaded = gather(Origin("w"), Wrapping(), {})
    assert "pegboard_wrap_tool" in loaded.faults[0]
    assert loaded.hooks == ()


def test_a_hook_that_raises_and_brought_nothing_fails_the_plugin() -> None:
    """`SystemExit` included."""

    class Exits:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        gather(Origin("exits"), Exits(), {})


def test_a_hook_that_raises_later_keeps_what_it_brought() -> None:
    """And the plugin is partial."""

    class Half:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(greet)
            raise OSError("disk full")

    loaded = gather(Origin("half"), Half(), {})
    assert [kept.name for kept in loaded.tools] == ["greet"]
    assert loaded.faults == ["pegboard_register_tools raised OSError: disk full"]


# A time limit on code that can't be interrupted ----------------------------------------------------------------------


def test_gives_what_the_function_gives() -> None:
    """Arguments go in, the value comes out, from a daemon thread."""
    assert run_in_thread(5, lambda a, b: (a + b, threading.current_thread().daemon), 1, 2) == (3, True)


def test_raises_what_the_function_raises() -> None:
    """`SystemExit` is an error like any other here."""
    with pytest.raises(SystemExit):
        run_in_thread(5, exit, 3)


def test_gives_up_past_the_limit() -> None:
    """The work is left behind, not waited for."""
    go_on = threading.Event()
    with pytest.raises(TimeoutError, match=r"longer than 0\.01 s"):
        run_in_thread(0.01, go_on.wait)
    go_on.set()


class Everything:
    """Brings one of each."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    @hookimpl
    def pegboard_register_tools(self, register) -> None:
        register(named("static"))
        register(named("taken"))

    @hookimpl
    def pegboard_register_toolsets(self, register) -> None:
        toolset = StaticToolset("source", [named("from_source")])
        toolset.close = lambda: self.log.append("toolset closed")  # type: ignore[method-assign]
        register(toolset)

    @hookimpl
    def pegboard_register_predicates(self, register) -> None:
        register("odd", lambda tool, context: True)

    @hookimpl
    def pegboard_register_executors(self, register) -> None:
        executor = LocalExecutor([])
        executor.aclose = lambda: self.log.append("executor closed")  # type: ignore[method-assign]
        register("own", executor)

    @hookimpl
    def pegboard_register_services(self, register) -> None:
        register(Memory, self.opened, scope="registry")

    def opened(self):
        yield self
        self.log.append("service closed")

    @hookimpl
    def pegboard_before_tool(self, tool) -> None:
        self.log.append(tool.name)


def test_a_plugin_that_is_unloaded_leaves_nothing_and_may_come_again(registry) -> None:
    log: list[str] = []
    registry.register(Tool.from_function(lambda: "the host's", name="taken"))
    before, changes = registry.catalogue, []
    registry.on_change(lambda: changes.append(1))
    for _ in range(2):
        record = register_plugin(registry, Everything(log), "every")
        assert (record.status, record.cause) == ("loaded", None)
        resolved = asyncio.run(registry.resolve())
        assert registry.call_sync("static").text == "static"
        assert ToolContext(services=registry.services).service(Memory).log is log
        assert asyncio.run(registry.unload("every")) is True
        assert log == ["static", "service closed", "toolset closed", "executor closed"]
        log.clear()
        after = registry.catalogue
        assert (after.tools, after.toolsets, after.problems) == (before.tools, before.toolsets, before.problems)
        assert (after.plugins, after.plugin_callbacks, after.owners) == ({}, {}, {})
        assert not any(after.extras.values())
        assert asyncio.run(registry.call("static", resolved=resolved)).text == "static"
        assert registry.call_sync("static").kind == "unknown_tool"
        assert log == []
    assert len(changes) == 4
    assert asyncio.run(registry.unload("every")) is False


def test_what_an_unloaded_plugin_held_back_returns_and_others_stay(registry) -> None:
    heard: list[str] = []

    class Hears:
        @hookimpl
        def pegboard_before_tool(self) -> None:
            heard.append("b")

    class Faulty:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(named("a"))
            register(3)

    assert register_plugin(registry, Faulty(), "one").status == "partial"
    register_plugin(registry, Hears(), "two")
    with registry.register(named("a"), on_conflict="replace"):
        asyncio.run(registry.unload("one"))
    assert (registry.tools(), registry.problems()) == ((), ())
    registry.register(named("a"))
    assert (registry.call_sync("a").text, heard) == ("a", ["b"])
    assert [each.name for each in registry.plugins()] == ["two"]


def test_a_plugin_that_was_listed_only_is_never_loaded_once_it_is_unloaded(registry, manager) -> None:
    registry.plugin_manager = manager
    found = FoundPlugin("late", "no_such_module", None, "pegboard-late", "1", None)
    manager.list_plugins([(found, PluginManifest("late", tools=(ToolSpec("late"),)))])
    resolved = asyncio.run(registry.resolve())
    assert resolved.names == ("late",)
    assert asyncio.run(registry.unload("late")) is True
    result = asyncio.run(registry.call("late", resolved=resolved))
    assert (result.kind, "it was unloaded" in result.detail) == ("tool_failure", True)
    assert registry.tools() == ()


SERVES = """
from pegboard import Memory, MemoryEntry, hookimpl

class Archive:
    async def search(self, query, *, user=None, session=None, limit=10):
        return (MemoryEntry(f"{user}: {query}"),)

@hookimpl
def pegboard_register_services(register, settings):
    register(Memory, Archive, scope="registry")
    register("no type", 1)
    register(Memory, Archive())
"""


class TestServices:
    """Services that plugins bring."""

    @pytest.fixture
    def recall(self):
        @tool
        async def recall(context: ToolContext) -> str:
            """Recalls."""
            return (await context.memory.search("pears"))[0].text

        return recall

    @pytest.mark.parametrize("live", [False, True])
    def test_a_plugins_service_is_found_by_its_type(self, site, recall, live) -> None:
        """Its plugin is imported when it is asked for, and no sooner; what it can't register costs that alone."""
        site("archive", SERVES)
        registry = pegboard.load(live=live)
        registry.register(recall)
        assert live or "archive_made_up" not in sys.modules
        assert registry.call_sync("recall", {}, ReadonlyContext(user="ann")).text == "ann: pears"
        (record,) = registry.plugins()
        assert record.status == "partial"
        assert [problem.cause for problem in registry.problems()] == [
            "a service is provided for a class or protocol, not for 'no type'",
            "service 'pegboard.tools.stores.Memory' is registered twice; the first is kept",
        ]
        assert asyncio.run(registry.unload("archive"))
        assert registry.call_sync("recall", {}, ReadonlyContext(user="ann")).is_error  # memory knows nothing

    def test_the_hosts_service_stands_before_a_plugins(self, site, recall) -> None:
        class Own:
            async def search(self, query, **_):
                return (MemoryEntry(f"the host: {query}"),)

        site("archive", SERVES)
        registry = pegboard.load()
        registry.register(recall)
        registry.provide(Memory, Own())
        assert registry.call_sync("recall").text == "the host: pears"
        assert "archive_made_up" not in sys.modules

    def test_a_service_that_nothing_provides_names_the_packages_that_could(self, site, monkeypatch) -> None:
        """Installed ones, by their manifests, and the project's own; a registry takes none that it hasn't loaded."""

        @tool
        def recall(memory: Injected[Memory]) -> str:
            """Recalls."""
            return str(memory)

        site("archive", SERVES.replace('    register("no type", 1)\n    register(Memory, Archive())\n', ""))
        found = discovery.discover().entries[0]
        (done,) = probe([found], {})
        write_manifest(manifest_path(found), [done.manifest])
        record = Path(found.location) / "RECORD"
        record.write_text(f"{record.read_text()}{manifest_path(found).name},,\n")
        monkeypatch.setattr(load_module, "_installed", load_module._installed.__wrapped__)
        registry = ToolRegistry()
        registry.register(recall)
        result = registry.call_sync("recall")
        assert result.text == "recall isn't set up here, so it can't run. Do without it, or say so."
        told = (
            "no Memory is provided; the host does it with registry.provide(Memory, ...), or a plugin does once it is "
        )
        assert f"{told}installed and loaded: dist-archive, pegboard-memory" in result.detail

    def test_a_plugin_whose_service_fails_is_named(self, site, recall, monkeypatch) -> None:
        """Nothing else stands in for it."""
        site("archive", "import os\nif 'BREAK' in os.environ: 1 / 0\n" + SERVES)
        pegboard.load()
        monkeypatch.setenv("BREAK", "1")
        sys.modules.pop("archive_made_up", None)
        registry = pegboard.load()
        registry.register(recall)
        result = registry.call_sync("recall")
        assert result.kind == "tool_failure"
        assert "plugin 'archive' (from dist-archive): ZeroDivisionError" in result.detail

    def test_the_host_provides_and_does_not_add_services(self) -> None:
        with pytest.raises(RegistrationError, match=r"'services' can't be registered; registry.provide does it"):
            ToolRegistry().add("services", "memory", object())
