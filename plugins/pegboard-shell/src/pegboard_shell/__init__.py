"""pegboard-shell: tools that run commands, with limits, as sessions that go on, and in a sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from pegboard import hookimpl

__all__ = ["pegboard_register_tools"]


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None], settings: Mapping[str, Any]) -> None:
    """Brings shell, and what goes on with its sessions.

    Args:
        register: Registers them with the registry.
        settings: `[plugins.shell]`, see `Settings`.

    Raises:
        ValueError: A setting is unknown or wrong.
        RuntimeError: The system has no process groups, and so can't end what a command has started.
    """
    if not hasattr(os, "killpg"):
        raise RuntimeError("pegboard-shell works on Linux and macOS: this system has no process groups to end.")
    from pegboard_shell.settings import settings_from  # with what they use, loaded only for a registry
    from pegboard_shell.tools import shell_tools

    for tool in shell_tools(settings_from(settings)):
        register(tool)
