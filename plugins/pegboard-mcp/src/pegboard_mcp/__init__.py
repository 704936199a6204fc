"""pegboard-mcp: a Model Context Protocol server for a registry's tools, and a client for the tools of other servers.

Its names are imported on first use, so that listing tools doesn't load `mcp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_mcp.serving.sampling import ClientModel
    from pegboard_mcp.serving.server import ToolServer
    from pegboard_mcp.settings import ServerSettings
    from pegboard_mcp.toolset import McpToolset, mcp_toolset

__all__ = ("ClientModel", "McpToolset", "ServerSettings", "ToolServer", "mcp_toolset")

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ClientModel": "serving.sampling",
        "McpToolset": "toolset",
        "ServerSettings": "settings",
        "ToolServer": "serving.server",
        "mcp_toolset": "toolset",
    },
)
