from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from pegboard.toolsets.predicate import is_literal, matcher, written


def slowly(pattern, value):
    """What the words say, tried in every way."""
    if not pattern:
        return not value
    if pattern[0] == "*":
        return any(slowly(pattern[1:], value[start:]) for start in range(len(value) + 1))
    return bool(value) and pattern[0] in ("?", value[0]) and slowly(pattern[1:], value[1:])


@given(st.text("ab*?.[", max_size=7), st.text("ab*?.[\n", max_size=7))
def test_a_pattern_matches_what_the_words_say(pattern, value):
    assert bool(matcher(pattern)(value)) is slowly(pattern, value)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a", "a", "ab"),
        ("a*", "ab", "ba"),
        ("*a", "ba", "ab"),
        ("*a*", "bab", "b"),
        ("a*a", "aba", "a"),
        ("a*b*c", "aXbXc", "ac"),
        ("*ab*ba*", "abba", "aba"),
        ("?", "x", ""),
        ("a?c", "abc", "ac"),
        ("?*", "x", ""),
        ("*?b*", "ab", "b"),
        ("**", "", None),
        ("a**b", "ab", "a"),
    ],
)
def test_what_matches_and_what_does_not(pattern, yes, no):
    assert matcher(pattern)(yes)
    assert no is None or not matcher(pattern)(no)


@pytest.mark.parametrize("pattern", ["*" + "a*" * 30 + "b", "?*" * 30 + "b", "*a?" * 30 + "*b"])
def test_many_stars_end(pattern):
    """A matcher that tries every way would not come back."""
    assert not matcher(pattern)("a" * 3000)


@pytest.mark.parametrize(
    ("pattern", "value"), [("[ab]", "a"), ("a.c", "abc"), ("A", "a"), ("a", "a\n"), ("a*a", "a"), ("{a,b}", "a")]
)
def test_nothing_else_is_special(pattern, value):
    assert not matcher(pattern)(value)


def test_a_pattern_without_wildcards_is_literal():
    assert (is_literal("a.b"), is_literal("a*"), is_literal("a?")) == (True, False, False)


@given(st.text())
def test_a_written_value_is_bare_or_a_json_string(value):
    text = written(value)
    assert text == value or json.loads(text) == value


@pytest.mark.parametrize("value", ["", "a b", "(", ")", '"', "'", "\\", "\n", "é"])
def test_values_that_could_be_misread_are_quoted(value):
    assert written(value).startswith('"')
