from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from pegboard_guard.journal import file as file_module
from pegboard_guard.journal.file import JournalFile
from pegboard_guard.journal.head import JournalError
from pegboard_guard.journal.parts import parts_of
from pegboard_guard.journal.record import encode
from pegboard_guard.journal.verify import verify, verify_all


def call(number):
    return {"kind": "call", "tool": f"t{number}"}


def records(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def tools(path):
    return [record["tool"] for record in records(path) if record["kind"] == "call"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


@pytest.fixture
def journal(path):
    return JournalFile(path, now=lambda: 0.0)


# The chain ------------------------------------------------------------------------------------------------------------


def test_the_first_record_names_the_file_and_each_holds_the_hash_of_the_one_before(journal, path):
    journal.append([call(1), call(2)])
    first, one, two = records(path)
    assert (first["kind"], first["n"], first["part"], first["at"]) == ("journal", 1, 1, "1970-01-01T00:00:00.000000Z")
    assert len(first["id"]) == 32
    assert first["prev"] == "0" * 64
    assert (one["prev"], two["prev"]) == (first["hash"], one["hash"])
    assert [record["n"] for record in (first, one, two)] == [1, 2, 3]


def test_two_journals_have_two_ids(tmp_path):
    for name in ("a", "b"):
        JournalFile(tmp_path / name).append([call(1)])
    assert records(tmp_path / "a")[0]["id"] != records(tmp_path / "b")[0]["id"]


def test_it_is_the_users_alone_and_its_folder_is_made(tmp_path):
    path = tmp_path / "logs" / "deep" / "audit.jsonl"
    JournalFile(path).append([call(1)])
    assert path.stat().st_mode & 0o777 == 0o600


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans()), max_size=12), st.sampled_from([0, 600]))
def test_any_interleaving_of_writers_verifies(tmp_path_factory, steps, rotate_bytes):
    """Writers that don't know of each other, that close now and then, and that put the file aside."""
    path = tmp_path_factory.mktemp("journal") / "audit.jsonl"
    writers = [JournalFile(path, sync=False, rotate_bytes=rotate_bytes) for _ in range(3)]
    written = []
    for writer, count, closes in steps:
        batch = [call(len(written) + more) for more in range(count)]
        writers[writer].append(batch)
        written += [record["tool"] for record in batch]
        if closes:
            writers[writer].close()
    if written:
        assert all(report.ok for report in verify_all(path))
        assert [tool for part in (*parts_of(path), path) for tool in tools(part)] == written


_WRITE = """
import sys
from pathlib import Path
from pegboard_guard.journal.file import JournalFile
journal = JournalFile(Path(sys.argv[1]), sync=False, rotate_bytes=4000)
for number in range(40):
    journal.append([{"kind": "call", "tool": f"{sys.argv[2]}{number}"}])
"""


def test_several_processes_write_one_journal(path):
    running = [subprocess.Popen([sys.executable, "-c", _WRITE, str(path), name]) for name in "abc"]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert all(report.ok for report in verify_all(path))
    written = [tool for part in (*parts_of(path), path) for tool in tools(part)]
    for name in "abc":
        assert [tool for tool in written if tool[0] == name] == [f"{name}{number}" for number in range(40)]


_FORK = """
import os, sys
from pathlib import Path
from pegboard_guard.journal.file import JournalFile
journal = JournalFile(Path(sys.argv[1]), sync=False)
journal.append([{"kind": "call", "tool": "before"}])
child = os.fork()
name = "child" if child == 0 else "parent"
for number in range(40):
    journal.append([{"kind": "call", "tool": f"{name}{number}"}])
if child == 0:
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_forked_child_has_a_lock_of_its_own(path):
    """The lock that it inherits is its parent's too: both would hold it at once."""
    assert subprocess.run([sys.executable, "-c", _FORK, str(path)], timeout=60, check=False).returncode == 0
    assert verify(path).ok
    assert len(tools(path)) == 81


# Crashes --------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_file_torn_anywhere_is_mended_by_the_next_record(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("journal") / "audit.jsonl"
    JournalFile(path, sync=False).append([call(1), call(2)])
    for _ in range(data.draw(st.integers(1, 3))):
        content = path.read_bytes()
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        JournalFile(path, sync=False).append([call(3)])
        report = verify(path)
        assert report.ok, report.broken
        assert json.loads(path.read_bytes().splitlines()[-1])["tool"] == "t3"


@pytest.mark.parametrize("kept", [0, 30, 200])
def test_a_crash_at_any_byte_of_the_mending_is_mended_too(tmp_path, kept):
    """The record that mends, what stands before it included, may be torn in its turn."""
    path = tmp_path / "audit.jsonl"
    JournalFile(path, sync=False).append([call(1)])
    path.write_bytes(path.read_bytes()[:-200] + b"x" * kept)
    torn = path.read_bytes()
    JournalFile(path, sync=False).append([call(2)])
    mended = path.read_bytes()
    for end in range(len(torn), len(mended) + 1):
        path.write_bytes(mended[:end])
        JournalFile(path, sync=False).append([call(3)])
        report = verify(path)
        assert report.ok, (end - len(torn), report.broken)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_changed_byte_stays_found_though_the_journal_goes_on(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("journal") / "audit.jsonl"
    JournalFile(path, sync=False).append([call(1), call(2)])
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 2))  # without the last line end, it is as if torn
    content[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[place]))
    path.write_bytes(content)
    JournalFile(path, sync=False).append([call(3)])
    JournalFile(path, sync=False).append([call(4)])
    assert not verify(path).ok


def test_mending_says_what_was_torn(journal, path):
    journal.append([call(1), call(2)])
    journal.close()
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    journal.append([call(3)])
    assert path.read_bytes().startswith(content[:-20] + b"#torn\n")
    mended = json.loads(path.read_bytes().splitlines()[-2])
    assert mended["kind"] == "mended"
    assert mended["torn"]["bytes"] == len(content.splitlines()[-1]) + 1 - 20
    assert verify(path).mended == 1


def test_a_record_that_lacks_only_its_line_end_is_whole(journal, path):
    journal.append([call(1)])
    journal.close()
    path.write_bytes(path.read_bytes()[:-1])
    journal.append([call(2)])
    assert tools(path) == ["t1", "t2"]
    assert (verify(path).ok, verify(path).mended) == (True, 0)


def test_a_changed_last_record_stays_broken_though_the_journal_goes_on(journal, path):
    journal.append([call(1), call(2)])
    journal.close()
    path.write_bytes(path.read_bytes().replace(b'"t2"', b'"t9"'))
    journal.append([call(3)])
    assert b'"t3"' in path.read_bytes()
    assert verify(path).broken.record == 3


def test_zeros_that_a_power_failure_left_are_mended(journal, path):
    journal.append([call(1)])
    journal.close()
    path.write_bytes(path.read_bytes() + b"\0" * 700)
    journal.append([call(2)])
    assert (verify(path).ok, verify(path).mended) == (True, 1)


@pytest.mark.parametrize("content", [b"", b'{"n":', b'{"n":1,"at":"19', b"\0" * 40])
def test_a_file_torn_in_its_first_record_is_begun_anew(journal, path, content):
    path.write_bytes(content)
    journal.append([call(1)])
    assert verify(path).ok
    assert b'"t1"' in path.read_bytes()


def test_a_write_that_fails_half_way_is_mended_by_the_next(journal, path, monkeypatch):
    journal.append([call(1)])
    real = os.write
    room = [30]

    def full(fd, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = real(fd, data[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(file_module.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        journal.append([call(2)])
    monkeypatch.undo()
    journal.append([call(3)])
    assert [json.loads(line).get("tool") for line in path.read_bytes().splitlines() if line.endswith(b"}")] == [
        None,
        "t1",
        None,
        "t3",
    ]
    assert (verify(path).ok, verify(path).mended) == (True, 1)


def test_what_is_written_is_on_the_disk_when_append_comes_back(path, monkeypatch):
    synced = []
    monkeypatch.setattr(file_module.os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    journal = JournalFile(path, sync=True)
    journal.append([call(1)])
    assert len(synced) == 2  # the file, and the folder that now holds its name
    assert synced[0] == path.stat().st_size
    journal.append([call(2)])
    assert synced[2:] == [path.stat().st_size]


def test_nothing_waits_for_the_disk_where_that_isn_t_asked_for(path, monkeypatch):
    monkeypatch.setattr(file_module.os, "fsync", lambda fd: pytest.fail("synced"))
    JournalFile(path, sync=False).append([call(1)])


# What can't be written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"hello\n", b'{"name": "x"}\n', b'{"n":1}\n', b'{"n":1}' * 1000, b"x" * 100, b"{\n  1"]
)
def test_another_file_is_left_alone(journal, path, content):
    path.write_bytes(content)
    with pytest.raises(JournalError, match="is no journal"):
        journal.append([call(1)])
    assert path.read_bytes() == content


def test_a_journal_that_ends_with_much_else_is_left_alone(journal, path, monkeypatch):
    journal.append([call(1)])
    journal.close()
    monkeypatch.setattr("pegboard_guard.journal.head.MOST_TAIL", 100)
    content = path.read_bytes() + b"x" * 200
    path.write_bytes(content)
    with pytest.raises(JournalError, match="ends with something else"):
        journal.append([call(1)])
    assert path.read_bytes() == content


def test_a_record_longer_than_what_is_looked_at_is_no_record(journal, path, monkeypatch):
    journal.append([call(1)])
    journal.close()
    monkeypatch.setattr("pegboard_guard.journal.head.MOST_TAIL", 50)
    with pytest.raises(JournalError):
        journal.append([call(1)])


def test_a_pipe_is_refused_and_nobody_waits(journal, path):
    os.mkfifo(path)
    with pytest.raises(JournalError, match="no ordinary file"):
        journal.append([call(1)])


def test_a_folder_is_refused(journal, path):
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        journal.append([call(1)])


def test_a_file_that_another_process_locks_for_too_long_is_told(journal, path, monkeypatch):
    journal.append([call(1)])
    monkeypatch.setattr(file_module, "LOCK_SECONDS", 0.01)
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(JournalError, match="locked by another process"):
            journal.append([call(2)])
    journal.append([call(3)])
    assert tools(path) == ["t1", "t3"]


# Files that are put aside ---------------------------------------------------------------------------------------------


def test_a_large_file_is_put_aside_and_the_next_goes_on(path):
    journal = JournalFile(path, rotate_bytes=300)
    for number in range(6):
        journal.append([call(number)])
    one, *_ = parts = parts_of(path)
    assert len(parts) >= 2
    assert [part.name for part in parts] == [f"audit.jsonl.{number}" for number in range(1, len(parts) + 1)]
    ids = {records(part)[0]["id"] for part in (*parts, path)}
    assert len(ids) == 1
    assert records(parts[1])[0]["prev"] == records(one)[-1]["hash"]
    assert [report.part for report in verify_all(path)] == list(range(1, len(parts) + 2))
    assert all(report.ok for report in verify_all(path))


def test_only_so_many_are_kept(path):
    journal = JournalFile(path, rotate_bytes=200, keep=2)
    for number in range(8):
        journal.append([call(number)])
    parts = parts_of(path)
    assert len(parts) == 2
    assert parts[0].name != "audit.jsonl.1"
    assert all(report.ok for report in verify_all(path))


def test_a_file_that_somebody_else_moved_away_is_begun_anew(journal, path):
    journal.append([call(1)])
    path.rename(path.with_name("elsewhere"))
    journal.append([call(2)])
    assert tools(path) == ["t2"]
    assert verify(path).ok


def test_a_crash_between_putting_aside_and_beginning_anew_loses_nothing(journal, path):
    journal.append([call(1)])
    journal.close()
    path.rename(path.with_name("audit.jsonl.1"))
    journal.append([call(2)])
    assert all(report.ok for report in verify_all(path))
    assert verify(path).part == 2


@pytest.mark.parametrize(
    "damage",
    [lambda content: content + b"x\n", lambda content: b"\n", lambda content: encode(1, "", {"kind": "call"}, "")[0]],
)
def test_a_damaged_file_that_was_put_aside_is_named_in_the_next(journal, path, damage):
    journal.append([call(1)])
    journal.close()
    aside = path.with_name("audit.jsonl.1")
    path.rename(aside)
    aside.write_bytes(damage(aside.read_bytes()))
    journal.append([call(2)])
    assert records(path)[0]["after_damaged"] == "audit.jsonl.1"
    assert verify(path).ok
    assert [report.ok for report in verify_all(path)] == [False, False]


def test_a_file_that_can_t_be_put_aside_grows_on(path, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    journal = JournalFile(path, rotate_bytes=10)
    for number in range(3):
        journal.append([call(number)])
    assert tools(path) == ["t0", "t1", "t2"]
    assert [record.getMessage() for record in caplog.records] == [
        f"the journal {path} can't be put aside, and grows on: Permission denied"
    ]


def test_other_files_beside_it_are_not_taken_for_its_own(path):
    for name in ("audit.jsonl.0", "audit.jsonl.x", "audit.jsonl.1.gz", "xaudit.jsonl.1", "auditxjsonl.1"):
        path.with_name(name).touch()
    assert parts_of(path) == []
    assert parts_of(path / "not" / "there") == []
