"""Subscriptions to changes of the tools."""

from __future__ import annotations

import sys

import pytest

from pegboard import Tool, ToolRegistry, ToolsetBase, tool


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
