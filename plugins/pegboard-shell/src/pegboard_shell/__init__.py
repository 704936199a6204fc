"""pegboard-shell: tools that run commands, with limits, as background sessions, and in a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pegboard import hookimpl

__all__ = ["Plugin"]


class Plugin:
    """The plugin, with its settings.

    Args:
        settings: `[plugins.shell]`, see `Settings`.

    Raises:
        ValueError: A setting is unknown or invalid.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from pegboard.schema.converter import read_table  # imported here, as only a registry needs them
        from pegboard_shell.settings import Settings
        from pegboard_shell.tools import ShellTools

        self.tools = ShellTools(read_table(Settings, settings, "plugins.shell"))

    @hookimpl
    def pegboard_register_tools(self, register: Callable[[Any], None]) -> None:
        """Registers `shell` and the tools for its sessions."""
        from pegboard_shell.tools import make_tools

        for tool in make_tools(self.tools):
            register(tool)

    @hookimpl
    def pegboard_needs_posix(self) -> None:
        """Declares that ending commands needs process groups, which Windows doesn't have."""

    @hookimpl
    def pegboard_register_services(self, register: Callable[..., None]) -> None:
        """Registers the sessions, which end when the registry is closed."""
        from pegboard_shell.sessions import Sessions

        register(Sessions, self.tools.sessions.provide, scope="registry")
