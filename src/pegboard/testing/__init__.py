"""Public aids for testing tools, plugins and hosts. They need neither pytest nor any other test runner."""

from __future__ import annotations

import pegboard.testing.executors_elsewhere  # pyright: ignore[reportUnusedImport]
import pegboard.testing.executors_local  # noqa: F401  # pyright: ignore[reportUnusedImport]  both add their checks
from pegboard.plugins.discovery import FoundPlugin as FoundPlugin, discover as discover
from pegboard.plugins.manager import PluginManager as PluginManager
from pegboard.plugins.plugin import load_plugin as load_plugin
from pegboard.plugins.probe import (
    MOST_MEMORY as MOST_MEMORY,
    Done as Done,
    Job as Job,
    answer_job as answer_job,
    manifest_of as manifest_of,
    probe_plugins as probe_plugins,
    run_jobs as run_jobs,
)
from pegboard.plugins.side_effects import watch_side_effects as watch_side_effects
from pegboard.testing.calls import (
    RecordedCall as RecordedCall,
    RecordedCalls as RecordedCalls,
    call_tool as call_tool,
    plugin_registry as plugin_registry,
)
from pegboard.testing.check import (
    Report as Report,
    check_plugin as check_plugin,
    contract_violation as contract_violation,
    mutations_of as mutations_of,
    short_text as short_text,
)
from pegboard.testing.executors import (
    EXECUTOR_TOOLS as EXECUTOR_TOOLS,
    ExecutorReport as ExecutorReport,
    check_executor as check_executor,
)
from pegboard.testing.samples import NoSampleError as NoSampleError, Samples as Samples
from pegboard.testing.scripted import ScriptedApprover as ScriptedApprover, ScriptedModel as ScriptedModel
from pegboard.timeout import WATCHDOG as WATCHDOG, code_position as code_position
