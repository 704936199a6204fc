"""`registry config`: what is configured, where, and which project's configuration is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pegboard.cli.board import configured
from pegboard.cli.failure import remark
from pegboard.cli.options import Options, board_options
from pegboard.cli.page import write
from pegboard.cli.render import json_pretty


@click.group("config", invoke_without_command=True)
@board_options()
@click.pass_context
def config_command(context: click.Context) -> Any:
    """Show configuration, or trust a project's."""
    return context.invoke(show_config) if context.invoked_subcommand is None else None


@config_command.command("show")
@board_options()
@click.pass_obj
def show_config(options: Options) -> int:
    """Print what holds, as JSON.

    That is what all files and the environment say together.
    """
    config = configured(options)
    keys = ("block", "enable", "rename", "prefix", "conflicts", "where", "plugins", "autoload", "files")
    write(json_pretty({key: _plain(getattr(config, key)) for key in keys}) + "\n")
    for ignored in config.ignored:
        remark(str(ignored))
    return 0


def _plain(value: Any) -> Any:
    """The value as JSON; TOML's dates as texts."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if hasattr(value, "items"):
        return {key: _plain(item) for key, item in value.items()}
    return value if isinstance(value, str | int | float | None) else str(value)


@config_command.command("path")
@board_options()
@click.pass_obj
def config_path(options: Options) -> int:
    """Print where files are read.

    Those that are there, and those that would be read if they were.
    """
    config = configured(options)
    for file in config.looked_at:
        if Path(file).name == "trusted.json":
            continue
        write(f"{file}{'' if file in config.files else '  (none there)'}\n")
    return 0


@config_command.command("trust")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--undo", is_flag=True, help="Take trust back.")
def trust_config(file: Path | None, undo: bool) -> int:
    """Trust a project's pegboard.toml.

    It may then do more than narrow what is offered: as it is now, until it changes.

    Without FILE, the one that commands find from here.
    """
    from pegboard.config.config import distrust, trust

    chosen = file or _found_here()
    if undo:
        remark(f"{chosen} {'is no longer trusted' if distrust(chosen) else 'was not trusted'}")
    else:
        trust(chosen)
        remark(f"{chosen} is trusted as it is now; once it changes, it has to be trusted again")
    return 0


def _found_here() -> Path:
    from pegboard.config.files import CONFIG_NAME, project_file

    found = project_file(str(Path.cwd()))
    if found is None:
        raise click.UsageError(f"there is no {CONFIG_NAME} here or above; name the file")
    return Path(found)
