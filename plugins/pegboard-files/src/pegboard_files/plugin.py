"""The hook that brings the tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from pegboard import hookimpl


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None], settings: Mapping[str, Any]) -> None:
    """Brings read_file, list_directory, glob and grep.

    Args:
        register: Hangs them on the board.
        settings: `[plugins.files]`, see `Settings`.

    Raises:
        ValueError: A setting is unknown or wrong.
        RuntimeError: The system can't open files relative to a directory, and so can't keep the tools in.
    """
    from pegboard_files.settings import settings_from
    from pegboard_files.tools import FileTools

    if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
        raise RuntimeError("pegboard-files works on Linux and macOS: this system can't open files below a directory.")
    register(FileTools(settings_from(settings)))
