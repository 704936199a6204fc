"""Plugin manager: gathers what plugins bring, hook by hook, registers it, and quarantines plugins that fail."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import evolve, field

from pegboard.callbacks import ONLY, Callback, accept_keywords, nonblocking
from pegboard.catalogue import CALLBACK_STAGES, EMPTY, EXTRAS, Catalogue, PluginRecord, PublishedTools, Status, limit_of
from pegboard.config import NO_CONFIG, Config, with_secrets
from pegboard.contributions import is_toolset
from pegboard.errors import (
    InvalidNameError,
    PegboardError,
    PluginError,
    RegistrationError,
    SchemaError,
    StaleSpecError,
    cause_of,
    did_you_mean,
    hide,
    log_failure,
    operator_log,
    suggest,
)
from pegboard.plugins.manifest import PluginManifest, compare_tools, stale_manifest
from pegboard.plugins.names import NameOwners, without
from pegboard.plugins.side_effects import LOAD_SECONDS, run_in_thread, side_effect_problem, watch_side_effects
from pegboard.registry import ToolRegistry
from pegboard.tools.spec import Origin, Problem
from pegboard.tools.tool import LateHandler, Tool
from pegboard.tools.visible import visible_spec
from pegboard.toolsets.toolset import OwnedToolset, close_all
from pegboard.typing import define

if TYPE_CHECKING:
    import pluggy

    from pegboard.plugins.discovery import FoundPlugin
    from pegboard.tools.services import ServiceScope

_T = TypeVar("_T")
_MOST_NAME: Final = 1_000
GUARDS: Final = "pegboard_guards_calls"
NEEDS_POSIX: Final = "pegboard_needs_posix"
NOT_HERE: Final = "it works on Linux and macOS, but not on Windows"


@define(eq=False)
class Plugin:
    """Plugin of a registry: as it is listed, and, once loaded, with everything that it brought."""

    origin: Origin  # its tools and toolsets carry it
    # imports it; returns its module, its object, or a class, of which one instance is made (with `settings`, if it
    # takes them)
    fetch: Callable[[], Any]
    settings: Mapping[str, Any]  # its settings
    manifest: PluginManifest = field(factory=lambda: PluginManifest(""))  # what it is expected to bring
    record: PluginRecord = field(init=False)  # its present record
    config: Config | None = None  # what its registry was loaded with
    # its tools as they were registered from its manifest, by their names in its code; or `None`
    listed: dict[str, Tool] | None = None
    # its tools with their code that are as they were listed, likewise
    live: dict[str, Tool] = field(factory=dict[str, Tool])
    failure: PluginError | None = None  # why it can't be loaded, or `None`
    denying: Callback | None = None  # the callback that denies all calls while it isn't loaded, or `None`
    is_loaded: bool = False  # whether everything below is complete
    lock: threading.RLock = field(factory=threading.RLock)
    thing: Any = None  # its object
    implementations: dict[str, list[pluggy.HookImpl]] = field(factory=dict[str, Any])  # by hook name
    callbacks: dict[str, list[tuple[pluggy.HookImpl, Callback]]] = field(factory=dict[str, Any])  # by stage
    tools: list[Tool] = field(factory=list[Tool])  # in the order of registration
    toolsets: list[OwnedToolset] = field(factory=list[OwnedToolset])  # likewise
    # predicates, processors, exporters, executors, models and services: kind -> name -> thing
    extras: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    faults: list[str] = field(factory=list[str])  # what was refused, one sentence each; everything else works
    # the secrets in its settings, which are hidden in its faults
    secrets: list[str] = field(factory=list[str], repr=False)

    def __attrs_post_init__(self) -> None:
        self.record = PluginRecord(self.name, self.origin.distribution, self.origin.version, "listed")

    @property
    def name(self) -> str:
        """Its name."""
        return self.origin.plugin or ""

    @property
    def names(self) -> dict[str, list[str]]:
        """The names of what it brings besides tools, by kind."""
        return {
            "toolsets": [each.name for each in self.toolsets],
            **{kind: list(of) for kind, of in self.extras.items()},
        }

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks that it implements, sorted."""
        return tuple(sorted(self.implementations))

    @property
    def guards(self) -> bool:
        """Whether it guards calls, by its manifest or its object."""
        return GUARDS in self.manifest.hooks or inspect.getattr_static(self.thing, GUARDS, None) is not None

    def load(self) -> None:
        """Imports it, calls its register hooks and checks what it brings; raises what that does, without secrets."""
        self.thing = self.fetch()
        if os.name != "posix" and inspect.getattr_static(self.thing, NEEDS_POSIX, None) is not None:
            raise PluginError(self.name, NOT_HERE, distribution=self.origin.distribution)
        handed = MappingProxyType(with_secrets(self.settings, self.faults, self.secrets))
        try:
            if inspect.isclass(self.thing):
                self.thing = accept_keywords(self.thing, ("settings", "given"))(handed, MappingProxyType(self.settings))
            _find_implementations(self)
            hooks = ((hook, each) for hook in _REGISTERS for each in self.implementations.get(hook, ()))
            errors = [error for hook, each in hooks if (error := _ask(self, hook, each, handed)) is not None]
            if errors and not (self.callbacks or self.tools or self.toolsets or self.extras):
                raise errors[0]  # noqa: TRY301  hidden below, as what the class raises is
        except BaseException as error:
            cause = cause_of(error, self.secrets)
            if cause == cause_of(error):
                raise
            raise RuntimeError(cause) from None
        self.faults = [hide(fault, self.secrets) for fault in self.faults]


def load_plugin(origin: Origin, thing: Any, settings: Mapping[str, Any]) -> Plugin:
    """Calls the register hooks of a plugin and validates what it brings.

    Args:
        origin: The plugin's.
        thing: What its entry point names: a module, an object, or a class, of which one instance is made (with
            `settings`, if it takes them).
        settings: Its settings, passed read-only, with the secrets that they refer to.

    Raises:
        pluggy.PluginValidationError: A hook takes unknown arguments.
        BaseException: Whatever the class raised; a `RuntimeError` in place of one whose text shows a secret.
    """
    plugin = Plugin(origin, lambda: thing, settings)
    plugin.load()
    return plugin


def load_within(load: Callable[[], _T], notes: list[str], seconds: float = LOAD_SECONDS) -> _T:
    """Imports or loads a plugin in a thread, within a time limit; `notes` gets its side effects, a few words each.

    Raises `TimeoutError`, and whatever the plugin does: a `RuntimeError` for its `KeyboardInterrupt`, which isn't the
    user's. The text of an error that only a thread causes says what to do.
    """
    with watch_side_effects(notes):
        try:
            return run_in_thread(seconds, load)
        except (ValueError, RuntimeError) as error:
            if "main thread" in str(error) or "no current event loop" in str(error):
                error.args = (f"{str(error).removesuffix('.')}; {_IN_A_THREAD}",)
            raise


_IN_A_THREAD: Final = (
    "plugins are loaded in a thread, without an event loop: its author has to do this when a tool runs"
)


def _find_implementations(plugin: Plugin) -> None:
    """Has pluggy find and check them, in a separate manager, so that a failure leaves nothing behind."""
    import pluggy  # listing needs neither

    from pegboard.plugins import hookspecs

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin.thing, plugin.name)
    callers = dict.fromkeys(manager.get_hookcallers(plugin.thing) or ())  # pluggy 1.6 names one for each implementation
    for name, spec, implementation in [
        (hook.name, hook.spec, each) for hook in callers for each in hook.get_hookimpls()
    ]:
        if spec is None:
            if not implementation.optionalhook:
                known = (name for name in vars(hookspecs) if name.startswith("pegboard_"))
                plugin.faults.append(f"there is no hook {name!r}.{did_you_mean(suggest(name, known))}")
        elif implementation.wrapper or implementation.hookwrapper:
            wrappers = "pegboard_wrap_call, pegboard_wrap_tool or pegboard_wrap_model"
            plugin.faults.append(f"{name} can't be a wrapper; implement {wrappers}")
        else:
            plugin.implementations.setdefault(name, []).append(implementation)
            if (stage := name.removeprefix("pegboard_")) in CALLBACK_STAGES:
                callback = _callback(plugin, stage, implementation)
                plugin.callbacks.setdefault(stage, []).append((implementation, callback))
    plugin.faults += [f"{name} is never called: put @hookimpl above it" for name in hookspecs.unmarked(plugin.thing)]


def _callback(plugin: Plugin, stage: str, implementation: pluggy.HookImpl) -> Callback:
    function = accept_keywords(implementation.function, CALLBACK_STAGES[stage])
    if stage == "approve_call" and not plugin.origin.trusted:
        from pegboard.dispatch.approval.queue import only_rejecting

        plugin.faults.append("it approves calls and isn't trusted: only its rejections count")
        function = only_rejecting(function)
    limit = None if stage == "check_tools" else limit_of(stage, getattr(implementation.function, ONLY, None))
    return Callback(function, f"plugin {plugin.name!r}", limit, plugin=plugin.name)


def _ask(plugin: Plugin, hook: str, own: pluggy.HookImpl, settings: Mapping[str, Any]) -> BaseException | None:
    """Calls one register hook; returns what it raises, which loses only what it hadn't registered yet."""
    offered = {"register": partial(_REGISTERS[hook], plugin), "settings": settings, "config": plugin.config}
    try:
        answer = own.function(*(offered[name] for name in own.argnames))
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("it is async; register hooks are plain functions")  # noqa: TRY301  reported like the rest
        if answer is not None:
            what = f"{hook} returns a {type(answer).__name__}, which is ignored"
            plugin.faults.append(f"{what}: call register(...) for each thing that it brings")
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        plugin.faults.append(f"{hook} raised {cause_of(error, plugin.secrets)}")
        return error
    return None


def _register_tools(plugin: Plugin, *things: Any) -> None:
    from pegboard.tools.typed import tools_from

    for thing in things:
        try:
            tools = tools_from(thing, foreign=True)
        except Exception as error:  # noqa: BLE001  a plugin's object may raise anything
            plugin.faults.append(str(error) if isinstance(error, PegboardError) else cause_of(error, plugin.secrets))
            continue
        for tool in tools:
            if any(earlier.name == tool.name for earlier in plugin.tools):
                plugin.faults.append(f"tool {tool.name!r} is registered twice; the first counts")
                continue
            try:
                plugin.tools.append(tool.evolve(spec=visible_spec(tool.spec), origin=plugin.origin))
            except SchemaError as error:
                plugin.faults.append(str(error))


def _register_toolset(plugin: Plugin, toolset: Any) -> None:
    if is_toolset(toolset):
        plugin.toolsets.append(OwnedToolset(toolset, plugin.origin))
    else:
        plugin.faults.append(f"{toolset!r} isn't a toolset: it needs a name and an async method tools(context)")


def _register_extra(of: str, plugin: Plugin, name: str, thing: Any) -> None:
    of_kind = plugin.extras.setdefault(of, {})
    if type(name) is not str or not 0 < len(name) <= _MOST_NAME:  # pyright: ignore[reportUnnecessaryComparison]  a plugin may pass anything
        plugin.faults.append(f"a name among {of} has to be a text of 1 to {_MOST_NAME:,} characters")
    elif name in of_kind:
        plugin.faults.append(f"{of[:-1]} {name!r} is registered twice; the first counts")
    else:
        try:
            EMPTY.with_extra(of, name, thing, plugin.origin)
        except ValueError as error:
            plugin.faults.append(str(error))
        else:
            of_kind[name] = thing


def _register_service(plugin: Plugin, kind: Any, thing: Any, *, scope: ServiceScope | None = None) -> None:
    from pegboard.tools.services import Services, path_of_kind

    try:
        given = Services().provide(kind, thing, scope=scope)
    except TypeError as error:
        plugin.faults.append(str(error))
    else:
        _register_extra("services", plugin, path_of_kind(kind), given)


_REGISTERS: Final[dict[str, Callable[..., None]]] = {
    "pegboard_register_tools": _register_tools,
    "pegboard_register_toolsets": _register_toolset,
    **{f"pegboard_register_{kind}": partial(_register_extra, kind) for kind in EXTRAS},
    "pegboard_register_services": _register_service,
}
"""The `register` of each register hook, which gets the plugin first; the hooks are called in this order."""


_NOTHING: Final[Mapping[str, Any]] = {}
_REFRESH: Final = "run 'registry list --refresh', or, as its author, 'registry manifest write'"


@define(eq=False)
class PluginManager:
    """Loads plugins into one registry.

    Attributes:
        registry: Where their tools are registered.
        settings: The settings by plugin name.
        config: How tools are renamed, and what happens when two plugins bring one name.
        seconds: How long loading one plugin may take.
        on_stale: Called with the name of a plugin whose code differs from its listing.
        claims: Which distributions bring which names.
    """

    registry: ToolRegistry
    settings: Mapping[str, Mapping[str, Any]] = _NOTHING
    config: Config = NO_CONFIG
    seconds: float = LOAD_SECONDS
    on_stale: Callable[[str], None] | None = None
    owners: NameOwners = field(factory=NameOwners, init=False)
    _plugins: dict[str, Plugin] = field(factory=dict[str, Plugin], init=False)

    def record(
        self, found: FoundPlugin, status: Status, cause: str, *, missing: bool = False, guards: bool = False
    ) -> None:
        """Records a plugin that isn't loaded: blocked, disabled or quarantined.

        `missing`: it should be loaded, whatever the status. `guards`: it guards calls, whatever its manifest says.
        """
        plugin = self._new(found.origin, found.load)
        if status == "quarantined" or missing:
            plugin.manifest = stale_manifest(found)
            if guards:
                plugin.manifest = evolve(plugin.manifest, hooks=(*plugin.manifest.hooks, GUARDS))
        self._exclude(plugin, status, cause)

    def list_plugins(self, known: Iterable[tuple[FoundPlugin, PluginManifest]]) -> None:
        """Registers plugins by their manifests, all in one change; none of their code is imported."""
        tools: list[Tool] = []
        held: list[Tool] = []
        records: dict[str, PluginRecord] = {}
        problems: list[Problem] = []
        published: dict[str, PublishedTools] = {}
        expected = [(self._new(found.origin, found.load), found, manifest) for found, manifest in known]
        brought = [self._list(plugin, manifest) for plugin, _, manifest in expected]
        for (plugin, found, manifest), own in zip(expected, brought, strict=True):
            for tool in own:
                (tools if self._gets(tool) else held).append(tool)
            problems += _problems(plugin, (*manifest.faults, *map(side_effect_problem, manifest.notes)))
            offers = frozenset(offer for offer in manifest.offers if self.owners.has(*offer, plugin.origin))
            record = _record(plugin, "listed", manifest.hooks, own, manifest.faults)
            plugin.record = records[plugin.name] = record.evolve(offers=offers, load=partial(self._load, plugin))
            if listing := manifest.of_toolsets:
                published[plugin.name] = listing if found.trusted else listing.untrusted

        def add_listing(catalogue: Catalogue) -> Catalogue:
            after, _ = self._without_conflicts(catalogue).with_tools(tools, self.config.conflicts or "keep")
            return (
                after.holding_back(held)
                .with_problems(*problems)
                .evolve(plugins={**after.plugins, **records}, published={**after.published, **published})
            )

        self.registry.contributions.change(add_listing)

    def reserve_all(self, found: FoundPlugin, manifest: PluginManifest) -> None:
        """Reserves all names of a plugin that isn't listed."""
        self._list(Plugin(found.origin, found.load, _NOTHING), manifest)

    def reserve(self, origin: Origin, tools: Iterable[Tool], brought: PluginManifest | Plugin) -> None:
        """Reserves the names of what a plugin brings, unless the configuration resolves conflicts in another way."""
        if self.config.conflicts is None:
            for kind, names in (("tools", [tool.name for tool in tools]), *brought.names.items()):
                self.owners.add(kind, names, origin)
            self.owners.add("commands", getattr(brought, "commands", ()), origin)  # only a manifest names them

    def _gets(self, tool: Tool) -> bool:
        """Whether a plugin's tool gets its name."""
        return self.owners.has("tools", tool.name, tool.origin)

    def _without_conflicts(self, catalogue: Catalogue) -> Catalogue:
        conflicts = (conflict for conflict in self.owners.conflicts() if conflict.kind != "plugins")
        return reduce(without, conflicts, catalogue)

    def load(self, found: FoundPlugin) -> PluginRecord:
        """Imports a plugin now and registers what it brings; a failure is recorded, never raised."""
        plugin = self._new(found.origin, found.load)
        plugin.manifest = stale_manifest(found)
        self._load(plugin)
        return plugin.record

    def register(self, thing: Any, origin: Origin) -> PluginRecord:
        """Registers a host's plugin, an object, a module or a class; returns its record."""
        plugin = self._new(origin, lambda: thing)
        self._load(plugin)
        return plugin.record

    def forget(self, name: str) -> Mapping[str, tuple[Callback, ...]]:
        """Removes a plugin, which can't be loaded any more; returns the callbacks of the others."""
        if (plugin := self._plugins.pop(name, None)) is not None and not plugin.is_loaded:
            plugin.failure = PluginError(name, "it was unloaded", distribution=plugin.origin.distribution)
        return self._chains()

    def _configure(self, plugin: str, tool: Tool) -> Tool:
        """The tool under its name in this registry, and with the executor that the configuration sets for that."""
        tool = self._rename(plugin, tool)
        policy = self.config.placed(tool.policy, tool.name)
        return tool if policy is tool.policy else tool.evolve(policy=policy)

    def _rename(self, plugin: str, tool: Tool) -> Tool:
        rename, name = self.config.rename, self.config.prefix.get(plugin, "") + tool.name
        name = rename.get(f"{plugin}:{tool.name}") or rename.get(name, name)
        if name == tool.name:
            return tool
        try:
            return tool.with_spec(name=name)
        except InvalidNameError:
            cause = (
                f"tool {tool.name!r} keeps its name: {name[:100]!r}, which [prefix] or [rename] makes of it, can't "
                "name a tool (1 to 64 of A-Z, a-z, 0-9, '_' and '-', a letter or '_' first); change that line of "
                "pegboard.toml"
            )
            self.report(Problem(cause, plugin=plugin, distribution=tool.origin.distribution))
            return tool

    def _new(self, origin: Origin, fetch: Callable[[], Any]) -> Plugin:
        plugin = Plugin(origin, fetch, self.settings.get(origin.plugin or "", _NOTHING), config=self.config)
        self._plugins[plugin.name] = plugin
        return plugin

    def _list(self, plugin: Plugin, manifest: PluginManifest) -> list[Tool]:
        """The tools of a plugin's manifest, under their names in this registry; all its names are claimed."""
        plugin.manifest, plugin.listed = manifest, {}
        for written in manifest.tools:
            try:
                spec = visible_spec(written)
            except SchemaError as error:
                self.report(Problem.of(plugin.origin, str(error)))
                continue
            handler = LateHandler(lambda name=spec.name: self._live_tool(plugin, name))
            tool = Tool(spec, handler, plugin.origin)
            facts = manifest.requests.get(spec.name)
            plugin.listed[spec.name] = self._configure(plugin.name, tool if facts is None else facts.on(tool, handler))
        self.reserve(plugin.origin, plugin.listed.values(), manifest)
        return [*plugin.listed.values()]

    def _live_tool(self, plugin: Plugin, name: str) -> Tool:
        """The tool with its code, for a `LateHandler`."""
        self._load(plugin)
        if plugin.failure is not None:
            raise plugin.failure
        tool = plugin.live.get(name)
        if tool is None:
            raise StaleSpecError(
                plugin.name,
                f"its code and what is listed differ in tool {name!r}; {_REFRESH}",
                distribution=plugin.origin.distribution,
            )
        return tool

    def _load(self, plugin: Plugin) -> None:
        """Imports the plugin and registers what it brings, once; a failure is recorded."""
        with plugin.lock:
            if plugin.is_loaded or plugin.failure is not None:
                return
            notes: list[str] = []
            try:
                load_within(plugin.load, notes, self.seconds)
            except KeyboardInterrupt:  # the user's: a plugin's comes as another error
                raise
            except BaseException as error:  # noqa: BLE001  SystemExit too costs this plugin only
                operator_log().debug("plugin %r failed to load", plugin.name, exc_info=error)
                self._exclude(plugin, "quarantined", error.cause if isinstance(error, PluginError) else cause_of(error))
                assert plugin.failure is not None
                plugin.failure.__cause__ = error
            else:
                self._register(plugin)
            self.report(*_problems(plugin, map(side_effect_problem, notes)))

    def _exclude(self, plugin: Plugin, status: Status, cause: str) -> None:
        """Records why a plugin isn't loaded, and denies all calls if it should guard them."""
        if plugin.guards and plugin.settings:
            cause = f"no call runs, as it guards calls, has settings and isn't loaded: {cause}"
            from pegboard.tools.content import ToolResult

            owner = f"plugin {plugin.name!r}"
            text = f"No call runs while {owner}, which guards calls, isn't loaded; registry doctor says why."
            refusal = ToolResult.error("denied", text, detail=f"{owner}: {cause}")
            plugin.denying = Callback(nonblocking(lambda *_call: refusal), owner)
        plugin.failure = PluginError(plugin.name, cause, distribution=plugin.origin.distribution)
        plugin.record = plugin.record.evolve(status=status, cause=cause, load=None)
        own, chains = {plugin.name: plugin.record}, self._chains()
        self.registry.contributions.change(
            lambda each: each.evolve(plugins={**each.plugins, **own}, plugin_callbacks=chains)
        )
        if status == "quarantined":
            self.report(Problem.of(plugin.origin, cause, offers=plugin.manifest.offers))

    def _register(self, plugin: Plugin) -> None:
        """Registers what a plugin brought; tools that are still as listed are replaced by live ones."""
        origin, listed, faults = plugin.origin, plugin.listed, [*plugin.faults]
        plugin.live = {tool.name: self._configure(plugin.name, tool) for tool in plugin.tools}
        now, then = ({name: tool.spec for name, tool in tools.items()} for tools in (plugin.live, listed or {}))
        if listed is not None and (changed := compare_tools(now, then)):
            plugin.live = {name: tool for name, tool in plugin.live.items() if name not in changed}
            faults.append(f"its listing differs: {', '.join(changed.values())}; {_REFRESH}")
            if self.on_stale is not None:
                self.on_stale(plugin.name)
        self.reserve(origin, plugin.live.values(), plugin)
        tools = plugin.live if listed is None else listed
        plugin.record = _record(plugin, "loaded", plugin.hooks, tools.values(), faults)
        plugin.is_loaded = True

        def register(catalogue: Catalogue) -> Catalogue:
            catalogue = self._without_conflicts(catalogue)
            if listed is None:
                own = filter(self._gets, plugin.live.values())
                catalogue, _ = catalogue.with_tools(own, self.config.conflicts or "keep")
                catalogue = catalogue.holding_back(each for each in plugin.live.values() if not self._gets(each))
            else:
                pairs = {id(tool): plugin.live[name] for name, tool in listed.items() if name in plugin.live}
                catalogue = catalogue.with_replaced(pairs)
            toolsets = [each for each in plugin.toolsets if self.owners.has("toolsets", each.name, origin)]
            catalogue = catalogue.with_toolsets(toolsets)
            causes = list(faults)
            for kind, things in plugin.extras.items():
                for name in (name for name in things if self.owners.has(kind, name, origin)):
                    try:
                        catalogue = catalogue.with_extra(kind, name, things[name], origin)
                    except ValueError as error:
                        causes.append(str(error))
            return catalogue.with_problems(*_problems(plugin, causes)).evolve(
                plugins={**catalogue.plugins, plugin.name: plugin.record}, plugin_callbacks=self._chains()
            )

        self.registry.contributions.change(register, loads=listed is not None)

    def report(self, *problems: Problem) -> None:
        """Adds problems to the registry's."""
        if problems:
            self.registry.contributions.change(lambda catalogue: catalogue.with_problems(*problems))

    def _chains(self) -> dict[str, tuple[Callback, ...]]:
        """The plugins' callbacks by stage, in pluggy's order: tryfirst, plain, trylast; later plugins first."""
        chains: dict[str, tuple[Callback, ...]] = {}
        latest_first = [plugin for plugin in reversed(self._plugins.values()) if plugin.is_loaded]
        for stage in CALLBACK_STAGES:
            hooks = [hook for each in latest_first for hook in each.callbacks.get(stage, ())]
            first = [callback for hook, callback in hooks if hook.tryfirst]
            last = [callback for hook, callback in reversed(hooks) if hook.trylast and not hook.tryfirst]
            if hooks:
                plain = [callback for hook, callback in hooks if not (hook.tryfirst or hook.trylast)]
                chains[stage] = (*first, *plain, *last)
        if denying := [plugin.denying for plugin in self._plugins.values() if plugin.denying is not None]:
            chains["before_tool"] = (*denying, *chains.get("before_tool", ()))
        return chains


def _record(
    plugin: Plugin, whole: Status, hooks: Iterable[str], tools: Iterable[Tool], faults: Sequence[str]
) -> PluginRecord:
    """A plugin's record, with the status `whole` unless it has faults."""
    status = "partial" if faults else whole
    names, cause = tuple(sorted(tool.name for tool in tools)), "; ".join(faults) or None
    return PluginRecord(
        plugin.name, plugin.origin.distribution, plugin.origin.version, status, tuple(sorted(hooks)), names, cause
    )


def _problems(plugin: Plugin, causes: Iterable[str]) -> list[Problem]:
    return [Problem.of(plugin.origin, cause) for cause in causes]


def register_plugin(
    registry: ToolRegistry, plugin: Any, name: str, *, settings: Mapping[str, Any] | None = None
) -> PluginRecord:
    """Registers a plugin that isn't installed: an object, a module or a class.

    Args:
        registry: The registry; plugins that `load` has registered there come before this one.
        plugin: What implements the hooks; of a class, one instance is made.
        name: The plugin's name.
        settings: Its settings; none by default.

    Returns:
        Its record, with its `status`, and the `cause` where it failed, wholly or in part.

    Raises:
        RegistrationError: There is a plugin of this name already.
    """
    manager = manager_of(registry)
    if name in registry.contributions.catalogue.plugins:
        raise RegistrationError(f"there is a plugin {name!r} already; choose another name")
    if settings is not None:
        manager.settings = {**manager.settings, name: settings}
    return manager.register(plugin, Origin(name))


async def unload_plugin(registry: ToolRegistry, name: str) -> bool:
    """Removes a plugin and what it registered, and closes that; returns whether there was such a plugin.

    Running calls continue, and requests that were resolved before still run its tools. Tools that its own shadowed are
    restored. Its modules stay imported, and another plugin of its name may be registered.
    """
    contributions, manager = registry.contributions, manager_of(registry)
    with contributions.lock:
        before = contributions.catalogue
        if name not in before.plugins:
            return False
        callbacks = manager.forget(name)
        contributions.change(lambda now: now.without_plugin(name).evolve(plugin_callbacks=callbacks))
    own = {
        kind: [thing for key, thing in things.items() if before.owners[f"{kind}:{key}"].plugin == name]
        for kind, things in before.extras.items()
    }
    await registry.services.aclose(own.get("services", ()))
    executors = contributions.take_executors(own.get("executors", ()))
    for failure in (*await close_all(before.toolsets_of(name)), *await close_all(executors, "aclose")):
        log_failure(f"closing what plugin {name!r} has brought", failure)
    return True


def manager_of(registry: ToolRegistry) -> PluginManager:
    """The one manager of a registry, which orders the callbacks of all its plugins."""
    manager = registry.contributions.manager
    if not isinstance(manager, PluginManager):
        manager = registry.contributions.manager = PluginManager(registry)
    return manager
