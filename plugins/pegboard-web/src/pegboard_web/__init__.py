"""pegboard-web: tools that fetch web pages and search the web.

Its names are imported on first use, so that listing tools loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_web.search import SearchBackend, SearchResult
    from pegboard_web.settings import Settings
    from pegboard_web.tools import WebFetch, WebSearch

__all__ = ("SearchBackend", "SearchResult", "Settings", "WebFetch", "WebSearch")

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "SearchBackend": "search",
        "SearchResult": "search",
        "Settings": "settings",
        "WebFetch": "tools",
        "WebSearch": "tools",
    },
)
