"""Public aids for testing tools, plugins and hosts. They need neither pytest nor any other test runner."""

from __future__ import annotations

from pegboard.testing.board import plugin_registry
from pegboard.testing.calling import call_tool
from pegboard.testing.check import check_plugin
from pegboard.testing.recorded import RecordedCall, RecordedCalls
from pegboard.testing.report import Report
from pegboard.testing.scripted_approver import ScriptedApprover
from pegboard.testing.scripted_model import ScriptedModel

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
