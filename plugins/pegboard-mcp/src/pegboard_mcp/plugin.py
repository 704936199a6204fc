"""What the plugin brings, each part imported when it is used: listing tools loads no `mcp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def pegboard_register_commands(group: click.Group) -> None:
    """Adds `registry serve`."""
    from pegboard_mcp.serve import serve_command

    group.add_command(serve_command)
