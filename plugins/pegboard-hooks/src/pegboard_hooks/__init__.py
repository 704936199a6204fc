"""pegboard-hooks: programs round the calls of tools, and tools that are files and programs of the user's own."""

from __future__ import annotations

from pegboard_hooks.command_hooks import CommandHooks, HookSettings
from pegboard_hooks.command_tools import ToolSettings, command_tool
from pegboard_hooks.file_tools import FileToolset

__all__ = ["CommandHooks", "FileToolset", "HookSettings", "ToolSettings", "command_tool"]
