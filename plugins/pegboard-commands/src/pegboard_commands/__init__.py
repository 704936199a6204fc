"""pegboard-commands: command-line programs and Python files as tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_commands.click_programs import ClickSettings as ClickSettings, ClickToolset as ClickToolset
    from pegboard_commands.command_tools import ToolSettings as ToolSettings, command_tool as command_tool
    from pegboard_commands.file_tools import FileToolset as FileToolset

__all__ = ["ClickSettings", "ClickToolset", "FileToolset", "ToolSettings", "command_tool"]

_MODULES = {
    "ClickSettings": "click_programs",
    "ClickToolset": "click_programs",
    "FileToolset": "file_tools",
    "ToolSettings": "command_tools",
    "command_tool": "command_tools",
}
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
