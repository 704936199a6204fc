"""HTML as readable Markdown, with bounded work."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag
from markdownify import MarkdownConverter  # pyright: ignore[reportMissingTypeStubs]

_LEFT_OUT: Final = (  # without text for readers
    *("script", "style", "template", "noscript", "svg", "canvas", "iframe", "object", "embed", "audio", "video"),
    *("nav", "footer", "button", "input", "select", "textarea", "head"),
)
_HIDING: Final = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_FEW_COLUMNS: Final = re.compile(r"1?[0-9]")
_BLANK_LINES: Final = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+\n")
_MOST_WORK: Final = 120  # for one character of the page: each element writes those of its children again
_LEAST_WORK: Final = 10_000_000  # about a second's
_OF_A_CHILD: Final = 400  # as so many characters
_OF_A_LEVEL: Final = 10  # for each child, as the elements around it are looked at


class _TooMuchWorkError(Exception):
    """A page has very many elements, nested too deep, or is written again and again."""


def _convert(soup: BeautifulSoup, most: int) -> str:
    """The text of a page, or `_TooMuchWorkError` after so much work."""
    converter: Any = MarkdownConverter(heading_style="atx", bullets="-", escape_misc=False)  # untyped
    process_tag, depth, left = converter.process_tag, 0, most

    def process_bounded(node: Tag, parent_tags: set[str] | None = None) -> str:
        nonlocal depth, left
        depth += 1
        left -= len(node.contents) * (_OF_A_CHILD + depth * _OF_A_LEVEL)
        text: str = "" if left < 0 else process_tag(node, parent_tags)
        depth -= 1
        left -= len(text)
        if left < 0:
            raise _TooMuchWorkError
        return text

    converter.process_tag = process_bounded
    return converter.convert_soup(soup)


def to_markdown(html: str, url: str) -> tuple[str, str]:
    """The title and the text of a page, as Markdown with absolute links.

    Scripts, forms, navigation, and what the page hides from readers are left out. A page that can't be converted with
    bounded work, such as one with elements nested a hundred deep, is read as its words alone.

    Args:
        html: The page; it may be damaged, or cut anywhere.
        url: Its address, which relative links start from.
    """
    soup = BeautifulSoup(html, "lxml")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    base = soup.find("base", href=True)
    _make_absolute(soup, _joined(url, str(base["href"])) if base else url)
    for tag in [*soup.find_all(_LEFT_OUT), *soup.find_all(hidden=True), *soup.find_all(style=_HIDING)]:
        if not tag.decomposed:
            tag.decompose()
    for tag in soup.find_all(colspan=True):
        if not _FEW_COLUMNS.fullmatch(str(tag["colspan"])):
            del tag["colspan"]  # a cell of a thousand columns is written as so many
    most = max(_LEAST_WORK, _MOST_WORK * len(html))
    try:
        text = _convert(soup, most)
    except (RecursionError, _TooMuchWorkError):
        text = soup.get_text("\n", strip=True)
    return title, _BLANK_LINES.sub("\n\n", text).strip()


def _make_absolute(soup: BeautifulSoup, url: str) -> None:
    """Makes links absolute; takes away those within the page, scripts, and pictures in the page itself."""
    for name, key in (("a", "href"), ("img", "src")):
        for tag in soup.find_all(name, {key: True}):
            link = str(tag[key])
            target = "" if link.startswith("#") else _joined(url, link)
            if target.startswith(("http://", "https://", "mailto:")):
                tag[key] = target
            else:
                del tag[key]


def _joined(url: str, link: str) -> str:
    try:
        return urljoin(url, link.strip())
    except ValueError:
        return ""
