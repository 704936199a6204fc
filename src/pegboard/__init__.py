"""pegboard: a plugin-based tool registry for programs that let language models call tools."""

from __future__ import annotations

import sys

from pegboard import lazy

_MODULES = {
    "Abort": "dispatch.callbacks",
    "Actions": "tools.call",
    "Always": "dispatch.approval.request",
    "ApprovalRequest": "dispatch.approval.request",
    "Approver": "dispatch.approval.queue",
    "Artifacts": "tools.stores",
    "Ask": "dispatch.callbacks",
    "AudioContent": "tools.content",
    "Batch": "dispatch.batch",
    "BatchOptions": "dispatch.batch",
    "BudgetTools": "request.processors",
    "CallError": "tools.call",
    "CallFault": "tools.call",
    "Catalogue": "catalogue",
    "Chain": "dispatch.callbacks",
    "ChangeArguments": "dispatch.callbacks",
    "CombinedToolset": "toolsets.toolsets",
    "Completion": "dispatch.background",
    "Concurrency": "tools.spec",
    "Config": "config",
    "Confirmation": "tools.call",
    "Deny": "dispatch.callbacks",
    "Explanation": "toolsets.resolve",
    "ExportedTools": "request.model_request",
    "Exporter": "request.model_request",
    "FileContent": "tools.content",
    "Found": "toolsets.search",
    "Grammar": "tools.spec",
    "Handle": "catalogue",
    "Health": "dispatch.dispatcher",
    "ImageContent": "tools.content",
    "Injected": "tools.services",
    "Later": "dispatch.approval.request",
    "LimitResults": "request.processors",
    "Limits": "tools.spec",
    "LinkContent": "tools.content",
    "Loss": "request.model_request",
    "Memory": "tools.stores",
    "MemoryEntry": "tools.stores",
    "Message": "messages",
    "Model": "request.model_request",
    "ModelConfig": "request.model_request",
    "ModelError": "errors",
    "ModelRequest": "request.model_request",
    "ModelResponse": "messages",
    "NamedTool": "request.model_request",
    "Once": "dispatch.approval.request",
    "Operation": "dispatch.background",
    "Origin": "tools.spec",
    "Outcome": "dispatch.batch",
    "PegboardError": "errors",
    "PendingCalls": "dispatch.approval.pending",
    "PermissionRules": "dispatch.permissions.evaluation",
    "Permissions": "dispatch.permissions.permissions",
    "Pipeline": "request.pipeline",
    "Position": "request.pipeline",
    "PluginRecord": "catalogue",
    "Policy": "tools.spec",
    "Predicate": "toolsets.predicates",
    "Preview": "tools.handler",
    "Problem": "tools.spec",
    "Progress": "tools.context",
    "REMOVED": "tools.call",
    "ReadonlyContext": "tools.context",
    "Reject": "dispatch.approval.request",
    "RepairRequest": "dispatch.find",
    "Reshape": "toolsets.wrappers",
    "ResolvedTools": "toolsets.resolve",
    "ResultLimits": "tools.spec",
    "ResultTexts": "dispatch.truncate",
    "Rule": "dispatch.permissions.rule",
    "StaticToolset": "toolsets.toolsets",
    "TextContent": "tools.content",
    "Tool": "tools.tool",
    "ToolAnnotations": "tools.spec",
    "ToolCall": "tools.call",
    "ToolContext": "tools.context",
    "ToolError": "errors",
    "ToolIndex": "toolsets.search",
    "ToolRegistry": "registry",
    "ToolResult": "tools.content",
    "ToolSpec": "tools.spec",
    "Toolset": "toolsets.toolset",
    "ToolsetBase": "toolsets.wrappers",
    "ToolsetFunction": "toolsets.toolsets",
    "Turn": "turn.loop",
    "TurnLimits": "turn.options",
    "TurnOptions": "turn.options",
    "TurnOutcome": "turn.events",
    "TypedTool": "tools.typed",
    "found_names": "toolsets.resolve",
    "hookimpl": "plugins.hookspecs",
    "read_result_tool": "dispatch.truncate",
    "load": "plugins.load",
    "load_config": "config",
    "when": "callbacks",
    "parse_predicate": "toolsets.expression",
    "nonblocking": "callbacks",
    "read_permissions": "dispatch.permissions.rules_file",
    "register_plugin": "plugins.manager",
    "run_turn": "turn.loop",
    "schema_of": "schema.types",
    "stream_turn": "turn.loop",
    "tool": "tools.tool",
    "tool_of": "tools.typed",
    "unload_plugin": "plugins.manager",
    "wrap": "toolsets.wrappers",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
_TOPICS = ("approval", "errors", "events", "execution", "messages")
"""Modules that are attributes, too, without being imported before."""
_FUNCTIONS = (
    "answer_from_result",
    "ask_later",
    "confirmation_call",
    "event_from_json",
    "original_call_from",
    "parse_partial",
)
"""Functions that were here, and are in one of these modules now, as the classes that were here are."""
_RENAMED = {"Placed": "Position", "kept_result_tool": "read_result_tool", "only": "when", "quick": "nonblocking"}

_find, __dir__ = lazy.lazy_names(__name__, _MODULES)


def _installed() -> object:
    from pegboard.plugins.load import installed

    return installed()


lazy.installed = _installed  # here, as the package is above all its layers and is loaded before them


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _TOPICS:
        return import_module(f"pegboard.{name}")
    if name in _RENAMED:
        _deprecate(name, __name__, _RENAMED[name])
        return _find(_RENAMED[name])
    if name in _FUNCTIONS or (name not in _MODULES and name[:1].isupper()):  # names of modules come here, too
        for module in map(import_module, (f"pegboard.{topic}" for topic in _TOPICS)):
            if hasattr(module, name):
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
