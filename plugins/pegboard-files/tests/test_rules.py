"""Lines of ignore files: what a line matches, entry by entry."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pegboard_files.rules import compiled, rules_of, translated


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
    assert compiled(lines).verdict(path) is verdict


def test_later_lines_win_over_more_lines_than_one_set_holds():
    lines = [f"*.ext{n}" for n in range(1_200)]
    rules = compiled([*lines, "!a.ext3"])
    assert len(rules.sets) == 3
    assert rules.verdict("b.ext3") is True
    assert rules.verdict("a.ext3") is False
    assert rules.verdict("a.ext1199") is True
    assert rules.verdict("a.txt") is None


def test_a_byte_order_mark_is_no_part_of_the_first_line():
    assert rules_of("\ufeff*.log\n").verdict("a.log") is True


def test_hostile_lines_cost_no_more_than_others():
    """A backtracking engine would never come back from these."""
    rules = compiled(["*a" * stars + "*b" for stars in range(1, 60)])
    assert rules.verdict("a" * 250) is None
    assert rules.verdict("a" * 249 + "b") is True


def test_a_line_that_the_engine_refuses_is_passed_over():
    line = "[z-a]" + "?" * 10
    assert compiled([line, "*.log"]).verdict("a.log") is True


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(), st.text(st.sampled_from("*?[]!\\/ab-^{},.#"))), max_size=5), st.text())
def test_no_line_whatever_breaks_the_rules(lines, path):
    """Property: ignore files hold anything; what means nothing is passed over."""
    assert compiled(lines).verdict(path.encode(errors="replace").decode()) in (True, False, None)


@pytest.mark.parametrize("line", ["", "#x", "!", "/", "\\"])
def test_a_line_that_says_nothing_is_none(line):
    assert translated(line) is None
