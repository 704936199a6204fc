"""Reading an answer as a page: its type, its charset, and HTML as Markdown."""

from __future__ import annotations

import codecs
import re
from typing import Final

from pegboard import FileContent, ImageContent, ToolError
from pegboard.json import size_text
from pegboard.tools import BINARY, is_text_type, media_type, plain_type, text_of_file
from pegboard_web.foreign import short
from pegboard_web.http import Answer
from pegboard_web.page import Page

_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_KIND: Final = re.compile(r"[a-z]+/[a-z0-9.+-]{1,60}")
_LATIN: Final = "windows-1252"
_CALLED_LATIN: Final = frozenset({"iso-8859-1", "iso8859-1", "latin1", "latin-1", "ascii", "us-ascii"})  # by browsers
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})


def read_page(answer: Answer) -> Page:
    """Reads the content of an answer, by its first bytes where these show what it is. Blocks for a large page.

    Raises:
        ToolError: It is something else, or an image or PDF beyond the limit.
    """
    url, declared = str(answer.url), answer.headers.get("content-type", "")
    kind = media_type(answer.content, declared)
    if not _KIND.fullmatch(kind):
        kind = BINARY  # no words of others, as the result names it outside of the page
    if kind in _IMAGES or kind == "application/pdf":
        if answer.is_cut:
            size = size_text(len(answer.content))
            raise ToolError(f"{short(url)} is a file of type {kind} with more than {size}, which is the limit.")
        is_pdf = kind == "application/pdf"
        medium = FileContent(url, answer.content, kind) if is_pdf else ImageContent(answer.content, kind)
        return Page(url, kind, medium=medium)
    text = None
    if is_text_type(kind) or kind == BINARY:
        text = text_of_file(FileContent(url, answer.content, _with_charset(answer, kind, declared)))
    if text is None:
        what = f"called {kind}, but is a binary file" if is_text_type(kind) else f"a file of type {kind}"
        raise ToolError(f"{short(url)} is {what}, which can't be shown. Try another page.")
    if kind not in _HTML:
        return Page(url, kind, text, is_cut=answer.is_cut)
    from pegboard_web.markdown import to_markdown  # imports the parser, which takes long

    title, text = to_markdown(text, url)
    return Page(url, kind, text, title=title, is_cut=answer.is_cut)


def _with_charset(answer: Answer, kind: str, declared: str) -> str:
    """A media type with the charset of a text: as declared, as HTML itself says, or by its bytes as browsers do."""
    charset = _charset_of(declared) if plain_type(declared) == kind else None
    if kind in _HTML and charset is None:
        from bs4.dammit import EncodingDetector

        charset = EncodingDetector.find_declared_encoding(answer.content, is_html=True)
        if charset is not None and charset.lower().startswith("utf-16"):
            charset = "utf-8"  # the declaration itself was ASCII
    if kind == BINARY and charset is None:
        return BINARY  # a text if it is UTF-8
    if charset is None:
        charset = "utf-8" if _is_utf8(answer) else _LATIN
    return f"{kind}; charset={_LATIN if charset.lower() in _CALLED_LATIN else charset}"


def _charset_of(declared: str) -> str | None:
    found = re.search(r"(?i);\s*charset\s*=\s*[\"']?([\w.:-]+)", declared)
    return None if found is None else found[1]


def _is_utf8(answer: Answer) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(answer.content, final=not answer.is_cut)
    except UnicodeDecodeError:
        return False
    return True
