"""Subscriptions to changes of the tools."""

from __future__ import annotations

import sys
import threading

import pytest

from pegboard import Origin, StaticToolset, Tool, ToolRegistry, ToolsetBase, tool
from pegboard.errors import RegistrationError


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


class Server(ToolsetBase):
    """A toolset whose tools change by themselves."""

    name = "server"

    def on_change(self, function):
        self.changed = function

    async def tools(self, context):
        return []


@pytest.fixture
def registry():
    return ToolRegistry()


def test_a_subscriber_is_called_for_each_change_of_the_tools_until_it_is_disposed(registry):
    calls = []
    with registry.contributions.on_change(lambda: calls.append(registry.contributions.catalogue.digest)):
        handle = registry.register(add)
        registry.add("predicates", "mine", lambda tool, context: True)  # no tool changes by it
        registry.register(Server())
        handle.dispose()
        registry.unregister("server")
    registry.register(add)
    assert len(calls) == 4
    assert calls[0] == calls[1] != calls[2] == calls[3]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_toolset_reports_that_its_tools_have_changed(registry, wrapped):
    calls, server = [], Server()
    registry.register(server.prefixed("a").filtered("read_only") if wrapped else server)
    registry.contributions.on_change(lambda: calls.append(1))
    server.changed()
    assert calls == [1]


def test_a_failing_subscriber_or_toolset_is_logged_and_the_others_work(registry, caplog):
    class Broken(Server):
        def on_change(self, function):
            raise RuntimeError("no")

    def fail():
        raise RuntimeError("nor this")

    calls = []
    registry.contributions.on_change(fail)
    registry.contributions.on_change(lambda: calls.append(1))
    registry.register(Broken())
    assert calls == [1]
    assert [record.getMessage() for record in caplog.records] == [
        "on_change of toolset 'server' failed",
        "a subscriber to changes of the tools failed",
    ]


def test_without_subscribers_a_registration_reads_none_of_the_tools_before_it():
    def functions_of(size):
        registry, names = ToolRegistry(), []
        registry.register(*(Tool.from_function(lambda: 1, name=f"tool_{number}") for number in range(size)))

        def profile(frame, event, _):
            if event == "call" and frame.f_globals.get("__name__", "").startswith("pegboard."):
                names.append(frame.f_code.co_qualname)

        sys.setprofile(profile)
        try:
            registry.register(add)
        finally:
            sys.setprofile(None)
        return names

    functions_of(1)  # imports, and makes the tool of the function
    assert functions_of(100) == functions_of(1) != []


# Replaced in place ----------------------------------------------------------------------------------------------------


def adding(extra):
    """Another version of `add`."""

    @tool(name="add", description="Adds more.")
    def other(a: int, b: int) -> int:
        return a + b + extra

    return other


async def added(registry, name="add", resolved=None):
    """What the tool makes of 1 and 2."""
    result = await registry.call(name, {"a": 1, "b": 2}, resolved=resolved)
    return result.structured_content["result"]


async def test_a_handle_replaces_its_tool_for_requests_made_from_then_on(registry):
    calls = []
    handle = registry.register(add, Server())
    before = await registry.resolve()
    registry.contributions.on_change(lambda: calls.append(1))
    handle.replace(adding(10))
    assert [await added(registry, resolved=each) for each in (before, None)] == [3, 13]
    assert [each.spec.description for each in handle.tools] == ["Adds more."]
    assert calls == [1]
    handle.replace(adding(20))
    assert await added(registry, "add") == 23
    assert calls == [1, 1]  # though nothing that it declares is another
    handle.dispose()
    assert registry.tools() == ()
    assert registry.contributions.catalogue.toolsets == ()


async def test_a_handle_replaces_its_toolset_in_place(registry):
    handle = registry.register(StaticToolset("one", [add]))
    registry.register(StaticToolset("two", [adding(10)]))
    handle.replace(StaticToolset("one", [adding(20)]))
    resolved = await registry.resolve()
    assert await added(registry, resolved=resolved) == 23  # `one` still comes first
    handle.dispose()
    assert [each.name for each in registry.contributions.catalogue.toolsets] == ["two"]


async def test_a_replaced_tool_keeps_the_name_that_a_conflict_gave_it_and_its_place_behind_another(registry):
    registry.register(add)
    prefixed = registry.register(adding(10), on_conflict="prefix")
    shadowing = registry.register(adding(20), on_conflict="shadow")
    prefixed.replace(adding(30))
    assert await added(registry, "host_add") == 33
    (shown,) = shadowing.tools
    held = registry.register(adding(40), origin=Origin("plugin"))  # the host's takes precedence
    held.replace(adding(50))
    assert registry.get("add") is shown
    registry.unregister("add")
    assert await added(registry, "add") == 3
    registry.unregister("add")
    assert await added(registry, "add") == 53


async def test_what_replaces_a_tool_takes_the_place_of_that_of_its_present_name_once(registry):
    handle = registry.register(add, adding(10), on_conflict="prefix")
    handle.replace(adding(20))
    assert [await added(registry, name) for name in ("add", "host_add")] == [23, 13]
    with pytest.raises(RegistrationError, match="nothing called 'add'"):
        handle.replace(adding(1), adding(2))
    assert await added(registry, "add") == 23


async def test_a_tool_that_two_handles_have_stays_until_the_last_is_disposed(registry):
    registry.register(add)
    shadowing = registry.register(adding(10), on_conflict="shadow")
    shadowing.replace(add)
    shadowing.dispose()
    assert await added(registry, "add") == 3


def test_a_handle_that_another_thread_disposes_while_it_replaces_leaves_nothing(registry):
    handle = registry.register(add)
    disposing = threading.Thread(target=handle.dispose)

    def dispose():
        if disposing.ident is None:
            disposing.start()
            disposing.join(0.1)  # it waits for the change

    registry.contributions.on_change(dispose)
    handle.replace(adding(1))
    disposing.join()
    assert registry.tools() == ()


def other_tool() -> str:
    """Is another tool."""
    return "other"


@pytest.mark.parametrize("things", [[other_tool], [adding(1), other_tool], [StaticToolset("add", [])]])
def test_what_a_handle_has_not_registered_is_not_replaced(registry, things):
    handle = registry.register(add)
    before = registry.contributions.catalogue
    with pytest.raises(RegistrationError, match=r"this handle has nothing called '\w+' to replace"):
        handle.replace(*things)
    assert registry.contributions.catalogue is before


def test_a_handle_replaces_nothing_that_is_gone(registry):
    handle = registry.register(add)
    registry.unregister("add")
    with pytest.raises(RegistrationError, match="nothing called 'add'"):
        handle.replace(adding(1))
    handle.dispose()
    with pytest.raises(RegistrationError, match="nothing called 'add'"):
        handle.replace(adding(1))


def test_what_replaces_a_plugins_tool_keeps_its_origin(registry):
    origin = Origin("mcp", trusted=False)
    handle = registry.register(add, origin=origin)
    handle.replace(adding(1))
    assert registry.get("add").origin == origin
