"""What a lock of pegboard-lock says of a server, if that package is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from attrs import evolve

from pegboard import Config, Origin, Tool, Toolset
from pegboard.tools import visible_spec
from pegboard.toolsets import identity_of

_ORIGIN: Final = Origin("mcp", "pegboard-mcp")


def pins_in_lock(config: Config, toolset: Toolset) -> Mapping[str, str] | None:
    """The digests of a server's locked tools by name; `None` if no trusted lock that is in effect names the server."""
    if find_spec("pegboard_lock") is None:
        return None
    from pegboard_lock import pins_of

    return pins_of(config, toolset.name, identity_of(toolset))


def digest_in_lock(tool: Tool) -> str:
    """The digest of a tool's definition as a registry has it."""
    return visible_spec(tool.spec).digest


def write_to_lock(config: Config, toolset: Toolset, tools: Iterable[Tool]) -> Path | None:
    """Writes the accepted tools of a server to the lock in effect.

    Args:
        config: The configuration, which says where the lock is.
        toolset: The server's toolset.
        tools: Its accepted tools.

    Returns:
        The lock's file; `None` if there is no lock, or nothing to write.

    Raises:
        PegboardError: The lock is damaged, or can't be written.
    """
    if find_spec("pegboard_lock") is None:
        return None
    from pegboard_lock import accept_toolset

    owned = [
        tool.evolve(
            spec=visible_spec(tool.spec), origin=evolve(_ORIGIN, toolset=toolset.name, trusted=tool.origin.trusted)
        )
        for tool in tools
    ]
    return accept_toolset(config, toolset.name, identity_of(toolset), owned)
