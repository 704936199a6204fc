"""Search results, the protocol of what finds them, and their text for a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from attrs import field, frozen

from pegboard import TextContent, ToolError, ToolResult
from pegboard.json import count_text
from pegboard.text import escape_hidden, visible
from pegboard.typing import JsonObject
from pegboard_web.foreign import mark_foreign
from pegboard_web.settings import Network

MOST_RESULTS: Final = 20
_MOST_TITLE: Final = 200  # bytes, so that all results together are less than a tool's result may have
_MOST_TEXT: Final = 1_000
_MOST_URL: Final = 1_000


def _line(text: Any) -> str:
    return " ".join(str(text or "").split())


@frozen
class SearchResult:
    """A page that a search has found.

    Attributes:
        title: Its title.
        url: Its address.
        text: What it is about, or a part of it.
    """

    title: str = field(converter=_line)
    url: str = field(converter=_line)
    text: str = field(default="", converter=_line)


class SearchBackend(Protocol):
    """What `web_search` searches with."""

    async def search(self, query: str, most: int) -> Sequence[SearchResult]:
        """The best results.

        Args:
            query: The words to search for.
            most: How many results are wanted; further ones are left out.

        Raises:
            ToolError: The search failed; the model reads the text, the cause is for the operator.
        """
        ...


def results_of(query: str, found: Sequence[SearchResult], most: int, allowed: Sequence[Network]) -> ToolResult:
    """The result of a search: its pages as a text, and as data. What can't be fetched is left out.

    Args:
        query: The words that were searched for.
        found: What a backend has found.
        most: How many of them are shown.
        allowed: Networks whose addresses can be fetched although they aren't global.
    """
    pages = list(_pages(found[:most], allowed))
    left, further = len(found[:most]) - len(pages), len(found) - most
    note = f" {count_text(left, 'result')} with an address that can't be fetched left out." if left > 0 else ""
    note += f" {count_text(further, 'further result')} not shown." if further > 0 else ""
    if not pages:
        return ToolResult(f"No results for {query!r}.{note} Try other words.")  # pyright: ignore[reportArgumentType]  converted
    lines = [f"{place}. {page['title']}\n   {page['url']}\n   {page['text']}" for place, page in enumerate(pages, 1)]
    text = mark_foreign(f"The results of a web search{'.' if note else ''}{note.removesuffix('.')}", "\n".join(lines))
    return ToolResult((TextContent(text),), {"results": pages}, title=f"Web search: {visible(query[:60])}")


def _pages(found: Sequence[SearchResult], allowed: Sequence[Network]) -> Iterator[JsonObject]:
    for result in found:
        if _can_be_fetched(result.url, allowed):
            title, text = _cut(result.title, _MOST_TITLE), _cut(result.text, _MOST_TEXT)
            yield {"title": title, "url": result.url, "text": text}


def _can_be_fetched(url: str, allowed: Sequence[Network]) -> bool:
    """Whether `web_fetch` wouldn't refuse it at once: names are resolved by that only."""
    from pegboard_web.addresses import is_allowed, parse_url

    if len(url) > _MOST_URL:
        return False
    try:
        return is_allowed(parse_url(url).raw_host.decode("ascii"), allowed)
    except ToolError:
        return False
    except ValueError:  # a name
        return True


def _cut(text: str, most: int) -> str:
    """A text of so many bytes, with hidden characters visible."""
    content = escape_hidden(text[:most]).encode(errors="replace")
    is_whole = len(text) <= most and len(content) <= most
    return content.decode() if is_whole else f"{content[: most - 3].decode(errors='ignore').rstrip()}..."
