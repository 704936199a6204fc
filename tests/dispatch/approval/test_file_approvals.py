"""Grants and used answers in a file."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch.approval import grants as module
from pegboard.dispatch.approval.grants import FileApprovals
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import PendingError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "approvals.json"


def patterns(grants, session="s"):
    return [rule.pattern for rule in grants.rules(session)]


def test_what_was_allowed_is_allowed_in_another_process(path):
    FileApprovals(path).add("s", "edit", ["src/*"])
    other = FileApprovals(str(path))
    assert other.rules("s") == (Rule("edit", "src/*", "allow"),)
    other.add("s", "edit", ["a"])
    other.add("t", "edit", ["b"])
    assert patterns(FileApprovals(path)) == ["src/*", "a"]


def test_another_ones_change_is_seen(path):
    """Without being read anew where nothing has changed."""
    one, two = FileApprovals(path), FileApprovals(path)
    assert patterns(one) == []
    two.add("s", "edit", ["a"])
    assert patterns(one) == ["a"]
    two.forget("s")
    assert patterns(one) == []


def test_a_grant_expires_by_the_clock_on_the_wall(path):
    now = [1_000.0]
    grants = FileApprovals(path, clock=lambda: now[0])
    grants.add("s", "edit", ["a"], seconds=10)
    grants.add("s", "edit", ["b"])
    assert patterns(grants) == ["a", "b"]
    now[0] = 1_010.0
    assert patterns(grants) == ["b"]
    assert patterns(FileApprovals(path, clock=lambda: now[0])) == ["b"]


def test_calls_of_nobody_are_granted_nothing_for_longer_than_the_process(path):
    grants = FileApprovals(path)
    grants.add(None, "edit", ["a"])
    assert patterns(grants, None) == ["a"]
    assert patterns(FileApprovals(path), None) == []
    assert not path.exists()
    grants.forget(None)
    assert patterns(grants, None) == []


def test_an_answer_is_used_once_across_processes(path):
    """Of several processes at once, one may."""
    use = "print(FileApprovals(sys.argv[1]).consume('x'))"
    script = f"import sys; from pegboard.dispatch.approval.grants import FileApprovals; {use}"
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = sorted(process.communicate(timeout=60)[0].strip() for process in running)
    assert said == ["False", "False", "True"]
    assert not FileApprovals(path).consume("x")
    assert FileApprovals(path).consume("y")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 2, "sessions": {}, "used": {}}',
        '{"version": 1, "sessions": {}}',
        '{"version": 1, "sessions": {"s": [{}]}, "used": {}}',
        '{"version": 1, "sessions": {"s": [{"permission": "p", "patterns": "abc", "until": null}]}, "used": {}}',
        '{"version": 1, "sessions": {"s": [{"permission": "p", "patterns": ["a"], "until": "x"}]}, "used": {}}',
        '{"version": 1, "sessions": {"s": 7}, "used": {}}',
        '{"version": 1, "sessions": {}, "used": {"a": null}}',
        "[" * 100_000,
    ],
)
def test_a_file_that_cant_be_read_allows_nothing(path, caplog, text):
    """A person is asked again, no answer can be used, and the operator is told, once."""
    path.write_text(text)
    path.chmod(0o600)
    grants = FileApprovals(path)
    with caplog.at_level(logging.ERROR, "pegboard"):
        assert grants.rules("s") == grants.rules("s") == ()
    assert len(caplog.records) == 1
    for change in (lambda: grants.consume("x"), lambda: grants.add("s", "edit", ["a"]), lambda: grants.forget("s")):
        with pytest.raises(PendingError, match="can't be read"):
            change()
    assert path.read_text() == text


def test_a_file_that_others_may_write_allows_nothing(path):
    FileApprovals(path).add("s", "edit", ["*"])
    path.chmod(0o666)
    assert FileApprovals(path).rules("s") == ()


def test_a_folder_that_cant_be_looked_into_allows_nothing(path, monkeypatch):
    grants = FileApprovals(path / "file" / "below")
    path.write_text("no folder")
    assert grants.rules("s") == ()


def test_sessions_are_bounded(path, monkeypatch):
    """The one that was granted to longest ago goes."""
    monkeypatch.setattr(module, "MOST_FILE_SESSIONS", 2)
    grants = FileApprovals(path)
    for session in "abac":
        grants.add(session, "edit", [session])
    assert [patterns(grants, session) for session in "abc"] == [["a", "a"], [], ["c"]]


def test_the_file_is_bounded(path, monkeypatch):
    """Grants go before it grows too large; used answers never."""
    monkeypatch.setattr(module, "MOST_FILE", 400)
    grants = FileApprovals(path)
    assert grants.consume("x")
    for session in "abcdefgh":
        grants.add(session, "edit", ["p" * 30])
    assert path.stat().st_size <= 400
    assert patterns(grants, "h") == ["p" * 30]
    assert patterns(grants, "a") == []
    assert not grants.consume("x")


def test_used_answers_are_bounded(path, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILE_USED", 1)
    grants = FileApprovals(path)
    assert grants.consume("x")
    with pytest.raises(PendingError, match="no more can be recorded"):
        grants.consume("y")
    assert list(json.loads(path.read_text())["used"]) == ["x"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(min_size=1, max_size=4)), max_size=6))
def test_the_file_says_what_was_done(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("grants") / "file.json"
    model = {}
    for session, pattern in steps:
        FileApprovals(path).add(session, "edit", [pattern])
        model.setdefault(session, []).append(pattern)
    assert {session: patterns(FileApprovals(path), session) for session in model} == model
