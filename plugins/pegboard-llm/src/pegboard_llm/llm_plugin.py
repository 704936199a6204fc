"""The plugin of llm: offers pegboard's tools to llm's models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pluggy import HookimplMarker


@HookimplMarker("llm")
def register_tools(register: Callable[[Any], None]) -> None:
    """Registers the tools of pegboard's plugins.

    Args:
        register: Registers a tool.
    """
    from pegboard_llm.offer import register_installed

    register_installed(register)
