"""`Contributions`: what hosts and plugins register, add to and remove from a registry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pegboard import lazy
from pegboard.callbacks import Callback, accept_keywords
from pegboard.catalogue import CALLBACK_STAGES, EMPTY, EXTRAS, Catalogue, Handle, PluginRecord, Problem, limit_of
from pegboard.errors import (
    PluginError,
    RegistrationError,
    UnknownToolError,
    did_you_mean,
    first_party,
    log_failure,
    suggest,
)
from pegboard.tools.spec import HOST, ConflictPolicy, Origin
from pegboard.tools.tool import Tool, tools_html
from pegboard.tools.visible import visible_spec
from pegboard.toolsets.predicates import Where
from pegboard.toolsets.toolset import OwnedToolset, is_toolset, subscribe

if TYPE_CHECKING:
    from pegboard.tools.services import Services, ServiceScope
    from pegboard.toolsets.toolset import Toolset


class Contributions:
    """Contributions of hosts and plugins to a registry: one immutable catalogue, which is replaced as a whole.

    Readers see one consistent catalogue, before or after a change; only writers take a lock.

    Attributes:
        plugin_manager: Loads plugins into this registry; set by `pegboard.plugins`, `None` without plugins.

    Args:
        on_conflict: What happens when the host registers a name that it has registered already.
    """

    def __init__(self, on_conflict: ConflictPolicy = "error") -> None:
        self._provided_services: Services | None = None
        self.plugin_manager: object = None
        self._on_conflict: ConflictPolicy = on_conflict
        self._catalogue = EMPTY
        self._subscribers: tuple[Callable[[], object], ...] = ()
        self._lock = threading.RLock()

    @property
    def services(self) -> Services:
        """The services provided to tools and toolsets, by type; the registry itself is one."""
        if self._provided_services is None:
            from pegboard.tools.services import Services  # loads asyncio, which listing tools doesn't need

            with self._lock:
                own, of_plugins = {type(self): self}, self._service_of_plugins
                made = self._provided_services or Services(own, of_plugins=of_plugins, packages=_packages_with_service)
                self._provided_services = made
        return self._provided_services

    @property
    def catalogue(self) -> Catalogue:
        """Everything that is registered now, as one immutable value."""
        return self._catalogue

    def tools(self) -> tuple[Tool, ...]:
        """The static tools, sorted by name."""
        return self._catalogue.ordered

    def plugins(self) -> tuple[PluginRecord, ...]:
        """Every known plugin, in load order."""
        return tuple(self._catalogue.plugins.values())

    def problems(self) -> tuple[Problem, ...]:
        """What went wrong with plugins."""
        return self._catalogue.problems

    def _repr_html_(self) -> str:
        """A table of the static tools, for notebooks."""
        return tools_html(self.tools())

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
        """Registers tools and toolsets: all of them, or none if one can't be registered.

        Args:
            things: `Tool`s, `@tool` functions, plain functions, `TypedTool`s, objects with `@tool` methods,
                or toolsets.
            origin: Where they come from.
            on_conflict: What happens when a name is taken; the registry's policy by default.

        Returns:
            A handle whose `dispose()` removes them.

        Raises:
            DefinitionError: A function can't become a tool.
            DuplicateToolError: A name is taken.
        """
        from pegboard.tools.typed import tools_from

        toolsets = [OwnedToolset(thing, origin) for thing in things if is_toolset(thing)]
        others = (thing for thing in things if not is_toolset(thing))
        tools = [tool for thing in others for tool in tools_from(thing, foreign=origin != HOST)]
        if origin != HOST:
            tools = [tool.evolve(origin=origin, spec=visible_spec(tool.spec)) for tool in tools]
        with self._lock:
            before = self._catalogue
            after, brought = before.with_tools(tools, on_conflict or self._on_conflict)
            self._swap(after.with_toolsets(toolsets))
        added = [tool for tool in brought if after.tools.get(tool.name) is tool]
        return Handle(lambda: self._remove(brought, toolsets), added)

    def unregister(self, name: str) -> bool:
        """Removes the static tool of this name, or else the toolset; returns whether there was one."""
        with self._lock:
            tool = self._catalogue.tools.get(name)
            toolsets = [toolset for toolset in self._catalogue.toolsets if toolset.name == name and tool is None]
            self._remove([] if tool is None else [tool], toolsets)
            return tool is not None or bool(toolsets)

    def add(self, kind: str, name: str, thing: Any, *, origin: Origin = HOST) -> Handle:
        """Registers a predicate, processor, exporter, executor or provider of models.

        Args:
            kind: `"predicates"`, `"processors"`, `"exporters"`, `"executors"` or `"models"`.
            name: Its name.
            thing: The predicate function, processor, exporter or executor, or a function that makes models by name.
            origin: Where it comes from.

        Raises:
            RegistrationError: The kind is unknown, or the name is taken.
        """
        if kind not in EXTRAS or kind == "services":
            fix = "use registry.provide" if kind == "services" else f"use one of {', '.join(EXTRAS[:-1])}"
            raise RegistrationError(f"{kind!r} can't be registered by add; {fix}")
        with self._lock:
            try:
                self._swap(self._catalogue.with_extra(kind, name, thing, origin))
            except ValueError as error:
                raise RegistrationError(str(error)) from None
        return Handle(lambda: self.change(lambda catalogue: catalogue.without_extra(kind, name)))

    def add_callback(self, stage: str, function: Callable[..., Any], *, where: Where = None) -> Handle:
        """Adds a callback of the host, called after those of plugins and earlier ones.

        Args:
            stage: Around a call `"before_tool"`, `"after_tool"`, `"on_tool_error"`, `"wrap_tool"`, `"repair_call"`,
                `"approve_call"`; around a model `"before_model"`, `"after_model"`, `"on_model_error"`, `"wrap_model"`;
                around a turn `"before_turn"`, `"after_turn"`, `"on_stop"`; or `"observe"`.
            function: Plain or async; takes some or all arguments of the hook of that name, by name.
            where: A predicate on tools, or its text: the function is called for calls of these tools only.

        Raises:
            RegistrationError: There is no such stage, `where` is given and the stage has no tool, or the function
                takes other arguments.
        """
        names = CALLBACK_STAGES.get(stage)
        if names is None:
            near = did_you_mean(suggest(stage, CALLBACK_STAGES))
            raise RegistrationError(f"unknown stage {stage!r}.{near} Known stages: {', '.join(CALLBACK_STAGES)}")
        try:
            limit = limit_of(stage, where, self._catalogue.extras.get("predicates"))
            link = Callback(accept_keywords(function, names), where=limit)
        except TypeError as error:
            raise RegistrationError(f"callback for {stage}: {error}") from None
        self._change_callbacks(stage, lambda own: (*own, link))
        return Handle(
            lambda: self._change_callbacks(stage, lambda own: tuple(each for each in own if each is not link))
        )

    def provide(self, service: Any, value: Any, *, scope: ServiceScope | None = None) -> Handle:
        """Provides a service, as a value or a factory, to the tools and toolsets that ask for its type.

        Args:
            service: A class or protocol.
            value: A value of it, or a factory: plain, async, a generator that yields the value and then closes it, or
                a function that returns a context manager. See `services.provide`.
            scope: How long a factory's value is cached: `"call"`, by default, or `"registry"`.
        """
        given = self.services.provide(service, value, scope=scope)
        return Handle(lambda: self.services.withdraw(given))

    def known(self, kind: str) -> tuple[str, ...]:
        """The names of a kind, registered or offered by an installed plugin, sorted; imports no plugin.

        Args:
            kind: `"exporters"`, `"models"` or `"executors"`.
        """
        names = {*self._catalogue.extras.get(kind, {}), *self._catalogue.offered(kind)}
        return tuple(sorted(names if self.plugin_manager is not None else names.union(lazy.installed().known(kind))))

    def on_change(self, function: Callable[[], object]) -> Handle:
        """Subscribes a function to changes of the tools: static ones and toolsets that come, go or are replaced.

        Args:
            function: Called after the change, in the thread that makes it, with the registry locked: it has to be
                quick and must not block. What it raises is logged.

        Returns:
            A handle whose `dispose()` ends the subscription.
        """

        def call() -> None:
            function()

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(each for each in self._subscribers if each is not call)

        with self._lock:
            self._subscribers = (*self._subscribers, call)
        return Handle(unsubscribe)

    def tools_changed(self) -> None:
        """Calls the subscribers of `on_change`; for toolsets whose tools have changed, from any thread."""
        with self._lock:
            for subscriber in self._subscribers:
                try:
                    subscriber()
                except Exception as error:  # noqa: BLE001  the other subscribers are still called
                    log_failure("a subscriber to changes of the tools", error)

    def change(self, change: Callable[[Catalogue], Catalogue]) -> None:
        """Replaces the catalogue by `change(catalogue)`; writers are serialized, readers never wait."""
        with self._lock:
            self._swap(change(self._catalogue))

    def _swap(self, catalogue: Catalogue) -> None:
        """Replaces the catalogue; the caller holds the lock."""
        before, self._catalogue = self._catalogue, catalogue
        for toolset in catalogue.toolsets if catalogue.toolsets is not before.toolsets else ():
            if toolset not in before.toolsets:
                subscribe(toolset, self.tools_changed)
        if self._subscribers and (before.toolsets, before.digest) != (catalogue.toolsets, catalogue.digest):
            self.tools_changed()

    def _change_callbacks(self, stage: str, change: Callable[[tuple[Callback, ...]], tuple[Callback, ...]]) -> None:
        def changed(now: Catalogue) -> Catalogue:
            own = change(now.host_callbacks.get(stage, ()))
            return now.evolve(host_callbacks={**now.host_callbacks, stage: own})

        self.change(changed)

    def _remove(self, tools: Sequence[Tool], toolsets: Sequence[Toolset]) -> None:
        self.change(lambda catalogue: catalogue.without_tools(tools).without_toolsets(toolsets))

    def _provided(self, kind: str, name: str) -> Any:
        """The thing registered under a name, after loading the plugin that offers it; `None` if there is none.

        A registry without plugins of its own gets just that thing from the installed plugin that offers it.

        Raises:
            PluginError: A plugin offers it, but failed, or doesn't get the name.
        """
        of_kind = self._catalogue.extras.get(kind, {})
        if name in of_kind:
            return of_kind[name]
        if self.plugin_manager is None:
            installed = lazy.installed()
            found = installed._provided(kind, name)  # noqa: SLF001  the same class
            with self._lock:
                if found is not None and name not in self._catalogue.extras.get(kind, {}):
                    owner = installed.catalogue.owners[f"{kind}:{name}"]
                    self._swap(self._catalogue.with_extra(kind, name, found, owner))
        return self._of_plugins(kind, name)

    def _service_of_plugins(self, path: str) -> Any:
        return self._of_plugins("services", path)

    def _of_plugins(self, kind: str, name: str) -> Any:
        """The thing registered under a name, after importing this registry's plugins that offer it."""
        for plugin in self._catalogue.lazy_plugins.values():
            if (kind, name) in plugin.offers:
                plugin.load()
        found = self._catalogue.extras.get(kind, {}).get(name)
        for problem in self._catalogue.problems if found is None else ():
            if (kind, name) in problem.offers:
                raise PluginError(problem.plugin or "", problem.cause, distribution=problem.distribution)
        return found


def _packages_with_service(path: str) -> Sequence[str]:
    """The packages whose plugins provide a service: installed ones, by their manifests, and first-party ones."""
    catalogue = lazy.installed().catalogue
    installed = catalogue.plugins.get(catalogue.offered("services").get(path, ""))
    ours = first_party()["services"].get(path)
    return sorted(filter(None, {ours, installed and installed.distribution}))
