"""Names as a model sees them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pegboard_files.name import near_misses, shown, shown_path


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("plain name.txt", "plain name.txt"),
        ("ünï-名前", "ünï-名前"),
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("caf\udce9", "caf\\udce9"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_cannot_be_printed_is_escaped(name, seen):
    assert shown(name) == seen


@settings(deadline=None)
@given(st.text())
def test_a_shown_name_is_one_printable_line_of_utf8(name):
    seen = shown(name)
    assert seen.isprintable()
    assert seen.encode().decode() == seen


def test_the_root_is_a_dot():
    assert shown_path(()) == "."
    assert shown_path(("a", "b\tc")) == "a/b\\tc"


def test_near_misses_are_the_same_in_every_run_and_blind_to_case():
    assert near_misses("README.MD", ["readme.md", "Readme.md", "other"]) == ["Readme.md"]
    assert near_misses("zzz", ["readme.md"]) == []
