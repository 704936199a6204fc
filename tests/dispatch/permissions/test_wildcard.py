from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.permissions.rule import HOLE, Wildcard, wildcard

PATTERNS = st.text("ab *?", max_size=6)
TEXTS = st.text("ab ", max_size=6)
FILLINGS = ["".join(letters) for length in range(5) for letters in product("ab ", repeat=length)]


def simply_matches(pattern, text):
    """The rule as it is told, without a thought of what it costs."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(simply_matches(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and simply_matches(pattern[1:], text[1:])


def is_meant(pattern, text):
    pattern = re.sub(r"\*+", "*", pattern)
    bare = pattern[:-2] if len(pattern) > 2 and pattern.endswith(" *") else None
    return simply_matches(pattern, text) or (bare is not None and simply_matches(bare, text))


@given(PATTERNS, TEXTS)
def test_a_pattern_matches_what_the_rule_says(pattern, text):
    assert Wildcard(pattern).matches(text) == is_meant(pattern, text)
    assert Wildcard(pattern).covers(text) == Wildcard(pattern).touches(text) == is_meant(pattern, text)


@given(PATTERNS, TEXTS, TEXTS)
def test_what_covers_a_hole_matches_whatever_fills_it(pattern, before, after):
    if Wildcard(pattern).covers(before + HOLE + after):
        assert all(is_meant(pattern, before + filling + after) for filling in FILLINGS)


@given(PATTERNS, TEXTS, TEXTS, st.sampled_from(FILLINGS))
def test_what_matches_a_filled_hole_touches_it(pattern, before, after, filling):
    if is_meant(pattern, before + filling + after):
        assert Wildcard(pattern).touches(before + HOLE + after)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("git *", "git push"),
        ("git *", "git"),
        ("* *", "a"),
        ("src/*", "src/deep/down"),
        ("?.py", "a.py"),
        ("a.[b]", "a.[b]"),
        ("*", ""),
        ("a*c", "a\nb\nc"),
    ],
)
def test_what_matches(pattern, text):
    assert wildcard(pattern).matches(text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("git *", "gitk"),
        ("git", "git push"),
        ("push", "git push"),
        ("a.b", "axb"),
        ("?", ""),
        ("Git", "git"),
        (" *", ""),
    ],
)
def test_what_does_not_match(pattern, text):
    assert not wildcard(pattern).matches(text)


@pytest.mark.parametrize(
    ("pattern", "covers", "touches"),
    [("git *", True, True), ("git log", False, True), ("git ???", False, True), ("rm *", False, False)],
)
def test_a_hole_is_covered_by_a_star_only(pattern, covers, touches):
    text = f"git {HOLE}"
    assert (wildcard(pattern).covers(text), wildcard(pattern).touches(text)) == (covers, touches)


def test_a_hole_may_be_empty():
    assert wildcard("git push").touches(f"git push{HOLE}")


def test_only_the_bare_star_is_everything():
    assert [wildcard(each).is_everything for each in ("*", "**", "? *", "a*", "")] == [True, True, False, False, False]


def test_a_pattern_that_would_backtrack_costs_little():
    """Forty stars: trying every division of the text would never end."""
    greedy = Wildcard("*a" * 40 + "b")
    assert not greedy.matches("a" * 20_000)
    assert not greedy.covers("a" * 5_000 + HOLE + "c")
    assert not greedy.touches("a" * 5_000 + HOLE + "c")
