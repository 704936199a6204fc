"""pegboard-search: a search tool for tools, so that a request lists few of many."""

from __future__ import annotations

from pegboard_search.search import search_tool, searchable

__all__ = ["search_tool", "searchable"]
