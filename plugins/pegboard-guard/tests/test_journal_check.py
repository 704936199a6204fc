"""Journals are verified: any change is found, and its place."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, strategies as st

from pegboard_guard.journal_check import verify, verify_all
from pegboard_guard.journal_file import MOST_LINE, START, JournalFile, encode, parts_of


def call(number):
    return {"kind": "call", "tool": f"t{number}"}


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A journal with a repaired torn record and a gap."""
    file = tmp_path_factory.mktemp("journal") / "audit.jsonl"
    JournalFile(file).append([call(1), call(2), call(3)])
    file.write_bytes(file.read_bytes()[:-30])
    JournalFile(file).append([{"kind": "lost", "records": 4}, call(4)])
    return file.read_bytes()


@pytest.fixture
def file(tmp_path, written):
    file = tmp_path / "audit.jsonl"
    file.write_bytes(written)
    return file


def test_a_whole_journal(file):
    report = verify(file)
    assert (report.ok, report.broken) == (True, None)
    first, *_, last = [json.loads(line) for line in file.read_bytes().splitlines() if line.endswith(b'"}')]
    assert (report.id, report.part, report.created) == (first["id"], 1, first["at"])
    assert (report.records, report.number, report.head) == (6, 6, last["hash"])
    assert (report.mended, report.lost, report.has_head) == (1, 4, None)
    assert (report.to_json()["ok"], report.to_json()["file"]) == (True, str(file))


@given(st.data())
def test_any_changed_byte_is_found_where_it_is(tmp_path_factory, written, data):
    place = data.draw(st.integers(0, len(written) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != written[place]))
    file = tmp_path_factory.getbasetemp() / "changed.jsonl"
    file.write_bytes(written[:place] + bytes([byte]) + written[place + 1 :])
    broken = verify(file).broken
    assert broken is not None
    assert broken.offset <= place
    lines = written[:place].split(b"\n")
    whole = sum(line.endswith(b'"}') for line in lines[:-1])
    assert broken.record == whole + 1


@given(st.data())
def test_any_removed_or_repeated_line_is_found(tmp_path_factory, written, data):
    lines = written.splitlines(keepends=True)
    place = data.draw(st.integers(0, len(lines) - 2))  # a last one that is missing shows by the head only
    changed = data.draw(st.sampled_from(["removed", "repeated", "exchanged"]))
    new = list(lines)
    if changed == "removed":
        del new[place]
    elif changed == "repeated":
        new.insert(place, lines[place])
    else:
        new[place], new[place + 1] = new[place + 1], new[place]
    file = tmp_path_factory.getbasetemp() / "changed.jsonl"
    file.write_bytes(b"".join(new))
    assert not verify(file).ok


@given(st.data())
def test_inserted_bytes_are_found(tmp_path_factory, written, data):
    place = data.draw(st.integers(0, len(written)))
    more = data.draw(st.binary(min_size=1, max_size=20))
    file = tmp_path_factory.getbasetemp() / "changed.jsonl"
    file.write_bytes(written[:place] + more + written[place:])
    assert not verify(file).ok


def test_a_broken_record_is_reported_with_its_place_and_reason(file):
    file.write_bytes(file.read_bytes().replace(b'"t1"', b'"t7"'))
    broken = verify(file).broken
    offset = file.read_bytes().index(b"\n") + 1
    assert str(broken) == f"record 2 (line 2, byte {offset}): its content doesn't match its hash"


def test_a_torn_last_record_is_reported(file):
    file.write_bytes(file.read_bytes()[:-5])
    report = verify(file)
    assert report.broken.record == report.records + 1 == 6
    assert "the last one: torn by a crash, or changed" in report.broken.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"hello\n", "doesn't end with a hash"),
        (b"[" * 100_000 + b"\n", "doesn't end with a hash"),
    ],
    ids=["nothing", "a text", "too deep"],
)
def test_what_is_no_journal_is_broken_at_once(file, content, reason):
    file.write_bytes(content)
    broken = verify(file).broken
    assert (broken.record, broken.line, broken.offset) == (1, 1, 0)
    assert reason in broken.reason


def test_a_line_without_end_is_read_in_pieces(file):
    file.write_bytes(b"x" * (2 * MOST_LINE + 5))
    assert verify(file).broken.record == 1


@pytest.mark.parametrize(
    ("number", "facts", "previous", "reason"),
    [
        (1, {"kind": "call"}, START, "begins with another record"),
        (1, {"kind": "journal", "format": 2, "id": "a", "part": 1}, START, "begins with another record"),
        (1, {"kind": "journal", "format": 1, "id": "a"}, START, "begins with another record"),
        (1, {"kind": "journal", "format": 1, "id": "a", "part": 1}, "a" * 64, "isn't the journal's first record"),
        (5, {"kind": "journal", "format": 1, "id": "a", "part": 1}, START, "isn't the journal's first record"),
        (1, {"kind": "journal", "format": 1, "id": "a", "part": 1, "torn": {}}, START, "aren't there"),
    ],
)
def test_an_invalid_first_record_is_found(file, number, facts, previous, reason):
    file.write_bytes(encode(number, "now", facts, previous)[0])
    assert reason in verify(file).broken.reason


def test_a_second_first_record_is_found(file, tmp_path):
    other = tmp_path / "other.jsonl"
    JournalFile(other).append([call(1)])
    file.write_bytes(file.read_bytes() + other.read_bytes())
    assert "another file begins here" in verify(file).broken.reason


def test_a_stored_head_shows_records_cut_off_at_the_end(file):
    head = verify(file).head
    assert verify(file, head=head).has_head is True
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert verify(file).ok
    for each in (head, "", "0" * 64):  # the hash before the first record isn't a record's
        assert verify(file, head=each).has_head is False


def test_files_of_one_journal_have_to_continue_each_other(tmp_path):
    file = tmp_path / "audit.jsonl"
    journal = JournalFile(file, rotate_bytes=200)
    for number in range(4):
        journal.append([call(number)])
    parts = parts_of(file)
    assert all(report.ok for report in verify_all(file))
    head = verify(parts[0]).head
    assert next(report.has_head for report in verify_all(file, head=head)) is True
    parts[0].write_bytes(b"".join(parts[0].read_bytes().splitlines(keepends=True)[:-1]))
    reports = verify_all(file)
    assert [report.ok for report in reports][:2] == [True, False]
    assert reports[1].broken.reason == "it doesn't continue audit.jsonl.1"
    assert reports[1].broken.record == reports[0].number + 1


def test_verify_refuses_a_pipe_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular file"):
        verify(tmp_path / "pipe")
