"""pegboard-files: tools that read, list and search the files below one folder, and nothing outside of it."""

from __future__ import annotations

from pegboard_files.plugin import pegboard_register_tools

__all__ = ["pegboard_register_tools"]
