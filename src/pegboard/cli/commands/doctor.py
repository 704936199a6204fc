"""`registry doctor`: checks of plugins, configuration and cache."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote, urlsplit

import click

from pegboard.cli.commands.config import OURS
from pegboard.cli.commands.manifest import manifest_differences, manifest_files
from pegboard.cli.main import OWN, command_helps
from pegboard.cli.options import FILE_PATH, Options, registry_options
from pegboard.cli.output import Status, block, json_rows, stdout_screen, write, write_note
from pegboard.cli.session import Session, call_hook, names_of_plugins, open_session
from pegboard.config import is_named, normalised
from pegboard.dispatch.state import HERE
from pegboard.errors import (
    ConfigError,
    DuplicateToolError,
    ExpressionError,
    ManifestError,
    PluginError,
    cause_of,
    did_you_mean,
    not_provided,
    suggest,
)
from pegboard.json import count_text
from pegboard.plugins.discovery import GROUP, LEFT_OUT, FoundPlugin, installed_distributions, line_fault
from pegboard.plugins.imports import plugin_uses
from pegboard.plugins.probe import probe_together
from pegboard.text import visible
from pegboard.tools.spec import Problem
from pegboard.toolsets.predicates import matcher

if TYPE_CHECKING:
    from importlib_metadata import Distribution


_DIAGNOSE: Final = "pegboard_diagnose"
_CORRECT: Final = "Correct or remove it."
_ASK_AUTHOR: Final = "Ask its author to correct it."
_RENAME: Final = "Rename one of them: [rename] or [prefix] in pegboard.toml."
_SKILLS: Final = "pegboard.skills"  # the group of packages that bring skills, which pegboard-skills reads
_NO_MODULE: Final = "ModuleNotFoundError"
Finding: TypeAlias = tuple[str, str, str | None]
"""The thing, what is wrong with it, and what to do; `None` for a note, where nothing has to be done."""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--rules", type=FILE_PATH, metavar="FILE", help="Also check a file of rules.")
@registry_options()
@click.pass_obj
def doctor_command(options: Options, as_json: bool, rules: str | None) -> int:
    """Check for problems and suggest fixes. Exits with 1 if there are any.

    Looks for plugins that failed, tools that are held back, manifests that don't match the code, unmet requirements,
    private parts of pegboard that plugins use, configuration that is invalid or not trusted, unreadable distributions,
    a cache that others can write, and problems that plugins report themselves.
    """
    checked: list[str] = []
    found: dict[tuple[str, str], str | None] = {}
    with Status() as status:

        def check(what: str) -> None:
            checked.append(what)
            status.show(f"checking {what}")

        for subject, cause, fix in findings(options, rules, check):
            found.setdefault((subject, cause), fix)
    wrong = sum(fix is not None for fix in found.values())
    if as_json:
        problems = (Problem(cause, subject=subject, fix=fix) for (subject, cause), fix in found.items())
        write(json_rows("findings", (problem.to_json() for problem in problems)))
    else:
        screen = stdout_screen()
        for (subject, cause), fix in found.items():
            write(block(subject, screen, style="bold"))
            shown, style = visible(cause, newlines=True, again=True), "dim" if fix is None else "red"
            write(block(shown, screen, indent="  ", style=style, is_visible=True))
            write(block(fix or "", screen, indent="  "))
        write_note(f"checked: {', '.join(checked)}")
        write_note(count_text(wrong, "problem") if wrong else "no problems found")
    return 1 if wrong else 0


def findings(options: Options, rules: str | None, check: Callable[[str], None]) -> Iterator[Finding]:
    """The problems, some twice; a failing part doesn't hide others. `check` gets what is checked next."""
    check("cache")
    yield from cache_findings()
    check("configuration")
    try:
        session = open_session(options)
    except (ConfigError, ExpressionError) as error:
        yield "configuration", str(error), _CORRECT
        if not isinstance(error.__cause__, DuplicateToolError):
            return
        session = open_session(options, hold_back=True)  # to report each conflict and other problems
    check(count_text(len(session.static_tools()), "tool"))
    yield from _of_configuration(session)
    yield from _of_names(session)
    yield from _of_places(session)
    check(count_text(len(session.entries()), "plugin"))
    yield from _of_problems(session)
    yield from _of_plugins(session)
    if os.name == "posix":  # a child process loads what they are compared with
        check("manifests")
        yield from _of_manifests(session)
    check("requirements")
    distributions = installed_distributions()
    yield from _of_requirements(session, distributions)
    check(f"entry points of {count_text(len(distributions), 'distribution')}")
    yield from _of_groups(session, distributions)
    if rules is not None:
        from pegboard.dispatch.permissions.rules_file import read_permissions  # only for this option

        check(rules)
        try:
            wrong = session.rule_problems(read_permissions(rules))
        except ConfigError as error:
            wrong = (str(error),)
        yield from ((rules, cause, _CORRECT) for cause in wrong)


def _of_configuration(session: Session) -> Iterator[Finding]:
    for ignored in session.config.ignored:
        if ignored.wrong is not None:
            yield "configuration", str(ignored), _CORRECT
        else:
            cause = "is ignored: this project's file isn't trusted"
            yield f"{ignored.file}: {ignored.key}", cause, f"if you trust it: registry config trust {ignored.file}"
    try:
        offered = session.resolved(live=session.has_checks)
    except (ConfigError, ExpressionError) as error:
        yield "configuration: where", str(error), _CORRECT
        return
    for problem in offered.problems:
        if problem.subject is not None:  # with `--live`: of a toolset
            owner = f" of plugin {problem.plugin!r}" if problem.plugin else ""
            yield f"{problem.subject}{owner}", problem.cause, problem.fix or "Correct it, or ask its author to."
        elif problem.note:
            yield "names", str(problem), _RENAME
        else:
            yield "configuration: where", str(problem), _CORRECT
    from pegboard.testing.check import schema_problems  # slow to import

    for tool in offered.tools:
        yield from ((f"tool {tool.name!r}", cause, _ASK_AUTHOR) for cause in schema_problems(tool.spec))


def _of_names(session: Session) -> Iterator[Finding]:
    """Unknown names in the configuration that are close to a known one: a file may serve several environments."""
    config, plugins, tools = session.config, names_of_plugins(session), set[str]()
    unknown = [
        (key, f"no plugin is called {name!r}", suggest(name, plugins))
        for key in ("block", "untrusted", "enable", "prefix", "plugins")
        for name in getattr(config, key) or ()
        if not is_named(name, name, plugins)
    ]
    for found in session.entries() if config.rename else ():
        manifest, prefix = session.manifest(found), config.prefix.get(found.name, "")
        for spec in () if manifest is None else manifest.tools:
            tools |= {f"{found.name}:{spec.name}", prefix + spec.name}
    for key in (key for key in config.rename if key not in tools):
        plugin, colon, name = key.rpartition(":")
        near = suggest(key, tools)
        if colon and plugin not in plugins:
            near = tuple(f"{other}:{name}" for other in suggest(plugin, plugins))
        unknown.append(("rename", f"no tool is called {key!r}", near))
    for key, cause, near in unknown:
        if near:
            yield f"configuration: {key}", cause, f"Did you mean {near[0]!r}?"


def _of_places(session: Session) -> Iterator[Finding]:
    """Patterns of `[tools]` that no tool has, and executors that nothing provides."""
    tools, contributions = session.registry.tools(), session.registry.contributions
    of_plugins = [tool.name for tool in tools if tool.origin.plugin is not None]
    for pattern in session.config.tools:
        if not any(map(matcher(pattern), of_plugins)):
            near = did_you_mean(suggest(pattern, of_plugins)).strip() or _CORRECT
            yield "configuration: tools", f"no plugin registers a tool called {pattern!r}", near
    there, names = session.registry.contributions.catalogue, contributions.names("executors")
    offered = {*there.extras.get("executors", {}), *there.offered("executors")}
    wanted = {setup.kind: f"configuration: executors.{name}" for name, setup in contributions.executors.items()}
    places = ((tool.policy.executor, f"tool {tool.name!r}") for tool in tools)
    wanted |= {name: place for name, place in places if name and name not in (*HERE, *contributions.executors)}
    for name in wanted.keys() - offered:
        yield wanted[name], not_provided("executors", name, names), _CORRECT


def _of_problems(session: Session) -> Iterator[Finding]:
    """The problems of the registry; one that several plugins of a distribution share is reported once."""
    plugins: dict[tuple[str | None, str], dict[str, None]] = {}
    for problem in session.registry.problems():
        named = plugins.setdefault((problem.distribution, problem.cause), {})
        if problem.plugin:
            named[problem.plugin] = None
    for (distribution, cause), named in plugins.items():
        source, names = distribution or "sys.path", list(named)
        subject, fix = f"distribution {source}", "Reinstall it."
        if names:
            subject = f"plugin{'s' * (len(names) > 1)} {', '.join(map(repr, names))} ({source})"
            has_settings = any(session.config.settings(name, distribution) for name in names)
            fix = "Check its settings, update it" if has_settings else "Update it"
            fix += f", or ask its author; block = {json.dumps(names)} disables it, --debug shows tracebacks."
            if cause.startswith("plugins."):
                fix = f"Correct the setting; block = {json.dumps(names)} disables the plugin."
        missing = [found for found in session.entries() if found.name in named] if _NO_MODULE in cause else []
        missing = [found for found in missing if found.place() is None]
        what = cause
        if missing:
            what, fix = _of_missing(missing[0])
        elif " is held back: " in cause:
            what, _, fix = cause.partition("; ")
        yield subject, what, fix


def _of_missing(found: FoundPlugin) -> tuple[str, str]:
    """Cause and fix for a plugin whose code isn't there; `direct_url.json` (PEP 610) names an editable one's folder."""
    remove = f"or run: registry uninstall {found.distribution}"
    if found.editable and found.location is not None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            url: str = json.loads(Path(found.location, "direct_url.json").read_bytes())["url"]
            folder = unquote(urlsplit(url).path)
            if not Path(folder).exists():
                return f"it is installed from the folder {folder}, which doesn't exist", f"Restore it, {remove}"
    return f"its code is missing: there is no module {found.module!r}", f"Install it again, {remove}"


def _of_plugins(session: Session) -> Iterator[Finding]:
    """Plugins without effect, hidden commands, plugins' own diagnoses, and packages that use private parts of ours."""
    working = _working(session)
    for found in session.entries():
        subject, manifest, works = _subject_of(found), session.manifest(found), found.name in working
        if works and manifest is not None and manifest.brings_nothing and not manifest.faults:
            yield subject, "it registers nothing", f"Configure it ([plugins.{found.name}]), or uninstall it."
        if found.root is not None and os.path.isfile(found.root):  # noqa: PTH113  a text
            cause = f"it is in the archive {found.root}, so its manifest and other data files can't be read"
            yield subject, cause, f"Install it: pip install {found.root}"
        for name in command_helps(found, session) if works else ():
            if name in OWN:
                cause = f"its command {name!r} is hidden: 'registry {name}' is built in"
                yield subject, cause, "Ask its author to rename it."
        if _DIAGNOSE in working.get(found.name, ()):
            yield from _of_diagnosis(found, session)
    unused = {plugin.name for plugin in session.registry.plugins() if plugin.status in ("blocked", "disabled")}
    enabled = (found for found in session.entries() if found.name not in unused)
    for _, (found, *_) in groupby(enabled, lambda found: found.place()):
        if (cause := plugin_uses(found)) is not None:
            yield _subject_of(found), cause, _ASK_AUTHOR


def _subject_of(found: FoundPlugin) -> str:
    return f"plugin {found.name!r} ({found.distribution})"


def _working(session: Session) -> dict[str, tuple[str, ...]]:
    """The names of the plugins that work, at least in part, with their hooks."""
    plugins = session.registry.plugins()
    return {plugin.name: plugin.hooks for plugin in plugins if plugin.status in ("listed", "loaded", "partial")}


def _of_diagnosis(found: FoundPlugin, session: Session) -> Iterator[Finding]:
    """Problems and notes that a plugin reports itself; its code is imported."""
    reported: list[Finding] = []

    def report(cause: object, fix: object) -> None:
        reported.append((_subject_of(found), str(cause), None if fix is None else str(fix)))

    try:
        call_hook(found, session.settings(found), _DIAGNOSE, report=report, registry=session.registry)
    except PluginError as error:
        yield _subject_of(found), f"{_DIAGNOSE}: {error.cause}", _ASK_AUTHOR
    yield from tuple(reported)  # a hook that timed out may still append


def _of_groups(session: Session, distributions: Mapping[str, Distribution]) -> Iterator[Finding]:
    """Misspelt entry point groups, and entry points that can't be read."""
    known = {each.distribution for each in session.registry.problems() if each.cause.startswith(LEFT_OUT)}
    for name, distribution in distributions.items():
        if ascii(name)[1:-1] in known:
            continue
        damage, groups = "", set[str]()
        try:
            damage = line_fault(distribution.read_text("entry_points.txt") or "")  # pyright: ignore[reportUnknownMemberType]
            groups = distribution.entry_points.groups
        except Exception as error:  # noqa: BLE001  a line without "=", or other people's distributions
            damage = damage or f"its entry_points.txt can't be read: {cause_of(error)}"
        if damage:
            yield f"distribution {ascii(name)[1:-1]}", damage, "Reinstall it."
        for group in sorted(groups):
            if group not in (GROUP, _SKILLS) and (group.startswith(f"{GROUP}.") or suggest(group, [GROUP])):
                cause = f"its entry points are in the group {group!r}; those of plugins belong in {GROUP!r}"
                yield f"distribution {name}", cause, f"Write [project.entry-points.{GROUP}] and reinstall it."


def _of_requirements(session: Session, distributions: Mapping[str, Distribution]) -> Iterator[Finding]:
    """Unmet requirements of pegboard, of plugins' distributions and of all that these require, as of `pip check`."""
    from packaging.requirements import Requirement

    pending = [OURS, *(normalised(found.distribution) for found in session.entries())]
    for name in pending:  # grows
        subject, required = f"distribution {name}", list[str]()
        with suppress(Exception):  # metadata that can't be read has its own finding
            required = distributions[name].requires or []
        for text in required:
            try:
                requirement = Requirement(text)
                if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
                    continue
                needed, requirement.marker = normalised(requirement.name), None
                there = distributions.get(needed)
                fits = there is not None and requirement.specifier.contains(there.version, prereleases=True)
            except Exception as error:  # noqa: BLE001  its text, or the version that is installed, is invalid
                yield subject, f"its requirement {text!r:.200} can't be checked: {cause_of(error)}", _ASK_AUTHOR
                continue
            if there is None:
                fix = f"Run: registry install '{requirement}'"
                yield subject, f"it requires {requirement}, which isn't installed", fix
            elif not fits:
                fix = f"Run: registry install --upgrade {name} '{requirement}'"
                yield subject, f"it requires {requirement}, and {there.version} is installed", fix
            elif needed not in pending:
                pending.append(needed)


def _of_manifests(session: Session) -> Iterator[Finding]:
    """Manifests that don't match the code, of distributions whose plugins all work; others are reported elsewhere."""
    working, causes = _working(session), [problem.cause for problem in session.registry.problems()]
    files: list[tuple[Path, list[FoundPlugin]]] = []
    for _, of_one in groupby(session.entries(), lambda found: found.distribution):
        plugins = list(of_one)
        if all(found.name in working for found in plugins):
            with suppress(ManifestError):  # only an import hook finds the package
                files += [file for file in manifest_files(plugins) if file[0].exists()]
    loaded = probe_together([found for _, of_file in files for found in of_file])
    for path, of_file in files:
        if any(str(path) in cause for cause in causes):  # an invalid manifest is a problem of the registry
            continue
        for known in (loaded, {}):  # what differs is loaded again by itself
            notes: list[str] = []
            differences = manifest_differences(path, of_file, notes, known)
            if not differences:
                break
        yield from ((str(path), each, "As its author, run: registry manifest write.") for each in differences)
        yield from ((f"distribution {of_file[0].distribution}", note, _ASK_AUTHOR) for note in notes)


def cache_findings() -> Iterator[Finding]:
    """Cache folders with wrong types, owners or permissions."""
    from pegboard.plugins.cache import cache_folder

    folder = cache_folder()
    # Others may read the folder itself, but not its subfolders.
    for path, forbidden in ((folder, 0o022), (folder / "manifests", 0o077), (folder / "snapshots", 0o077)):
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            yield str(path), f"the cache can't be checked: {error.strerror}", "Give yourself access to it."
            continue
        is_own = os.name != "posix" or facts.st_uid == os.geteuid()
        is_private = os.name != "posix" or facts.st_mode & (forbidden | stat.S_IWUSR) == stat.S_IWUSR
        if not (is_own and is_private and stat.S_ISDIR(facts.st_mode)):
            cause = "the cache isn't used, as it isn't a folder that only you can write to"
            yield str(path), cause, f"Run 'chmod 700 {path}', or remove it: it is recreated."
