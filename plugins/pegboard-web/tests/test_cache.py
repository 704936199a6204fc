"""The cache of pages."""

from __future__ import annotations

from pegboard import ImageContent
from pegboard_web.cache import PageCache
from pegboard_web.page import Page


def page(url, size=1_000):
    return Page(url, "text/plain", "x" * size)


def test_the_oldest_go_first():
    cache = PageCache(60, most_bytes=6_000)
    for url in "abcd":
        cache.put(page(url))
    assert [cache.get(url) is not None for url in "abcd"] == [False, True, True, True]


def test_a_page_in_place_of_an_older_one_counts_once():
    cache = PageCache(60, most_bytes=4_000)
    cache.put(page("b"))
    for _ in range(5):
        cache.put(page("a"))
    assert cache.get("b") is not None


def test_a_page_beyond_the_limit_isnt_kept_and_drops_nothing():
    cache = PageCache(60, most_bytes=4_000)
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


def test_empty_pages_count():
    cache = PageCache(60, most_bytes=100_000)
    for number in range(1_000):
        cache.put(Page(f"{number}".rjust(8_000), "text/plain"))
    kept = [number for number in range(1_000) if cache.get(f"{number}".rjust(8_000)) is not None]
    assert kept == list(range(989, 1_000))


def test_none_is_kept_for_no_time():
    cache = PageCache(0)
    cache.put(page("a"))
    assert cache.get("a") is None
