"""Globs, and lines in the language of .gitignore."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from pegboard import ToolError
from pegboard_files.patterns import (
    Globs,
    compile_rules,
    globs,
    names_hidden,
    rules_of,
    translate,
    with_literal_brackets,
)


@pytest.mark.parametrize(
    ("lines", "path", "verdict"),
    [
        (["foo"], "foo", True),
        (["foo"], "foo/", True),
        (["foo"], "a/foo", True),
        (["foo"], "foo/bar", None),  # asked after foo/ itself
        (["foo/"], "foo", None),
        (["foo/"], "foo/", True),
        (["/foo"], "a/foo", None),
        (["a/b"], "x/a/b", None),
        (["a/**"], "a/", None),
        (["a/**"], "a/x/y", True),
        (["a/**/"], "a/", None),
        (["a/**/"], "a/x/", True),
        (["a/**/ "], "a/x", None),
        (["**"], "a", True),
        (["*/"], "a", None),
        (["*/"], "a/", True),
        (["*", "!*/", "!*.py"], "src/", False),
        (["*", "!*/", "!*.py"], "src/a.py", False),
        (["*", "!*/", "!*.py"], "src/a.txt", True),
        (["!*.py", "src"], "a.py", False),
        (["# foo"], "# foo", None),
        (["\\#foo"], "#foo", True),
        (["", "   ", "/", "!", "!/", "//", "foo\\"], "foo", None),
        (["[a-"], "[a-", None),
        (["foo \t\r"], "foo", True),
    ],
)
def test_the_last_line_that_matches_an_entry_decides(lines, path, verdict):
    assert compile_rules(lines).verdict(path) is verdict


def test_later_lines_win_over_more_lines_than_one_set_holds():
    lines = [f"*.ext{n}" for n in range(1_200)]
    rules = compile_rules([*lines, "!a.ext3"])
    assert len(rules.sets) == 3
    assert rules.verdict("b.ext3") is True
    assert rules.verdict("a.ext3") is False
    assert rules.verdict("a.ext1199") is True
    assert rules.verdict("a.txt") is None


def test_a_byte_order_mark_is_not_part_of_the_first_line():
    assert rules_of("\ufeff*.log\n").verdict("a.log") is True


def test_hostile_lines_cost_no_more_than_others():
    """A backtracking engine would never finish."""
    rules = compile_rules(["*a" * stars + "*b" for stars in range(1, 60)])
    assert rules.verdict("a" * 250) is None
    assert rules.verdict("a" * 249 + "b") is True


def test_a_line_that_the_engine_refuses_is_passed_over():
    line = "[z-a]" + "?" * 10
    assert compile_rules([line, "*.log"]).verdict("a.log") is True


@given(st.lists(st.one_of(st.text(), st.text(st.sampled_from("*?[]!\\/ab-^{},.#"))), max_size=5), st.text())
def test_any_lines_are_compiled(lines, path):
    """Property: an ignore file may hold anything; invalid lines are skipped."""
    assert compile_rules(lines).verdict(path.encode(errors="replace").decode()) in (True, False, None)


@pytest.mark.parametrize("line", ["", "#x", "!", "/", "\\"])
def test_a_line_that_says_nothing_is_none(line):
    assert translate(line) is None


@pytest.mark.parametrize(
    ("pattern", "path", "taken"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/deep/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/*.py", "x/src/a.py", False),
        ("./src/*.py", "src/a.py", True),
        ("/a.py", "a.py", True),
        ("/a.py", "src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**/*.py", "a.py", True),
        ("src", "src/a.py", False),
        ("src/**", "src/a.py", True),
        ("*.{ts,tsx}", "a.tsx", True),
        ("*.{ts,tsx}", "a.js", False),
        ("{src,lib}/**/{a,b}.py", "lib/x/b.py", True),
        ("a{b", "a{b", True),
        ("file[0-9].txt", "file7.txt", True),
        ("file[!0-9].txt", "file7.txt", False),
        ("\\[x\\].txt", "[x].txt", True),
        ("!a.py", "!a.py", True),
        ("#a.py", "#a.py", True),
        ("*", ".hidden", True),
        ("é?.txt", "éü.txt", True),
    ],
)
def test_a_pattern_takes_paths(pattern, path, taken):
    assert globs([pattern]).takes(path) is taken


def test_one_of_several_patterns_is_enough_and_one_exclusion_too():
    both = globs(["*.py", "*.rs"], ["test_*", "vendor/"])
    assert both.takes("a.py")
    assert both.takes("a.rs")
    assert not both.takes("a.go")
    assert not both.takes("test_a.py")


def test_an_excluded_directory_is_pruned_with_all_that_is_in_it():
    assert globs([], ["vendor/"]).prunes("x/vendor/")
    assert not globs(["vendor/"]).prunes("vendor/")


def test_no_pattern_takes_everything():
    assert globs() == Globs()
    assert globs().takes("anything")


@pytest.mark.parametrize("pattern", ["[", "a/[b", "", "   ", "/", "x\\"])
def test_a_broken_pattern_is_refused_with_examples(pattern):
    with pytest.raises(ToolError, match="is not a valid pattern"):
        globs([pattern])


@pytest.mark.parametrize("pattern", ["../*.py", "a/../b", ".."])
def test_a_pattern_cannot_climb(pattern):
    with pytest.raises(ToolError, match="must not contain"):
        globs([], [pattern])


def test_braces_that_stand_for_too_many_patterns_are_refused():
    with pytest.raises(ToolError, match="more than 1,000"):
        globs(["{a,b}" * 12])
    with pytest.raises(ToolError, match="more than 1,000"):
        globs(["{1..100000000}"])


@given(st.one_of(st.text(max_size=40), st.text(st.sampled_from("*?[]!\\/ab-^{},.#"), max_size=40)))
def test_any_pattern_is_accepted_or_refused_with_an_error(pattern):
    """Property: a model may write anything."""
    with suppress(ToolError):
        assert globs([pattern]).takes("a/b") in (True, False)


@given(st.text(st.sampled_from("a[]!-^ é"), min_size=1, max_size=9))
def test_a_pattern_with_literal_brackets_takes_just_that_name(name):
    literal = globs([with_literal_brackets(f"x{name}x")])
    assert literal.takes(f"x{name}x")
    assert literal.takes("xax") is (name == "a")


@pytest.mark.parametrize("pattern", ["{" * 1_000, "{a," * 333, "{a," * 250 + "}" * 250])
def test_too_many_braces_are_refused(pattern):
    with pytest.raises(ToolError, match="more than 20 braces"):
        globs([pattern])


def test_braces_in_braces_are_taken_apart():
    nested = globs(["{a," * 20 + "b" + "}" * 20])
    assert nested.takes("b")
    assert not nested.takes("c")


@pytest.mark.parametrize(
    ("pattern", "named"),
    [(".github/**", True), ("**/.env", True), ("*.py", False), ("./a.py", False), ("a.b/c", False)],
)
def test_a_pattern_may_name_hidden_files(pattern, named):
    assert names_hidden(pattern) is named
