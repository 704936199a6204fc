"""`worded`: content in words, for providers that don't take it as it is."""

from __future__ import annotations

from pegboard.tools.call import writable
from pegboard.tools.content import AudioContent, Content, ImageContent, LinkContent, TextContent


def worded(content: Content) -> str:
    """A text as it is; a file that is text with its name; anything else named, so that it isn't lost silently."""
    return writable(_worded(content))


def _worded(content: Content) -> str:
    if isinstance(content, TextContent):
        return content.text
    if isinstance(content, LinkContent):
        kind = f" ({content.mime_type})" if content.mime_type else ""
        name = f" to {content.name}" if content.name else ""
        return f"[link{name}{kind}: {content.uri}]"
    if isinstance(content, ImageContent | AudioContent):
        what = "an image" if isinstance(content, ImageContent) else "a sound"
        return f"[{what} ({content.mime_type}, {len(content.data):,} bytes) that can't be shown here]"
    if isinstance(content.data, str):
        return f"[file {content.uri}]\n{content.data}"
    kind = f"{content.mime_type}, " if content.mime_type else ""
    return f"[file {content.uri} ({kind}{len(content.data):,} bytes) that can't be shown here]"


__all__ = ["worded"]
