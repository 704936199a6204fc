from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.tools.forms.pattern import linear, portable


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", ""),
        ("^abc$", "^abc$"),
        (r"^\d{3}-\d{4}$", r"^\d{3}-\d{4}$"),
        (r"\d{3}\-\d{4}\@\_", r"\d{3}-\d{4}@_"),
        (r"[\w.!#$%&'*+/=?^_`{|}~-]+@[a-z]{2,}", r"[\w.!#$%&'*+/=?^_`{|}~-]+@[a-z]{2,}"),
        (r"[\@\-a]", r"[@\-a]"),
        (r"(a|b)*?(?:c)+", r"(a|b)*?(?:c)+"),
        (r"a{2}b{1,}c{1,2}?", r"a{2}b{1,}c{1,2}?"),
        (r"[^\x00-\x1f]\u00e9é", r"[^\x00-\x1f]\u00e9é"),
        (r"\.\*\[\]\(\)\{\}\|\/\\\^\$\+\?", r"\.\*\[\]\(\)\{\}\|\/\\\^\$\+\?"),
    ],
)
def test_patterns_that_are_read_alike_everywhere(pattern, text):
    assert portable(re.compile(pattern), "search") == text


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "(?P<name>a)", "(?i:a)", "(?i)a", "(?>a)", "a++", "a*+", "a{1,2}+"),
        *(r"\Aa", r"a\Z", "a{", "]", "[]a]", "a{,3}", r"\N{BULLET}", r"\a", "(?#note)a"),
    ],
)
def test_patterns_that_arent_are_left_to_python(pattern):
    assert portable(re.compile(pattern), "search") is None


@pytest.mark.filterwarnings("ignore:Possible")
@pytest.mark.parametrize("pattern", ["[[a]", "[a&&b]", "[--a]", "[a||b]", "[a~~b]"])
def test_sets_that_some_engine_takes_for_an_operation_are_left_to_python(pattern):
    assert portable(re.compile(pattern), "search") is None


@pytest.mark.parametrize("flags", [re.IGNORECASE, re.MULTILINE, re.DOTALL, re.VERBOSE])
def test_patterns_with_flags_are_left_to_python(flags):
    assert portable(re.compile("a", flags), "search") is None


def test_the_way_of_matching_is_written_into_the_pattern():
    pattern = re.compile("a|b")

    assert portable(pattern, "match") == "^(?:a|b)"
    assert portable(pattern, "fullmatch") == "^(?:a|b)$"


def test_a_pattern_too_large_for_the_judge_is_left_to_python():
    assert portable(re.compile("(a{1000}){1000}"), "search") is None
    assert linear("(?=a)") is None


@settings(max_examples=60)
@given(st.from_regex(r"[ab][*+?]?(?:\|[ab]{1,2})?\.?", fullmatch=True), st.text("ab.", max_size=5))
def test_a_portable_pattern_matches_as_in_python(pattern, text):
    for way in ("search", "match", "fullmatch"):
        said = portable(re.compile(pattern), way)
        assert linear(said)(text) == (getattr(re, way)(pattern, text) is not None)
