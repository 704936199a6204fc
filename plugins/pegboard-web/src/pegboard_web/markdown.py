"""HTML as readable Markdown, with bounded work.

Beautiful Soup and markdownify weren't made for hostile pages: what takes quadratic time in them is done here, and the
rest is counted. A page that costs too much is read as its words.
"""

# lxml and markdownify have no types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import indent
from typing import Any, Final
from urllib.parse import urljoin

from bs4 import BeautifulSoup
from bs4.element import NavigableString, Tag
from lxml import etree
from markdownify import MarkdownConverter

from pegboard import ToolError

_LEFT_OUT: Final = {  # without text for readers
    *("script", "style", "template", "noscript", "svg", "canvas", "iframe", "object", "embed", "audio", "video"),
    *("nav", "footer", "button", "input", "select", "textarea", "head"),
}
_HIDING: Final = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_ATTRIBUTES: Final = ("alt", "colspan", "href", "src", "start", "title")
_FEW: Final = re.compile(r"[1-9]|1[0-9]")
_BLANKS: Final = re.compile(r"[\t ]+")
_BLANK_LINES: Final = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+\n")
_MOST_TITLE: Final = 500
_MOST_LINK: Final = 4_000
_MOST_LEVELS: Final = 150  # of elements; Beautiful Soup takes quadratic time for more, and markdownify recurses
_MOST_READ: Final = 2_000  # levels, as the parser looks at all of them at the end of each element
_AT_ONCE: Final = 20_000  # bytes that are parsed
_MOST_WORK: Final = 120  # for one character of the page: each element writes those of its children again
_LEAST_WORK: Final = 10_000_000  # about a second's
_OF_A_CHILD: Final = 400  # as so many characters
_OF_A_LEVEL: Final = 10  # for each child, as the elements around it are looked at
_Base: Any = MarkdownConverter  # untyped


class _TooMuchWorkError(Exception):
    """A page has very many elements, nested too deep, or is written again and again."""


class _Reader:
    """Target of lxml's parser: what readers see of a page, as a tree and as words.

    Attributes:
        title: The text of the first `<title>`.
        base: What `<base>` says.
    """

    def __init__(self) -> None:
        self.title = ""
        self.base = ""
        self._soup: BeautifulSoup | None = BeautifulSoup("", "lxml")  # `None` if it is nested too deep
        self._words: list[str] = []
        self._level = 0
        self._hidden = 0  # levels within an element that is left out
        self._in_title = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._level += 1
        if self._level > _MOST_READ:
            raise ToolError("The page can't be read: its HTML is nested too deep.")
        self._words.append("\n")
        self._in_title = name == "title" and not self.title
        if name == "base":
            self.base = self.base or attributes.get("href", "")
        is_hidden = name in _LEFT_OUT or "hidden" in attributes or _HIDING.search(attributes.get("style", ""))
        if self._hidden or is_hidden:
            self._hidden += 1
        elif self._soup is not None and len(self._soup.tagStack) > _MOST_LEVELS:
            self._soup = None
        elif self._soup is not None:
            kept: Any = {key: attributes[key] for key in _ATTRIBUTES if key in attributes}
            if not _FEW.fullmatch(kept.get("colspan", "")):
                kept.pop("colspan", None)  # a cell of a thousand columns is written as so many
            self._soup.handle_starttag(name, None, None, kept)

    def end(self, name: str) -> None:
        """An element ends."""
        self._level -= 1
        self._words.append("\n")
        self._in_title = False
        if self._hidden:
            self._hidden -= 1
        elif self._soup is not None:
            self._soup.handle_endtag(name)

    def data(self, text: str) -> None:
        """A part of a text."""
        if self._in_title:
            self.title += text
        elif not self._hidden:
            self._words.append(text)
            if self._soup is not None:
                self._soup.handle_data(text)

    def close(self) -> None:
        """The page ends."""
        if self._soup is not None:
            self._soup.endData()

    def tree(self) -> BeautifulSoup:
        """What isn't left out, as elements; raises `_TooMuchWorkError` if they are nested too deep."""
        if self._soup is None:
            raise _TooMuchWorkError
        return self._soup

    def words(self) -> str:
        """The texts between all tags, one a line."""
        lines = map(str.strip, "".join(self._words).split("\n"))
        return "\n".join(filter(None, lines))


class _Converter(_Base):
    """markdownify's converter, with so much work at most, and links that are absolute.

    Raises:
        _TooMuchWorkError: There is more to do.
    """

    def __init__(self, base: str, most: int) -> None:
        super().__init__(heading_style="atx", bullets="-", escape_misc=False, strip_pre=None)
        self._base, self._left, self._depth = base, most, 0
        self._items: dict[int, int] = {}  # of ordered lists
        self._tables = set[int]()  # with a row

    def process_tag(self, node: Tag, parent_tags: set[str] | None = None) -> str:
        self._depth += 1
        self._left -= len(node.contents) * (_OF_A_CHILD + self._depth * _OF_A_LEVEL)
        text: str = "" if self._left < 0 else super().process_tag(node, parent_tags)
        self._depth -= 1
        self._left -= len(text)
        if self._left < 0:
            raise _TooMuchWorkError
        return text

    def process_text(self, el: NavigableString, parent_tags: set[str]) -> str:
        text = el if "pre" in parent_tags else NavigableString(_BLANKS.sub(" ", el))
        text.parent, text.previous_sibling, text.next_sibling = el.parent, el.previous_sibling, el.next_sibling
        return super().process_text(text, parent_tags)

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        el["href"] = self._absolute(el.get("href"))
        return super().convert_a(el, text, parent_tags)

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        el["src"] = self._absolute(el.get("src"))
        return super().convert_img(el, text, parent_tags)

    def convert_li(self, el: Tag, text: str, **_: object) -> str:
        mark, around = "- ", el.parent
        if around is not None and around.name == "ol":
            start = str(around.get("start", ""))
            first = int(start) if re.fullmatch("[0-9]{1,6}", start) else 1
            number = self._items[id(around)] = self._items.get(id(around), first - 1) + 1
            mark = f"{number}. "
        text = text.strip()
        return f"{mark}{indent(text, ' ' * len(mark)).lstrip()}\n" if text else "\n"

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return super().convert_pre(el, text.lstrip("\n").rstrip(), parent_tags)

    def convert_tr(self, el: Tag, text: str, **_: object) -> str:
        row, table = f"|{text}\n", id(el.find_parent("table"))
        if table in self._tables:
            return row
        self._tables.add(table)
        cells = el.find_all(("td", "th"), recursive=False)
        columns = sum(int(str(cell.get("colspan") or 1)) for cell in cells)
        line = f"|{' --- |' * columns}\n"
        has_heads = all(cell.name == "th" for cell in cells) or (el.parent is not None and el.parent.name == "thead")
        return f"{row}{line}" if has_heads else f"|{'  |' * columns}\n{line}{row}"

    def _absolute(self, link: Any) -> str:
        """A link without what has no meaning elsewhere: places in the page, scripts, pictures in the page itself."""
        target = "" if link is None or link.startswith("#") else _join(self._base, link)
        return target if target.startswith(("http://", "https://", "mailto:")) else ""


def to_markdown(html: str, url: str) -> tuple[str, str]:
    """The title and the text of a page, as Markdown with absolute links.

    Scripts, forms, navigation, and what the page hides from readers are left out. A page that can't be converted with
    bounded work, such as one with elements nested very deep, is read as its words alone.

    Args:
        html: The page; it may be damaged, or cut anywhere.
        url: Its address, which relative links start from.

    Raises:
        ToolError: Its elements are nested thousands deep.
    """
    reader = _Reader()
    parser = etree.HTMLParser(target=reader, encoding="utf-8", huge_tree=True)
    content = f"<html>{html}".encode()
    for place in range(0, len(content), _AT_ONCE):  # an error ends it only then
        parser.feed(content[place : place + _AT_ONCE])
    parser.close()
    title = " ".join(reader.title.split())[:_MOST_TITLE]
    most = max(_LEAST_WORK, _MOST_WORK * len(html))
    try:
        text = _Converter(_join(url, reader.base) or url, most).convert_soup(reader.tree())
    except Exception:  # noqa: BLE001  too much work, or what markdownify doesn't expect of a page
        text = reader.words()
    return title, _BLANK_LINES.sub("\n\n", text).strip()


def _join(url: str, link: str) -> str:
    """A link from a page, `""` if there is none that works."""
    if len(url) + len(link) > _MOST_LINK:
        return ""
    try:
        return urljoin(url, link.strip())
    except ValueError:
        return ""
