"""Bounded cache of pages."""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from typing import Final

from attrs import define, field

from pegboard_web.page import Page

MOST_BYTES: Final = 32 << 20
_OF_A_PAGE: Final = 500  # bytes of what holds it


@define(eq=False)
class PageCache:
    """Cache of pages by URL, limited in age and size; the oldest go first.

    Attributes:
        seconds: How long a page is kept; 0 keeps none.
        most_bytes: The size of all pages together.
    """

    seconds: float
    most_bytes: int = MOST_BYTES
    _pages: OrderedDict[str, tuple[float, int, Page]] = field(
        factory=OrderedDict[str, tuple[float, int, Page]], init=False
    )
    _size: int = field(default=0, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def get(self, url: str) -> Page | None:
        """The page of a URL, unless it is too old."""
        with self._lock:
            self._drop_old()
            found = self._pages.get(url)
            return None if found is None else found[2]

    def put(self, page: Page) -> None:
        """Keeps a page under its URL, in place of an older one."""
        size = _OF_A_PAGE + sum(map(sys.getsizeof, (page.url, page.title, page.text)))
        size += 0 if page.medium is None else len(page.medium.data)
        with self._lock:
            self._drop(page.url)
            self._drop_old()
            if size > self.most_bytes or not self.seconds:
                return
            while self._size + size > self.most_bytes:
                self._drop(next(iter(self._pages)))
            self._pages[page.url] = time.monotonic() + self.seconds, size, page
            self._size += size

    def _drop_old(self) -> None:
        while self._pages and next(iter(self._pages.values()))[0] <= time.monotonic():
            self._drop(next(iter(self._pages)))

    def _drop(self, url: str) -> None:
        found = self._pages.pop(url, None)
        if found is not None:
            self._size -= found[1]
