"""Plugin manager: gathers what plugins bring, hook by hook, registers it, and quarantines plugins that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, field

from pegboard.callbacks import Callback, nonblocking
from pegboard.catalogue import CALLBACK_STAGES, Catalogue, PluginRecord, PublishedTools, Status
from pegboard.config import NO_CONFIG, Config
from pegboard.errors import (
    InvalidNameError,
    PluginError,
    RegistrationError,
    SchemaError,
    StaleSpecError,
    cause_of,
    log_failure,
    operator_log,
)
from pegboard.plugins.manifest import PluginManifest, compare_tools, stale_manifest
from pegboard.plugins.names import NameOwners, hold_back
from pegboard.plugins.plugin import GUARDS, Plugin, load_within
from pegboard.plugins.side_effects import LOAD_SECONDS, side_effect_problem
from pegboard.registry import ToolRegistry
from pegboard.tools.content import ToolResult
from pegboard.tools.handler import LazyHandler
from pegboard.tools.spec import Origin, Problem
from pegboard.tools.tool import Tool
from pegboard.tools.visible import visible_spec
from pegboard.toolsets.toolset import close_all
from pegboard.typing import define

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin

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
        owners: Which distributions bring which names.
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
        records: dict[str, PluginRecord] = {}
        problems: list[Problem] = []
        published: dict[str, PublishedTools] = {}
        plugins = [self._list(self._new(found.origin, found.load), manifest) for found, manifest in known]
        tools = [tool for plugin in plugins for tool in plugin.listed.values()]
        for plugin in plugins:  # once all names are reserved
            origin, manifest = plugin.origin, plugin.manifest
            problems += _problems(plugin, (*manifest.faults, *map(side_effect_problem, manifest.notes)))
            offers = frozenset(offer for offer in manifest.offers if self.owners.has(*offer, origin))
            record = _record(plugin, "listed", manifest.hooks, plugin.listed.values(), manifest.faults)
            plugin.record = records[plugin.name] = record.evolve(offers=offers, load=partial(self._load, plugin))
            if listing := manifest.of_toolsets:
                published[plugin.name] = listing if origin.trusted else listing.untrusted

        def add_listing(catalogue: Catalogue) -> Catalogue:
            after = self._with_tools(self._settle_conflicts(catalogue), tools).with_problems(*problems)
            return after.evolve(plugins={**after.plugins, **records}, published={**after.published, **published})

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

    def _with_tools(self, catalogue: Catalogue, tools: Iterable[Tool]) -> Catalogue:
        """A catalogue with these tools of plugins; those that don't get their names are held back."""
        getting, held = list[Tool](), list[Tool]()
        for tool in tools:
            (getting if self.owners.has("tools", tool.name, tool.origin) else held).append(tool)
        after, _ = catalogue.with_tools(getting, self.config.conflicts or "keep")
        return after.holding_back(held)

    def _settle_conflicts(self, catalogue: Catalogue) -> Catalogue:
        """A catalogue without what doesn't get its name."""
        conflicts = (conflict for conflict in self.owners.conflicts() if conflict.kind != "plugins")
        return reduce(hold_back, conflicts, catalogue)

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
            made = f"{name[:100]!r}, which [prefix] or [rename] makes of it, can't name a tool"
            rule = "1 to 64 of A-Z, a-z, 0-9, '_' and '-', a letter or '_' first"
            cause = f"tool {tool.name!r} keeps its name: {made} ({rule}); change that line of pegboard.toml"
            self.report(Problem(cause, plugin=plugin, distribution=tool.origin.distribution))
            return tool

    def _new(self, origin: Origin, fetch: Callable[[], Any]) -> Plugin:
        plugin = Plugin(origin, fetch, self.settings.get(origin.plugin or "", _NOTHING), config=self.config)
        self._plugins[plugin.name] = plugin
        return plugin

    def _list(self, plugin: Plugin, manifest: PluginManifest) -> Plugin:
        """The plugin with its manifest, and with its tools under their names in this registry; reserves all names."""
        plugin.manifest, plugin.is_listed = manifest, True
        for written in manifest.tools:
            try:
                spec = visible_spec(written)
            except SchemaError as error:
                self.report(Problem.of(plugin.origin, str(error)))
                continue
            handler = LazyHandler(lambda name=spec.name: self._live_tool(plugin, name))
            tool = Tool(spec, handler, plugin.origin)
            facts = manifest.requests.get(spec.name)
            plugin.listed[spec.name] = self._configure(plugin.name, tool if facts is None else facts.on(tool, handler))
        self.reserve(plugin.origin, plugin.listed.values(), manifest)
        return plugin

    def _live_tool(self, plugin: Plugin, name: str) -> Tool:
        """The tool with its code, for a `LazyHandler`."""
        self._load(plugin)
        if plugin.failure is not None:
            raise plugin.failure
        tool = plugin.live.get(name)
        if tool is None:
            cause = f"its code and what is listed differ in tool {name!r}; {_REFRESH}"
            raise StaleSpecError(plugin.name, cause, distribution=plugin.origin.distribution)
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
            owner = f"plugin {plugin.name!r}"
            text = f"No call runs while {owner}, which guards calls, isn't loaded; registry doctor says why."
            refusal = ToolResult.error("denied", text, detail=f"{owner}: {cause}")
            plugin.denying = Callback(nonblocking(lambda *_call: refusal), owner)
        plugin.failure = PluginError(plugin.name, cause, distribution=plugin.origin.distribution)
        plugin.record = plugin.record.evolve(status=status, cause=cause, load=None)
        if status == "quarantined" and plugin.origin.distribution is not None and not plugin.is_listed:
            self.owners.reserve(plugin.origin.distribution)  # what it brings isn't known, but may be accepted
        self.registry.contributions.change(lambda now: self._with_record(plugin, self._settle_conflicts(now)))
        if status == "quarantined":
            self.report(Problem.of(plugin.origin, cause, offers=plugin.manifest.offers))

    def _register(self, plugin: Plugin) -> None:
        """Registers what a plugin brought; tools that are still as listed are replaced by live ones."""
        origin, listed, faults = plugin.origin, plugin.listed, [*plugin.faults]
        plugin.live = {tool.name: self._configure(plugin.name, tool) for tool in plugin.tools}
        now, then = ({name: tool.spec for name, tool in tools.items()} for tools in (plugin.live, listed))
        if plugin.is_listed and (changed := compare_tools(now, then)):
            plugin.live = {name: tool for name, tool in plugin.live.items() if name not in changed}
            faults.append(f"its listing differs: {', '.join(changed.values())}; {_REFRESH}")
            if self.on_stale is not None:
                self.on_stale(plugin.name)
        self.reserve(origin, plugin.live.values(), plugin)
        tools = listed if plugin.is_listed else plugin.live
        plugin.record = _record(plugin, "loaded", plugin.hooks, tools.values(), faults)
        plugin.is_loaded = True

        def add_brought(catalogue: Catalogue) -> Catalogue:
            catalogue = self._settle_conflicts(catalogue)
            if plugin.is_listed:
                pairs = {id(tool): plugin.live[name] for name, tool in listed.items() if name in plugin.live}
                catalogue = catalogue.with_replaced(pairs)
            else:
                catalogue = self._with_tools(catalogue, plugin.live.values())
            toolsets = [each for each in plugin.toolsets if self.owners.has("toolsets", each.name, origin)]
            catalogue = catalogue.with_toolsets(toolsets)
            causes = list(faults)
            for kind, things in plugin.extras.items():
                for name in (name for name in things if self.owners.has(kind, name, origin)):
                    try:
                        catalogue = catalogue.with_extra(kind, name, things[name], origin)
                    except ValueError as error:
                        causes.append(str(error))
            return self._with_record(plugin, catalogue.with_problems(*_problems(plugin, causes)))

        self.registry.contributions.change(add_brought, loads=plugin.is_listed)

    def _with_record(self, plugin: Plugin, catalogue: Catalogue) -> Catalogue:
        """A catalogue with a plugin's present record, and with the callbacks of all plugins."""
        plugins = {**catalogue.plugins, plugin.name: plugin.record}
        return catalogue.evolve(plugins=plugins, plugin_callbacks=self._chains())

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
    status, origin = "partial" if faults else whole, plugin.origin
    own = tuple(sorted(hooks)), tuple(sorted(tool.name for tool in tools)), "; ".join(faults) or None
    return PluginRecord(plugin.name, origin.distribution, origin.version, status, *own)


def _problems(plugin: Plugin, causes: Iterable[str]) -> list[Problem]:
    return [Problem.of(plugin.origin, cause) for cause in causes]


def register_plugin(
    registry: ToolRegistry, plugin: Any, name: str, *, settings: Mapping[str, Any] | None = None
) -> PluginRecord:
    """Registers a plugin that isn't installed: an object, a module or a class.

    Returns its record, with its `status`, and the `cause` where it failed, wholly or in part. Raises
    `RegistrationError` if there is a plugin of this name already.

    Args:
        registry: The registry; plugins that `load` has registered there come before this one.
        plugin: What implements the hooks; of a class, one instance is made.
        name: The plugin's name.
        settings: Its settings; none by default.
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
    brought = map(before.in_order, ("services", "executors"))
    services, sources = ([thing for _, thing, origin in of_kind if origin.plugin == name] for of_kind in brought)
    await registry.services.aclose(services)
    executors = contributions.take_executors(sources)
    for failure in (*await close_all(before.toolsets_of(name)), *await close_all(executors, "aclose")):
        log_failure(f"closing what plugin {name!r} has brought", failure)
    return True


def manager_of(registry: ToolRegistry) -> PluginManager:
    """The one manager of a registry, which orders the callbacks of all its plugins."""
    manager = registry.contributions.manager
    if not isinstance(manager, PluginManager):
        manager = registry.contributions.manager = PluginManager(registry)
    return manager
