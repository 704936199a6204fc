"""The patterns that a model gives."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from pegboard import ToolError
from pegboard_files.globs import Globs, globs, names_hidden


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


@settings(deadline=None)
@given(st.one_of(st.text(max_size=40), st.text(st.sampled_from("*?[]!\\/ab-^{},.#"), max_size=40)))
def test_any_pattern_is_taken_or_refused_in_words(pattern):
    """Property: a model may write anything."""
    with suppress(ToolError):
        assert globs([pattern]).takes("a/b") in (True, False)


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
