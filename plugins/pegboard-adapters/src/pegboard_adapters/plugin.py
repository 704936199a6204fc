"""The hook that registers the tools of other frameworks that the settings name, a toolset for each framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pegboard import Toolset, hookimpl


@hookimpl
def pegboard_register_toolsets(register: Callable[[Toolset], None], settings: Mapping[str, Any]) -> None:
    """Registers a toolset for each table, such as `[plugins.adapters.langchain]`."""
    if settings:
        from pegboard_adapters.configured import toolsets_from

        for toolset in toolsets_from(settings):
            register(toolset)
