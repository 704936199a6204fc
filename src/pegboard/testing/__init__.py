"""Public aids for testing tools, plugins and hosts. They need neither pytest nor any other test runner."""

from __future__ import annotations

from pegboard.plugins.probe import Done as Done, Job as Job, answer_job as answer_job, run_jobs as run_jobs
from pegboard.testing.calls import (
    RecordedCall as RecordedCall,
    RecordedCalls as RecordedCalls,
    call_tool as call_tool,
    plugin_registry as plugin_registry,
)
from pegboard.testing.check import Report as Report, check_plugin as check_plugin
from pegboard.testing.scripted import ScriptedApprover as ScriptedApprover, ScriptedModel as ScriptedModel
