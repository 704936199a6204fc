"""Grants and used answers, in a file and in memory."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from filelock import FileLock

from pegboard import ReadonlyContext, Rule, ToolRegistry
from pegboard.approval import MemoryGrants, session_key
from pegboard.dispatch.approval import grants as module
from pegboard.errors import PendingError
from pegboard_guard import FileApprovals, approvals


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "approvals.json"


@pytest.fixture(params=["memory", "file"])
def store(request, path):
    """A store, its clock, and the prefix of its bounds."""
    clock = Clock()
    return (MemoryGrants(clock) if request.param == "memory" else FileApprovals(path, clock)), clock, request.param


TOOL = "shop sha256:1"
SESSION = ReadonlyContext(session="s")


def patterns(grants, session="s", tool=TOOL):
    return [rule.pattern for rule in grants.rules(session, tool)]


def allow(grants, session, *patterns, seconds=None):
    grants.add(session, TOOL, [Rule("edit", each, "allow") for each in patterns], seconds)


# Both stores --------------------------------------------------------------------------------------------------------


def test_a_grant_is_a_rule_of_its_session_and_tool(store):
    grants, *_ = store
    allow(grants, "s", "src/*", "a.txt")
    grants.add("s", TOOL, [Rule("edit", "b*", "allow", literal=True)])
    rules = (Rule("edit", "src/*", "allow"), Rule("edit", "a.txt", "allow"), Rule("edit", "b*", "allow", literal=True))
    assert grants.rules("s", TOOL) == rules
    assert grants.rules("t", TOOL) == grants.rules(None, TOOL) == grants.rules("s", "shop sha256:2") == ()


def test_a_grant_may_expire(store):
    """At its time, and not with it those that last."""
    grants, clock, _ = store
    allow(grants, "s", "a", seconds=10)
    allow(grants, "s", "b")
    allow(grants, "s", "c", seconds=5)
    for now, left in [(104.9, ["a", "b", "c"]), (105.0, ["a", "b"]), (110.0, ["b"])]:
        clock.now = now
        assert patterns(grants) == left


def test_a_session_can_be_forgotten_by_the_registrys_grants(store):
    grants = ToolRegistry(grants=store[0]).grants
    assert (grants is store[0], type(ToolRegistry().grants)) == (True, MemoryGrants)
    for context in (ReadonlyContext(user="ann", session="s"), ReadonlyContext()):
        session = session_key(context)
        allow(grants, session, "a")
        grants.forget(ReadonlyContext(session="never was"))
        assert patterns(grants, session) == ["a"]
        grants.forget(context)
        assert patterns(grants, session) == []


def test_grants_are_bounded(store, monkeypatch):
    """The oldest are dropped: a person is asked again."""
    grants, _, kind = store
    monkeypatch.setattr(module, "MOST_GRANTS", 3)
    monkeypatch.setattr(*((grants, "most_sessions") if kind == "memory" else (approvals, "MOST_FILE_SESSIONS")), 2)
    for session in "abcb":
        for pattern in "1234":
            allow(grants, session, pattern)
    assert [patterns(grants, session) for session in "abc"] == [[], ["2", "3", "4"], ["2", "3", "4"]]


def test_an_answer_is_used_once(store):
    grants, *_ = store
    assert [grants.consume(name) for name in "aaba"] == [True, False, True, False]


def test_used_answers_are_forgotten_only_when_they_are_too_old_to_be_used(store, monkeypatch):
    """If there are too many, none is accepted, so that none is used twice."""
    grants, clock, kind = store
    monkeypatch.setattr(*((grants, "most_used") if kind == "memory" else (approvals, "MOST_FILE_USED")), 2)
    assert grants.consume("old")
    clock.now += module.USED_SECONDS
    assert grants.consume("new")
    with pytest.raises(PendingError, match="2 answers were used in 90 days"):
        grants.consume("a")
    clock.now += 1
    assert grants.consume("a")
    with pytest.raises(PendingError, match="no more can be recorded"):
        grants.consume("b")
    assert not grants.consume("a")


# The file -----------------------------------------------------------------------------------------------------------


def test_what_was_allowed_is_allowed_in_another_process(path):
    """A change by another store is seen."""
    one, other = FileApprovals(path), FileApprovals(str(path))
    assert patterns(one) == []
    key = session_key(SESSION)
    allow(other, key, "a")
    assert patterns(one, key) == patterns(FileApprovals(path), key) == ["a"]
    other.forget(SESSION)
    assert patterns(one, key) == []


def test_the_file_stores_grants_and_used_answers(path):
    grants = FileApprovals(path, Clock())
    allow(grants, "s", "src/*", "a", seconds=10)
    allow(grants, "t", "ls")
    assert grants.consume("x")
    src, a, ls = (
        {"tool": TOOL, "permission": "edit", "pattern": pattern, "literal": False, "until": until}
        for pattern, until in (("src/*", 110.0), ("a", 110.0), ("ls", None))
    )
    assert json.loads(path.read_text()) == {
        "version": 2,
        "seen": 100.0,
        "sessions": {"s": [src, a], "t": [ls]},
        "used": {"x": 100.0},
    }


def test_a_file_of_version_1_keeps_its_used_answers_only(path):
    """Its grants were valid for anyone with the session's id."""
    path.parent.mkdir()
    grant = {"permission": "edit", "patterns": ["a"], "until": None}
    path.write_text(json.dumps({"version": 1, "sessions": {"s": [grant]}, "used": {"x": 1.0}}))
    path.chmod(0o600)
    grants = FileApprovals(path)
    assert (patterns(grants), grants.consume("x"), grants.consume("y")) == ([], False, True)


@pytest.mark.parametrize("step", [2, 60, 86_400])
@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize("survives", [True, False])
def test_a_clock_that_is_put_back_extends_no_grant(path, step, is_seen, survives):
    """Whether the expiry was seen by this process or only by the file; the grant doesn't come back later."""
    clock = Clock()
    clock.now = 1e6
    grants = FileApprovals(path, clock)
    allow(grants, "s", "timed", seconds=1)
    allow(grants, "s", "lasting")
    if is_seen:
        clock.now += 1
        assert patterns(grants) == ["lasting"]
    clock.now -= step
    grants = grants if survives else FileApprovals(path, clock)
    assert patterns(grants) == ["lasting"]
    allow(grants, "s", "new", seconds=10)
    for passed, left in [(0, ["lasting", "new"]), (step, ["lasting"] if step >= 10 else ["lasting", "new"])]:
        clock.now += passed
        assert patterns(grants) == patterns(FileApprovals(path, clock)) == left


def test_a_small_clock_correction_expires_no_grant(path):
    clock = Clock()
    grants = FileApprovals(path, clock)
    allow(grants, "s", "timed", seconds=10)
    clock.now -= 0.5
    assert patterns(grants) == ["timed"]


def test_an_expired_grant_stays_expired_if_the_file_cant_be_written(path, monkeypatch):
    clock = Clock()
    grants = FileApprovals(path, clock)
    allow(grants, "s", "timed", seconds=10)
    monkeypatch.setattr(approvals, "write_atomic", lambda *_, **__: (_ for _ in ()).throw(OSError("read-only")))
    clock.now += 10
    assert patterns(grants) == []
    clock.now -= 0.5
    assert patterns(grants) == []


def test_the_file_may_be_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert FileApprovals("approvals.json").consume("1")


def test_the_file_is_private(path):
    allow(FileApprovals(path), "s", "a")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert files == {"approvals.json": 0o600, "approvals.json.lock": 0o600}


def test_grants_without_session_and_user_stay_in_memory(path):
    grants = FileApprovals(path)
    allow(grants, None, "a")
    assert patterns(FileApprovals(path), None) == []
    assert not path.exists()


@pytest.mark.slow
def test_an_answer_is_used_once_across_processes(path):
    """Only one of several concurrent processes may."""
    use = "print(FileApprovals(sys.argv[1], lock_seconds=60).consume('x'))"
    script = f"import sys; from pegboard_guard import FileApprovals; {use}"
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert sorted(each.communicate(timeout=120)[0].strip() for each in running) == ["False", "False", "True"]


def test_concurrent_changes_are_not_lost(path):
    """No thread's change is lost."""

    def change(name):
        for _ in range(5):
            allow(FileApprovals(path, lock_seconds=60), "s", name)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(change, "0123"))
    assert sorted(patterns(FileApprovals(path))) == sorted("0123" * 5)


def test_waiting_for_another_has_a_limit(path):
    grants = FileApprovals(path, lock_seconds=0.02)
    allow(grants, "s", "a")
    with FileLock(f"{path}.lock"), pytest.raises(PendingError, match=r"locked by another process for more than 0\.02"):
        allow(grants, "s", "b")
    allow(grants, "s", "c")
    assert patterns(grants) == ["a", "c"]


def allows_nothing(path, caplog, reason):
    """Checks that nothing is granted, no answer can be used, and the reason is logged once."""
    grants = FileApprovals(path)
    with caplog.at_level(logging.ERROR, "pegboard"):
        assert grants.rules("s", TOOL) == grants.rules("s", TOOL) == ()
    assert len(caplog.records) == 1
    for change in (lambda: grants.consume("x"), lambda: allow(grants, "s", "a"), lambda: grants.forget(SESSION)):
        with pytest.raises(PendingError, match=f"can't be read.*{reason}"):
            change()


GRANT = '"tool": "t", "permission": "p", "literal": false, '


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 3, "seen": 0, "sessions": {}, "used": {}}',
        '{"version": 2, "sessions": {}, "used": {}}',
        '{"version": 1, "sessions": {}}',
        f'{{"version": 2, "seen": 0, "sessions": {{"s": [{{{GRANT}"pattern": ["a"]}}]}}, "used": {{}}}}',
        f'{{"version": 2, "seen": 0, "sessions": {{"s": [{{{GRANT}"pattern": ""}}]}}, "used": {{}}}}',
        f'{{"version": 2, "seen": 0, "sessions": {{"s": [{{{GRANT}"pattern": "a", "until": "x"}}]}}, "used": {{}}}}',
        '{"version": 2, "seen": 0, "sessions": {"s": 7}, "used": {}}',
        '{"version": 2, "seen": 0, "sessions": {}, "used": {"a": null}}',
        "[" * 100_000,
        '{"version": 2, "seen": 0, "sessions": {}, "used": {}}\0',
        '{"version": 2, "seen": 0, "sessions": {}, "used": {},}',
    ],
)
def test_a_file_that_cant_be_read_allows_nothing(path, caplog, text):
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o600)
    allows_nothing(path, caplog, "")
    assert path.read_text() == text


def _replace(path, make):
    path.rename(path.with_name("elsewhere"))
    make(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        *((lambda path, mode=mode: path.chmod(mode), "not private") for mode in (0o620, 0o660, 0o666, 0o644)),
        (lambda path: _replace(path, lambda path: path.symlink_to("elsewhere")), "symbolic links"),
        (lambda path: _replace(path, lambda path: path.symlink_to("/dev/zero")), "symbolic links"),
        (lambda path: _replace(path, lambda path: os.mkfifo(path, 0o600)), "not a regular file"),
        (lambda path: _replace(path, lambda path: path.mkdir(0o700)), "not a regular file"),
        (lambda path: path.write_bytes(b"a" * (approvals.MOST_FILE + 1)), "larger than"),
    ],
)
def test_a_file_that_isnt_a_private_one_of_reasonable_size_allows_nothing(path, caplog, change, reason):
    allow(FileApprovals(path), "s", "*")
    change(path)
    allows_nothing(path, caplog, reason)


def test_a_file_of_another_user_allows_nothing(path, caplog, monkeypatch):
    allow(FileApprovals(path), "s", "*")
    owner = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    allows_nothing(path, caplog, "not private")


def test_an_inaccessible_folder_allows_nothing(tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert FileApprovals(tmp_path / "file" / "below").rules("s", TOOL) == ()


def test_the_file_is_bounded(path, monkeypatch):
    """Grants are dropped before it gets too large; used answers never."""
    monkeypatch.setattr(approvals, "MOST_FILE", 400)
    grants = FileApprovals(path)
    assert grants.consume("x")
    for session in "abcdefgh":
        allow(grants, session, "p" * 30)
    assert path.stat().st_size <= 400
    assert (patterns(grants, "h"), patterns(grants, "a")) == (["p" * 30], [])
    assert not grants.consume("x")
    with pytest.raises(OSError, match="would be larger than 400 bytes"):
        grants.consume("y" * 400)


@pytest.mark.parametrize(("what", "fails"), [("the disk is full", True), ("the file system can't sync folders", False)])
def test_a_write_that_fails_leaves_the_old_file(path, monkeypatch, what, fails):
    """A folder that can't be synced isn't an error."""
    allow(FileApprovals(path), "s", "a")
    sync = os.fsync

    def fail(fd):
        if fails or stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(what)
        sync(fd)

    monkeypatch.setattr(os, "fsync", fail)
    if fails:
        with pytest.raises(OSError, match=what):
            allow(FileApprovals(path), "s", "b")
    else:
        allow(FileApprovals(path), "s", "b")
    assert patterns(FileApprovals(path)) == (["a"] if fails else ["a", "b"])
    assert len(list(path.parent.iterdir())) == 2
