from __future__ import annotations

import pytest

from pegboard.dialects.keywords import is_plain, patterns


@pytest.mark.parametrize("pattern", ["^a$", r"\\1", r"[(?=]", r"(?:a|b)\.", r"[\]1]\d", "(?P<name>a)", r"[^]\1]"])
def test_patterns_that_every_engine_reads(pattern):
    assert is_plain(pattern)


@pytest.mark.parametrize("pattern", ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", r"(a)\1", r"\\\2", r"\k<name>"])
def test_patterns_that_need_more(pattern):
    assert not is_plain(pattern)


def test_word_bounds_may_be_too_much():
    assert is_plain(r"\ba")
    assert not is_plain(r"\ba", word_bounds=False)
    assert is_plain("b", word_bounds=False)


def test_what_an_engine_cannot_read_is_told(apply):
    assert apply(patterns(), {"items": {"pattern": "(?=a)"}, "pattern": "a"}) == (
        {"items": {"description": "Matches the pattern (?=a)."}, "pattern": "a"},
        ["/items pattern"],
    )
