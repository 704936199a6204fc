"""pegboard-search: a tool that finds tools, so that a request lists few of many."""

from __future__ import annotations

from pegboard_search.search import search_tool, searchable

__all__ = ["search_tool", "searchable"]
