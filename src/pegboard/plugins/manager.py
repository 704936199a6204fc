"""`PluginManager`: loads plugins into one registry, and keeps each one's failures to itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
from attrs import define, field

from pegboard.callbacks import Callback, by_name
from pegboard.catalogue import CALLBACK_STAGES, Catalogue, LazyPlugin, PluginRecord, Problem, Status
from pegboard.errors import InvalidNameError, PluginError, RegistrationError, StaleSpecError, cause_of
from pegboard.registry import ToolRegistry
from pegboard.tools.policy import ConflictPolicy, Origin
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import LateHandler, Tool
from pegboard.toolsets.toolset import OwnedToolset

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin
    from pegboard.plugins.loaded import LoadedPlugin
    from pegboard.plugins.manifest import PluginManifest

_T = TypeVar("_T")
LOAD_SECONDS: Final = 10.0
_NOTHING: Final[Mapping[str, Any]] = {}


@define(eq=False)
class _Plugin:
    """One plugin on its way from listed to loaded."""

    name: str
    origin: Origin
    place: int
    fetch: Callable[[], Any]
    settings: Mapping[str, Any]
    listed: dict[str, Tool] = field(factory=dict[str, Tool])
    own_specs: dict[str, ToolSpec] = field(factory=dict[str, ToolSpec])
    live: dict[str, Tool] = field(factory=dict[str, Tool])
    loaded: LoadedPlugin | None = None
    failure: PluginError | None = None
    lock: threading.RLock = field(factory=threading.RLock)


@define(eq=False)
class PluginManager:
    """Loads plugins into one registry.

    Attributes:
        registry: Where their tools are registered.
        settings: The settings by plugin name.
        rename: `"tool"` or `"plugin:tool"` -> its name in this registry.
        prefix: Plugin name -> what its tools' names begin with in this registry.
        conflicts: What happens when two plugins bring one name.
        seconds: How long loading one plugin may take.
        on_stale: Called with the name of a plugin whose code says something else than what is listed.
    """

    registry: ToolRegistry
    settings: Mapping[str, Mapping[str, Any]] = _NOTHING
    rename: Mapping[str, str] = field(factory=dict[str, str])
    prefix: Mapping[str, str] = field(factory=dict[str, str])
    conflicts: ConflictPolicy = "keep"
    seconds: float = LOAD_SECONDS
    on_stale: Callable[[str], None] | None = None
    _plugins: dict[str, _Plugin] = field(factory=dict[str, _Plugin], init=False)

    # Public ------------------------------------------------------------------------------------------------------

    def note(self, found: FoundPlugin, status: Status, cause: str) -> None:
        """Records a plugin that isn't loaded: blocked, disabled or quarantined."""
        record = PluginRecord(found.name, found.distribution, found.version, status, cause=cause)
        self._record(record)
        if status == "quarantined":
            self._report(found.name, found.distribution, cause)

    def list_plugins(self, known: Iterable[tuple[FoundPlugin, PluginManifest]]) -> None:
        """Lists plugins by what their manifests say; none of their code is imported.

        All of them are registered at once.
        """
        tools: list[Tool] = []
        records: dict[str, PluginRecord] = {}
        problems: list[Problem] = []
        for found, manifest in known:
            plugin = self._expect(found)
            tools += self._listed_tools(plugin, manifest)
            records[plugin.name] = _listed_record(plugin, manifest)
            problems += [Problem(plugin.name, found.distribution, fault) for fault in manifest.faults]
            self.registry.lazy_plugins.add(
                plugin.name,
                LazyPlugin(_stages_of(manifest.hooks), lambda plugin=plugin: self._load(plugin), manifest.offers),
            )

        def listed(catalogue: Catalogue) -> Catalogue:
            after, _ = catalogue.with_tools(tools, self.conflicts)
            return after.evolve(plugins={**after.plugins, **records}, problems=(*after.problems, *problems))

        self.registry.change(listed)

    def load(self, found: FoundPlugin) -> PluginRecord:
        """Imports a plugin now and registers what it brings; a failure is recorded, never raised."""
        plugin = self._expect(found)
        self._load(plugin)
        return self.registry.catalogue.plugins[plugin.name]

    def register(
        self, thing: Any, name: str, *, distribution: str | None = None, version: str | None = None
    ) -> PluginRecord:
        """Registers a plugin that the host has as an object, a module or a class.

        Args:
            thing: The plugin.
            name: Its name.
            distribution: Where it is from, for its tools' origin.
            version: Of the distribution.

        Returns:
            Its record; `status` tells how it went.
        """
        plugin = self._new(name, Origin(name, distribution, version), lambda: thing)
        self._load(plugin)
        return self.registry.catalogue.plugins[name]

    # Names -------------------------------------------------------------------------------------------------------

    def _named(self, plugin: str, tool: Tool) -> Tool:
        """The tool under its name in this registry."""
        name = self.prefix.get(plugin, "") + tool.name
        name = self.rename.get(f"{plugin}:{tool.name}") or self.rename.get(name, name)
        if name == tool.name:
            return tool
        try:
            return tool.with_spec(name=name)
        except InvalidNameError:
            self._misnamed(plugin, tool, name)
            return tool

    def _misnamed(self, plugin: str, tool: Tool, name: str) -> None:
        """Reports a name that the configuration makes and that no tool can have; the tool keeps its own."""
        cause = (
            f"tool {tool.name!r} keeps its name: {name[:100]!r}, which [prefix] or [rename] makes of it, can't name a "
            f"tool (1 to 64 of A-Z, a-z, 0-9, '_' and '-', a letter or '_' first); change that line of pegboard.toml"
        )
        if all(problem.cause != cause for problem in self.registry.problems()):
            self._report(plugin, tool.origin.distribution, cause)

    # Listing -----------------------------------------------------------------------------------------------------

    def _new(self, name: str, origin: Origin, fetch: Callable[[], Any]) -> _Plugin:
        plugin = _Plugin(name, origin, len(self._plugins), fetch, self.settings.get(name, _NOTHING))
        self._plugins[name] = plugin
        return plugin

    def _expect(self, found: FoundPlugin) -> _Plugin:
        origin = Origin(found.name, found.distribution, found.version)
        return self._new(found.name, origin, lambda: _imported(found))

    def _listed_tools(self, plugin: _Plugin, manifest: PluginManifest) -> list[Tool]:
        for spec in manifest.tools:
            handler = LateHandler(lambda name=spec.name: self._live_tool(plugin, name))
            plugin.own_specs[spec.name] = spec
            tool = Tool(spec, handler, plugin.origin)
            facts = manifest.requests.get(spec.name)
            plugin.listed[spec.name] = self._named(plugin.name, tool if facts is None else facts.on(tool, handler))
        return list(plugin.listed.values())

    # Loading -----------------------------------------------------------------------------------------------------

    def _live_tool(self, plugin: _Plugin, name: str) -> Tool:
        """The tool with its code, for a `LateHandler`."""
        self._load(plugin)
        if plugin.failure is not None:
            raise plugin.failure
        tool = plugin.live.get(name)
        if tool is None:
            raise StaleSpecError(
                plugin.name,
                f"its code says something else of tool {name!r} than what is listed; {_REFRESH}",
                distribution=plugin.origin.distribution,
            )
        return tool

    def _load(self, plugin: _Plugin) -> None:
        """Imports the plugin and registers what it brings, once; a failure is recorded."""
        with plugin.lock:
            if plugin.loaded is not None or plugin.failure is not None:
                return
            try:
                plugin.loaded = within(self.seconds, self._gathered, plugin)
            except BaseException as error:  # noqa: BLE001  SystemExit too costs this plugin only
                self._quarantine(plugin, error)
            else:
                self._register(plugin, plugin.loaded)
            self.registry.lazy_plugins.remove(plugin.name)

    def _gathered(self, plugin: _Plugin) -> LoadedPlugin:
        from pegboard.plugins.loaded import gather

        return gather(plugin.name, plugin.fetch(), plugin.settings)

    def _quarantine(self, plugin: _Plugin, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise error
        cause = cause_of(error)
        plugin.failure = PluginError(plugin.name, cause, distribution=plugin.origin.distribution)
        plugin.failure.__cause__ = error
        earlier = self.registry.catalogue.plugins.get(plugin.name)
        record = earlier or PluginRecord(plugin.name, plugin.origin.distribution, plugin.origin.version)
        self._record(attrs.evolve(record, status="quarantined", cause=cause))
        self._report(plugin.name, plugin.origin.distribution, cause)

    def _register(self, plugin: _Plugin, loaded: LoadedPlugin) -> None:
        """Registers what a plugin brought; what was listed and is still so becomes live in place."""
        was_listed = bool(plugin.own_specs) or plugin.name in self.registry.catalogue.plugins
        brought = [self._named(plugin.name, tool.evolve(origin=plugin.origin)) for tool in loaded.tools]
        for own, tool in zip(loaded.tools, brought, strict=True):
            if not was_listed or plugin.own_specs.get(own.name) == own.spec:
                plugin.live[own.name] = tool
        stale = _stale(plugin, loaded) if was_listed else []
        if stale and self.on_stale is not None:
            self.on_stale(plugin.name)
        faults = [*loaded.faults, *stale]
        self._swap(plugin, loaded, faults, was_listed=was_listed)

    def _swap(self, plugin: _Plugin, loaded: LoadedPlugin, faults: list[str], *, was_listed: bool) -> None:
        origin = plugin.origin
        record = PluginRecord(
            plugin.name,
            origin.distribution,
            origin.version,
            "partial" if faults else "loaded",
            loaded.hooks,
            tuple(sorted(tool.name for tool in (plugin.listed or plugin.live).values())),
            "; ".join(faults) or None,
        )

        def swap(catalogue: Catalogue) -> Catalogue:
            if was_listed:
                pairs = {id(tool): plugin.live[name] for name, tool in plugin.listed.items() if name in plugin.live}
                catalogue = catalogue.with_replaced(pairs)
            else:
                catalogue, _ = catalogue.with_tools(plugin.live.values(), self.conflicts)
            toolsets = [OwnedToolset(toolset, origin) for toolset in loaded.toolsets]
            catalogue, clashes = _with_extras(catalogue.with_toolsets(toolsets), loaded, origin)
            causes = [*faults, *clashes]
            known = {(problem.plugin, problem.cause) for problem in catalogue.problems}
            new = [
                Problem(plugin.name, origin.distribution, cause)
                for cause in causes
                if (plugin.name, cause) not in known
            ]
            return catalogue.evolve(
                plugins={**catalogue.plugins, plugin.name: record},
                problems=(*catalogue.problems, *new),
                plugin_callbacks=self._chains(),
            )

        self.registry.change(swap)

    def _chains(self) -> dict[str, tuple[Callback, ...]]:
        """The plugins' callbacks by stage, in pluggy's order: tryfirst, plain, trylast; later plugins before earlier.

        The order follows the load order, not the moment at which a plugin happened to be imported.
        """
        loaded = [plugin for plugin in self._plugins.values() if plugin.loaded is not None]
        chains: dict[str, tuple[Callback, ...]] = {}
        for stage, names in CALLBACK_STAGES.items():
            members = [
                (_rank(implementation), _turn(implementation, plugin.place), plugin.name, implementation)
                for plugin in loaded
                if plugin.loaded is not None
                and (implementation := plugin.loaded.implementations.get(f"pegboard_{stage}")) is not None
            ]
            members.sort(key=lambda member: member[:2])
            if members:
                chains[stage] = tuple(
                    Callback(by_name(implementation.function, names), f"plugin {name!r}")
                    for _, _, name, implementation in members
                )
        return chains

    def _record(self, record: PluginRecord) -> None:
        self.registry.change(lambda catalogue: catalogue.evolve(plugins={**catalogue.plugins, record.name: record}))

    def _report(self, plugin: str, distribution: str | None, cause: str) -> None:
        problem = Problem(plugin, distribution, cause)
        self.registry.change(lambda catalogue: catalogue.evolve(problems=(*catalogue.problems, problem)))


def register_plugin(
    registry: ToolRegistry, plugin: Any, name: str, *, settings: Mapping[str, Any] | None = None
) -> PluginRecord:
    """Registers a plugin that isn't installed: an object, a module or a class.

    Args:
        registry: Where; what `load` has registered there keeps its place before it.
        plugin: What implements the hooks; of a class, one instance is made.
        name: The plugin's name.
        settings: What it gets as its settings; nothing by default.

    Returns:
        Its record: `status` tells how it went, `cause` why it isn't whole.

    Raises:
        RegistrationError: A plugin of this name is there already.
    """
    manager = manager_of(registry)
    if name in registry.catalogue.plugins:
        raise RegistrationError(f"a plugin is called {name!r} already; give this one another name")
    if settings is not None:
        manager.settings = {**manager.settings, name: settings}
    return manager.register(plugin, name)


def manager_of(registry: ToolRegistry) -> PluginManager:
    """The one manager of a registry: it keeps all its plugins' callbacks in order."""
    manager = registry.plugin_manager
    if not isinstance(manager, PluginManager):
        manager = registry.plugin_manager = PluginManager(registry)
    return manager


_REFRESH: Final = "run 'registry list --refresh', or, as its author, 'registry manifest write'"


def _imported(found: FoundPlugin) -> Any:
    from pegboard.plugins.loaded import imported

    return imported(found.module, found.attribute)


def _listed_record(plugin: _Plugin, manifest: PluginManifest) -> PluginRecord:
    return PluginRecord(
        plugin.name,
        plugin.origin.distribution,
        plugin.origin.version,
        "partial" if manifest.faults else "listed",
        tuple(sorted(manifest.hooks)),
        tuple(sorted(tool.name for tool in plugin.listed.values())),
        "; ".join(manifest.faults) or None,
    )


def _stages_of(hooks: Sequence[str]) -> frozenset[str]:
    return frozenset(hook.removeprefix("pegboard_") for hook in hooks)


def _stale(plugin: _Plugin, loaded: LoadedPlugin) -> list[str]:
    """What the code says otherwise than the manifest or the cache, one sentence a tool."""
    now = {tool.name: tool.spec for tool in loaded.tools}
    changed = [name for name, spec in plugin.own_specs.items() if name in now and now[name] != spec]
    gone = [name for name in plugin.own_specs if name not in now]
    new = [name for name in now if name not in plugin.own_specs]
    return [
        f"tool{'s' if len(names) > 1 else ''} {', '.join(map(repr, sorted(names)))} {what}; {_REFRESH}"
        for names, what in ((changed, "changed since listed"), (gone, "listed but gone"), (new, "not listed"))
        if names
    ]


def _with_extras(catalogue: Catalogue, loaded: LoadedPlugin, origin: Origin) -> tuple[Catalogue, list[str]]:
    clashes: list[str] = []
    for kind, things in loaded.extras.items():
        for name, thing in things.items():
            try:
                catalogue = catalogue.with_extra(kind, name, thing, origin)
            except ValueError as error:
                clashes.append(str(error))
    return catalogue, clashes


def _rank(implementation: Any) -> int:
    return 0 if implementation.tryfirst else 2 if implementation.trylast else 1


def _turn(implementation: Any, place: int) -> int:
    """Later plugins are asked first, as pluggy does, but among those that want to be last the later one is last."""
    return place if implementation.trylast else -place


def within(seconds: float, function: Callable[..., _T], *arguments: Any) -> _T:
    """Calls the function in a daemon thread and waits for it.

    Raises:
        TimeoutError: It took longer than `seconds`; it may still be going on.
        BaseException: Whatever it raised, `SystemExit` included.
    """
    values: list[_T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            values.append(function(*arguments))
        except BaseException as error:  # noqa: BLE001  handed to the caller, whatever it is
            errors.append(error)

    thread = threading.Thread(target=work, name="pegboard-load", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not values:
        raise TimeoutError(f"took longer than {seconds:g} s")
    return values[0]
