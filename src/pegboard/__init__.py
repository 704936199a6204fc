"""pegboard: a plugin-based tool registry for programs that let language models call tools."""

from __future__ import annotations

import sys

from pegboard import lazy

_NAMES = {
    "callbacks": "nonblocking when",
    "catalogue": "Catalogue Handle PluginRecord",
    "config": "Config load_config",
    "dispatch.approval.pending": "PendingCalls",
    "dispatch.approval.queue": "Approver",
    "dispatch.approval.request": "Always ApprovalRequest Later Once Reject",
    "dispatch.background": "Completion Operation",
    "dispatch.batch": "Batch BatchOptions Outcome",
    "dispatch.callbacks": "Abort Ask Chain ChangeArguments Deny",
    "dispatch.dispatcher": "Health",
    "dispatch.find": "RepairRequest",
    "dispatch.permissions.evaluation": "PermissionRules",
    "dispatch.permissions.permissions": "Permissions",
    "dispatch.permissions.rule": "Rule",
    "dispatch.permissions.rules_file": "read_permissions",
    "dispatch.truncate": "ResultTexts read_result_tool",
    "errors": "ModelError PegboardError ToolError",
    "messages": "Message ModelResponse",
    "plugins.hookspecs": "hookimpl",
    "plugins.load": "load",
    "plugins.manager": "register_plugin unload_plugin",
    "registry": "ToolRegistry",
    "request.model_request": "ExportedTools Exporter Loss Model ModelConfig ModelRequest NamedTool",
    "request.pipeline": "Pipeline Position",
    "request.processors": "BudgetTools LimitResults",
    "schema.types": "schema_of",
    "tools.call": "REMOVED Actions CallError CallFault Confirmation ToolCall",
    "tools.content": "AudioContent FileContent ImageContent LinkContent TextContent ToolResult",
    "tools.context": "Progress ReadonlyContext ToolContext",
    "tools.handler": "Preview",
    "tools.services": "Injected",
    "tools.limits": "Limits ResultLimits",
    "tools.spec": "Concurrency Grammar Origin Policy Problem ToolAnnotations ToolSpec",
    "tools.stores": "Artifacts Memory MemoryEntry",
    "tools.tool": "Tool tool",
    "tools.typed": "TypedTool tool_of",
    "toolsets.expression": "parse_predicate",
    "toolsets.predicates": "Predicate",
    "toolsets.resolve": "Explanation ResolvedTools found_names",
    "toolsets.search": "Found ToolIndex",
    "toolsets.toolset": "Toolset ToolsetResult",
    "toolsets.toolsets": "CombinedToolset StaticToolset ToolsetFunction",
    "toolsets.wrappers": "Reshape ToolsetBase wrap",
    "turn.events": "TurnOutcome",
    "turn.loop": "Turn run_turn stream_turn",
    "turn.options": "TurnLimits TurnOptions",
}
"""Module -> its public names, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
_TOPICS = ("approval", "errors", "events", "execution", "messages")  # modules that are attributes without an import
_FUNCTIONS = "answer_from_result ask_later confirmation_call event_from_json original_call_from parse_partial"
"""Functions that were here, and are in one of these modules now, as the classes that were here are."""
_RENAMED = {"Placed": "Position", "kept_result_tool": "read_result_tool", "only": "when", "quick": "nonblocking"}

_find, __dir__ = lazy.lazy_names(__name__, _MODULES)
# Here, as the package is above all its layers and is loaded before them.
lazy.installed = lazy.lazy_call("pegboard.plugins.load:installed")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _TOPICS:
        return import_module(f"pegboard.{name}")
    if name in _RENAMED:
        _deprecate(name, __name__, _RENAMED[name])
        return _find(_RENAMED[name])
    if name in _FUNCTIONS.split() or (name not in _MODULES and name[:1].isupper()):  # names of modules come here, too
        for module in map(import_module, (f"pegboard.{topic}" for topic in _TOPICS)):
            if getattr(getattr(module, name, None), "__module__", "").startswith(__name__):  # not what it imports
                _deprecate(name, module.__name__, name)
                return getattr(module, name)
    return _find(name)


def _deprecate(name: str, module: str, now: str) -> None:
    from warnings import warn

    text = f"from {module} import {now}; pegboard.{name} leaves with the next minor release"
    warn(text, DeprecationWarning, stacklevel=3)


class _Moved:
    """Finder that is asked last, and says where the modules are that moved to another package."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name in ("pegboard.dialects", "pegboard.wire"):
            now = name.replace("pegboard", "pegboard_clients")
            raise ModuleNotFoundError(f"{name} is now {now}: pip install pegboard-clients", name=name)


sys.meta_path.append(_Moved)
