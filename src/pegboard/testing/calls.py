"""Calls in a test: of one tool, in a registry with the test's own plugins, and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.errors import PluginError, RegistrationError, did_you_mean, suggest
from pegboard.plugins.discovery import discover
from pegboard.plugins.hookspecs import hookimpl
from pegboard.plugins.manager import PluginManager
from pegboard.plugins.side_effects import LOAD_SECONDS, run_in_thread
from pegboard.registry import ToolRegistry
from pegboard.tools.content import ToolResult
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext, ToolContext
from pegboard.tools.spec import Origin

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin


@frozen(eq=False)
class Subject:
    """A plugin under check.

    Attributes:
        name: Its name: the entry point's, or what the module or class is called.
        thing: The module, class or object.
        found: Its entry point, where it is installed.
        module: The module that a fresh process can import, or `None` for an object.
    """

    name: str
    thing: Any
    found: FoundPlugin | None = None
    module: str | None = None

    @property
    def origin(self) -> Origin:
        """As its tools carry it."""
        return Origin(self.name) if self.found is None else evolve(self.found.origin, plugin=self.name)


def subject_of(plugin: Any) -> Subject:
    """What `check_plugin` and `plugin_registry` are given, as a subject.

    Args:
        plugin: The name of an installed plugin, a module, a class or an object. A module that is installed as a
            plugin is taken for it.

    Raises:
        PluginError: No plugin of that name is installed.
        BaseException: Whatever importing it raised.
    """
    if not isinstance(plugin, str | ModuleType):
        return Subject(plugin.__name__ if isinstance(plugin, type) else type(plugin).__name__, plugin)
    entries = {found.name: found for found in discover().entries}
    if isinstance(plugin, str):
        return _installed(plugin, entries)
    own = (found for found in entries.values() if (found.module, found.attribute) == (plugin.__name__, None))
    found = next(own, None)
    return Subject(plugin.__name__ if found is None else found.name, plugin, found, plugin.__name__)


def _installed(name: str, entries: Mapping[str, FoundPlugin]) -> Subject:
    found = entries.get(name)
    if found is None:
        near = did_you_mean(suggest(name, entries))
        raise PluginError(
            name,
            f"no installed distribution has an entry point {name!r} in the group 'pegboard'.{near} "
            "Install the package first (pip install -e .), or pass its module.",
        )
    return Subject(name, run_in_thread(LOAD_SECONDS, found.load), found, found.module)


def plugin_registry(
    *plugins: Any, settings: Mapping[str, Mapping[str, Any]] | None = None, **named: Any
) -> ToolRegistry:
    """Registers plugins with a fresh registry; no other plugin is in it, and no configuration is read.

    Args:
        plugins: Objects, modules or classes with hook implementations, or names of installed plugins. One is called
            by its entry point, or else as its module or class is.
        settings: The settings by plugin name.
        named: More plugins, under these names.

    Returns:
        The registry; every plugin in it is loaded whole.

    Raises:
        PluginError: A plugin isn't loaded whole: it raised, something it brought was refused, or a name is held back.
        RegistrationError: Two plugins have one name.
    """
    registry = ToolRegistry()
    manager = PluginManager(registry, settings or {})
    subjects = [*map(subject_of, plugins), *(evolve(subject_of(each), name=name) for name, each in named.items())]
    for subject in subjects:
        if subject.name in registry.catalogue.plugins:
            raise RegistrationError(
                f"two plugins are called {subject.name!r}: name one, plugin_registry(..., other=...)"
            )
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
    """Runs one call as a model's call runs (validated, structured, limited, shaped), on a registry of its own.

    No approver is asked: what would need approval is allowed. `plugin_registry` with a `ScriptedApprover` tests that.
    Inside an event loop write `await registry.call(...)` instead, on a registry of `plugin_registry`.

    Args:
        tool: A `Tool`, a function, decorated or not, a `TypedTool`, or an object with one tool.
        arguments: JSON text or a mapping; nothing means `{}`.
        context: The user and session of the call.
        more: Further arguments by name, over those of a mapping.

    Returns:
        The result. A call that fails gives an error result (`is_error`, `kind`), as a model would get it.

    Raises:
        DefinitionError: `tool` can't become a tool.
        RegistrationError: It holds several tools.
        TypeError: Arguments are given as text and by name.
        FatalToolError: The tool ends the turn.
        RunningLoopError: An event loop runs in this thread.
    """
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
    """One call that has ended.

    Attributes:
        name: The tool's name as the model wrote it, whether there is such a tool or not.
        arguments: A copy of what the tool got; empty where they couldn't be read.
        result: What the model gets, errors too.
    """

    name: str
    arguments: Mapping[str, Any]
    result: ToolResult


@define(eq=False)
class RecordedCalls:
    """Records each call as it ends. It never answers, and so changes nothing.

    As a plugin (`plugin_registry(calls, ...)`) it is asked first and sees every call. As the host's callback
    (`registry.add_callback("after_tool", calls)`) it stands behind the plugins': one of theirs that replaces the
    result ends the stage before it.

    Attributes:
        calls: In the order in which they ended.
    """

    calls: list[RecordedCall] = field(factory=list[RecordedCall])

    @property
    def names(self) -> list[str]:
        """The names of what was called, in order."""
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
        """How many there were."""
        return len(self.calls)
