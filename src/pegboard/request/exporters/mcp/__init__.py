"""The Model Context Protocol: tools as a server's `tools/list` answers them."""

from __future__ import annotations

from pegboard.request.exporters.mcp.exporter import MCP

__all__ = ["MCP"]
