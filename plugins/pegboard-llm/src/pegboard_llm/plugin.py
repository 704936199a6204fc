"""The plugin's hooks, which import each part on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def pegboard_needs_posix() -> None:
    """Declares that the pipes of its child processes can't be polled on Windows."""


@hookimpl
def pegboard_register_toolsets(register: Callable[[Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the toolset of llm's plugins.

    Args:
        register: Registers a toolset.
        settings: `[plugins.llm]`: `toolboxes`, `trust` and `exclude`, lists of texts; `offer`, for llm.
    """
    from pegboard_llm.toolset import toolset_from

    register(toolset_from(settings))


@hookimpl
def pegboard_register_commands(group: click.Group) -> None:
    """Adds `registry llm`."""
    from pegboard_llm.command import llm_command

    group.add_command(llm_command)
