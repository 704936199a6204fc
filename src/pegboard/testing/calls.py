"""Aids for tests: call one tool, create a registry of given plugins, record calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from attrs import define, evolve, field, frozen

from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.errors import PluginError, RegistrationError, RunningLoopError, did_you_mean, suggest
from pegboard.plugins.discovery import FoundPlugin, discover
from pegboard.plugins.hookspecs import hookimpl
from pegboard.plugins.manager import PluginManager
from pegboard.plugins.side_effects import LOAD_SECONDS, run_in_thread
from pegboard.registry import ToolRegistry
from pegboard.threads import running_loop
from pegboard.tools.content import ToolResult
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext, ToolContext
from pegboard.tools.spec import Origin


@frozen(eq=False)
class Subject:
    """A plugin under check: a module, class or object (`thing`), its entry point, and the module to import, if any."""

    name: str
    thing: Any
    found: FoundPlugin | None = None
    module: str | None = None

    @property
    def origin(self) -> Origin:
        """The origin of its tools."""
        return Origin(self.name) if self.found is None else evolve(self.found.origin, plugin=self.name)


def subject_of(plugin: Any) -> Subject:
    """The subject for an argument of `check_plugin`; a module that an installed entry point names is that plugin."""
    if not isinstance(plugin, str | ModuleType):
        return Subject(plugin.__name__ if isinstance(plugin, type) else type(plugin).__name__, plugin)
    entries = {found.name: found for found in discover().entries}
    if isinstance(plugin, ModuleType):
        own = (found for found in entries.values() if (found.module, found.attribute) == (plugin.__name__, None))
        found = next(own, None)
        return Subject(plugin.__name__ if found is None else found.name, plugin, found, plugin.__name__)
    if plugin not in entries:
        near = did_you_mean(suggest(plugin, entries))
        cause = f"no installed distribution has an entry point {plugin!r} in the group 'pegboard'.{near}"
        raise PluginError(plugin, f"{cause} Install the package first (pip install -e .), or pass its module.")
    found = entries[plugin]
    return Subject(plugin, run_in_thread(LOAD_SECONDS, found.load), found, found.module)


def plugin_registry(
    *plugins: Any, settings: Mapping[str, Mapping[str, Any]] | None = None, **named: Any
) -> ToolRegistry:
    """Creates a registry with only these plugins, without reading any configuration.

    Args:
        plugins: Objects, modules or classes with hook implementations, or names of installed plugins. A plugin's name
            is that of its entry point, or else of its module or class.
        settings: The settings by plugin name.
        named: More plugins, under these names.

    Returns:
        The registry; all of its plugins are loaded completely.

    Raises:
        PluginError: A plugin failed to load completely: it raised, something it registered was refused, or the name of
            one of its tools is taken.
        RegistrationError: Two plugins have one name.
    """
    registry = ToolRegistry()
    manager = PluginManager(registry, settings or {})
    subjects = [*map(subject_of, plugins), *(evolve(subject_of(each), name=name) for name, each in named.items())]
    for subject in subjects:
        if subject.name in registry.contributions.catalogue.plugins:
            advice = "name one, plugin_registry(..., other=...)"
            raise RegistrationError(f"two plugins are called {subject.name!r}: {advice}")
        manager.register(subject.thing, subject.origin)
    for problem in registry.problems():
        raise PluginError(problem.plugin or "?", problem.cause, distribution=problem.distribution)
    return registry


def call_tool(
    tool: Any,
    arguments: str | bytes | Mapping[str, Any] | None = None,
    context: ReadonlyContext | ToolContext | None = None,
    **more: Any,
) -> ToolResult:
    """Runs one call as a model's call would run (validated, structured, limited, shaped), in a registry of its own.

    Calls that need approval are allowed without asking; test approvals with `plugin_registry` and a `ScriptedApprover`.
    Inside an event loop write `await registry.call(...)` instead, on a registry of `plugin_registry`.

    Args:
        tool: A `Tool`, a function, decorated or not, a `TypedTool`, or an object with one tool.
        arguments: JSON text or a mapping; `None` means `{}`.
        context: The user and session of the call.
        more: Further arguments by name, over those of a mapping.

    Returns:
        The result. A call that fails returns an error result (`is_error`, `kind`), as the model would get it.

    Raises:
        DefinitionError: `tool` can't become a tool.
        RegistrationError: It holds several tools.
        TypeError: Arguments are given as text and by name.
        FatalToolError: The tool ends the turn.
        RunningLoopError: An event loop runs in this thread.
    """
    if running_loop() is not None:
        raise RunningLoopError("call_tool can't be used inside a running event loop: there, await registry.call(...)")
    registry = ToolRegistry(permissions=Permissions(mode="bypass"))
    tools = registry.register(tool).tools
    if len(tools) != 1:
        names = ", ".join(each.name for each in tools)
        raise RegistrationError(f"call_tool runs one tool, and {tool!r:.100} holds {names or 'none'}: pass one of them")
    if more:
        if isinstance(arguments, str | bytes):
            raise TypeError("arguments are given as JSON text and by name: give one of the two")
        arguments = {**(arguments or {}), **more}
    result = registry.call_sync(tools[0].name, arguments, EMPTY_CONTEXT if context is None else context)
    asyncio.run(registry.aclose())
    return result


@frozen
class RecordedCall:
    """One completed call.

    Attributes:
        name: The tool's name as the model wrote it, even if there is no such tool.
        arguments: A copy of the tool's arguments; empty if they couldn't be parsed.
        result: The result for the model, errors included.
    """

    name: str
    arguments: Mapping[str, Any]
    result: ToolResult


@define(eq=False)
class RecordedCalls:
    """Recorder of calls; it never changes a result.

    As a plugin (`plugin_registry(calls, ...)`) it runs first and sees every call. As the host's callback
    (`registry.add_callback("after_tool", calls)`) it runs after those of plugins, unless one of them replaces the
    result.

    Attributes:
        calls: In the order in which they ended.
    """

    calls: list[RecordedCall] = field(factory=list[RecordedCall])

    @property
    def names(self) -> list[str]:
        """The names of the called tools, in order."""
        return [call.name for call in self.calls]

    @hookimpl(tryfirst=True)
    def pegboard_after_tool(self, context: ToolContext, arguments: Mapping[str, Any], result: ToolResult) -> None:
        """Records one call."""
        self(context, arguments, result)

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any], result: ToolResult) -> None:
        """Records one call, as a callback."""
        self.calls.append(RecordedCall(context.tool, dict(arguments), result))

    def __iter__(self) -> Iterator[RecordedCall]:
        """The calls, in order."""
        return iter(self.calls)

    def __len__(self) -> int:
        """The number of calls."""
        return len(self.calls)
