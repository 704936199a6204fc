"""pegboard-mcp: a registry's tools for programs that speak the Model Context Protocol.

Its names are imported at first use: listing tools loads no `mcp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_mcp.server import ToolServer

__all__ = ("ToolServer",)

__getattr__, __dir__ = lazy_names(__name__, {"ToolServer": "server"})
