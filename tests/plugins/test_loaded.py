"""What one plugin brings, gathered hook by hook."""

from __future__ import annotations

import threading

import pluggy
import pytest

from pegboard import Tool, hookimpl
from pegboard.plugins.manager import gather, imported, within


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
    first, second = gather("g", Greeter, {}), gather("g", Greeter, {})
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

    loaded = gather("m", Meddler, {"a": 1})
    assert "TypeError" in loaded.faults[0]
    assert gather("g", Greeter, {"as": "hello"}).tools[0].name == "hello"


def test_one_bad_registration_costs_only_itself() -> None:
    """What comes before and behind it is kept."""

    class Mixed:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(greet)
            register(3)
            register(greet)
            register(Tool.from_function(greet, name="again"))

        @hookimpl
        def pegboard_register_toolsets(self, register) -> None:
            register("no toolset")

        @hookimpl
        def pegboard_register_predicates(self, register) -> None:
            register("mine", lambda tool, context: True)
            register("mine", lambda tool, context: False)

    loaded = gather("mixed", Mixed(), {})
    assert [kept.name for kept in loaded.tools] == ["greet", "again"]
    assert list(loaded.extras["predicates"]) == ["mine"]
    assert len(loaded.faults) == 4


def test_an_unknown_hook_is_a_fault_with_a_near_miss() -> None:
    """Unless it is marked optional, so that plugins for newer boards load on older ones."""

    class Typo:
        @hookimpl
        def pegboard_register_tool(self, register) -> None:
            pass

        @hookimpl(optionalhook=True)
        def pegboard_from_the_future(self) -> None:
            pass

    (fault,) = gather("typo", Typo(), {}).faults
    assert fault.startswith("there is no hook 'pegboard_register_tool'. Did you mean 'pegboard_register_tools'")


def test_wrong_hook_arguments_fail_the_plugin() -> None:
    """Pluggy's own check."""

    class Wrong:
        @hookimpl
        def pegboard_before_tool(self, context, nosuch) -> None:
            pass

    with pytest.raises(pluggy.PluginValidationError, match="nosuch"):
        gather("wrong", Wrong(), {})


def test_a_wrapper_is_refused_with_what_to_do() -> None:
    """Our chains aren't pluggy's."""

    class Wrapping:
        @hookimpl(wrapper=True)
        def pegboard_before_tool(self):
            return (yield)

    loaded = gather("w", Wrapping(), {})
    assert "pegboard_wrap_tool" in loaded.faults[0]
    assert loaded.hooks == ()


def test_a_hook_that_raises_and_brought_nothing_fails_the_plugin() -> None:
    """`SystemExit` included."""

    class Exits:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        gather("exits", Exits(), {})


def test_a_hook_that_raises_later_keeps_what_it_brought() -> None:
    """And the plugin is partial."""

    class Half:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(greet)
            raise OSError("disk full")

    loaded = gather("half", Half(), {})
    assert [kept.name for kept in loaded.tools] == ["greet"]
    assert loaded.faults == ["pegboard_register_tools raised OSError: disk full"]


def test_an_entry_point_names_a_module_or_something_in_it() -> None:
    """Dotted as deep as it goes."""
    import collections

    assert imported("collections", None) is collections
    assert imported("collections", "OrderedDict.fromkeys") == collections.OrderedDict.fromkeys


# A time limit on code that can't be interrupted ----------------------------------------------------------------------


def test_gives_what_the_function_gives() -> None:
    """Arguments go in, the value comes out, from a daemon thread."""
    assert within(5, lambda a, b: (a + b, threading.current_thread().daemon), 1, 2) == (3, True)


def test_raises_what_the_function_raises() -> None:
    """`SystemExit` is an error like any other here."""
    with pytest.raises(SystemExit):
        within(5, exit, 3)


def test_gives_up_past_the_limit() -> None:
    """The work is left behind, not waited for."""
    go_on = threading.Event()
    with pytest.raises(TimeoutError, match=r"longer than 0\.01 s"):
        within(0.01, go_on.wait)
    go_on.set()
