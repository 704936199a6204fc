"""Texts that patterns take."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.schema.messages import holds
from pegboard.testing.word import word_for

PIECES = st.sampled_from(
    ["a", "Z", "-", r"\d", r"\w", r"\s", r"\.", r"\n", r"\x41", "\\u00e9", ".", "[a-c]", "[^a-z]", "[]x]", r"[\]]"]
)
REPEATS = st.sampled_from(["", "?", "*", "+", "{2}", "{1,3}", "{2,}?"])
PATTERNS = st.recursive(
    st.builds("{}{}".format, PIECES, REPEATS),
    lambda inner: (
        st.builds("({}|{}){}".format, inner, inner, REPEATS)
        | st.builds("(?:{}){}".format, inner, REPEATS)
        | st.builds("{}{}".format, inner, inner)
    ),
    max_leaves=5,
).map("^{}$".format)


@given(PATTERNS)
@settings(max_examples=40, deadline=None)
def test_every_ordinary_pattern_has_a_word(pattern) -> None:
    """Of literals, classes, sets, groups, alternatives and repeats."""
    word = word_for(pattern)
    assert word is not None
    assert holds("pattern", pattern, word)


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("^[A-Z]{3}-\\d{4}$", "AAA-0000"),
        ("^(?:left|right)$", "left"),
        ("sam", "sample"),
        ("^\\t\\bx$", "\tx"),
        ("^#[0-9a-f]{6}$", "#00ff00"),
    ],
)
def test_a_common_word_or_the_patterns_shortest_is_taken(pattern, word) -> None:
    assert word_for(pattern) == word
    assert re.search(pattern, word)


@pytest.mark.parametrize("pattern", ["^[^\\x00-\\x7f]$", "^a\\bb$", "(?i)^QQQ$x"])
def test_what_isnt_spelled_has_no_word(pattern) -> None:
    assert word_for(pattern) is None


def test_a_pattern_that_no_judge_reads_has_no_word() -> None:
    """A look-around: its schema is refused elsewhere."""
    assert word_for("^(?=a)b") is None
