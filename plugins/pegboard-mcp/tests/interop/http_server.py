"""The suite's tools over streamable HTTP; prints their address."""

from __future__ import annotations

import socket
from pathlib import Path

import uvicorn

from pegboard import ToolRegistry
from pegboard.cli.session import register_functions
from pegboard_mcp import ToolServer

registry = ToolRegistry()
register_functions(registry, [Path(__file__).with_name("suite_tools.py")])
with socket.create_server(("127.0.0.1", 0)) as listening:
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    app = ToolServer(registry).server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])
