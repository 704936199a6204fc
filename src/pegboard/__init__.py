"""pegboard: a plugin-based tool registry for programs that let language models call tools."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pegboard.catalogue import Catalogue as Catalogue, PluginRecord as PluginRecord, Problem as Problem
    from pegboard.config.load import load_config as load_config
    from pegboard.config.model import Config as Config
    from pegboard.dispatch.callbacks import ChangeArguments as ChangeArguments, Deny as Deny
    from pegboard.dispatch.work import Limits as Limits
    from pegboard.errors import (
        ConfigError as ConfigError,
        DefinitionError as DefinitionError,
        DuplicateToolError as DuplicateToolError,
        ExpressionError as ExpressionError,
        FatalToolError as FatalToolError,
        InvalidNameError as InvalidNameError,
        ManifestError as ManifestError,
        PegboardError as PegboardError,
        PluginError as PluginError,
        PredicateError as PredicateError,
        RegistrationError as RegistrationError,
        RunningLoopError as RunningLoopError,
        SchemaError as SchemaError,
        StaleSpecError as StaleSpecError,
        ToolError as ToolError,
        ToolsetError as ToolsetError,
        UnknownToolError as UnknownToolError,
    )
    from pegboard.plugins.hookspecs import hookimpl as hookimpl
    from pegboard.plugins.load import load as load
    from pegboard.plugins.manager import register_plugin as register_plugin
    from pegboard.registry import Handle as Handle, ToolRegistry as ToolRegistry
    from pegboard.tools.call import ToolCall as ToolCall
    from pegboard.tools.collection import tool_of as tool_of
    from pegboard.tools.content import (
        AudioContent as AudioContent,
        FileContent as FileContent,
        ImageContent as ImageContent,
        LinkContent as LinkContent,
        TextContent as TextContent,
        ToolResult as ToolResult,
    )
    from pegboard.tools.context import (
        Progress as Progress,
        ReadonlyContext as ReadonlyContext,
        ToolContext as ToolContext,
    )
    from pegboard.tools.function import tool as tool
    from pegboard.tools.origin import Origin as Origin, Policy as Policy
    from pegboard.tools.spec import (
        Concurrency as Concurrency,
        Grammar as Grammar,
        ToolAnnotations as ToolAnnotations,
        ToolSpec as ToolSpec,
    )
    from pegboard.tools.tool import Preview as Preview, Tool as Tool
    from pegboard.tools.typed import TypedTool as TypedTool
    from pegboard.toolsets.combined import CombinedToolset as CombinedToolset
    from pegboard.toolsets.explanation import Explanation as Explanation
    from pegboard.toolsets.expression import parse_predicate as parse_predicate
    from pegboard.toolsets.fluent import ToolsetBase as ToolsetBase, wrap as wrap
    from pegboard.toolsets.function import ToolsetFunction as ToolsetFunction
    from pegboard.toolsets.predicate import Predicate as Predicate
    from pegboard.toolsets.reshape import Reshape as Reshape
    from pegboard.toolsets.resolved import ResolvedTools as ResolvedTools
    from pegboard.toolsets.static import StaticToolset as StaticToolset
    from pegboard.toolsets.toolset import Toolset as Toolset

_HOME = {
    "AudioContent": "tools.content",
    "Catalogue": "catalogue",
    "ChangeArguments": "dispatch.callbacks",
    "CombinedToolset": "toolsets.combined",
    "Concurrency": "tools.spec",
    "Config": "config.model",
    "ConfigError": "errors",
    "DefinitionError": "errors",
    "Deny": "dispatch.callbacks",
    "DuplicateToolError": "errors",
    "Explanation": "toolsets.explanation",
    "ExpressionError": "errors",
    "FatalToolError": "errors",
    "FileContent": "tools.content",
    "Grammar": "tools.spec",
    "Handle": "registry",
    "ImageContent": "tools.content",
    "InvalidNameError": "errors",
    "Limits": "dispatch.work",
    "LinkContent": "tools.content",
    "ManifestError": "errors",
    "Origin": "tools.origin",
    "PegboardError": "errors",
    "PluginError": "errors",
    "PluginRecord": "catalogue",
    "Policy": "tools.origin",
    "Predicate": "toolsets.predicate",
    "PredicateError": "errors",
    "Preview": "tools.tool",
    "Problem": "catalogue",
    "Progress": "tools.context",
    "ReadonlyContext": "tools.context",
    "RegistrationError": "errors",
    "Reshape": "toolsets.reshape",
    "ResolvedTools": "toolsets.resolved",
    "RunningLoopError": "errors",
    "SchemaError": "errors",
    "StaleSpecError": "errors",
    "StaticToolset": "toolsets.static",
    "TextContent": "tools.content",
    "Tool": "tools.tool",
    "ToolAnnotations": "tools.spec",
    "ToolCall": "tools.call",
    "ToolContext": "tools.context",
    "ToolError": "errors",
    "ToolRegistry": "registry",
    "ToolResult": "tools.content",
    "ToolSpec": "tools.spec",
    "Toolset": "toolsets.toolset",
    "ToolsetBase": "toolsets.fluent",
    "ToolsetError": "errors",
    "ToolsetFunction": "toolsets.function",
    "TypedTool": "tools.typed",
    "UnknownToolError": "errors",
    "hookimpl": "plugins.hookspecs",
    "load": "plugins.load",
    "load_config": "config.load",
    "parse_predicate": "toolsets.expression",
    "register_plugin": "plugins.manager",
    "tool": "tools.function",
    "tool_of": "tools.collection",
    "wrap": "toolsets.fluent",
}
"""Where each public name lives; it is imported at first use."""

__all__ = (
    "AudioContent",
    "Catalogue",
    "ChangeArguments",
    "CombinedToolset",
    "Concurrency",
    "Config",
    "ConfigError",
    "DefinitionError",
    "Deny",
    "DuplicateToolError",
    "Explanation",
    "ExpressionError",
    "FatalToolError",
    "FileContent",
    "Grammar",
    "Handle",
    "ImageContent",
    "InvalidNameError",
    "Limits",
    "LinkContent",
    "ManifestError",
    "Origin",
    "PegboardError",
    "PluginError",
    "PluginRecord",
    "Policy",
    "Predicate",
    "PredicateError",
    "Preview",
    "Problem",
    "Progress",
    "ReadonlyContext",
    "RegistrationError",
    "Reshape",
    "ResolvedTools",
    "RunningLoopError",
    "SchemaError",
    "StaleSpecError",
    "StaticToolset",
    "TextContent",
    "Tool",
    "ToolAnnotations",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolRegistry",
    "ToolResult",
    "ToolSpec",
    "Toolset",
    "ToolsetBase",
    "ToolsetError",
    "ToolsetFunction",
    "TypedTool",
    "UnknownToolError",
    "hookimpl",
    "load",
    "load_config",
    "parse_predicate",
    "register_plugin",
    "tool",
    "tool_of",
    "wrap",
)


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
