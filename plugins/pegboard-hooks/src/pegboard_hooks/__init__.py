"""pegboard-hooks: the user's programs as hooks of calls, and the user's programs and files as tools."""

from __future__ import annotations

from pegboard_hooks.command_hooks import CommandHooks, HookSettings
from pegboard_hooks.command_tools import ToolSettings, command_tool
from pegboard_hooks.file_tools import FileToolset

__all__ = ["CommandHooks", "FileToolset", "HookSettings", "ToolSettings", "command_tool"]
