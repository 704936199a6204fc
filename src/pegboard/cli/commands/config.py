"""`registry config`, `keys`, `plugins`, `processors`, `install`, `uninstall` and `completion`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from attrs import evolve

from pegboard.cli.options import Options, complete_plugin, registry_options
from pegboard.cli.output import (
    block,
    complain,
    json_pretty,
    json_rows,
    read_stdin,
    redirect_stdout,
    rows_text,
    stdin_is_terminal,
    stdout_screen,
    write,
    write_note,
)
from pegboard.cli.session import Session, merge_configuration, names_of_plugins, open_session, store_names
from pegboard.config import distrust, is_named, key_names, normalised, remove_key, set_key, trust, without_secrets
from pegboard.errors import did_you_mean, suggest
from pegboard.files import CONFIG_NAME, project_file

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from pegboard.catalogue import PluginRecord
    from pegboard.registry import ToolRegistry

OURS = "pegboard"  # the distribution of built-in plugins
_MOST_KEY: Final = 10_000
_PASSED_ON: Final = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_FOLDER: Final = Path(__file__).parents[1] / "shells"

_HOW: Final = """\b
eval "$(registry completion bash)"      in ~/.bashrc
eval "$(registry completion zsh)"       in ~/.zshrc, after compinit
registry completion fish > ~/.config/fish/completions/registry.fish
"""


@click.group("config", invoke_without_command=True)
@registry_options()
@click.pass_context
def config_command(context: click.Context) -> Any:
    """Show configuration, or trust a project's."""
    return context.invoke(show_config) if context.invoked_subcommand is None else None


@config_command.command("show")
@registry_options()
@click.pass_obj
def show_config(options: Options) -> int:
    """Print the effective configuration as JSON.

    Files and environment are merged; what looks like a key or a password is hidden.
    """
    config = merge_configuration(options)
    keys = ("block", "untrusted", "enable", "rename", "prefix", "conflicts", "where", "tools", "autoload", "files")
    shown = {key: getattr(config, key) for key in keys}
    for key in ("plugins", "executors"):
        shown[key] = {name: without_secrets(settings) for name, settings in getattr(config, key).items()}
    write(json_pretty(shown) + "\n")
    for ignored in config.ignored:
        write_note(str(ignored))
    if config.project_block:
        names = ", ".join(config.project_block)
        write_note(f"this project's file blocks {names}; until you trust it, plugins with more than tools stay loaded")
    return 0


@config_command.command("path")
@registry_options()
@click.pass_obj
def config_path(options: Options) -> int:
    """Print the paths of configuration files, existing and possible ones."""
    config = merge_configuration(options)
    for file in config.looked_at:
        if Path(file).name != "trusted.json":
            write(f"{file}{'' if file in config.files else '  (not found)'}\n")
    return 0


@config_command.command("trust")
@click.argument("file", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--undo", is_flag=True, help="Revoke trust.")
def trust_config(file: tuple[Path, ...], undo: bool) -> int:
    """Trust a project's pegboard.toml, or other files of it, in their current form.

    Until you trust it, and again after each change, a pegboard.toml can only remove tools. Default: the file that
    applies to the current folder.
    """
    for chosen in file or (project_file(str(Path.cwd())),):
        if chosen is None:
            raise click.UsageError(f"there is no {CONFIG_NAME} in this folder or above; name the file")
        if undo:
            write_note(f"{chosen} {'is no longer trusted' if distrust(chosen) else 'was not trusted'}")
        else:
            trust(chosen)
            write_note(f"{chosen} is trusted as it is now; once it changes, it has to be trusted again")
    return 0


@click.group("keys")
def keys_command() -> None:
    """Store keys in the system's keyring. Settings refer to them: api_key = { keyring = "NAME" }."""


@keys_command.command("set")
@click.argument("name")
def set_key_command(name: str) -> int:
    """Store a key, read from the terminal or from standard input."""
    if stdin_is_terminal():
        secret = click.prompt(name, hide_input=True, err=True)
    else:
        secret = read_stdin(_MOST_KEY).rstrip("\r\n")
    if not secret:
        raise click.UsageError("the key is empty")
    set_key(name, secret)
    write_note(f'stored; refer to it in pegboard.toml by {{ keyring = "{name}" }}')
    return 0


@keys_command.command("list")
def list_keys() -> int:
    """List the names of the keys that were set. The keys themselves are never shown."""
    names = key_names()
    write("".join(f"{name}\n" for name in names))
    if not names:
        write_note("no keys are stored: 'registry keys set NAME' stores one")
    return 0


@keys_command.command("remove")
@click.argument("name")
def remove_key_command(name: str) -> int:
    """Remove a key."""
    if not remove_key(name):
        raise click.ClickException(f"there is no key {name!r}.{did_you_mean(suggest(name, key_names()))}")
    return 0


class _PluginsGroup(click.Group):
    """Group of `registry plugins`: a word that isn't a command is a plugin's name, to be shown."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        return [*super().shell_complete(ctx, incomplete), *complete_plugin(ctx, None, incomplete)]


@click.group("plugins", cls=_PluginsGroup, invoke_without_command=True, subcommand_metavar="[NAME | COMMAND [ARGS]...]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--all", "with_ours", is_flag=True, help="Also list the plugins built into pegboard.")
@registry_options()
@click.pass_context
def plugins_command(context: click.Context, as_json: bool, with_ours: bool) -> int:
    """List the installed plugins and their status.

    Shows the distribution, the hooks and the number of tools of each plugin, and the cause if it failed. With NAME:
    only this plugin, and its tools.
    """
    if context.invoked_subcommand is not None:
        return 0
    session = open_session(context.ensure_object(Options))
    plugins = [plugin for plugin in _with_causes(session.registry) if with_ours or plugin.distribution != OURS]
    if as_json:
        write(json_rows("plugins", (plugin.to_json() for plugin in plugins)))
        return 0
    screen, rows = stdout_screen(), list[tuple[str, ...]]()
    for plugin in plugins:
        source = f"{plugin.distribution or ''} {plugin.version or ''}".strip()
        rows.append((plugin.name, source, plugin.status, str(len(plugin.tools)), _hooks_text(plugin)))
    write(rows_text(("PLUGIN", "DISTRIBUTION", "STATUS", "TOOLS", "HOOKS"), rows, screen))
    write("".join(block(f"{plugin.name}: {plugin.cause}", screen) for plugin in plugins if plugin.cause))
    for problem in session.registry.problems():
        if problem.plugin is None:
            write_note(f"{problem.distribution or 'sys.path'}: {problem.cause}")
    return 0


def _hooks_text(plugin: PluginRecord) -> str:
    return " ".join(hook.removeprefix("pegboard_") for hook in plugin.hooks)


@plugins_command.command("show")
@click.argument("name", shell_complete=complete_plugin)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@registry_options()
@click.pass_context
def show_plugin(context: click.Context, name: str, as_json: bool) -> int:
    """Show a plugin: its distribution, status, hooks, tools and problems. NAME may also be its distribution's."""
    session = open_session(context.ensure_object(Options))
    plugins = [each for each in _with_causes(session.registry) if is_named(each.name, each.distribution or "", [name])]
    if not plugins:
        near = did_you_mean(suggest(name, names_of_plugins(session)))
        raise click.UsageError(f"no plugin is called {name!a}.{near} 'registry plugins' lists them.")
    if as_json or (context.parent is not None and context.parent.params["as_json"]):  # before or after the name
        write(json_rows("plugins", (plugin.to_json() for plugin in plugins)))
        return 0
    screen, places = stdout_screen(), {found.name: found.location for found in session.entries()}
    for plugin in plugins:
        write(block(plugin.name, screen, style="bold"))
        source = f"{plugin.distribution or 'the host'} {plugin.version or ''}"
        facts = {"from": source, "at": places.get(plugin.name), "status": plugin.status, "cause": plugin.cause}
        facts |= {"tools": " ".join(plugin.tools), "hooks": _hooks_text(plugin)}
        write("".join(block(f"{label}: {fact}", screen, indent="  ") for label, fact in facts.items() if fact))
    return 0


@plugins_command.command("accept")
@click.argument("distributions", metavar="DISTRIBUTION...", nargs=-1, required=True)
@registry_options()
@click.pass_obj
def accept_plugins(options: Options, distributions: tuple[str, ...]) -> int:
    """Resolve name conflicts in favour of DISTRIBUTION.

    If several distributions provide the same name (of a tool, a plugin, a model ...), this one gets it from now on,
    in this environment.
    """
    from pegboard.plugins.cache import forget_snapshots

    session = open_session(options)
    known = {normalised(found.distribution): found.distribution for found in session.discovery.entries}
    for name in distributions:
        if normalised(name) not in known:
            near = did_you_mean(suggest(name, known.values()))
            raise click.UsageError(f"no installed distribution {name!r} brings a plugin.{near}")
    store_names(session, distributions)
    forget_snapshots()
    _report(session, open_session(options))
    return 0


def _with_causes(registry: ToolRegistry) -> list[PluginRecord]:
    """The plugins; those without a cause of their own get the causes of their problems, such as names held back."""
    causes: dict[str | None, list[str]] = {}
    for problem in registry.problems():
        causes.setdefault(problem.plugin, []).append(problem.cause)
    return [
        evolve(plugin, cause=plugin.cause or "; ".join(dict.fromkeys(causes.get(plugin.name, ()))) or None)
        for plugin in registry.plugins()
    ]


@click.command("processors")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@registry_options()
@click.pass_obj
def processors_command(options: Options, as_json: bool) -> int:
    """List the request processors in order.

    Shows the plugin and a summary of each. Imports the plugins that provide them.
    """
    session = open_session(options)
    with redirect_stdout():
        steps = list(session.registry.pipeline)
    if as_json:
        rows = [
            {"name": step.name, "summary": step.summary, "builtIn": step.built_in, "plugin": step.owner.plugin}
            | {"distribution": OURS if step.built_in else step.owner.distribution, "version": step.owner.version}
            for step in steps
        ]
        write(json_rows("processors", ({key: fact for key, fact in row.items() if fact is not None} for row in rows)))
        return 0
    shown = [(step.name, OURS if step.built_in else step.owner.plugin or "the host", step.summary) for step in steps]
    write(rows_text(("STEP", "BY", "WHAT IT DOES"), shown, stdout_screen()))
    names = {plugin.name for plugin in session.registry.plugins() if "pegboard_register_processors" in plugin.hooks}
    for problem in session.registry.problems():
        if problem.plugin in names:
            write_note(f"{problem.plugin}: {problem.cause}")
    return 0


@click.command("completion", epilog=_HOW)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> int:
    """Print a shell's completion script.

    It completes commands, tools and their arguments. To enable it, use one of the lines below.
    """
    write((_FOLDER / f"registry.{shell}").read_text())
    return 0


@click.command("install", context_settings=_PASSED_ON)
@click.argument("packages", metavar="PACKAGE...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def install_command(options: Options, packages: tuple[str, ...]) -> int:
    """Install packages and show the tools added.

    Runs pip in this environment, or uv if there is no pip. Unknown options are passed on:
    registry install -e . --upgrade
    """
    return _install(options, ["install", *packages])


@click.command("uninstall", context_settings=_PASSED_ON)
@click.argument("packages", metavar="PACKAGE...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.pass_obj
def uninstall_command(options: Options, packages: tuple[str, ...], yes: bool) -> int:
    """Uninstall packages and show the tools removed."""
    # uv never asks, and has no such option.
    return _install(options, ["uninstall", *(["-y"] if yes and find_spec("pip") is not None else []), *packages])


def _install(options: Options, work: Sequence[str]) -> int:
    before = open_session(options)
    code = run_installer(installer(work))
    if code:
        complain(f"the installer failed with exit code {code}")
        return 1
    _report(before, open_session(options))
    return 0


def installer(work: Sequence[str]) -> list[str]:
    """The command line of pip, or else of uv, for the running Python."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *work]
    from shutil import which

    uv = which("uv")
    if uv is None:
        raise click.UsageError(f"there is neither pip in {sys.prefix} nor uv on the PATH: install one of them")
    return [uv, "pip", work[0], "--python", sys.executable, *work[1:]]


def run_installer(command: Sequence[str]) -> int:
    """Runs the installer with its output on standard error: standard output only has the changed tools."""
    import subprocess

    return subprocess.run(command, stdout=sys.stderr.fileno(), check=False).returncode  # noqa: S603  the user's own command


def _report(before: Session, after: Session) -> None:
    old, new = ({tool.name: tool.spec for tool in session.registry.tools()} for session in (before, after))
    changed = {name for name in new.keys() & old.keys() if new[name] != old[name]}
    lines = [
        f"{sign} {name}\n"
        for sign, names in (("+", new.keys() - old.keys()), ("-", old.keys() - new.keys()), ("~", changed))
        for name in sorted(names)
    ]
    write("".join(lines))
    if not lines:
        write_note("no tools were added or removed")
    for problem in after.registry.problems():
        if problem not in before.registry.problems():
            write_note(f"{problem.plugin or problem.distribution}: {problem.cause}")
