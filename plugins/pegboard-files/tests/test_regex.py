"""Patterns that match within lines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from pegboard import ToolError
from pegboard_files.regex import line_pattern


def matching(pattern: str, text: str, *, literal=False, case="sensitive") -> list[str]:
    """The lines of `text` that match."""
    block = text.encode()
    found = line_pattern(pattern, literal=literal, case=case)
    return [block[block.rfind(b"\n", 0, start) + 1 :].split(b"\n")[0].decode() for start, _ in found.lines_in(block)]


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("b", ["abc", "b b"]),
        ("^b", ["b b"]),
        ("c$", ["abc"]),
        (r"\bb\b", ["b b"]),
        ("^$", [""]),
        (r"c\s+b", []),
        (r"[^x]", ["abc", "b b", "é"]),
        ("x*", ["abc", "", "b b", "é"]),
        (".é|é.|^.$", ["é"]),
        (r"\x{e9}", ["é"]),
        (r"\p{L}{3}", ["abc"]),
        ("(?i)ABC", ["abc"]),
    ],
)
def test_a_match_stays_in_its_line_and_each_line_counts_once(pattern, lines):
    assert matching(pattern, "abc\n\nb b\né\n") == lines


def test_the_last_line_needs_no_end():
    assert matching("c$", "abc") == ["abc"]
    assert matching("^", "abc\n") == ["abc"]
    assert matching("$", "a\n\nb") == ["a", "", "b"]


def test_literal_text_is_taken_as_it_is():
    assert matching("a.b(", "a.b(\naxb(\n", literal=True) == ["a.b("]


@pytest.mark.parametrize(
    ("pattern", "case", "literal", "lines"),
    [
        ("abc", "sensitive", False, ["abc"]),
        ("abc", "ignore", False, ["abc", "ABC"]),
        ("ABC", "ignore", True, ["abc", "ABC"]),
        ("abc", "smart", False, ["abc", "ABC"]),
        ("Abc", "smart", False, []),
        (r"\Sbc", "smart", False, ["abc", "ABC"]),
        (r"\p{Lu}bc", "smart", False, ["abc", "ABC"]),
        (r"\\Abc", "smart", True, []),
    ],
)
def test_case_counts_as_it_was_asked_for(pattern, case, literal, lines):
    assert matching(pattern, "abc\nABC\n", case=case, literal=literal) == lines


def test_letters_beyond_ascii_have_cases_too():
    assert matching("été", "ÉTÉ\n", case="ignore") == ["ÉTÉ"]


@pytest.mark.parametrize("pattern", ["a\nb", r"a\nb", r"a\\\n"])
def test_a_pattern_over_lines_is_refused_with_what_to_do(pattern):
    with pytest.raises(ToolError, match="context"):
        line_pattern(pattern, literal=False, case="sensitive")


def test_an_escaped_backslash_before_an_n_is_no_line_end():
    assert matching(r"a\\n", "a\\n\n") == ["a\\n"]
    assert matching(r"a\n", "a\\n\n", literal=True) == ["a\\n"]


@pytest.mark.parametrize("pattern", ["(", "[a", "*", r"(?=a)", r"(a)\1", "a{1001}", r"\Z", "\ud800"])
def test_an_invalid_pattern_is_refused_with_the_reason(pattern):
    with pytest.raises(ToolError, match=r"not a valid regular expression: .+RE2"):
        line_pattern(pattern, literal=False, case="sensitive")


def test_a_pattern_that_compiles_to_too_much_is_refused():
    with pytest.raises(ToolError, match="too costly"):
        line_pattern(r"(?:\pL\pN){20}", literal=False, case="sensitive")


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(.*a){20}b", r"(?:a?){50}a{50}b"])
def test_a_pattern_that_hangs_other_engines_comes_back(pattern):
    assert matching(pattern, "a" * 5_000 + "!\n") in ([], ["a" * 5_000 + "!"])


@settings(deadline=None)
@given(st.text(min_size=1, max_size=20), st.booleans(), st.sampled_from(["sensitive", "ignore", "smart"]))
def test_any_pattern_is_compiled_or_refused_in_words(pattern, literal, case):
    """Property: a model may write anything; a literal text without line ends is always found."""
    try:
        found = line_pattern(pattern, literal=literal, case=case)
    except ToolError:
        assert not literal or "\n" in pattern
        return
    if literal:
        assert list(found.lines_in(b"x" + pattern.encode() + b"\n"))


SIMPLE = st.text(st.sampled_from("ab .*+?^$|"), min_size=1, max_size=6)
TEXTS = st.text(st.sampled_from("ab \n"), max_size=30)


@settings(deadline=None)
@given(SIMPLE, TEXTS)
def test_lines_are_found_as_python_finds_them_line_by_line(pattern, text):
    """Property: searching a block is searching each of its lines."""
    try:
        expected = re.compile(pattern)
        found = line_pattern(pattern, literal=False, case="sensitive")
    except (re.error, ToolError):
        return
    lines = text.removesuffix("\n").split("\n") if text else []
    block = text.encode()
    numbers = [block.count(b"\n", 0, start) for start, _ in found.lines_in(block)]
    assert numbers == [number for number, line in enumerate(lines) if expected.search(line)]
