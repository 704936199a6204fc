"""fastmcp: `fast.py`, or `fast.py PORT`."""

from __future__ import annotations

import inspect
import sys

from fastmcp import FastMCP

import tools

SERVER = FastMCP("fast")
for function in vars(tools).values():
    if inspect.iscoroutinefunction(function):
        SERVER.tool(function)

if __name__ == "__main__":
    if sys.argv[1:]:
        options = {"transport": "http", "port": int(sys.argv[1]), "log_level": "warning"}
    else:
        options = {"transport": "stdio"}
    SERVER.run(show_banner=False, **options)
