"""pegboard-hooks: the user's programs as hooks of calls."""

from __future__ import annotations

from typing import Any

from pegboard_hooks.command_hooks import CommandHooks, HookSettings

__all__ = ["CommandHooks", "HookSettings"]


def __getattr__(name: str) -> Any:
    """The names that have moved to pegboard-commands, until 0.4."""
    if name not in ("FileToolset", "ToolSettings", "command_tool"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from warnings import warn

    import pegboard_commands

    warn(f"{__name__}.{name} is pegboard_commands.{name} now", DeprecationWarning, stacklevel=2)
    return getattr(pegboard_commands, name)
