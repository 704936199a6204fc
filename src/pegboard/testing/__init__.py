"""Public aids for testing tools, plugins and hosts. They need neither pytest nor any other test runner."""

from __future__ import annotations

from pegboard.testing.calls import RecordedCall, RecordedCalls, call_tool, plugin_registry
from pegboard.testing.check import Report, check_plugin
from pegboard.testing.scripted import ScriptedApprover, ScriptedModel

__all__ = [
    "RecordedCall",
    "RecordedCalls",
    "Report",
    "ScriptedApprover",
    "ScriptedModel",
    "call_tool",
    "check_plugin",
    "plugin_registry",
]
