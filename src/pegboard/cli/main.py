"""The click group of `registry`: its commands are imported at use; built-in ones take precedence over plugins'."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from pegboard.cli.options import Options, registry_options
from pegboard.cli.warm import COMPLETE_VARIABLE, quiet_stdout
from pegboard.plugins.snapshot import own_version

if TYPE_CHECKING:
    from pegboard.cli.session import Session
    from pegboard.plugins.discovery import FoundPlugin

SECTIONS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Tools": {
        "list": ("look", "List the tools that this environment offers."),
        "search": ("look", "Find tools by what they do."),
        "show": ("look", "Show everything known about a tool."),
        "schema": ("look", "Print the JSON Schema of a tool's arguments."),
        "explain": ("look", "Show why a tool is or isn't offered."),
        "call": ("call", "Call a tool with arguments typed by its schema."),
        "dispatch": ("call", "Run a model's calls as one turn."),
        "export": ("look", "Print the tools in a provider's format."),
        "worker": ("worker", "Run calls that come from other machines."),
    },
    "Plugins": {
        "plugins": ("config", "List the installed plugins and their status."),
        "processors": ("config", "List the request processors in order."),
        "install": ("config", "Install packages and show the tools added."),
        "uninstall": ("config", "Uninstall packages and show the tools removed."),
    },
    "Authors": {
        "new": ("manifest", "Create a new plugin package."),
        "manifest": ("manifest", "Write or check manifests."),
    },
    "Environment": {
        "doctor": ("doctor", "Check for problems and suggest fixes."),
        "config": ("config", "Show configuration, or trust a project's."),
        "keys": ("config", "Store keys in the system's keyring."),
        "completion": ("config", "Print a shell's completion script."),
    },
}
"""Built-in commands by section: the module under `pegboard.cli.commands` that defines each, and its short help."""

OWN: Final[Mapping[str, tuple[str, str]]] = {name: at for section in SECTIONS.values() for name, at in section.items()}
HOOK = "pegboard_register_commands"


class RegistryGroup(click.Group):
    """Group that imports built-in commands at use, and looks among plugins for the others."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A built-in command, or else a plugin's, or `None`."""
        command = own_command(cmd_name) if cmd_name in OWN else plugin_command(ctx, cmd_name)
        if not gc.isenabled():  # by `pegboard.__main__`, while everything is imported
            gc.freeze()
            gc.enable()
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Built-in commands in the order of the help, then those of plugins."""
        return [*OWN, *(name for name, _ in plugin_command_lines(ctx))]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands by section, without importing them."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])
        if lines := plugin_command_lines(ctx):
            with formatter.section("From plugins"):
                formatter.write_dl(lines)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command; an unexpected exception of a plugin's is raised as a `PluginError` that names both."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, EOFError, BrokenPipeError):
            raise
        except Exception as error:
            from pegboard.errors import PegboardError, PluginError, cause_of

            found: FoundPlugin | None = ctx.meta.get(HOOK)
            if found is None or isinstance(error, PegboardError):
                raise
            cause = f"its command {ctx.invoked_subcommand!r} failed: {cause_of(error)}"
            raise PluginError(found.name, cause, distribution=found.distribution) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggests near misses for an unknown command, those of plugins included."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from pegboard.errors import did_you_mean, first_party, not_provided, suggest

            if args[0] in first_party()["commands"]:
                raise click.UsageError(not_provided("commands", args[0], ()), ctx) from None
            near = did_you_mean(suggest(args[0], self.list_commands(ctx)))
            raise click.UsageError(f"no command is called {args[0]!r}.{near}", ctx) from None


def own_command(name: str) -> click.Command:
    """Imports a built-in command: `NAME_command` of its module."""
    module: Any = import_module(f"pegboard.cli.commands.{OWN[name][0]}")
    return getattr(module, f"{name}_command")


def plugin_command_lines(context: click.Context) -> list[tuple[str, str]]:
    """Name and short help of each plugin's command, from the listing snapshot if it is valid; imports no plugin."""
    from pegboard.plugins.snapshot import open_snapshot, snapshot_place

    place = snapshot_place()
    if place is not None and (snapshot := open_snapshot(place)) is not None:
        with closing(snapshot):
            lines = snapshot.section(b"commands").decode().splitlines()
        known = (line.partition("\t") for line in lines)
        return [(name, text) for name, _, text in known if name not in OWN]
    from pegboard.cli.session import open_session
    from pegboard.errors import PegboardError

    try:
        owners = command_owners(open_session(context.ensure_object(Options)))
    except PegboardError:  # the help has to work with a broken configuration
        return []
    return [(name, text) for name, (_, text) in owners.items()]


def command_owners(session: Session) -> Mapping[str, tuple[FoundPlugin, str]]:
    """Owner and help of plugins' commands by name, without those named like built-in ones or held back."""
    from pegboard.plugins.manager import manager_of
    from pegboard.text import visible

    adding = {plugin.name for plugin in session.registry.plugins() if HOOK in plugin.hooks}
    name_owners = manager_of(session.registry).owners
    owners: dict[str, tuple[FoundPlugin, str]] = {}
    for found in (found for found in session.entries() if found.name in adding):
        for name, text in command_helps(found, session).items():
            # A name with hidden characters could pass for another.
            if name not in OWN and visible(name) == name and name_owners.has("commands", name, found.origin):
                owners.setdefault(name, (found, visible(text) or f"From plugin {found.name}."))
    return owners


def command_helps(found: FoundPlugin, session: Session) -> Mapping[str, str]:
    """Help of a plugin's commands by name, from its manifest, the cache or the plugin itself; empty if that fails."""
    if (manifest := session.manifest(found)) is not None:
        return manifest.commands
    from pegboard.errors import PluginError, operator_log
    from pegboard.plugins.probe import short_helps

    try:
        return short_helps(load_commands(found, session.settings(found)))
    except PluginError as error:
        operator_log().debug("%s", error, exc_info=error)
        return {}


def plugin_command(context: click.Context, name: str) -> click.Command | None:
    """The plugin command of this name, its plugin imported, or `None`; raises `PluginError` if the plugin failed."""
    from pegboard.cli.session import open_session

    session = open_session(context.ensure_object(Options))
    found, _ = command_owners(session).get(name, (None, ""))
    if found is None:
        from pegboard.cli.tool_texts import notice_text
        from pegboard.errors import PluginError

        for problem in session.registry.problems():  # of a plugin that may have the command
            if ("commands", name) in problem.offers:
                raise PluginError(problem.plugin or "", problem.cause, distribution=problem.distribution)
        click.echo(notice_text(session.registry.problems()), err=True, nl=False)
        return None
    context.meta[HOOK] = found
    return load_commands(found, session.settings(found)).get(name)


def load_commands(found: FoundPlugin, settings: Mapping[str, Any]) -> Mapping[str, click.Command]:
    """Imports a plugin and returns its commands by name; a `PluginError` if the plugin or its hook fails."""
    from pegboard.cli.session import call_hook

    group = click.Group()
    call_hook(found, settings, HOOK, group=group)
    return group.commands


PROGRAM, OTHER_PROGRAM = "registry", "pegboard"


@click.group(
    PROGRAM,
    cls=RegistryGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Without a command: registry list.",
)
@registry_options(hidden=False)
@click.version_option(own_version(), message=f"{PROGRAM} (pegboard) %(version)s", help="Show the version.")
@click.pass_context
def registry_group(context: click.Context) -> Any:
    """List, inspect and call the tools of installed plugins."""
    if context.invoked_subcommand is None:
        return context.invoke(own_command("list"))
    return None


def main(argv: list[str] | None = None) -> int:
    """Runs `registry`; raises nothing.

    Args:
        argv: The arguments without the program's name; those of the process by default.

    Returns:
        The exit code: 0; 1 where a tool failed or a check found problems; 2 for usage errors and unknown tools; 130
        after Ctrl-C. If the reader of the output has closed it, 0.
    """
    options = Options()
    started = time.perf_counter()
    try:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a character that the encoding lacks must not end a command
                stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        try:
            code = _run(sys.argv[1:] if argv is None else argv, options)
        except (KeyboardInterrupt, EOFError, click.Abort):
            code = 130  # 128 + SIGINT, the convention of shells
        sys.stdout.flush()
    except BrokenPipeError:
        quiet_stdout()
        return 0
    except Exception as error:  # noqa: BLE001  any error is reported in one line
        from pegboard.cli.output import report_error

        code = report_error(error, options)
        try:
            sys.stdout.flush()
        except OSError:  # already reported
            quiet_stdout()
    if options.debug:
        took, process = time.perf_counter() - started, time.process_time()
        click.echo(f"took {took:.3f} s; {process:.3f} s of CPU since the start", err=True)
    return code


def _run(argv: list[str], options: Options) -> int:
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        from pegboard.cli.completion import complete

        return complete(registry_group, instruction)
    try:
        program = OTHER_PROGRAM if os.path.basename(sys.argv[0]) == OTHER_PROGRAM else PROGRAM  # noqa: PTH119  a text
        with registry_group.make_context(program, list(argv), obj=options) as context:
            code: Any = registry_group.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    return code if isinstance(code, int) else 0
