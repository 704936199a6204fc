"""Journal files: records, appending, rotation."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import pegboard_guard.journal_file as file_module
from pegboard_guard.journal_check import verify, verify_all
from pegboard_guard.journal_file import (
    START,
    JournalError,
    JournalFile,
    NoRecordError,
    decode,
    encode,
    parts_of,
    time_text,
)

texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)
facts = st.dictionaries(texts.filter(lambda key: key not in ("n", "at", "prev", "hash")), values, max_size=4)


@given(facts, st.integers(1, 10**9))
def test_what_is_written_is_one_line_of_printable_ascii_and_read_back(given_facts, number):
    line, digest = encode(number, "now", given_facts, START)
    record = decode(line.removesuffix(b"\n"))
    assert (record.number, record.previous, record.hash) == (number, START, digest)
    assert {key: record.facts[key] for key in given_facts} == given_facts
    assert line.endswith(b"\n")
    assert line[:-1].decode("ascii").isprintable()


def test_the_hash_is_that_of_the_line_without_its_last_member():
    """So that it can be checked with other tools."""
    line, digest = encode(7, "now", {"kind": "call", "tool": "é\u202e"}, "a" * 64)
    data = json.loads(line)
    assert data.pop("hash") == digest
    body = json.dumps(data, separators=(",", ":")).encode()
    assert hashlib.sha256(body).hexdigest() == digest


@given(st.data())
def test_any_changed_byte_invalidates_a_record(data):
    line, _ = encode(3, "now", {"kind": "call", "tool": "look"}, START)
    line = line[:-1]
    place = data.draw(st.integers(0, len(line) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    with pytest.raises(NoRecordError):
        decode(line[:place] + bytes([byte]) + line[place + 1 :])


@pytest.mark.parametrize("line", [b"", b"{}", b"x" * 500, b'{"n":1}', b',"hash":"' + b"0" * 64 + b'"}'])
def test_other_lines_are_no_records(line):
    with pytest.raises(NoRecordError):
        decode(line)


@pytest.mark.parametrize(
    "body", ["[1]", '{"n":1}', '{"n":"1","prev":""}', '{"n":true,"prev":""}', '{"n":1,"prev":2}', "[" * 5000 + "}"]
)
def test_a_line_of_another_form_with_a_correct_hash_is_not_a_record(body):
    digest = hashlib.sha256(body[:-1].encode() + b"}").hexdigest()
    with pytest.raises(NoRecordError):
        decode(f'{body[:-1]},"hash":"{digest}"}}'.encode())


def test_times_are_utc_to_the_microsecond():
    assert time_text(0.125) == "1970-01-01T00:00:00.125000Z"


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


def test_the_journal_is_private_and_its_folder_is_created(tmp_path):
    path = tmp_path / "logs" / "deep" / "audit.jsonl"
    JournalFile(path).append([call(1)])
    assert path.stat().st_mode & 0o777 == 0o600


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans()), max_size=12), st.sampled_from([0, 600]))
def test_any_interleaving_of_writers_verifies(tmp_path_factory, steps, rotate_bytes):
    """Writers that don't know of each other, that close now and then, and that rotate the file."""
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
from pegboard_guard import journal_file
journal_file.LOCK_SECONDS = 60
journal = journal_file.JournalFile(Path(sys.argv[1]), sync=False, rotate_bytes=4000)
for number in range(40):
    journal.append([{"kind": "call", "tool": f"{sys.argv[2]}{number}"}])
"""


@pytest.mark.slow
def test_several_processes_write_one_journal(path):
    running = [subprocess.Popen([sys.executable, "-c", _WRITE, str(path), name]) for name in "abc"]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    assert all(report.ok for report in verify_all(path))
    written = [tool for part in (*parts_of(path), path) for tool in tools(part)]
    for name in "abc":
        assert [tool for tool in written if tool[0] == name] == [f"{name}{number}" for number in range(40)]


_FORK = """
import os, sys
from pathlib import Path
from pegboard_guard import journal_file
journal_file.LOCK_SECONDS = 60
journal = journal_file.JournalFile(Path(sys.argv[1]), sync=False)
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
    """It would share an inherited lock with its parent."""
    assert subprocess.run([sys.executable, "-c", _FORK, str(path)], timeout=120, check=False).returncode == 0
    assert verify(path).ok
    assert len(tools(path)) == 81


# Crashes --------------------------------------------------------------------------------------------------------------


@given(st.data())
def test_a_file_torn_anywhere_is_repaired_by_the_next_record(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("journal") / "audit.jsonl"
    JournalFile(path, sync=False).append([call(1), call(2)])
    for _ in range(data.draw(st.integers(1, 3))):
        content = path.read_bytes()
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        JournalFile(path, sync=False).append([call(3)])
        report = verify(path)
        assert report.ok, report.broken
        assert json.loads(path.read_bytes().splitlines()[-1])["tool"] == "t3"


@pytest.mark.parametrize("size", [0, 30, 200])
def test_a_crash_at_any_byte_of_a_repair_is_repaired(tmp_path, size):
    """The record that repairs, with the mark before it, may be torn too."""
    path = tmp_path / "audit.jsonl"
    JournalFile(path, sync=False).append([call(1)])
    path.write_bytes(path.read_bytes()[:-200] + b"x" * size)
    torn = path.read_bytes()
    JournalFile(path, sync=False).append([call(2)])
    mended = path.read_bytes()
    for end in range(len(torn), len(mended) + 1):
        path.write_bytes(mended[:end])
        JournalFile(path, sync=False).append([call(3)])
        report = verify(path)
        assert report.ok, (end - len(torn), report.broken)


@given(st.data())
def test_any_changed_byte_is_still_found_after_more_records(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("journal") / "audit.jsonl"
    JournalFile(path, sync=False).append([call(1), call(2)])
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 2))  # without the last line end, it is as if torn
    content[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[place]))
    path.write_bytes(content)
    JournalFile(path, sync=False).append([call(3)])
    JournalFile(path, sync=False).append([call(4)])
    assert not verify(path).ok


@pytest.mark.parametrize(
    ("torn", "left", "mended"),
    [
        (lambda content: content[:-1], ["t1", "t2", "t3"], 0),  # it lacks only its line end
        (lambda content: content[:-20], ["t1", "t3"], 1),
        (lambda content: content + b"\0" * 700, ["t1", "t2", "t3"], 1),  # as a power failure leaves them
        (lambda content: b"", ["t3"], 0),
        (lambda content: b'{"n":', ["t3"], 1),
        (lambda content: b'{"n":1,"at":"19', ["t3"], 1),
        (lambda content: b"\0" * 40, ["t3"], 1),
    ],
)
def test_a_torn_record_is_repaired_and_reported(journal, path, torn, left, mended):
    journal.append([call(1), call(2)])
    journal.close()
    content = torn(path.read_bytes())
    path.write_bytes(content)
    journal.append([call(3)])
    rows = path.read_bytes()[len(content) if mended else 0 :].splitlines()
    assert (rows[0] == b"#torn") is bool(mended)
    report = verify(path)
    assert (report.ok, report.mended) == (True, mended)
    whole = [json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b'"}')]
    assert [record["tool"] for record in whole if record["kind"] == "call"] == left
    reported = [record["torn"]["bytes"] for record in whole if "torn" in record]
    assert reported == ([len(content.removesuffix(b"\n").rpartition(b"}\n")[2])] if mended else [])


def test_a_partial_write_is_repaired_by_the_next(journal, path, monkeypatch):
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


def test_records_are_on_the_disk_when_append_returns(path, monkeypatch):
    synced = []
    monkeypatch.setattr(file_module.os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    journal = JournalFile(path, sync=True)
    journal.append([call(1)])
    assert len(synced) == 2  # the file, and the folder that now holds its name
    assert synced[0] == path.stat().st_size
    journal.append([call(2)])
    assert synced[2:] == [path.stat().st_size]


def test_without_sync_nothing_waits_for_the_disk(path, monkeypatch):
    monkeypatch.setattr(file_module.os, "fsync", lambda fd: pytest.fail("synced"))
    JournalFile(path, sync=False).append([call(1)])


# What can't be written ------------------------------------------------------------------------------------------------


def linked(path):
    path.with_name("notes").write_text("mine\n")
    path.symlink_to("notes")


def written_before(path, content):
    JournalFile(path).append([call(1)])
    path.write_bytes(path.read_bytes() + content)


@pytest.mark.parametrize(
    ("make", "most", "text"),
    [
        *(
            (lambda path, content=content: path.write_bytes(content), None, "isn't a journal")
            for content in (b"hello\n", b'{"name": "x"}\n', b'{"n":1}\n', b'{"n":1}' * 1000, b"x" * 100, b"{\n  1")
        ),
        (lambda path: written_before(path, b"x" * 200), 100, "ends with something else"),
        (lambda path: written_before(path, b""), 50, "ends with something else"),
        (os.mkfifo, None, "isn't a regular file"),
        (linked, None, "isn't a journal"),
        (Path.mkdir, None, "Is a directory"),
    ],
)
def test_a_file_that_is_not_a_journal_is_left_alone(path, monkeypatch, make, most, text):
    make(path)
    if most is not None:
        monkeypatch.setattr("pegboard_guard.journal_file.MOST_TAIL", most)
    content = path.read_bytes() if path.is_file() else None
    with pytest.raises((JournalError, IsADirectoryError), match=text):
        JournalFile(path).append([call(1)])
    assert (path.read_bytes() if path.is_file() else None) == content


def test_a_file_locked_by_another_process_for_too_long_is_an_error(journal, path, monkeypatch):
    journal.append([call(1)])
    monkeypatch.setattr(file_module, "LOCK_SECONDS", 0.01)
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(JournalError, match="locked by another process"):
            journal.append([call(2)])
    journal.append([call(3)])
    assert tools(path) == ["t1", "t3"]


# Rotation -------------------------------------------------------------------------------------------------------------


def test_a_large_file_is_rotated_and_the_next_one_continues_it(path):
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


def test_old_rotated_files_are_deleted(path):
    journal = JournalFile(path, rotate_bytes=200, keep=2)
    for number in range(8):
        journal.append([call(number)])
    parts = parts_of(path)
    assert len(parts) == 2
    assert parts[0].name != "audit.jsonl.1"
    assert all(report.ok for report in verify_all(path))


def test_a_file_that_was_moved_away_is_created_again(journal, path):
    journal.append([call(1)])
    path.rename(path.with_name("elsewhere"))
    journal.append([call(2)])
    assert tools(path) == ["t2"]
    assert verify(path).ok


def test_a_crash_during_rotation_loses_nothing(journal, path):
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
def test_a_damaged_rotated_file_is_named_in_the_next(journal, path, damage):
    journal.append([call(1)])
    journal.close()
    rotated = path.with_name("audit.jsonl.1")
    path.rename(rotated)
    rotated.write_bytes(damage(rotated.read_bytes()))
    journal.append([call(2)])
    assert records(path)[0]["afterDamaged"] == "audit.jsonl.1"
    assert verify(path).ok
    assert [report.ok for report in verify_all(path)] == [False, False]


def test_a_file_that_cant_be_rotated_keeps_growing(path, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    journal = JournalFile(path, rotate_bytes=10)
    for number in range(3):
        journal.append([call(number)])
    assert tools(path) == ["t0", "t1", "t2"]
    assert [record.getMessage() for record in caplog.records] == [
        f"the journal {path} can't be rotated, and keeps growing: Permission denied"
    ]


def test_other_files_in_the_folder_are_not_rotated_files(path):
    for name in ("audit.jsonl.0", "audit.jsonl.x", "audit.jsonl.1.gz", "xaudit.jsonl.1", "auditxjsonl.1"):
        path.with_name(name).touch()
    assert parts_of(path) == []
    assert parts_of(path / "not" / "there") == []
