"""The cache of pages."""

from __future__ import annotations

from pegboard import ImageContent
from pegboard_web.cache import PageCache
from pegboard_web.page import Page


def page(url, size=1_000):
    return Page(url, "text/plain", "x" * size)


def test_the_oldest_go_first():
    cache = PageCache(60, most_bytes=3_500)
    for url in "abcd":
        cache.put(page(url))
    assert [cache.get(url) is not None for url in "abcd"] == [False, True, True, True]


def test_a_page_in_place_of_an_older_one_counts_once():
    cache = PageCache(60, most_bytes=2_500)
    cache.put(page("b"))
    for _ in range(5):
        cache.put(page("a"))
    assert cache.get("b") is not None


def test_a_page_beyond_the_limit_isnt_kept_and_drops_nothing():
    cache = PageCache(60, most_bytes=2_500)
    cache.put(page("a"))
    cache.put(Page("b", "image/png", medium=ImageContent(bytes(5_000))))
    assert cache.get("a") is not None
    assert cache.get("b") is None


def test_old_pages_are_dropped(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("pegboard_web.cache.time.monotonic", lambda: now[0])
    cache = PageCache(60)
    cache.put(page("a"))
    now[0] = 59.0
    assert cache.get("a") is not None
    now[0] = 60.0
    assert cache.get("a") is None


def test_none_is_kept_for_no_time():
    cache = PageCache(0)
    cache.put(page("a"))
    assert cache.get("a") is None
