"""HTML as readable Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

_LEFT_OUT: Final = (  # without text for readers
    *("script", "style", "template", "noscript", "svg", "canvas", "iframe", "object", "embed", "audio", "video"),
    *("nav", "footer", "button", "input", "select", "textarea", "head"),
)
_HIDING: Final = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_BLANK_LINES: Final = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+\n")


def to_markdown(html: str, url: str) -> tuple[str, str]:
    """The title and the text of a page, as Markdown with absolute links.

    Scripts, forms, navigation, and what the page hides from readers are left out.

    Args:
        html: The page; it may be damaged, or cut anywhere.
        url: Its address, which relative links start from.
    """
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter  # pyright: ignore[reportMissingTypeStubs]

    soup = BeautifulSoup(html, "lxml")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    base = soup.find("base", href=True)
    _make_absolute(soup, _joined(url, str(base["href"])) if base else url)
    for tag in [*soup.find_all(_LEFT_OUT), *soup.find_all(hidden=True), *soup.find_all(style=_HIDING)]:
        if not tag.decomposed:
            tag.decompose()
    try:
        converter: Any = MarkdownConverter(heading_style="atx", bullets="-", escape_misc=False)
        text = converter.convert_soup(soup)
    except RecursionError:  # of a page that is nested too deep: better its words than nothing
        text = soup.get_text("\n", strip=True)
    return title, _BLANK_LINES.sub("\n\n", text).strip()


def _make_absolute(soup: BeautifulSoup, url: str) -> None:
    for name, key in (("a", "href"), ("img", "src")):
        for tag in soup.find_all(name, {key: True}):
            target = _joined(url, str(tag[key]))
            if target.startswith(("http://", "https://", "mailto:")):
                tag[key] = target
            else:  # a script, or a picture within the page
                del tag[key]


def _joined(url: str, link: str) -> str:
    try:
        return urljoin(url, link.strip())
    except ValueError:
        return ""
