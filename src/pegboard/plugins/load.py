"""`load`: a registry with the installed plugins; `installed`: the fallback for registries without plugins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, field

from pegboard.config import NO_CONFIG, Config, autoload_in, is_named, normalised
from pegboard.contributions import Contributions
from pegboard.errors import ManifestError, operator_log, tuple_of
from pegboard.plugins.cache import CachedManifests
from pegboard.plugins.configured import executor_setups
from pegboard.plugins.discovery import Discovery, FoundPlugin, discover
from pegboard.plugins.manager import PluginManager
from pegboard.plugins.manifest import PluginManifest, read_manifest, stale_manifest
from pegboard.plugins.plugin import GUARDS, NEEDS_POSIX, NOT_HERE
from pegboard.plugins.side_effects import LOAD_SECONDS
from pegboard.registry import ToolRegistry
from pegboard.tools.limits import DEFAULT_LIMITS, Limits
from pegboard.tools.spec import Problem
from pegboard.toolsets.predicates import Where
from pegboard.typing import define

if TYPE_CHECKING:
    from pegboard.dispatch.approval.grants import Grants

_DEBUG: Final = 10  # as `logging.DEBUG`, which a listing needn't import
Progress = Callable[[int, int, str], None]
FIRST_LOADS_SECONDS: Final = 60.0
NOT_STARTED: Final = f"isn't loaded yet: first loads took over {FIRST_LOADS_SECONDS:g} s; the next command continues"


def load(
    *,
    config: Config | None = None,
    block: Iterable[str] = (),
    autoload: bool | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    where: Where = None,
    limits: Limits = DEFAULT_LIMITS,
    grants: Grants | None = None,
    refresh: bool = False,
    live: bool = False,
    seconds: float = LOAD_SECONDS,
    progress: Progress | None = None,
    discovery: Discovery | None = None,
) -> ToolRegistry:
    """A registry with the installed plugins; no code of theirs is imported where a manifest or the cache knows them.

    Reads no configuration by itself: pass `config=load_config(...)` for what the `registry` command uses.

    Args:
        config: What to block, enable, rename, ...; nothing by default.
        block: Names of more plugins to block, besides those in `PEGBOARD_BLOCK` of the environment.
        autoload: `False` loads no installed plugin, and so does `PEGBOARD_AUTOLOAD=0` in the environment by default.
        settings: The settings by plugin name, over those of `config`.
        where: A predicate that every resolution starts with, in addition to that of `config`.
        limits: What one call may use.
        grants: Stores what users have allowed for longer than one call; in memory by default.
        refresh: Whether to load plugins again that are cached.
        live: Whether to import every plugin now, in this process.
        seconds: How long loading one plugin may take.
        progress: Called with `(number, of how many, name)` before each first load.
        discovery: The installed plugins, if they are known already.

    Returns:
        The registry. A plugin that fails doesn't affect the others: see `registry.plugins()` and `registry.problems()`.
    """
    config = NO_CONFIG if config is None else config
    registry = ToolRegistry(limits=limits, where=[config.where, where], grants=grants)
    registry.contributions.config = config
    if not is_wanted(config, autoload):
        return registry
    discovery = discover() if discovery is None else discovery
    known = discovery.entries
    entries = [evolve(each, trusted=not is_named(each.name, each.distribution, config.untrusted)) for each in known]
    discovery = evolve(discovery, entries=tuple(entries))
    merged = evolve(config, plugins={**config.plugins, **(settings or {})})
    own = {found: merged.settings(found.name, found.distribution) for found in discovery.entries}
    manager = PluginManager(registry, {found.name: of_plugin for found, of_plugin in own.items()}, config, seconds)
    registry.contributions.manager, registry.contributions.executors = manager, executor_setups(config)
    loading = _Loading(manager, refresh=refresh, progress=progress)
    wanted = loading.choose(discovery, names_to_block(config, block), config.enable)
    # Of several plugins of one name, the accepted one has the settings.
    manager.settings = {**manager.settings, **{found.name: own[found] for found in wanted}}
    if live:
        for found in [each for each in wanted if not loading.leave_out(each, loading.manifest(each))]:
            manager.load(found)
    else:
        loading.list_all(wanted)
    names = [found.name for found in discovery.entries]  # in load order, which isn't that of their records so far
    registry.contributions.change(lambda now: now.evolve(plugins={name: now.plugins[name] for name in names}))
    return registry


@define(eq=False)
class _Loading:
    """State of one `load`."""

    manager: PluginManager
    refresh: bool = False
    progress: Progress | None = None
    cache: CachedManifests = field(factory=CachedManifests, init=False)

    def choose(self, discovery: Discovery, blocked: frozenset[str], enable: Iterable[str] | None) -> list[FoundPlugin]:
        """The plugins to load, in load order; the others are recorded with the reason."""
        self.manager.report(*discovery.problems)
        for distribution in discovery.left_out:
            self.manager.owners.reserve(distribution)
        enabled = None if enable is None else frozenset(enable)
        chosen: list[FoundPlugin] = []
        for found in discovery.entries:
            if is_named(found.name, found.distribution, blocked):
                self.manager.record(found, "blocked", "blocked by name (configuration, PEGBOARD_BLOCK or block=)")
            elif enabled is not None and not is_named(found.name, found.distribution, enabled):
                self.manager.record(found, "disabled", "not among the configuration's 'enable'")
            else:
                chosen.append(found)
        return self._settle_names(chosen)

    def _settle_names(self, chosen: list[FoundPlugin]) -> list[FoundPlugin]:
        """Those whose names are unique: of several with one name, the accepted one."""
        owners = self.manager.owners
        names = {found: (found.name, normalised(found.distribution)) for found in chosen}
        for found in chosen:
            owners.add("plugins", names[found], found.origin)
        for conflict in [*owners.conflicts()]:
            for problem in map(conflict.problem, conflict.held_back):
                self.manager.report(problem)
                for found in chosen:
                    if found.origin.distribution == problem.distribution and conflict.name in names[found]:
                        self.manager.record(found, "disabled", problem.cause, missing=conflict.owner is None)
                        if conflict.owner is None and (known := self.manifest(found)) is not None:
                            self.manager.reserve_all(found, known)  # so that no other gets its names
        return [found for found in chosen if all(owners.has("plugins", name, found.origin) for name in names[found])]

    def leave_out(self, found: FoundPlugin, manifest: PluginManifest | None) -> bool:
        """Leaves a plugin out that an untrusted project blocks, if it brings only tools; returns whether it did."""
        if not is_named(found.name, found.distribution, self.manager.config.project_block):
            return False
        if manifest is not None and manifest.brings_only_tools:
            self.manager.record(found, "blocked", "blocked by the project's pegboard.toml")
            self.manager.reserve_all(found, manifest)  # so that no other gets its names
            return True
        cause = "the project's pegboard.toml blocks it and isn't trusted to: it may bring more than tools"
        self.manager.report(Problem.of(found.origin, f"{cause}; registry config trust lets the file block it"))
        return False

    def list_all(self, wanted: list[FoundPlugin]) -> None:
        """Registers all plugins by their manifests, the cache, or else a first load."""
        by_name = {found.name: found for found in wanted}
        self.manager.on_stale = lambda name: self.cache.forget(by_name[name], self.manager.settings.get(name, {}))
        known = {found: None if self.refresh else self.manifest(found) for found in wanted}
        if os.name != "posix":
            for found, manifest in known.items():
                if manifest is not None and NEEDS_POSIX in manifest.hooks:
                    known[found] = evolve(manifest, failure=NOT_HERE)
        # Others only an import finder of this process finds; and Windows can't poll the pipes of a child process.
        folders = {*map(os.path.abspath, sys.path)} if os.name == "posix" else set[str]()
        probed = [found for found, manifest in known.items() if manifest is None and found.root in folders]
        known |= {found: PluginManifest(found.name, failure=NOT_STARTED) for found in probed}
        known |= self._first_load(probed)
        listed: list[tuple[FoundPlugin, PluginManifest]] = []
        for found, manifest in known.items():
            if manifest is not None and manifest.failure is not None:
                self.manager.record(found, "quarantined", manifest.failure, guards=GUARDS in manifest.hooks)
            elif manifest is not None and not self.leave_out(found, manifest):
                listed.append((found, manifest))
        self.manager.list_plugins(listed)
        for found, manifest in known.items():
            if manifest is None and not self.leave_out(found, None):
                self.manager.load(found)

    def manifest(self, found: FoundPlugin) -> PluginManifest | None:
        """As `lookup_manifest`, but reports faults; while tracebacks are logged, without failures, to log theirs."""
        faults: list[str] = []
        manifest = lookup_manifest(found, self.manager.settings.get(found.name, {}), self.cache, faults)
        self.manager.report(*(Problem.of(found.origin, fault) for fault in faults))
        has_failed = manifest is not None and manifest.failure is not None
        return None if has_failed and operator_log().isEnabledFor(_DEBUG) else manifest

    def _first_load(self, unknown: list[FoundPlugin]) -> dict[FoundPlugin, PluginManifest]:
        """Loads plugins in child processes; what they bring, or why they failed, is cached."""
        if not unknown:
            return {}
        from pegboard.plugins.probe import probe_plugins

        settings, brought = self.manager.settings, dict[FoundPlugin, PluginManifest]()
        limits = {"seconds": self.manager.seconds, "seconds_for_all": FIRST_LOADS_SECONDS}
        for found, manifest in probe_plugins(unknown, settings, progress=self.progress, **limits):
            brought[found] = cached = manifest
            if (cause := manifest.failure) is not None and not cause.startswith("plugins."):  # else a wrong setting
                cached = evolve(manifest, failure=f"{cause} (cached up to 1 h; retry with --refresh)")
            self.cache.put(found, settings.get(found.name, {}), cached)
        return brought


def lookup_manifest(
    found: FoundPlugin, settings: Mapping[str, Any], cache: CachedManifests, faults: list[str]
) -> PluginManifest | None:
    """The manifest of a plugin, its own or cached, perhaps with a `failure` of a short time ago; `None` without either.

    The cache comes first: it has a plugin with a manifest only where a refresh has loaded the code. A plugin with
    settings may bring something else than its manifest has. `faults` gets what is wrong with the manifest.
    """
    known = cache.get(found, settings)
    if settings or (known is not None and known.failure is None):
        return known
    try:
        return read_manifest(found) or known
    except ManifestError as error:
        faults.append(str(error))
        return known


def is_wanted(config: Config, autoload: bool | None) -> bool:
    """Whether installed plugins are loaded: the caller's choice, else by the environment and the configuration."""
    return config.autoload and autoload_in(os.environ) if autoload is None else autoload


def names_to_block(config: Config, block: Iterable[str]) -> frozenset[str]:
    """The names of blocked plugins: the configuration's, the caller's, and those of `PEGBOARD_BLOCK`."""
    named = os.environ.get("PEGBOARD_BLOCK", "").split(",")
    return frozenset({*config.block, *tuple_of("block", str)(block), *(name.strip() for name in named)})


def installed() -> Contributions:
    """Fallback of registries without plugins: what the manifests of installed plugins offer.

    Made once per process, without child processes; `PEGBOARD_BLOCK` and `PEGBOARD_AUTOLOAD` apply.
    """
    return _load_installed(os.environ.get("PEGBOARD_BLOCK", ""), os.environ.get("PEGBOARD_AUTOLOAD", ""))


@cache
def _load_installed(_block: str, _autoload: str) -> Contributions:
    registry = ToolRegistry()
    manager = registry.contributions.manager = PluginManager(registry)
    discovery = discover() if is_wanted(NO_CONFIG, None) else Discovery()
    wanted = _Loading(manager).choose(discovery, names_to_block(NO_CONFIG, ()), None)
    manager.list_plugins([(found, stale_manifest(found)) for found in wanted])
    return registry.contributions
