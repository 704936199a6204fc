"""Public aids for testing tools, plugins and hosts. They need neither pytest nor any other test runner."""

from __future__ import annotations

from pegboard.plugins.discovery import FoundPlugin as FoundPlugin, discover as discover
from pegboard.plugins.manager import PluginManager as PluginManager, gather as gather
from pegboard.plugins.probe import (
    MOST_MEMORY as MOST_MEMORY,
    Done as Done,
    Job as Job,
    answer_job as answer_job,
    manifest_of as manifest_of,
    probe as probe,
    run_jobs as run_jobs,
)
from pegboard.plugins.side_effects import observed as observed
from pegboard.testing.calls import (
    RecordedCall as RecordedCall,
    RecordedCalls as RecordedCalls,
    call_tool as call_tool,
    plugin_registry as plugin_registry,
)
from pegboard.testing.check import (
    Report as Report,
    broken as broken,
    check_plugin as check_plugin,
    shown as shown,
    values_near as values_near,
)
from pegboard.testing.samples import NoSampleError as NoSampleError, Samples as Samples
from pegboard.testing.scripted import ScriptedApprover as ScriptedApprover, ScriptedModel as ScriptedModel
from pegboard.timeout import WATCHDOG as WATCHDOG, code_position as code_position
