"""`plugin_registry`: plugins on a registry of their own, whole or not at all."""

from __future__ import annotations

import pytest

from pegboard import PluginError, RegistrationError, hookimpl, tool
from pegboard.testing import plugin_registry


@tool
def greet() -> str:
    """Greets."""
    return "hello"


class Greeter:
    def __init__(self, settings=None) -> None:
        self.settings = settings or {}

    @hookimpl
    def pegboard_register_tools(self, register, settings) -> None:
        register(tool(lambda: settings.get("text", "hello"), name="greet", description="Greets."))


def test_objects_and_classes_are_called_as_their_class_is() -> None:
    assert [record.name for record in plugin_registry(Greeter).plugins()] == ["Greeter"]
    assert [record.name for record in plugin_registry(Greeter()).plugins()] == ["Greeter"]


def test_settings_reach_the_plugin_of_that_name() -> None:
    registry = plugin_registry(settings={"nice": {"text": "good day"}}, nice=Greeter)
    assert registry.call_sync("greet").text == "good day"


def test_installed_plugins_are_hung_by_name_and_keep_their_origin() -> None:
    registry = plugin_registry("files")
    assert registry.get("read_file").origin.distribution == "pegboard-files"


def test_nothing_else_is_on_the_registry() -> None:
    assert [tool.name for tool in plugin_registry(Greeter).tools()] == ["greet"]


def test_a_plugin_that_fails_raises_with_its_cause() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no disk")

    with pytest.raises(PluginError, match="plugin 'Broken': OSError: no disk"):
        plugin_registry(Broken)


def test_a_plugin_that_is_partial_raises_with_its_cause() -> None:
    class Partial:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(greet)
            register(greet)

    with pytest.raises(PluginError, match="registered twice"):
        plugin_registry(Partial)


def test_two_plugins_with_one_tools_name_raise() -> None:
    with pytest.raises(PluginError, match="tool 'greet' is held back"):
        plugin_registry(one=Greeter, two=Greeter)


def test_two_plugins_of_one_name_raise_with_the_way_out() -> None:
    with pytest.raises(RegistrationError, match="two plugins are called 'Greeter': name one"):
        plugin_registry(Greeter, Greeter())
