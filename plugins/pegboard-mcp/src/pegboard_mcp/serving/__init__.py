"""The MCP server for a registry's tools."""
