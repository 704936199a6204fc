"""pegboard-commands: command-line programs and Python files as tools."""

from __future__ import annotations

from pegboard_commands.command_tools import ToolSettings, command_tool
from pegboard_commands.file_tools import FileToolset

__all__ = ["FileToolset", "ToolSettings", "command_tool"]
