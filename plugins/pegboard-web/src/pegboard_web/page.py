"""What a page contains: a text, an image or a PDF."""

from __future__ import annotations

from attrs import frozen

from pegboard import FileContent, ImageContent


@frozen(eq=False)
class Page:
    """A page that was read.

    Attributes:
        url: Where it comes from.
        kind: Its media type.
        text: Its text; of HTML as Markdown; `""` for other content.
        medium: The image or PDF that it is.
        title: The title of HTML.
        is_cut: Whether the rest of it is left out, as it exceeds the limit.
    """

    url: str
    kind: str
    text: str = ""
    medium: ImageContent | FileContent | None = None
    title: str = ""
    is_cut: bool = False
