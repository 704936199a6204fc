"""Tools of llm's plugins for pegboard, and pegboard's tools for llm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_llm.offer import llm_tools as llm_tools
    from pegboard_llm.toolset import llm_toolset as llm_toolset

__all__ = ("llm_tools", "llm_toolset")
__getattr__, __dir__ = lazy_names(__name__, {"llm_tools": "offer", "llm_toolset": "toolset"})
