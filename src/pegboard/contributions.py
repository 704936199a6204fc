"""`Contributions`: what hosts and plugins have registered in a registry; `Registrar`: the methods to register it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

from pegboard import lazy
from pegboard.callbacks import Callback, accept_keywords, is_due
from pegboard.catalogue import CALLBACK_STAGES, EXTRAS, Catalogue, Handle, limit_of
from pegboard.errors import (
    ExportError,
    ModelError,
    PluginError,
    RegistrationError,
    UnknownToolError,
    checked,
    first_party,
    log_failure,
    near_or_known,
    not_provided,
    operator_log,
    suggest,
)
from pegboard.tools.spec import HOST, ConflictPolicy, Origin
from pegboard.tools.tool import ATTRIBUTE, Tool, tools_html

if TYPE_CHECKING:
    from pegboard.catalogue import PluginRecord
    from pegboard.dispatch.permissions.permissions import Permissions
    from pegboard.request.model_request import Exporter, Model
    from pegboard.tools.services import Services, ServiceScope
    from pegboard.tools.spec import Problem
    from pegboard.toolsets.predicates import Where
    from pegboard.toolsets.resolve import ResolvedTools
    from pegboard.toolsets.toolset import Toolset


class ExecutorSetup(NamedTuple):
    """An executor of the configuration: under which name its factory is registered, and what makes it of that."""

    kind: str
    make: Callable[[Any], Any]


def is_factory(thing: Any) -> bool:
    """Whether this is a class or function that makes an executor."""
    executes = hasattr(thing, "execute") or hasattr(thing, "execute_tool")
    return isinstance(thing, type) or (callable(thing) and not executes)


def _sources_of(catalogue: Catalogue, *, by_digest: bool) -> tuple[Any, ...]:
    """What tools come from, to compare two catalogues; `by_digest`: only static tools, by what is declared."""
    transforms = catalogue.extras.get("transforms")
    tools = (*catalogue.ordered, *(catalogue.alternates if transforms else ()))  # transforms may make these available
    return tuple(each.spec.digest for each in tools) if by_digest else (tools, catalogue.toolsets, transforms or None)


class Contributions:
    """What hosts and plugins have registered in one registry: an immutable catalogue, which is replaced as a whole.

    Readers see one consistent catalogue, before or after a change; only writers take a lock.
    """

    def __init__(self) -> None:
        self.catalogue = Catalogue()
        self.manager: object = None  # the `PluginManager` that loads plugins into this registry
        self._config: object = None
        self.executors: Mapping[str, ExecutorSetup] = {}  # those that the configuration has, by name
        self.made: dict[str, tuple[Any, Any]] = {}  # executors by name, each after what it was made of
        self.lock = threading.RLock()
        self._making = threading.Lock()  # one executor at a time
        self._subscribers: tuple[Callable[[], object], ...] = ()
        self._checked_permissions: Permissions | None = None

    @property
    def config(self) -> object:
        """The `Config` in effect, or `None`. One with `[lock] required = true` makes the check of tools a condition."""
        return self._config

    @config.setter
    def config(self, config: object) -> None:
        self._config = config
        settings: Mapping[str, object] = getattr(config, "lock", {})
        required = "lock" if settings.get("required") is True else None
        self.change(lambda catalogue: catalogue.evolve(required_check=required))

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of exporters, models or executors, registered or offered by an installed plugin, sorted."""
        names = {*self.catalogue.extras.get(kind, {}), *self.catalogue.offered(kind)}
        if kind == "executors":
            names |= self.executors.keys()
        return tuple(sorted(names if self.manager is not None else names.union(lazy.installed().names(kind))))

    def on_change(self, function: Callable[[], object]) -> Handle:
        """Subscribes a function to changes of the tools: of static ones, toolsets and transforms.

        It is called after the change, in the thread that makes it, with the registry locked: it has to be quick and
        must not block. What it raises is logged.
        """
        call = partial(function)  # each subscription is another one

        def unsubscribe() -> None:
            with self.lock:
                self._subscribers = tuple(each for each in self._subscribers if each is not call)

        with self.lock:
            self._subscribers = (*self._subscribers, call)
        return Handle(unsubscribe)

    def tools_changed(self) -> None:
        """Calls the subscribers of `on_change`; for toolsets whose tools have changed, from any thread."""
        with self.lock:
            for subscriber in self._subscribers:
                try:
                    subscriber()
                except Exception as error:  # noqa: BLE001  the other subscribers are still called
                    log_failure("a subscriber to changes of the tools", error)

    def find_tool(self, name: str, resolved: ResolvedTools | None = None) -> Tool:
        """The tool that a call of this name runs: a resolved one, or any static one."""
        static = self.catalogue
        tool = static.tools.get(name) if resolved is None else resolved.get(name)
        if tool is None or not tool.offered:
            from pegboard.dispatch.find import not_offered_error, unknown_tool_error  # only for refusals

            is_left_out = resolved is not None and (name in static.tools or resolved.was_held_back(name))
            names = [each.name for each in (static.ordered if resolved is None else resolved) if each.offered]
            raise (unknown_tool_error if tool is None and not is_left_out else not_offered_error)(name, names)
        return tool

    def check_rules(self, permissions: Permissions | None) -> None:
        """Logs likely mistakes in rules, once."""
        if permissions is None or permissions is self._checked_permissions:
            return
        from pegboard.dispatch.permissions.permissions import Permissions as OfRules
        from pegboard.dispatch.permissions.rules_file import rule_problems

        catalogue = self.catalogue
        checked("permissions", permissions, OfRules)
        self._checked_permissions = permissions
        has_others = catalogue.toolsets or catalogue.unloaded("register_toolsets")
        complete = not (has_others or catalogue.has_transforms)
        for problem in rule_problems(permissions, catalogue.tools.values(), complete=complete):
            operator_log().warning("%s", problem)

    def change(self, change: Callable[[Catalogue], Catalogue], *, loads: bool = False) -> None:
        """Replaces the catalogue by `change(catalogue)`; writers are serialized, readers never wait.

        `loads`: whether it registers a listed plugin, once it is imported. Its toolsets and transforms are nothing new
        then: tools are never resolved without them.
        """
        with self.lock:
            before = self.catalogue
            self.catalogue = now = change(before)
            for toolset in [each for each in now.toolsets if each not in before.toolsets]:
                from pegboard.toolsets.toolset import subscribe  # only for toolsets

                subscribe(toolset, self.tools_changed)
            if self._subscribers and _sources_of(before, by_digest=loads) != _sources_of(now, by_digest=loads):
                self.tools_changed()

    def unloaded(self, *hooks: str) -> list[Callable[[], None]]:
        """The functions that import the plugins that implement one of these hooks and aren't imported yet."""
        if not self.catalogue.lazy_plugins:  # by far the most common, and asked at each call
            return []
        return [each.load for each in self.catalogue.unloaded(*hooks) if each.load]

    def is_checked(self) -> bool:
        """Whether a resolution is checked now; imports the plugins that may check it."""
        for load in self.unloaded("check_tools"):
            load()
        links = self.catalogue.callbacks("check_tools")
        are_due = [is_due(each.function, self._config) for each in links]  # each one learns of the configuration
        return bool(self.catalogue.required_check) or any(are_due)

    def remove(self, tools: Sequence[Tool], toolsets: Sequence[Toolset]) -> None:
        """Removes exactly these tools and toolsets."""
        self.change(lambda catalogue: catalogue.without_tools(tools).without_toolsets(toolsets))

    def find(self, kind: str, name: str) -> Any:
        """The thing registered under a name, after loading the plugin that offers it; `None` if there is none.

        A registry without plugins of its own gets just that thing from the installed plugin that offers it. Raises
        `PluginError` if a plugin offers it, but failed, or doesn't get the name.
        """
        of_kind = self.catalogue.extras.get(kind, {})
        if name in of_kind:
            return of_kind[name]
        if self.manager is None:
            installed: Contributions = lazy.installed()
            found = installed.find(kind, name)
            with self.lock:
                if found is not None and name not in self.catalogue.extras.get(kind, {}):
                    owner = installed.catalogue.owners[f"{kind}:{name}"]
                    self.change(lambda catalogue: catalogue.with_extra(kind, name, found, owner))
        return self.find_own(kind, name)

    def may_find(self, kind: str, name: str) -> bool:
        """Whether `find_own` may find something; imports nothing. Not from a plugin that can't be loaded."""
        catalogue = self.catalogue
        is_offered = any((kind, name) in each.offers for each in catalogue.lazy_plugins)
        return is_offered or name in catalogue.extras.get(kind, {})

    def find_own(self, kind: str, name: str) -> Any:
        """As `find`, among this registry's plugins only."""
        for plugin in self.catalogue.lazy_plugins:
            if plugin.load and (kind, name) in plugin.offers:
                plugin.load()
        found = self.catalogue.extras.get(kind, {}).get(name)
        for problem in self.catalogue.problems if found is None else ():
            if (kind, name) in problem.offers:
                raise PluginError(problem.plugin or "", problem.cause, distribution=problem.distribution)
        return found

    def ready_executor(self, name: str) -> Any:
        """The executor of this name, if it is made and what made it is still registered; else `None`."""
        kind, _ = self.executors.get(name, (name, None))
        registered = self.catalogue.extras.get("executors", {}).get(kind)
        source, executor = self.made.get(name, (None, None))
        if executor is not None and registered is source:
            return executor
        return None if name in self.executors or is_factory(registered) else registered

    def executor(self, name: str) -> Any:
        """The executor of this name, made once, as `find` finds what is registered under its kind, by default its name.

        May take long, as it may import a plugin. Raises `LookupError` if there is none, and what its factory raises.
        """
        with self._making:
            if (executor := self.ready_executor(name)) is not None:
                return executor
            kind, make = self.executors.get(name, (name, None))
            source = self.find("executors", kind)
            if source is None:
                raise LookupError(not_provided("executors", kind, self.names("executors")))
            executor = make(source) if make else source() if is_factory(source) else source
            self.made[name] = source, executor
            return executor

    def take_executors(self, sources: Iterable[Any]) -> tuple[Any, ...]:
        """The executors among what was registered, and those that were made of it, each once; to be closed."""
        known = {id(each): each for each in sources}
        made = [self.made.pop(name)[1] for name, (source, _) in [*self.made.items()] if id(source) in known]
        every = (*made, *known.values())
        return tuple({id(each): each for each in every if not is_factory(each)}.values())


class Registrar:
    """Base of a registry: the methods that register tools, toolsets and the rest, and those that find and list them."""

    def __init__(self, on_conflict: ConflictPolicy = "error") -> None:
        self.contributions: Final = Contributions()
        self._services: Services | None = None
        self._on_conflict: ConflictPolicy = on_conflict

    def register(self, *things: Any, origin: Origin = HOST, on_conflict: ConflictPolicy | None = None) -> ToolHandle:
        """Registers tools and toolsets: all of them, or none if one can't be registered.

        Args:
            things: `Tool`s, `@tool` functions, plain functions, `TypedTool`s, objects with `@tool` methods,
                or toolsets.
            origin: Where they come from.
            on_conflict: What happens when a name is taken; the registry's policy by default.

        Returns:
            A handle whose `dispose()` removes them, and whose `replace(...)` replaces some in place.

        Raises:
            DefinitionError: A function can't become a tool.
            DuplicateToolError: A name is taken.
        """
        tools, toolsets = _read(things, origin)
        with self.contributions.lock:
            after, brought = self.contributions.catalogue.with_tools(tools, on_conflict or self._on_conflict)
            self.contributions.change(lambda _: after.with_toolsets(toolsets))
        added = [tool for tool in brought if after.tools.get(tool.name) is tool]
        return ToolHandle(self.contributions, origin, added, brought, toolsets)

    def unregister(self, name: str) -> bool:
        """Removes the static tool of this name, or else the toolset; returns whether there was one."""
        with self.contributions.lock:
            catalogue = self.contributions.catalogue
            tools = [catalogue.tools[name]] if name in catalogue.tools else []
            toolsets = [] if tools else [toolset for toolset in catalogue.toolsets if toolset.name == name]
            self.contributions.remove(tools, toolsets)
        return bool(tools or toolsets)

    def add(self, kind: str, name: str, thing: Any, *, origin: Origin = HOST) -> Handle:
        """Registers a predicate, transform, processor, exporter, executor or provider of models.

        Args:
            kind: `"predicates"`, `"transforms"`, `"processors"`, `"exporters"`, `"executors"` or `"models"`.
            name: Its name.
            thing: The predicate function, transform, processor, exporter or executor, or a function that makes models
                by name.
            origin: Where it comes from.

        Raises:
            RegistrationError: The kind is unknown, or the name is taken.
        """
        if kind not in EXTRAS or kind == "services":
            fix = "use registry.provide" if kind == "services" else f"use one of {', '.join(EXTRAS[:-1])}"
            raise RegistrationError(f"{kind!r} can't be registered by add; {fix}")
        try:
            self.contributions.change(lambda catalogue: catalogue.with_extra(kind, name, thing, origin))
        except ValueError as error:
            raise RegistrationError(str(error)) from None
        return Handle(lambda: self.contributions.change(lambda now: now.without_extra(kind, name, thing)))

    def add_callback(self, stage: str, function: Callable[..., Any], *, where: Where = None) -> Handle:
        """Adds a callback of the host, called after those of plugins and earlier ones.

        Args:
            stage: Around a call `"before_tool"`, `"after_tool"`, `"on_tool_error"`, `"wrap_tool"`, `"repair_call"`,
                `"approve_call"`, `"wrap_call"`; around a model `"before_model"`, `"after_model"`, `"on_model_error"`,
                `"wrap_model"`; around a turn `"before_turn"`, `"resume_turn"`, `"on_stop"`,
                `"report_turn"`, `"after_turn"`; `"observe"`; or `"check_tools"`.
            function: Plain or async; takes some or all arguments of the hook of that name, by name.
            where: A predicate on tools, or its text: the function is called for calls of these tools only.

        Raises:
            RegistrationError: There is no such stage, `where` is given and the stage has no tool, or the function
                takes other arguments.
        """
        if stage not in CALLBACK_STAGES:
            raise RegistrationError(f"unknown stage {stage!r}.{near_or_known(stage, CALLBACK_STAGES)}")
        try:
            limit = limit_of(stage, where, self.contributions.catalogue.extras.get("predicates"))
            link = Callback(accept_keywords(function, CALLBACK_STAGES[stage]), where=limit)
        except TypeError as error:
            raise RegistrationError(f"callback for {stage}: {error}") from None

        def replace_link(now: Catalogue, *new: Callback) -> Catalogue:
            others = (each for each in now.host_callbacks.get(stage, ()) if each is not link)
            return now.evolve(host_callbacks={**now.host_callbacks, stage: (*others, *new)})

        self.contributions.change(lambda now: replace_link(now, link))
        return Handle(lambda: self.contributions.change(replace_link))

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

    @property
    def services(self) -> Services:
        """The services provided to tools and toolsets, by type; the registry itself is one."""
        if self._services is None:
            from pegboard.tools.services import Services  # loads asyncio, which listing tools doesn't need

            contributions = self.contributions
            with contributions.lock:
                self._services = self._services or Services(
                    {type(self): self},
                    of_plugins=partial(contributions.find_own, "services"),
                    may_be_of_plugins=partial(contributions.may_find, "services"),
                    packages=_packages_with_service,
                )
        return self._services

    def tools(self) -> tuple[Tool, ...]:
        """The static tools, sorted by name."""
        return self.contributions.catalogue.ordered

    def get(self, name: str) -> Tool:
        """The static tool of this name; raises `UnknownToolError`, with near misses, if there is none."""
        tools = self.contributions.catalogue.tools
        if name not in tools:
            raise UnknownToolError(name, suggest(name, tools))
        return tools[name]

    def exporter(self, name: str) -> Exporter:
        """The exporter of this name: a registered one, else that of the installed plugin whose manifest offers it.

        Raises:
            ExportError: There is none, with the package to install or near misses; or it isn't a valid exporter.
            PluginError: The plugin that offers it failed.
        """
        from pegboard.request.model_request import Exporter

        found = self.contributions.find("exporters", checked("an exporter's name", name, str))
        if found is None:
            raise ExportError(not_provided("exporters", name, self.contributions.names("exporters")))
        if isinstance(found, type) or (callable(found) and not isinstance(found, Exporter)):
            found = found()
        if not isinstance(found, Exporter):
            raise ExportError(f"an exporter must be registered under this name, got {found!r:.100}", exporter=name)
        return found

    def model(self, name: str, **options: Any) -> Model:
        """The model of this name: from a registered provider, else from the installed plugin whose manifest offers it.

        Args:
            name: `"PROVIDER/MODEL"`, such as `"anthropic/claude-sonnet-5"`; the provider's name ends at the first `/`.
            options: Options of its client, such as `base_url`.

        Raises:
            ModelError: There is no such provider, with the package to install or near misses; or its client can't be
                made.
            PluginError: The plugin that offers it failed.
        """
        provider, _, own_name = checked("a model's name", name, str).partition("/")
        make = self.contributions.find("models", provider)
        if make is None:
            why = not_provided("models", provider, self.contributions.names("models"))
            raise ModelError(why if "/" in name else f"{name!r} must be PROVIDER/MODEL; {why}")
        if not own_name:
            raise ModelError(f"{name!r} names no model; write {provider}/MODEL", provider=provider)
        try:
            model = make(own_name, **options)
        except ModelError as error:
            error.args = (f"{name}: {error.message}",)  # the user's words; a provider may have another name of its own
            raise
        except Exception as error:
            raise ModelError(f"no client for {name!r}: {type(error).__name__}: {error}", provider=provider) from error
        if not all(hasattr(model, part) for part in ("name", "provider", "respond")):
            raise ModelError(f"its factory must return a model, got {model!r:.100}", provider=provider)
        return model

    def plugins(self) -> tuple[PluginRecord, ...]:
        """Every known plugin, in load order."""
        return tuple(self.contributions.catalogue.plugins.values())

    def problems(self) -> tuple[Problem, ...]:
        """What went wrong with plugins."""
        return self.contributions.catalogue.problems

    def _repr_html_(self) -> str:
        """A table of the static tools, for notebooks."""
        return tools_html(self.tools())


def is_toolset(thing: object) -> TypeGuard[Toolset]:
    """Whether it has a name and `tools(context)`; classes aren't toolsets, their instances are."""
    lists_tools = not isinstance(thing, type) and callable(getattr(thing, "tools", None))
    return lists_tools and isinstance(getattr(thing, "name", None), str)


class ToolHandle(Handle):
    """Handle of registered tools and toolsets."""

    def __init__(
        self, contributions: Contributions, origin: Origin, tools: list[Tool], brought: list[Tool], toolsets: list[Any]
    ) -> None:
        super().__init__(self._remove, tools)
        self._contributions, self._origin = contributions, origin
        self._brought, self._toolsets = brought, toolsets  # tools that are held back, too

    def _remove(self) -> None:
        with self._contributions.lock:  # another thread may be replacing them
            self._contributions.remove(self._brought, self._toolsets)

    def replace(self, *things: Any) -> None:
        """Replaces tools and toolsets, given as to `register`, for requests made from now on: all of them, or none.

        Each takes the place of that of its name, among those that the handle has registered; others stay. Running
        calls and requests made before keep what they had. A toolset that is replaced isn't closed.

        Raises:
            DefinitionError: A function can't become a tool.
            RegistrationError: The handle has registered none of that name, or it is gone.
        """
        tools, toolsets = _read(things, self._origin)
        with self._contributions.lock:
            now = self._contributions.catalogue
            new = dict(_replacements(tools, self._brought, (*now.tools.values(), *now.alternates)))
            new |= _replacements(toolsets, self._toolsets, now.toolsets)
            self._contributions.change(lambda now: now.with_replaced(new))
            self._brought = [new.get(id(each), each) for each in self._brought]
            self._toolsets = [new.get(id(each), each) for each in self._toolsets]
            self.tools = tuple(new.get(id(each), each) for each in self.tools)


def _replacements(new: Iterable[Any], registered: Iterable[Any], present: Collection[Any]) -> Iterator[tuple[int, Any]]:
    """The `id` of each registered thing that is still there, and what takes its place: that of its name."""
    here = {id(each) for each in present}
    there = [each for each in registered if id(each) in here]
    by_name = {name: each for each in there for name in getattr(each, "former_names", ())}  # prefixed in a conflict
    by_name |= {each.name: each for each in there}
    for each in new:
        old = by_name.get(each.name)
        if old is None:
            known = near_or_known(each.name, by_name)
            raise RegistrationError(f"this handle has nothing called {each.name!r} to replace.{known}")
        by_name = {name: other for name, other in by_name.items() if other is not old}  # once
        # A copy, as a tool may also be registered elsewhere.
        yield id(old), each.with_spec(name=old.name) if isinstance(each, Tool) else each


def _read(things: Iterable[Any], origin: Origin) -> tuple[list[Tool], list[Any]]:
    """The tools and the toolsets among things to register, as they are registered."""
    things = tuple(things)
    toolsets: list[Any] = [thing for thing in things if is_toolset(thing)]
    if toolsets:
        from pegboard.toolsets.toolset import OwnedToolset

        toolsets = [OwnedToolset(each, origin) for each in toolsets]
    others = (thing for thing in things if not is_toolset(thing))
    tools = [tool for thing in others for tool in _tools_from(thing, foreign=origin != HOST)]
    if origin != HOST:
        from pegboard.tools.visible import visible_spec

        tools = [tool.evolve(origin=origin, spec=visible_spec(tool.spec)) for tool in tools]
    return tools, toolsets


def _tools_from(thing: Any, *, foreign: bool) -> list[Tool]:
    """As `tools_from`; a function doesn't load what classes, objects and modules need."""
    if isinstance(thing, FunctionType):
        carried: Any = getattr(thing, ATTRIBUTE, None)
        if carried is None:
            return [Tool.from_function(thing)]
        if isinstance(carried, Tool) and getattr(carried.handler, "function", None) is thing:
            return [carried]
    from pegboard.tools.typed import tools_from

    return tools_from(thing, foreign=foreign)


def _packages_with_service(path: str) -> Sequence[str]:
    """The packages whose plugins provide a service: installed ones, by their manifests, and first-party ones."""
    catalogue: Catalogue = lazy.installed().catalogue
    installed = catalogue.plugins.get(catalogue.offered("services").get(path, ""))
    ours = first_party()["services"].get(path)
    return sorted(filter(None, {ours, installed and installed.distribution}))
