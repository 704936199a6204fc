"""The plugin's hook, which imports each part on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pegboard import hookimpl


@hookimpl
def pegboard_register_toolsets(register: Callable[[Any], None], settings: Mapping[str, Any]) -> None:
    """Registers a toolset for each document of the settings.

    Args:
        register: Registers a toolset.
        settings: `[plugins.openapi]`: `documents`, a table by name (see `DocumentSettings`), and `trust`, a list of
            documents and tools (`"DOCUMENT:TOOL"`, with wildcards) whose annotations are trusted.
    """
    if settings:
        from pegboard_openapi.settings import toolsets_from

        for toolset in toolsets_from(settings):
            register(toolset)
