"""`searchable`: a toolset whose tools have to be found."""

from __future__ import annotations

from pegboard.toolsets.fluent import FluentToolset, wrap
from pegboard.toolsets.search.tool import SEARCH_TOOL
from pegboard.toolsets.search.toolset import Always
from pegboard.toolsets.toolset import Toolset


def searchable(toolset: Toolset, *, name: str = SEARCH_TOOL, limit: int = 5, always: Always = None) -> FluentToolset:
    """A toolset of the tool `search_tools`, and of the toolset's own tools, deferred until a search has found them.

    For several toolsets that are searched as one, make one of them first: `searchable(CombinedToolset(...))`.

    Args:
        toolset: Any toolset.
        name: The search tool's name.
        limit: How many tools a search finds where the model doesn't say, 1 to 20.
        always: What is never deferred: a predicate, its text, a plain function of tool and context, or a list of
            names.

    Raises:
        InvalidNameError: The name isn't valid.
        ValueError: The limit isn't from 1 to 20.
        ExpressionError: The text of `always` doesn't parse.
    """
    return wrap(toolset).searchable(name=name, limit=limit, always=always)
