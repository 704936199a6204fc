"""Plugins on one registry: where things come from, and what a failure affects."""

from __future__ import annotations

import asyncio
import sys
import threading
from queue import SimpleQueue
from types import SimpleNamespace

import pluggy
import pytest

import pegboard
from pegboard import (
    Deny,
    Injected,
    Memory,
    MemoryEntry,
    Origin,
    ReadonlyContext,
    StaticToolset,
    Tool,
    ToolContext,
    ToolRegistry,
    ToolResult,
    ToolSpec,
    hookimpl,
    register_plugin,
    tool,
    unload_plugin,
    when,
)
from pegboard.config import Config
from pegboard.errors import HIDDEN, RegistrationError
from pegboard.execution import LocalExecutor
from pegboard.plugins import hookspecs, load as load_module
from pegboard.plugins.manifest import PluginManifest
from pegboard.testing import FoundPlugin, PluginManager, load_plugin


def named(name: str):
    """A tool that answers with its name."""

    @tool(name=name)
    def function() -> str:
        return name

    return function


def implementing(options=None, **hooks):
    """A plugin that implements these hooks, each by a function of what it asks for by name."""
    marked = {f"pegboard_{name}": staticmethod(hookimpl(**(options or {}))(each)) for name, each in hooks.items()}
    return type("Plugin", (), marked)()


def bringing(*names: str):
    """A plugin that brings tools of these names."""
    return implementing(register_tools=lambda register: register(*map(named, names)))


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture
def manager(registry) -> PluginManager:
    return PluginManager(registry)


def test_a_plugins_tools_have_its_origin_and_its_record_lists_them(registry, manager) -> None:
    """The record has what it brought; the tool has its origin."""
    record = manager.register(bringing("b", "a"), Origin("mine", "pegboard-mine", "1.2"))
    assert (record.status, record.tools, record.hooks) == ("loaded", ("a", "b"), ("pegboard_register_tools",))
    assert str(registry.get("a").origin) == "plugin 'mine' (pegboard-mine 1.2)"
    assert registry.call_sync("a").text == "a"


def test_a_plugin_that_takes_too_long_is_quarantined(registry) -> None:
    """Its thread is abandoned, and doesn't delay the exit."""
    go_on, threads = threading.Event(), SimpleQueue()

    class Slow:
        def __init__(self) -> None:
            threads.put(threading.current_thread())
            go_on.wait()

    record = PluginManager(registry, seconds=0.01).register(Slow, Origin("slow"))
    go_on.set()
    assert (record.status, threads.get(timeout=60).daemon) == ("quarantined", True)
    assert "longer than 0.01 s" in record.cause


def test_of_two_plugins_the_earlier_keeps_the_name(registry, manager) -> None:
    """The later one's tool is held back, and the problem has the line that resolves it."""
    manager.register(bringing("same", "one"), Origin("first"))
    manager.register(bringing("same", "two"), Origin("second"))
    assert registry.get("same").origin.plugin == "first"
    (problem,) = registry.problems()
    assert (problem.plugin, problem.tool) == ("second", "same")
    assert '[prefix] second = "second_"' in problem.cause


def test_prefix_and_rename_settle_a_conflict(registry) -> None:
    """A rename may name the plugin's tool, or the prefixed name."""
    manager = PluginManager(
        registry, config=Config(prefix={"second": "s_"}, rename={"first:one": "uno", "s_two": "due"})
    )
    manager.register(bringing("same", "one"), Origin("first"))
    manager.register(bringing("same", "two"), Origin("second"))
    assert [each.name for each in registry.tools()] == ["due", "s_same", "same", "uno"]
    assert registry.call_sync("due").text == "two"
    assert registry.problems() == ()


ORDERS = [("a", {}), ("b", {"trylast": True}), ("c", {"tryfirst": True}), ("d", {}), ("e", {"trylast": True})]
ORDERS += [("f", {"tryfirst": True})]


def test_callbacks_run_in_pluggys_order(registry, manager) -> None:
    """As pluggy itself would call the same plugins."""
    ours: list[str] = []
    theirs: list[str] = []

    def asked(log, text):
        return lambda tool: log.append(text)

    known = pluggy.PluginManager("pegboard")
    known.add_hookspecs(hookspecs)
    for text, options in ORDERS:
        manager.register(implementing(options, before_tool=asked(ours, text)), Origin(text))
        known.register(implementing(options, before_tool=asked(theirs, text)))
    manager.register(bringing("t"), Origin("tools"))
    registry.call_sync("t")
    known.hook.pegboard_before_tool(context=None, tool=None, arguments={})
    assert ours == theirs


def test_a_plugin_may_implement_a_hook_several_times(registry, manager) -> None:
    """By pluggy's `specname`: each implementation has its own place."""
    called: list[str] = []

    class Twice:
        @hookimpl(tryfirst=True)
        def pegboard_before_tool(self):
            called.append("first")

        @hookimpl(specname="pegboard_before_tool", trylast=True)
        def check(self):
            called.append("last")

        @hookimpl
        def pegboard_register_tools(self, register):
            register(named("one"))

        @hookimpl(specname="pegboard_register_tools")
        def register_more(self, register):
            register(named("two"))

    manager.register(Twice(), Origin("twice"))
    manager.register(implementing(before_tool=lambda: called.append("other")), Origin("other"))
    assert registry.call_sync("two").kind is None
    assert called == ["first", "other", "last"]
    record = next(each for each in registry.plugins() if each.name == "twice")
    assert (record.hooks, record.tools) == (("pegboard_before_tool", "pegboard_register_tools"), ("one", "two"))


def test_a_hook_may_be_limited_to_some_tools(registry, manager) -> None:
    manager.register(implementing(before_tool=when("tag:network")(lambda: Deny("no"))), Origin("careful"))
    registry.register(
        *(Tool.from_function(lambda: "done", name=f"tool_{tag}", tags=[tag]) for tag in ("disk", "network"))
    )
    assert [registry.call_sync(name).kind for name in ("tool_disk", "tool_network")] == [None, "denied"]


def test_callbacks_around_a_call_may_be_plain_or_async(registry, manager) -> None:
    """Before may deny, on_error recovers, after sees the outcome; the host's own come last."""
    seen: list[str] = []

    async def before(arguments):
        await asyncio.sleep(0)
        seen.append("before")
        return Deny("no")

    def on_error(error):
        seen.append(f"error {error}")
        return ToolResult("recovered")

    async def after(result):
        seen.append(f"after {result.text}")

    manager.register(implementing(before_tool=before, on_tool_error=on_error, after_tool=after), Origin("round"))
    manager.register(bringing("t"), Origin("tools"))
    registry.add_callback("after_tool", lambda result: seen.append("host"))
    assert registry.call_sync("t").text == "recovered"
    assert seen == ["before", "error t was denied: no", "after recovered", "host"]


def test_predicates_and_exporters_have_their_owner(registry, manager) -> None:
    """A second one of the same name is refused and reported."""
    brings = implementing(
        register_predicates=lambda register: register("short", lambda tool, context: len(tool.name) < 3),
        register_exporters=lambda register: register("mine", object()),
    )
    manager.register(brings, Origin("first"))
    record = manager.register(brings, Origin("second"))
    manager.register(bringing("a", "longer"), Origin("tools"))
    assert asyncio.run(registry.resolve(where="short")).names == ("a",)
    assert registry.contributions.catalogue.owners["exporters:mine"].plugin == "first"
    assert record.name == "second"
    assert any("'mine' is already registered" in problem.cause for problem in registry.problems())


def test_an_invalid_configured_name_is_ignored(registry) -> None:
    """The tool keeps its own name, and the problem says which line to change."""
    manager = PluginManager(registry, config=Config(prefix={"mine": "x" * 62}, rename={"mine:ok": "not a name"}))
    manager.register(bringing("long", "ok"), Origin("mine"))
    assert [each.name for each in registry.tools()] == ["long", "ok"]
    assert ["[prefix] or [rename]" in problem.cause for problem in registry.problems()] == [True, True]


def test_a_host_may_register_plugins_with_settings(registry) -> None:
    """One manager orders all of a registry's callbacks."""
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
    """Nothing would await it."""

    async def register_tools(register) -> None:
        register(named("t"))

    record = manager.register(implementing(register_tools=register_tools), Origin("later"))
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


def test_a_plugin_class_is_instantiated_per_registry() -> None:
    """A new one each time, so that registries never share a plugin's state."""
    first, second = load_plugin(Origin("g"), Greeter, {}), load_plugin(Origin("g"), Greeter, {})
    assert isinstance(first.thing, Greeter)
    assert first.thing is not second.thing
    assert first.hooks == ("pegboard_before_tool", "pegboard_register_tools")


def test_settings_are_read_only() -> None:
    """A plugin can't change them."""
    meddler = implementing(register_tools=lambda settings: settings.update(a=2), before_tool=lambda: None)
    loaded = load_plugin(Origin("m"), meddler, {"a": 1})
    assert "'mappingproxy' object has no attribute 'update'" in loaded.faults[0]
    assert load_plugin(Origin("g"), Greeter, {"as": "hello"}).tools[0].name == "hello"


def test_one_bad_registration_costs_only_itself() -> None:
    """What comes before and after it is registered."""
    again = Tool.from_function(greet, name="again", description="a\u202eb")
    odd = Tool.from_schema("odd", {"type": "object", "properties": {"\u200b": {}}})
    mixed = implementing(
        register_tools=lambda register: register(greet, 3, greet, again, odd),
        register_toolsets=lambda register: register("no toolset"),
        register_predicates=lambda register: [register("mine", print) for _ in range(2)] and None,
    )
    loaded = load_plugin(Origin("mixed"), mixed, {})
    assert [each.name for each in loaded.tools] == ["greet", "again"]
    assert loaded.tools[1].spec.description == "a\\u{202e}b"
    assert list(loaded.extras["predicates"]) == ["mine"]
    assert "tool 'odd': properties: '\\u{200b}' contains hidden characters" in loaded.faults
    assert len(loaded.faults) == 5


class Hostile:
    """Raises when it is examined; as a string, when it is compared; as a toolset, the second time."""

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
                raise KeyboardInterrupt("read twice")
            return "set"


def test_a_toolset_whose_name_raises_later_is_named_by_its_class() -> None:
    registry = ToolRegistry()
    toolset = Hostile.Toolset()
    plugin = implementing(register_toolsets=lambda register: register(toolset))
    assert PluginManager(registry).register(plugin, Origin("hostile")).status == "loaded"
    assert [each.name for each in registry.contributions.catalogue.toolsets] == ["Toolset"]


def _signed():
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
def test_hostile_objects_of_a_plugin_cost_only_the_plugin(hook, brought) -> None:
    hooks = {"before_tool": _signed}
    if hook is not None:
        hooks = {f"register_{hook}": lambda register: register(*brought)}
    registry = ToolRegistry()
    record = PluginManager(registry).register(implementing(**hooks), Origin("hostile"))
    assert record.status in ("quarantined", "partial")
    assert asyncio.run(registry.resolve()).names == ()


def test_an_unknown_hook_is_a_fault_with_a_near_miss() -> None:
    """Unless it is marked optional, so that plugins for newer versions load on older ones."""

    class Typo:
        @hookimpl
        def pegboard_register_tool(self, register) -> None:
            pass

        @hookimpl(optionalhook=True)
        def pegboard_from_the_future(self) -> None:
            pass

    (fault,) = load_plugin(Origin("typo"), Typo(), {}).faults
    assert fault.startswith("there is no hook 'pegboard_register_tool'. Did you mean 'pegboard_register_tools'")


def test_an_unknown_hook_argument_fails_the_plugin() -> None:
    with pytest.raises(pluggy.PluginValidationError, match=r"before_tool.*\n.*\nArgument.*'nosuch'"):
        load_plugin(Origin("wrong"), implementing(before_tool=lambda context, nosuch: None), {})


def test_a_wrapper_is_refused_with_what_to_do() -> None:
    """Callbacks aren't run by pluggy."""

    def wrap():
        return (yield)

    loaded = load_plugin(Origin("w"), implementing({"wrapper": True}, before_tool=wrap), {})
    assert "pegboard_wrap_tool" in loaded.faults[0]
    assert loaded.hooks == ()


def test_a_hook_that_raises_before_registering_fails_the_plugin() -> None:
    """`SystemExit` included."""
    with pytest.raises(SystemExit):
        load_plugin(Origin("exits"), implementing(register_tools=lambda register: sys.exit(3)), {})


def test_an_error_is_replaced_if_its_own_text_shows_a_secret(monkeypatch) -> None:
    """However long the cause's is; what only a source line or a path shows is the author's, and no secret."""

    def load(error: BaseException) -> BaseException:
        def register_tools(register) -> None:
            raise error from ValueError("x" * 21_000)  # with the key dummy-0

        with pytest.raises(Exception) as raised:  # noqa: PT011  of any class
            load_plugin(Origin("leaks"), implementing(register_tools=register_tools), {"key": {"env": "MY_KEY"}})
        return raised.value

    monkeypatch.setenv("MY_KEY", "dummy-0")
    plain, leaking = OSError("disk full"), OSError("login with dummy-0 failed")
    assert load(plain) is plain
    assert str(load(leaking)) == f"OSError: login with {HIDDEN} failed"
    assert str(load(ExceptionGroup("two", [plain, leaking]))) == "ExceptionGroup: two (2 sub-exceptions)"


def test_a_hook_that_raises_later_keeps_what_it_registered() -> None:
    """The plugin is partial."""

    def register_tools(register) -> None:
        register(greet)
        raise OSError("disk full")

    loaded = load_plugin(Origin("half"), implementing(register_tools=register_tools), {})
    assert [each.name for each in loaded.tools] == ["greet"]
    assert loaded.faults == ["pegboard_register_tools raised OSError: disk full"]


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


def test_an_unloaded_plugin_leaves_nothing_and_can_be_registered_again(registry) -> None:
    log: list[str] = []
    registry.register(Tool.from_function(lambda: "the host's", name="taken"))
    before, changes = registry.contributions.catalogue, []
    registry.contributions.on_change(lambda: changes.append(1))
    for _ in range(2):
        record = register_plugin(registry, Everything(log), "every")
        assert (record.status, record.cause) == ("loaded", None)
        resolved = asyncio.run(registry.resolve())
        assert registry.call_sync("static").text == "static"
        assert ToolContext(services=registry.services).service(Memory).log is log
        assert asyncio.run(unload_plugin(registry, "every")) is True
        assert log == ["static", "service closed", "toolset closed", "executor closed"]
        log.clear()
        after = registry.contributions.catalogue
        assert (after.tools, after.toolsets, after.problems) == (before.tools, before.toolsets, before.problems)
        assert (after.plugins, after.plugin_callbacks, after.owners) == ({}, {}, {})
        assert not any(after.extras.values())
        assert asyncio.run(registry.call("static", resolved=resolved)).text == "static"
        assert registry.call_sync("static").kind == "unknown_tool"
        assert log == []
    assert len(changes) == 4
    assert asyncio.run(unload_plugin(registry, "every")) is False


def test_unloading_a_plugin_leaves_others_registered(registry) -> None:
    calls: list[str] = []
    faulty = implementing(register_tools=lambda register: register(named("a"), 3))
    assert register_plugin(registry, faulty, "one").status == "partial"
    register_plugin(registry, implementing(before_tool=lambda: calls.append("b")), "two")
    with registry.register(named("a"), on_conflict="replace"):
        asyncio.run(unload_plugin(registry, "one"))
    assert (registry.tools(), registry.problems()) == ((), ())
    registry.register(named("a"))
    assert (registry.call_sync("a").text, calls) == ("a", ["b"])
    assert [each.name for each in registry.plugins()] == ["two"]


def test_a_listed_plugin_isnt_loaded_after_it_was_unloaded(registry, manager) -> None:
    registry.contributions.manager = manager
    found = FoundPlugin("late", "no_such_module", None, "pegboard-late", "1", None)
    manager.list_plugins([(found, PluginManifest("late", tools=(ToolSpec("late"),)))])
    resolved = asyncio.run(registry.resolve())
    assert resolved.names == ("late",)
    assert asyncio.run(unload_plugin(registry, "late")) is True
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

LOCKS = """
import os
from pegboard import hookimpl
from pegboard.backends import LockBackend

if os.environ.get("LOCKS_BROKEN"):
    raise RuntimeError("no driver")

class Locks:
    async def acquire(self, claims, *, within=(), lost):
        raise ConnectionError("no server")

@hookimpl
def pegboard_register_services(register, settings):
    register(LockBackend, Locks())
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

    def test_a_plugin_brings_locks_for_all_calls(self, site, monkeypatch) -> None:
        """One that can't be loaded stops only the call that finds that out, if it guards no calls."""

        @tool
        async def look() -> str:
            return "seen"

        site("locks", LOCKS)
        registry = pegboard.load()
        registry.register(look)
        assert registry.call_sync("look").kind == "not_executed"
        assert registry.operations.take() == ()  # of no store, as it brings none
        monkeypatch.setenv("LOCKS_BROKEN", "1")
        monkeypatch.delitem(sys.modules, "locks_made_up")
        registry = pegboard.load()
        registry.register(look)
        assert [registry.call_sync("look").kind for _ in range(3)] == ["not_executed", None, None]
        assert [each.status for each in registry.plugins()] == ["quarantined"]

    @pytest.mark.parametrize("live", [False, True])
    def test_a_plugins_service_is_found_by_its_type(self, site, recall, live) -> None:
        """Its plugin is imported at first use; what it can't register costs nothing else."""
        site("archive", SERVES)
        registry = pegboard.load(live=live)
        registry.register(recall)
        assert live or "archive_made_up" not in sys.modules
        assert registry.call_sync("recall", {}, ReadonlyContext(user="ann")).text == "ann: pears"
        (record,) = registry.plugins()
        assert record.status == "partial"
        assert [problem.cause for problem in registry.problems()] == [
            "a service is provided for a class or protocol, not for 'no type'",
            "service 'pegboard.tools.stores.Memory' is registered twice; the first counts",
        ]
        assert asyncio.run(unload_plugin(registry, "archive"))
        assert registry.call_sync("recall", {}, ReadonlyContext(user="ann")).is_error  # there is no Memory

    def test_the_hosts_service_takes_precedence_over_a_plugins(self, site, recall) -> None:
        class Own:
            async def search(self, query, **_):
                return (MemoryEntry(f"the host: {query}"),)

        site("archive", SERVES)
        registry = pegboard.load()
        registry.register(recall)
        registry.provide(Memory, Own())
        assert registry.call_sync("recall").text == "the host: pears"
        assert "archive_made_up" not in sys.modules

    def test_a_missing_service_names_the_packages_that_provide_it(self, site, monkeypatch) -> None:
        """Installed ones, by their manifests, and first-party ones; a registry uses none that it hasn't loaded."""

        @tool
        def recall(memory: Injected[Memory]) -> str:
            """Recalls."""
            return str(memory)

        site("archive", SERVES.replace('    register("no type", 1)\n    register(Memory, Archive())\n', ""))
        site.write_manifests()
        monkeypatch.setattr(load_module, "_load_installed", load_module._load_installed.__wrapped__)
        registry = ToolRegistry()
        registry.register(recall)
        result = registry.call_sync("recall")
        assert result.text == "recall isn't set up here, so it can't run. Continue without it, or tell the user."
        reason = "no Memory is provided; the host does it with registry.provide(Memory, ...), or a plugin does once it "
        assert f"{reason}is installed and loaded: dist-archive, pegboard-memory" in result.detail

    def test_a_plugin_whose_service_fails_is_named(self, site, recall, monkeypatch) -> None:
        """No other service replaces it."""
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
        with pytest.raises(RegistrationError, match=r"'services' can't be registered by add; use registry.provide"):
            ToolRegistry().add("services", "memory", object())


RENAMING = """
from pegboard import hookimpl

@hookimpl
def pegboard_register_transforms(register):
    register("short", lambda tools: tools.renamed({"greet_one": "greet"}))
"""


async def test_a_listed_plugins_tool_is_transformed_before_and_after_its_import(site) -> None:
    site("one")
    site("short", RENAMING)
    await asyncio.to_thread(site.write_manifests)
    registry = await asyncio.to_thread(pegboard.load)
    assert [(each.name, each.status) for each in registry.plugins()] == [("one", "listed"), ("short", "listed")]
    changes = []
    registry.contributions.on_change(lambda: changes.append(1))
    for _ in range(2):
        assert (await registry.call("greet", {"who": "Ann"})).text == "hello Ann"  # the first imports the plugins
        assert (await registry.resolve()).names == ("greet",)
    assert changes == []
    assert await unload_plugin(registry, "short")
    assert changes == [1]
    assert (await registry.resolve()).names == ("greet_one",)


def test_subscribers_are_told_of_the_toolsets_of_a_plugin_that_is_registered_later(registry) -> None:
    changes = []
    registry.contributions.on_change(lambda: changes.append(1))

    @hookimpl
    def pegboard_register_toolsets(register) -> None:
        register(StaticToolset("later", []))

    register_plugin(registry, SimpleNamespace(pegboard_register_toolsets=pegboard_register_toolsets), "later")
    assert changes == [1]
