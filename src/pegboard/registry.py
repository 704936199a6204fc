"""`ToolRegistry`: the board."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from attrs import frozen

from pegboard.catalogue import (
    CALLBACK_STAGES,
    CALLED,
    EMPTY,
    EXTRAS,
    TOOL_STAGES,
    UNCALLED,
    Catalogue,
    PluginRecord,
    Problem,
)
from pegboard.chains import Link, by_name
from pegboard.dispatch.work import DEFAULT_LIMITS, Callbacks, Limits, Surroundings, Work
from pegboard.errors import RegistrationError, RunningLoopError, UnknownToolError, did_you_mean, suggest
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import NOBODY, ReadonlyContext, ToolContext
from pegboard.tools.handler import LateHandler
from pegboard.tools.origin import HOST, ConflictPolicy, Origin
from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pegboard.dispatch.stages import Way
    from pegboard.dispatch.threads import Threads
    from pegboard.toolsets.explanation import Explanation
    from pegboard.toolsets.predicate import Predicate
    from pegboard.toolsets.resolve import OnToolsetError
    from pegboard.toolsets.resolved import ResolvedTools
    from pegboard.toolsets.toolset import Toolset


class Handle:
    """What a registration gives back: `dispose()`, or leaving its `with`, takes back exactly what it brought.

    Attributes:
        tools: The tools that hang on the board by it, under their final names.
    """

    def __init__(self, take_back: Callable[[], None], tools: Sequence[Tool] = ()) -> None:
        self.tools = tuple(tools)
        self._take_back: Callable[[], None] | None = take_back

    def dispose(self) -> None:
        """Takes it back; a second time does nothing."""
        take_back, self._take_back = self._take_back, None
        if take_back is not None:
            take_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()


Where: TypeAlias = "Predicate | Callable[[Tool, ReadonlyContext], bool] | str | None"
"""A predicate, a plain function of a tool and a context, or a predicate's text."""


@frozen
class Sleeper:
    """A plugin that is listed but not imported yet.

    Attributes:
        hooks: What it brings besides static tools: names of hooks, without `pegboard_`.
        wake: Imports it and hangs what it brings on the board; may take long, never raises.
    """

    hooks: frozenset[str]
    wake: Callable[[], None]


@frozen(eq=False)
class _Prepared:
    """What calls share while the catalogue stays the same."""

    catalogue: Catalogue
    around: Surroundings
    way: Way
    travel: Callable[[Work, Way], Awaitable[None]]


class ToolRegistry:
    """Holds what was contributed, resolves it for a context, and runs calls.

    Readers see one whole catalogue, before a change or after it, never between; only writers take a lock. It may
    be used from any thread and from any task at once.

    Attributes:
        limits: What one call may use, where its tool says nothing else.
        plugin_manager: What hangs plugins on this board, once there is any; it belongs to `pegboard.plugins`.

    Args:
        limits: What one call may use, where its tool says nothing else.
        where: A predicate that every resolution starts with (`"not destructive"`), several of which all have to
            take a tool, or `None`.
        on_conflict: What happens when the host brings a name that the host has.
    """

    def __init__(
        self,
        *,
        limits: Limits = DEFAULT_LIMITS,
        where: Where | Sequence[Where] = None,
        on_conflict: ConflictPolicy = "error",
    ) -> None:
        self.limits: Final = limits
        self.plugin_manager: object = None
        self._where: tuple[Where, ...] = tuple(where) if isinstance(where, list | tuple) else (where,)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]
        self._on_conflict: ConflictPolicy = on_conflict
        self._catalogue = EMPTY
        self._lock = threading.RLock()
        self._sleepers: dict[str, Sleeper] = {}
        self._calls_wake = False
        self._prepared: _Prepared | None = None
        self._threads: Threads | None = None
        self._services: dict[type, Any] = {}

    # What hangs on the board -------------------------------------------------------------------------------------

    @property
    def catalogue(self) -> Catalogue:
        """Everything that hangs on the board now, as one immutable value."""
        return self._catalogue

    def tools(self) -> tuple[Tool, ...]:
        """The static tools, sorted by name."""
        return self._catalogue.ordered

    def plugins(self) -> tuple[PluginRecord, ...]:
        """Every plugin that is known, in load order."""
        return tuple(self._catalogue.plugins.values())

    def problems(self) -> tuple[Problem, ...]:
        """What went wrong with what plugins brought."""
        return self._catalogue.problems

    def get(self, name: str) -> Tool:
        """The static tool of this name.

        Raises:
            UnknownToolError: There is none; with near misses.
        """
        tool = self._catalogue.tools.get(name)
        if tool is None:
            raise UnknownToolError(name, suggest(name, self._catalogue.tools))
        return tool

    def register(self, *things: Any, origin: Origin = HOST, on_conflict: ConflictPolicy | None = None) -> Handle:
        """Hangs tools and toolsets on the board: all of them, or none where one can't.

        Args:
            things: `Tool`s, `@tool` functions, plain functions, `TypedTool`s, objects with `@tool` methods,
                or toolsets.
            origin: Who brings them.
            on_conflict: What happens when a name is taken, where it isn't the registry's own policy.

        Returns:
            A handle whose `dispose()` takes them back.

        Raises:
            DefinitionError: A function can't become a tool.
            DuplicateToolError: A name is taken.
        """
        from pegboard.tools.collection import as_tools
        from pegboard.toolsets.owned import OwnedToolset
        from pegboard.toolsets.toolset import is_toolset

        toolsets = [OwnedToolset(thing, origin) for thing in things if is_toolset(thing)]
        tools = [tool for thing in things if not is_toolset(thing) for tool in as_tools(thing)]
        if origin is not HOST:
            tools = [tool.evolve(origin=origin) for tool in tools]
        with self._lock:
            before = self._catalogue
            after, brought = before.with_tools(tools, on_conflict or self._on_conflict)
            self._catalogue = after.with_toolsets(toolsets)
        hung = [tool for tool in brought if after.tools.get(tool.name) is tool]
        return Handle(lambda: self._take_back(brought, toolsets), hung)

    def unregister(self, name: str) -> None:
        """Takes down the static tool or the toolset of this name.

        Raises:
            UnknownToolError: There is none.
        """
        with self._lock:
            toolsets = [toolset for toolset in self._catalogue.toolsets if toolset.name == name]
            if name in self._catalogue.tools or not toolsets:
                self._take_back([self.get(name)], [])
            else:
                self._take_back([], toolsets)

    def add(self, kind: str, name: str, thing: Any, *, origin: Origin = HOST) -> Handle:
        """Hangs a predicate, processor, exporter or executor on the board.

        Args:
            kind: `"predicates"`, `"processors"`, `"exporters"` or `"executors"`.
            name: What it is found by.
            thing: The predicate function, processor, exporter or executor.
            origin: Who brings it.

        Raises:
            RegistrationError: The kind is unknown, or the name is taken.
        """
        if kind not in EXTRAS:
            raise RegistrationError(f"{kind!r} can't be registered; one of {', '.join(EXTRAS)} can")
        with self._lock:
            try:
                self._catalogue = self._catalogue.with_extra(kind, name, thing, origin)
            except ValueError as error:
                raise RegistrationError(str(error)) from None
        return Handle(lambda: self.change(lambda catalogue: catalogue.without_extra(kind, name)))

    def add_callback(self, stage: str, function: Callable[..., Any]) -> Handle:
        """Adds a callback of the host's, behind those of plugins and earlier ones.

        Args:
            stage: Such as `"before_tool"`, `"after_tool"`, `"on_tool_error"`.
            function: Plain or async; takes what the hook of that name takes, or some of it, by name.

        Raises:
            RegistrationError: No such stage, or the function takes something else.
        """
        if stage in UNCALLED:
            raise RegistrationError(f"nothing calls {stage} in this version; {', '.join(CALLED)} are called")
        names = CALLBACK_STAGES.get(stage)
        if names is None:
            near = did_you_mean(suggest(stage, CALLBACK_STAGES))
            raise RegistrationError(f"there is no stage {stage!r}.{near} There are {', '.join(CALLBACK_STAGES)}")
        try:
            link = Link(by_name(function, names))
        except TypeError as error:
            raise RegistrationError(f"callback for {stage}: {error}") from None
        self.change(lambda catalogue: catalogue.with_host_callback(stage, link))
        return Handle(lambda: self.change(lambda catalogue: catalogue.without_host_callback(stage, link)))

    def provide(self, service: type, value: Any) -> None:
        """Keeps a value by its type, for the toolsets and tools that ask for it."""
        with self._lock:
            self._services = {**self._services, service: value}

    # Resolving and calling ---------------------------------------------------------------------------------------

    async def resolve(
        self,
        context: ReadonlyContext = NOBODY,
        *,
        where: Where = None,
        active: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        on_toolset_error: OnToolsetError = "skip",
    ) -> ResolvedTools:
        """The tools that this context may be offered now.

        Args:
            context: For whom, and for which model.
            where: A predicate, or its text (`"read_only and not tag:network"`).
            active: Names to keep, in this order; `None` keeps all, `[]` none.
            order: Names to list first; the rest follow alphabetically.
            on_toolset_error: `"skip"`: a failing toolset costs only its own tools; `"fail"`: it raises.

        Raises:
            ExpressionError: The predicate's text doesn't parse.
            ToolsetError: A toolset failed and `on_toolset_error` is `"fail"`.
        """
        from pegboard.toolsets.resolve import resolve_tools

        await self._wake(("register_toolsets", "register_predicates"))
        catalogue = self._catalogue
        return await resolve_tools(
            catalogue.ordered,
            catalogue.toolsets,
            context,
            where=self._predicate(where),
            default=self._default(),
            active=active,
            order=order,
            on_toolset_error=on_toolset_error,
        )

    async def explain(self, name: str, context: ReadonlyContext = NOBODY, *, where: Where = None) -> Explanation:
        """Each step by which a tool is in or out."""
        resolved = await self.resolve(context, where=where)
        explanation = resolved.explain(name)
        held = [problem.cause for problem in self._catalogue.problems if problem.tool == name]
        return attrs.evolve(explanation, notes=(*explanation.notes, *held)) if held else explanation

    def validate(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Every problem of these arguments for this tool as `"path: reason"`; empty where a call would run.

        Raises:
            UnknownToolError: No static tool of this name.
            PluginError: The tool's plugin had to be imported, and failed.
        """
        tool = self.get(name)
        if isinstance(tool.handler, LateHandler):
            tool = tool.handler.load()
        return tool.check(arguments)

    async def call(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        context: ReadonlyContext | ToolContext | None = None,
        *,
        call_id: str = "",
        resolved: ResolvedTools | None = None,
    ) -> ToolResult:
        """Runs one call and gives its result, whatever happens.

        Args:
            name: The tool's name.
            arguments: JSON text or a mapping; nothing means `{}`.
            context: For whom the call runs; nobody in particular by default.
            call_id: What the answer refers to.
            resolved: The tools of the request that the call answers; only these run. `None`: whatever the board holds.

        Raises:
            FatalToolError: The tool ends the turn.
            asyncio.CancelledError: Whoever waits was cancelled.
        """
        if self._calls_wake:
            await self._wake(TOOL_STAGES)
        if resolved is None and name not in self._catalogue.tools:
            resolved = await self._asked_live(name, NOBODY if context is None else context)
        prepared = self._prepared
        if prepared is None or prepared.catalogue is not self._catalogue:
            prepared = self._prepare(self._catalogue)
        around = prepared.around if resolved is None else prepared.around.finding(partial(self._offered, resolved))
        if context is None:
            context = NOBODY
        if isinstance(context, ToolContext):
            context = self._completed(context, name, call_id)
        else:
            context = ToolContext(context, call_id, name, services=self._services)
        work = Work(ToolCall(name, {} if arguments is None else arguments, call_id), context, around)
        await prepared.travel(work, prepared.way)
        if work.fatal is not None:
            raise work.fatal
        assert work.result is not None
        return work.result

    def call_sync(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        context: ReadonlyContext | ToolContext | None = None,
    ) -> ToolResult:
        """`call` for scripts, which have no event loop.

        Raises:
            RunningLoopError: An event loop runs in this thread: there, `await registry.call(...)`.
        """
        import asyncio

        if _in_a_loop():
            raise RunningLoopError(
                "call_sync can't be used inside a running event loop; write 'await registry.call(...)' there"
            )
        return asyncio.run(self.call(name, arguments, context))

    async def aclose(self) -> None:
        """Closes the toolsets and lets idle threads end; a toolset that fails to close costs nobody else."""
        from pegboard.toolsets.toolset import close_all

        await close_all(self._catalogue.toolsets)
        if self._threads is not None:
            self._threads.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # For plugins' manager ----------------------------------------------------------------------------------------

    def change(self, change: Callable[[Catalogue], Catalogue]) -> None:
        """Swaps the catalogue for what `change` makes of it; writers wait for each other, readers for nobody."""
        with self._lock:
            self._catalogue = change(self._catalogue)

    def expect(self, plugin: str, sleeper: Sleeper) -> None:
        """Notes a plugin that is imported when something that it brings is needed."""
        with self._lock:
            self._set_sleepers({**self._sleepers, plugin: sleeper})

    def awake(self, plugin: str) -> None:
        """Notes that a plugin has been imported."""
        with self._lock:
            self._set_sleepers({name: kept for name, kept in self._sleepers.items() if name != plugin})

    # How it does it ----------------------------------------------------------------------------------------------

    def _set_sleepers(self, sleepers: dict[str, Sleeper]) -> None:
        self._sleepers = sleepers
        self._calls_wake = any(not sleeper.hooks.isdisjoint(TOOL_STAGES) for sleeper in sleepers.values())

    def _take_back(self, tools: Sequence[Tool], toolsets: Sequence[Toolset]) -> None:
        self.change(lambda catalogue: catalogue.without_tools(tools).without_toolsets(toolsets))

    def _predicate(self, where: Where) -> Predicate | None:
        if where is None:
            return None
        from pegboard.toolsets.expression import as_predicate

        return as_predicate(where, self._catalogue.extras.get("predicates", {}))

    def _default(self) -> Predicate | None:
        """What every resolution starts with; read anew, as plugins may have brought words since."""
        parts = [part for each in self._where if (part := self._predicate(each)) is not None]
        if len(parts) < 2:
            return parts[0] if parts else None
        from pegboard.toolsets.predicates import all_of

        return all_of(*parts)

    async def _wake(self, hooks: Sequence[str]) -> None:
        """Imports the plugins that implement one of these hooks, off the loop."""
        for plugin, sleeper in self._sleepers.items():
            if not sleeper.hooks.isdisjoint(hooks):
                await self._pool().run(sleeper.wake)
                self.awake(plugin)

    def _pool(self) -> Threads:
        if self._threads is None:
            from pegboard.dispatch.threads import Threads

            with self._lock:
                self._threads = self._threads or Threads()
        return self._threads

    def _prepare(self, catalogue: Catalogue) -> _Prepared:
        """Works out what calls share and which stages have something to do; once a catalogue."""
        from pegboard.dispatch.failure import log_failure
        from pegboard.dispatch.stages import travel, way_for

        callbacks = Callbacks(
            catalogue.callbacks("before_tool"),
            catalogue.callbacks("after_tool"),
            catalogue.callbacks("on_tool_error"),
        )
        around = Surroundings(self._find, self._pool(), callbacks, self.limits, log_failure)
        self._prepared = prepared = _Prepared(catalogue, around, way_for(callbacks), travel)
        return prepared

    def _completed(self, context: ToolContext, name: str, call_id: str) -> ToolContext:
        """The host's context for one call; `values` stays the host's own."""
        return attrs.evolve(
            context,
            call_id=call_id or context.call_id,
            tool=name,
            services={**self._services, **context.services},
        )

    def _find(self, name: str) -> Tool:
        tools = self._catalogue.tools
        tool = tools.get(name)
        if tool is None:
            from pegboard.dispatch.find import unknown

            raise unknown(name, sorted(tools))
        return tool

    def _offered(self, offered: ResolvedTools, name: str) -> Tool:
        tool = offered.get(name)
        if tool is not None:
            return tool
        from pegboard.dispatch.find import not_offered, unknown

        if name in self._catalogue.tools or offered.was_held_back(name):
            raise not_offered(name, offered.names)
        raise unknown(name, offered.names)

    async def _asked_live(self, name: str, context: ReadonlyContext | ToolContext) -> ResolvedTools | None:
        """The toolsets' tools, for a name that no static tool has; `None` where one has it after all."""
        await self._wake(("register_toolsets",))
        if name in self._catalogue.tools or not self._catalogue.toolsets:
            return None
        return await self.resolve(context.request if isinstance(context, ToolContext) else context)


def _in_a_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
