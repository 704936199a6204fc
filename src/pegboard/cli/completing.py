"""Completion in shells: what may stand at the cursor. The scripts that ask are in `shells`.

Whatever goes wrong here is silent: an error in the middle of a command line helps nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.shell_completion import CompletionItem

    from pegboard.cli.board import Board

VARIABLE: Final = "_REGISTRY_COMPLETE"


def complete(group: click.Group, instruction: str) -> int:
    """Prints what may stand at the cursor, as the shell's script asks for it (`bash_complete`, ...).

    Returns:
        The exit code: 0, or 1 where nothing could be said.
    """
    from click.shell_completion import add_completion_class, shell_complete

    from pegboard.cli.bash import BashLine
    from pegboard.cli.options import Options

    add_completion_class(BashLine)
    try:
        return shell_complete(group, {"obj": Options()}, "registry", VARIABLE, instruction)
    except Exception:  # noqa: BLE001  see the module
        return 1


def complete_tool(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Names of tools, with what they do."""
    from click.shell_completion import CompletionItem

    from pegboard.cli.listing import listing_rows

    tools = [tool for tool in _board(context).registry.tools() if tool.name.startswith(incomplete)]
    return [CompletionItem(name, help=summary or None) for name, _, summary in listing_rows(tools)]


def complete_plugin(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Names of plugins."""
    from click.shell_completion import CompletionItem

    from pegboard.tools.visible import visible

    names = (plugin.name for plugin in _board(context).registry.plugins())
    return [CompletionItem(visible(name)) for name in names if name.startswith(incomplete)]


def complete_exporter(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Names of exporters: the listing of MCP, and those that plugins offer."""
    return _completed(("mcp", *_board(context).registry.known("exporters")), incomplete)


def complete_model(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Providers of models that plugins bring, up to the slash; their models aren't known here."""
    return _completed([f"{name}/" for name in _board(context).registry.known("models")], incomplete)


def _completed(names: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    """The names that begin so; those that don't show as they are could pass for others, and are left out."""
    from click.shell_completion import CompletionItem

    from pegboard.tools.visible import visible

    return [CompletionItem(name) for name in names if name.startswith(incomplete) and visible(name) == name]


def complete_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """`key=` names and values of the tool that is being called."""
    from click.shell_completion import CompletionItem

    from pegboard.cli.candidates import candidates

    name, given = context.params.get("name"), context.params.get(parameter.name or "") or ()
    schema = _board(context).find(str(name)).spec.input_schema
    return [CompletionItem(word, help=text or None) for word, text in candidates(incomplete, given, schema)]


def _board(context: click.Context) -> Board:
    from pegboard.cli.board import open_board
    from pegboard.cli.options import Options

    return open_board(context.ensure_object(Options))
