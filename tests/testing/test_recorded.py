"""`RecordedCalls`: every call with its result, in order, as a plugin and as a callback."""

from __future__ import annotations

from pegboard import ToolRegistry, ToolResult, hookimpl, tool
from pegboard.testing import RecordedCall, RecordedCalls, plugin_registry


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
    registry.call_sync("double", {"n": 2})
    registry.call_sync("double", "not JSON")
    registry.call_sync("nosuch")

    assert calls.names == ["double", "double", "nosuch"]
    assert [call.arguments for call in calls] == [{"n": 2}, {}, {}]
    assert [call.result.kind for call in calls.calls] == [None, "invalid_arguments", "unknown_tool"]


def test_it_changes_nothing() -> None:
    assert plugin_registry(Doubler, RecordedCalls()).call_sync("double", {"n": 2}).text == "replaced"


def test_a_callback_of_the_host_records_too() -> None:
    calls = RecordedCalls()
    registry = ToolRegistry()
    registry.register(double)
    registry.add_callback("after_tool", calls)
    result = registry.call_sync("double", {"n": 2})

    assert list(calls) == [RecordedCall("double", {"n": 2}, result)]
    assert len(calls) == 1
