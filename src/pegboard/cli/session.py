"""The way from a command's options to its registry, top down: `open_session`, its steps, and the `Session`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from attrs import evolve, frozen

from pegboard.cli.arguments import SchemaType, convert_text, read_words
from pegboard.cli.options import Options
from pegboard.cli.output import Status, redirect_stdout, write_note
from pegboard.config import Config, is_named, load_config, normalised
from pegboard.errors import (
    ConfigError,
    DuplicateToolError,
    ExpressionError,
    PegboardError,
    PluginError,
    UnknownToolError,
    cause_of,
    did_you_mean,
    operator_log,
    suggest,
)
from pegboard.registry import ToolRegistry
from pegboard.text import visible
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext
from pegboard.tools.spec import HOST
from pegboard.tools.tool import Tool
from pegboard.toolsets.predicates import Matches, Predicate, all_of, any_of
from pegboard.toolsets.toolset import Toolset, may_contain

if TYPE_CHECKING:
    import logging
    from types import ModuleType

    from pegboard.catalogue import Catalogue
    from pegboard.dispatch.permissions.permissions import Permissions
    from pegboard.plugins.cache import Stamps
    from pegboard.plugins.discovery import Discovery, FoundPlugin
    from pegboard.plugins.manifest import PluginManifest
    from pegboard.toolsets.resolve import ResolvedTools

T = TypeVar("T")
_TOOLSETS: Final = "pegboard_register_toolsets"


def open_session(options: Options, *, stamps: Stamps | None = None, hold_back: bool = False) -> Session:
    """Opens a session: reads the configuration and loads plugins and functions.

    Args:
        options: The options of the run.
        stamps: Collects stamps of the configuration's files and of the plugins, for a snapshot of the listing.
        hold_back: Whether to hold back conflicting names even with `conflicts = "error"`.

    Raises:
        ConfigError: A configuration is invalid, or names conflict and it has `conflicts = "error"`.
    """
    from pegboard.plugins.discovery import discover

    config = merge_configuration(options)
    if hold_back:
        config = evolve(config, conflicts="keep")
    if options.debug:  # the log has the tracebacks of plugins that fail to load
        import logging

        log = operator_log()
        log.setLevel(logging.DEBUG)
        if not any(isinstance(handler, logging.StreamHandler) for handler in log.handlers):
            log.addHandler(logging.StreamHandler())
    selected = (config.selections.get(spec, spec) for spec in _specs(options.only))
    options.only = tuple(_specs(selected))
    discovery = discover()
    if stamps is not None:
        stamps.add(*config.looked_at)
        for found in discovery.entries:
            stamps.add_plugin(found)
    with redirect_stdout():
        session = Session(load_registry(config, options, discovery), config, options, discovery)
        if session.registry.contributions.manager is not None and options.is_default:
            store_names(session)
        _check_settings(session)
        if options.functions:
            register_functions(session.registry, map(Path, options.functions), config)
    return session


def _specs(values: Iterable[str]) -> list[str]:
    """The specs in values of `-T`, each of which may have several with commas."""
    return [spec.strip() for value in values for spec in value.split(",") if spec.strip()]


def merge_configuration(options: Options) -> Config:
    """The configuration of the user, the project, `--config` and `--set`, merged.

    Raises:
        ConfigError: A file is invalid.
        click.ClickException: A `--set` isn't `K=V`.
    """
    config = load_config(project="search", explicit=None if options.config is None else Path(options.config))
    for word, value in read_words(options.settings).items():
        plugin, dot, key = word.partition(".")
        if not (plugin and dot and key):
            raise click.UsageError(f"--set: {word!r} isn't PLUGIN.KEY")
        config = evolve(config, plugins={**config.plugins, plugin: {**config.settings(plugin), key: value}})
    return config


def load_registry(config: Config, options: Options, discovery: Discovery) -> ToolRegistry:
    """The registry with the installed plugins; progress of a first load is on the status line."""
    from pegboard.plugins.load import load

    how: Any = {"config": config, "refresh": options.refresh, "live": options.live, "discovery": discovery}
    with Status() as status:
        try:
            return load(**how, progress=lambda number, of, name: status.show(f"loading plugin {name}", number / of))
        except DuplicateToolError as error:
            both = f"{error.held_by} and {error.wanted_by} both have a tool {error.name!r}"
            advice = "rename one of them ([rename], [prefix]) or block its plugin"
            text = f"is \"error\", but {both}; {advice}; 'registry doctor' lists all name conflicts"
            raise ConfigError(text, file=_files_of(config), key="conflicts") from error


def _files_of(config: Config) -> str:
    """The files that a configuration was read from: which of them has a value isn't recorded."""
    return " or ".join(config.files) or "configuration"


def store_names(session: Session, preferred: Iterable[str] = ()) -> None:
    """Stores which distribution owns which name, for later conflicts; write errors are ignored.

    The preferred distributions take over all names that they bring.
    """
    from pegboard.plugins.manager import manager_of
    from pegboard.plugins.names import accept, load_accepted_names

    owners, discovery = manager_of(session.registry).owners, session.discovery
    owners.preferred = frozenset(map(normalised, preferred))
    names = owners.to_accept([*(found.distribution for found in discovery.entries), *discovery.left_out])
    if names != load_accepted_names():
        with suppress(OSError):
            accept(names)


def _check_settings(session: Session) -> None:
    """Rejects `--set` for an unknown plugin; hints at `:=` if the plugin fails and a text looks like JSON."""
    if not session.options.settings:
        return
    known = names_of_plugins(session)
    failed = {problem.plugin for problem in session.registry.problems() if "unknown key" not in problem.cause}
    for word, value in read_words(session.options.settings).items():
        plugin = word.partition(".")[0]
        if not is_named(plugin, plugin, known):
            raise click.UsageError(f"--set: no plugin is called {plugin!r}.{did_you_mean(suggest(plugin, known))}")
        if plugin in failed and isinstance(value, str) and convert_text(value, SchemaType({}, {})) != value:
            write_note(f"--set {word}=... sets a string; for a number or other JSON, write {word}:=...")


def names_of_plugins(session: Session) -> set[str]:
    """All names by which a configuration can refer to plugins: their own, and those of their distributions."""
    names = {plugin.name for plugin in session.registry.plugins()}
    return names | {name for found in session.discovery.entries for name in (found.name, found.distribution)}


def register_functions(registry: ToolRegistry, files: Iterable[Path], config: Config) -> None:
    """Registers the public functions of files, placed as configured; they replace tools of the same name.

    A function that can't be a tool is left out, with the reason on standard error.
    """
    from pegboard.tools.typed import tools_from  # only for this option

    for file in files:
        module = _load_module(file)
        functions = [
            value
            for name, value in vars(module).items()
            if not name.startswith("_") and inspect.isroutine(value)
            if (value.__module__, value.__name__) == (module.__name__, name)  # neither imported nor an alias
        ]
        if not functions:
            raise click.UsageError(f"{file} defines no public function")
        for function in functions:
            try:
                for tool in tools_from(function):
                    registry.register(tool.evolve(policy=config.placed(tool.policy, tool.name)), on_conflict="shadow")
            except PegboardError as error:
                write_note(f"{file}: {error}")


def _load_module(file: Path) -> ModuleType:
    """Imports a file as a module; its folder is appended to `sys.path`, for its imports."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = file.resolve()
    spec = spec_from_file_location(f"pegboard_functions_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{file} isn't a Python file: its name has to end in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        from traceback import extract_tb

        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        place = file if line is None else f"{file}, line {line}"
        raise click.UsageError(f"{place}: {type(error).__name__}: {error}") from error
    return module


@frozen(eq=False)
class Session:
    """The configuration, plugins and registry of one command.

    Attributes:
        registry: The registry, with plugins and functions.
        config: The merged configuration.
        options: The options of the run.
        discovery: The installed plugins.
    """

    registry: ToolRegistry
    config: Config
    options: Options
    discovery: Discovery

    @property
    def _catalogue(self) -> Catalogue:
        return self.registry.contributions.catalogue

    def read_rules(self, file: str | None) -> None:
        """Sets permissions from a file of rules; reports suspicious rules, and ignored configuration.

        Raises:
            ConfigError: The file is invalid.
        """
        for ignored in self.config.ignored:  # an ignored project file may have set up a guard
            write_note(str(ignored))
        if file is not None:
            from pegboard.dispatch.permissions.rules_file import read_permissions

            permissions = self.registry.permissions = read_permissions(file)
            for problem in self.rule_problems(permissions):
                write_note(f"{file}: {problem}")

    def rule_problems(self, permissions: Permissions) -> tuple[str, ...]:
        """Suspicious rules, such as those that match no tool, as far as the tools are known."""
        from pegboard.dispatch.permissions.rules_file import rule_problems

        complete = not (self.unqueried() or self._catalogue.has_transforms)
        return rule_problems(permissions, self.static_tools(), complete=complete)

    def where(self, *predicates: Predicate | str | None) -> Predicate | None:
        """The conjunction of these predicates and `-T`; `None` if there are none.

        Raises:
            ExpressionError: A text doesn't parse.
            PredicateError: There is no such key in `-T`.
        """
        given = [self._read(part) for part in predicates if part is not None]
        only = [spec.rpartition(":") for spec in self.options.only]
        if only:
            given.append(any_of(*(Matches(key if colon else "name", value) for key, colon, value in only)))
        return all_of(*given) if given else None

    def _read(self, predicate: Predicate | str) -> Predicate:
        try:
            return self._catalogue.predicate(predicate)
        except ExpressionError:
            if not self._bringing("pegboard_register_predicates"):
                raise
            # The name may be of a plugin that isn't imported yet: resolving imports those with predicates.
            self.run(self.registry.resolve)
            return self._catalogue.predicate(predicate)

    def resolved(
        self, *where: Predicate | str | None, context: ReadonlyContext = EMPTY_CONTEXT, live: bool = False
    ) -> ResolvedTools:
        """The tools offered in a context.

        Args:
            where: Predicates besides `-T` and the configuration's.
            context: The user, the model, the state.
            live: Whether toolsets are queried, as with `--live`; otherwise nothing is imported.

        Raises:
            ConfigError: The configuration's predicate doesn't parse.
        """
        asked = self.where(*where)
        try:
            default = None if self.config.where is None else self._read(self.config.where)
        except ExpressionError as error:
            raise ConfigError(str(error), file=_files_of(self.config), key="where") from error
        if live or self.is_live:
            return self.run(lambda: self.registry.resolve(context, where=asked))
        return self._static(asked, context, default)

    def processed(self, offered: ResolvedTools, context: ReadonlyContext) -> ResolvedTools:
        """The offered tools as request processors change them, if the context names a model."""
        if context.model is None:
            return offered
        from pegboard.request.model_request import ModelRequest

        request = ModelRequest(tools=offered, model=context.model)
        return self.run(lambda: self.registry.process(request, context)).tools or offered

    def _static(
        self, where: Predicate | None = None, context: ReadonlyContext = EMPTY_CONTEXT, default: Predicate | None = None
    ) -> ResolvedTools:
        """The tools that are known without querying toolsets."""
        from pegboard.toolsets.resolve import resolve_static

        tools, conflicting = self._catalogue.ordered, self._catalogue.conflicting
        given: Any = {"where": where, "default": default, "published": self._of_toolsets(), "conflicting": conflicting}
        with redirect_stdout():  # predicates of plugins may print
            return resolve_static(tools, context, **given)

    def _of_toolsets(self) -> list[Tool]:
        """The tools that toolsets have published."""
        return [tool for of_plugin in self._catalogue.published.values() for tool in of_plugin.tools]

    def static_tools(self) -> Sequence[Tool]:
        """All tools known without querying toolsets."""
        return self._static().tools

    def entries(self) -> tuple[FoundPlugin, ...]:
        """The installed plugins, without those that lost their name to another distribution."""
        owners = {name: plugin.distribution for name, plugin in self._catalogue.plugins.items()}
        return tuple(each for each in self.discovery.entries if owners.get(each.name) == each.distribution)

    def settings(self, found: FoundPlugin) -> Mapping[str, Any]:
        """The settings of an installed plugin."""
        return self.config.settings(found.name, found.distribution)

    def manifest(self, found: FoundPlugin) -> PluginManifest | None:
        """The plugin's manifest, its own or cached; `None` if there is neither."""
        from pegboard.plugins.cache import CachedManifests
        from pegboard.plugins.load import lookup_manifest

        known = lookup_manifest(found, self.settings(found), CachedManifests(), [])
        return known if known is not None and known.failure is None else None

    def _bringing(self, hook: str) -> set[str]:
        return {plugin.name for plugin in self.registry.plugins() if hook in plugin.hooks}

    def unqueried(self) -> list[str]:
        """Plugins with toolsets whose tools are unknown until queried; toolsets of the host by their own names."""
        names = {getattr(toolset, "origin", HOST).plugin or toolset.name for toolset in self._catalogue.toolsets}
        queried = {name for name, known in self._catalogue.published.items() if not known.failed}
        return sorted((names | self._bringing(_TOOLSETS)) - queried)

    @property
    def has_checks(self) -> bool:
        """Whether a plugin checks the tools of each resolution now."""
        return self.registry.contributions.is_checked()

    @property
    def is_live(self) -> bool:
        """Whether toolsets are always queried: with `--live`, and where a plugin transforms tools."""
        return self.options.live or self._catalogue.has_transforms

    def needs_query(self, name: str, *, calls: bool = False) -> bool:
        """Whether toolsets have to be queried for a tool of this name (`calls`: to call it, not only to show it)."""
        is_known = name in self._catalogue.tools or (not calls and self.owners([name]) is not None)
        may_be_of_toolset = not is_known and (self._bringing(_TOOLSETS) or self._catalogue.toolsets)
        return bool(self._catalogue.has_transforms or may_be_of_toolset)

    def to_query(self, names: Collection[str]) -> set[str] | Callable[[Toolset], bool] | None:
        """The toolsets to query for tools of these names: those known to have them, or else any that may.

        None of them for static tools, and all (`None`) where tools are transformed.
        """
        if self._catalogue.has_transforms:
            return None
        owners = set[str]() if self._catalogue.tools.keys() >= {*names} else self.owners(names)
        return (lambda each: may_contain(each, names)) if owners is None else owners

    def owners(self, names: Collection[str]) -> set[str] | None:
        """The toolsets that have published these tools; `None` if one of the names is unpublished."""
        known = {} if self.options.live else {tool.name: tool.origin.toolset for tool in self._of_toolsets()}
        return {known[name] or "" for name in names} if known.keys() >= {*names} else None

    def find(self, name: str) -> Tool:
        """The tool of this name, even if the configuration's predicate excludes it.

        Raises:
            UnknownToolError: There is none, or `-T` excludes it; with near misses.
        """
        offered = self.resolved(live=True) if self.needs_query(name) else self._static(self.where())
        tool = offered.get(name)
        if tool is None:
            raise self.unknown(name, offered)
        return tool

    def unavailable(self, name: str) -> Iterator[str]:
        """Sentences on plugins that aren't loaded and have, or may have, a tool of this name."""
        for found in self.entries():
            record = self._catalogue.plugins[found.name]
            if record.status in ("listed", "loaded", "partial"):
                continue
            manifest = self.manifest(found)
            prefix = self.config.prefix.get(found.name, "")
            has = "has it" if manifest else "may have it" if record.status == "quarantined" else None
            if has and (manifest is None or any(prefix + spec.name == name for spec in manifest.tools)):
                yield f"plugin {found.name!r} ({found.distribution}) {has}, but is {record.status}: {record.cause}"

    def unknown(self, name: str, offered: ResolvedTools) -> UnknownToolError:
        """The error for an unknown name; reports plugins and toolsets that failed or weren't queried."""
        others = (each for each in self._catalogue.toolsets if not may_contain(each, [name]))
        unqueried = (f"toolset {each.name!r} wasn't queried: its tools have other names" for each in others)
        for reason in (*self.unavailable(name), *map(str, offered.problems), *unqueried):
            write_note(visible(reason, newlines=True, again=True), is_visible=True)
        return UnknownToolError(name, suggest(name, {*offered.considered} - {name}))

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs an async function without arguments, and then closes the registry; returns what it returns.

        What tools print goes to standard error.
        """
        from pegboard.cli.run import run_to_end

        async def closing() -> T:
            async with self.registry:
                return await work()

        log = operator_log()
        log.addFilter(self._is_for_user)
        try:
            with redirect_stdout():
                return run_to_end(closing())
        finally:
            log.removeFilter(self._is_for_user)

    def _is_for_user(self, record: logging.LogRecord) -> bool:
        """Whether to log it: that code blocks the event loop concerns its author, who works on an editable plugin."""
        from pegboard.timeout import BLOCKS

        if record.msg is not BLOCKS or self.options.debug:
            return True
        name = str(record.args[0]) if isinstance(record.args, tuple) else ""
        if (tool := self._catalogue.tools.get(name)) is not None:
            name = f"plugin {tool.origin.plugin!r}"
        editable = [found.name for found in self.entries() if found.editable]
        return name == f"plugin {None!r}" or any(name.endswith(f"plugin {plugin!r}") for plugin in editable)


def call_hook(found: FoundPlugin, settings: Mapping[str, Any], hook: str, **facts: Any) -> None:
    """Imports a plugin and calls one of its hooks, within `LOAD_SECONDS`; a `PluginError` if either fails."""
    from pegboard.plugins.plugin import Plugin, load_within
    from pegboard.plugins.side_effects import LOAD_SECONDS, run_in_thread

    def call() -> None:
        loaded = Plugin(found.origin, found.load, settings)
        load_within(loaded.load, [])
        for implementation in loaded.implementations.get(hook, ()):
            implementation.function(*(facts[name] for name in implementation.argnames))

    try:
        with redirect_stdout():
            run_in_thread(LOAD_SECONDS, call)
    except (KeyboardInterrupt, click.exceptions.Exit, click.Abort):
        raise
    except BaseException as error:
        raise PluginError(found.name, cause_of(error), distribution=found.distribution) from error
