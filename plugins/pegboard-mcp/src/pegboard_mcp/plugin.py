"""The plugin's hooks, which import each part on first use: listing tools doesn't load `mcp`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl
from pegboard.lazy import lazy_call

if TYPE_CHECKING:
    import click

    from pegboard import Config


@hookimpl
def pegboard_register_toolsets(
    register: Callable[[Any], None], settings: Mapping[str, Any], config: Config | None
) -> None:
    """Registers a toolset for each server of the settings.

    Args:
        register: Registers a toolset.
        settings: `[plugins.mcp]`: `servers`, a table by name (see `ServerSettings`), and `mcp_config`, a JSON file.
        config: The registry's configuration, which says where a lock is.
    """
    if settings:
        from pegboard_mcp.toolset import toolsets_from

        for toolset in toolsets_from(settings, config):
            register(toolset)


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Registers the exporter `mcp`, which lists tools as a server does.

    Args:
        register: Registers a function that makes it.
    """
    register("mcp", lazy_call("pegboard_clients.listing:mcp"))


@hookimpl
def pegboard_register_commands(group: click.Group) -> None:
    """Adds `registry serve` and `registry mcp`."""
    from pegboard_mcp.manage import mcp_command
    from pegboard_mcp.serve import serve_command

    group.add_command(serve_command)
    group.add_command(mcp_command)
