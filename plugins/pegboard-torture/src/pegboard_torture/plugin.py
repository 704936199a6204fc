"""The hook that adds `registry torture`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def pegboard_register_commands(group: click.Group) -> None:
    """Adds `registry torture`."""
    from pegboard_torture.command import torture_command

    group.add_command(torture_command)
