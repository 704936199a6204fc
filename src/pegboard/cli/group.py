"""The click group whose commands are imported when they are asked for, plugins' commands behind ours."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTIONS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Tools": {
        "list": ("look", "List the tools that this environment offers."),
        "search": ("search", "Find tools by what they do."),
        "show": ("look", "Tell everything that is known of one tool."),
        "schema": ("look", "Print the JSON Schema of a tool's arguments."),
        "explain": ("look", "Tell each step by which a tool is offered, or isn't."),
        "call": ("call", "Call a tool, its arguments typed by its schema."),
        "dispatch": ("dispatch", "Run a model's calls as one turn."),
        "chat": ("chat", "Ask a model, which may call the board's tools."),
        "export": ("export", "Print the tools as a provider's list has them."),
    },
    "Plugins": {
        "plugins": ("plugins", "List the installed plugins, and how they are."),
        "processors": ("processors", "List the steps by which requests are made ready."),
        "install": ("install", "Install packages, and show the tools that came."),
        "uninstall": ("install", "Uninstall packages, and show the tools that went."),
    },
    "Authors": {
        "new": ("new", "Write a new plugin package."),
        "manifest": ("manifest", "Write or check manifests."),
    },
    "Board": {
        "doctor": ("doctor", "Look for what is wrong, and say what to do."),
        "config": ("config", "Show configuration, or trust a project's."),
        "completion": ("completion", "Print the script that completes in a shell."),
    },
}
"""Our commands by section: the module under `pegboard.cli.commands` that holds each, and its short help."""

OWN: Final[Mapping[str, tuple[str, str]]] = {name: at for section in SECTIONS.values() for name, at in section.items()}


class RegistryGroup(click.Group):
    """`registry`: ours are named here and imported at use; plugins are asked only for what isn't ours."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Our command, or a plugin's, or `None`."""
        if cmd_name in OWN:
            return own_command(cmd_name)
        from pegboard.cli.plugin_commands import plugin_command

        return plugin_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Ours, in the order of the help, then those of plugins."""
        return [*OWN, *(name for name, _ in _of_plugins(ctx))]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section; none of ours is imported for it."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])
        brought = list(_of_plugins(ctx))
        if brought:
            with formatter.section("From plugins"):
                formatter.write_dl(brought)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Names near misses among plugins' commands too."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from pegboard.errors import did_you_mean, suggest

            near = did_you_mean(suggest(args[0], self.list_commands(ctx)))
            raise click.UsageError(f"no command is called {args[0]!r}.{near}", ctx) from None


def own_command(name: str) -> click.Command:
    """One of our commands, imported now; the module has it as `NAME_command`."""
    module: Any = import_module(f"pegboard.cli.commands.{OWN[name][0]}")
    return getattr(module, f"{name}_command")


def _of_plugins(ctx: click.Context) -> Iterator[tuple[str, str]]:
    from pegboard.cli.plugin_commands import plugin_command_lines

    yield from plugin_command_lines(ctx)
