from __future__ import annotations

import os

import pytest

from pegboard.dispatch.permissions.commands import CommandPart
from pegboard.dispatch.permissions.permissions import Resource, folder_of
from pegboard.dispatch.permissions.places import Place, Url
from pegboard.dispatch.permissions.rule import HOLE, Match, Rule, TextMatcher, Unreadable, WholeCall


@pytest.mark.parametrize(
    ("kind", "value", "part"),
    [("text", "a", TextMatcher), ("command", "ls", CommandPart), ("path", "a", Place), ("url", "https://a.org", Url)],
)
def test_a_value_is_read_by_its_kind(kind, value, part):
    assert isinstance(Resource(kind, value).parts(kind, "/")[0], part)
    assert Resource(kind, None).parts(kind, "/") == (Unreadable(),)


def test_the_folder_of_relative_paths_is_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder_of(None) == os.getcwd()  # noqa: PTH109
    assert folder_of("a") == os.path.join(os.getcwd(), "a")  # noqa: PTH109, PTH118
    assert folder_of("/b") == "/b"


def test_what_is_asked_always_of_a_text_is_that_text():
    assert TextMatcher("a b").always == "a b"
    assert TextMatcher("a*").always is None
    assert WholeCall().always == "*"
    assert Unreadable("x").always is None


def test_a_text_with_holes_is_touched_and_not_covered():
    text = TextMatcher(f"src/{HOLE}")
    assert text.shown == "src/*"
    assert text.match(Rule("read", "src/?", "allow")) is Match.NO
    assert text.match(Rule("read", "src/?", "deny")) is Match.PERHAPS
    assert text.match(Rule("read", "src/*", "allow")) is Match.SURELY
