"""`call_tool`, `plugin_registry` and `RecordedCalls`."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import ReadonlyContext, ToolContext, ToolRegistry, ToolResult, hookimpl, tool
from pegboard.errors import FatalToolError, PluginError, RegistrationError, RunningLoopError
from pegboard.testing import RecordedCall, RecordedCalls, call_tool, plugin_registry


@tool
def forecast(city: str, context: ToolContext, days: int = 1) -> str:
    """Forecast the weather."""
    return f"{city}, {days}, {context.user}"


def test_arguments_are_json_a_mapping_or_names_and_the_context_reaches_the_tool() -> None:
    assert call_tool(forecast, '{"city": "Oslo"}').text == "Oslo, 1, None"
    assert call_tool(forecast, {"city": "Oslo"}).text == "Oslo, 1, None"
    assert call_tool(forecast, city="Oslo", days=2).text == "Oslo, 2, None"
    assert call_tool(forecast, {"city": "Oslo", "days": 3}, days=2).text == "Oslo, 2, None"
    assert call_tool(forecast, {"city": "Oslo"}, ReadonlyContext(user="ada")).text == "Oslo, 1, ada"


def test_text_and_names_together_are_refused() -> None:
    with pytest.raises(TypeError, match="give one of the two"):
        call_tool(forecast, "{}", city="Oslo")


def test_a_plain_function_is_called_with_validated_arguments() -> None:
    def double(n: int) -> int:
        """Doubles."""
        return 2 * n

    assert call_tool(double, n=2).structured_content == {"result": 4}
    result = call_tool(double, n="two")
    assert (result.is_error, result.kind) == (True, "invalid_arguments")


def test_an_object_with_several_tools_is_refused() -> None:
    class Two:
        one = staticmethod(forecast)

        @tool
        def two(self) -> str:
            """Does."""
            return ""

    with pytest.raises(RegistrationError, match="holds forecast, two: pass one of them"):
        call_tool(Two())


def test_a_fatal_error_is_raised_by_call_tool() -> None:
    @tool
    def end() -> str:
        """Ends."""
        raise FatalToolError("over")

    with pytest.raises(FatalToolError, match="over"):
        call_tool(end)


def test_inside_an_event_loop_it_names_the_alternative() -> None:
    async def inside() -> None:
        call_tool(forecast, city="Oslo")

    with pytest.raises(RunningLoopError, match=r"await registry\.call"):
        asyncio.run(inside())


def test_calls_that_need_approval_are_allowed() -> None:
    @tool(destructive=True, requires_confirmation=True)
    async def wipe(context: ToolContext) -> str:
        """Wipes."""
        await context.ask("disk", ["*"])
        return "wiped"

    assert call_tool(wipe).text == "wiped"


# `plugin_registry`: a registry of given plugins, which load completely or fail ---------------------------------------


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


def test_objects_and_classes_are_named_after_their_class() -> None:
    registry = plugin_registry(Greeter)
    assert [record.name for record in registry.plugins()] == ["Greeter"]
    assert [tool.name for tool in registry.tools()] == ["greet"]  # and nothing else
    assert [record.name for record in plugin_registry(Greeter()).plugins()] == ["Greeter"]


def test_settings_reach_the_plugin_of_that_name() -> None:
    registry = plugin_registry(settings={"nice": {"text": "good day"}}, nice=Greeter)
    assert registry.call_sync("greet").text == "good day"


def test_installed_plugins_are_found_by_name_and_keep_their_origin() -> None:
    registry = plugin_registry("files")
    assert registry.get("read_file").origin.distribution == "pegboard-files"


def test_a_plugin_that_fails_raises_with_its_cause() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no disk")

    class Partial:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(greet)
            register(greet)

    with pytest.raises(PluginError, match="plugin 'Broken': OSError: no disk"):
        plugin_registry(Broken)
    with pytest.raises(PluginError, match="registered twice"):
        plugin_registry(Partial)


def test_plugins_with_the_same_name_or_tool_raise() -> None:
    with pytest.raises(PluginError, match="tool 'greet' is held back"):
        plugin_registry(one=Greeter, two=Greeter)
    with pytest.raises(RegistrationError, match="two plugins are called 'Greeter': name one"):
        plugin_registry(Greeter, Greeter())


# `RecordedCalls`: a recorder of calls, as a plugin and as a callback -------------------------------------------------


@tool
def double(n: int) -> int:
    """Doubles."""
    return 2 * n


class Doubler:
    @hookimpl
    def pegboard_register_tools(self, register) -> None:
        register(double)

    @hookimpl(tryfirst=True)
    def pegboard_after_tool(self, result) -> ToolResult:
        return ToolResult("replaced")


def test_a_plugin_sees_every_call_with_its_result() -> None:
    calls = RecordedCalls()
    registry = plugin_registry(Doubler, calls)
    assert registry.call_sync("double", {"n": 2}).text == "replaced"  # it changes nothing
    registry.call_sync("double", "not JSON")
    registry.call_sync("nosuch")

    assert calls.names == ["double", "double", "nosuch"]
    assert [call.arguments for call in calls] == [{"n": 2}, {}, {}]
    assert [call.result.kind for call in calls.calls] == [None, "invalid_arguments", "unknown_tool"]


def test_a_callback_of_the_host_records_too() -> None:
    calls = RecordedCalls()
    registry = ToolRegistry()
    registry.register(double)
    registry.add_callback("after_tool", calls)
    result = registry.call_sync("double", {"n": 2})

    assert list(calls) == [RecordedCall("double", {"n": 2}, result)]
    assert len(calls) == 1
