from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from pegboard_guard import verify, verify_all
from pegboard_guard.journal.file import JournalFile
from pegboard_guard.journal.parts import parts_of
from pegboard_guard.journal.record import MOST_LINE, START, encode


def call(number):
    return {"kind": "call", "tool": f"t{number}"}


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A journal with everything in it: a torn record that was mended, and a gap."""
    path = tmp_path_factory.mktemp("journal") / "audit.jsonl"
    JournalFile(path).append([call(1), call(2), call(3)])
    path.write_bytes(path.read_bytes()[:-30])
    JournalFile(path).append([{"kind": "lost", "records": 4}, call(4)])
    return path.read_bytes()


@pytest.fixture
def path(tmp_path, written):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(written)
    return path


def test_a_whole_journal(path):
    report = verify(path)
    assert (report.ok, report.broken) == (True, None)
    first, *_, last = [json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b'"}')]
    assert (report.id, report.part, report.created) == (first["id"], 1, first["at"])
    assert (report.records, report.number, report.head) == (6, 6, last["hash"])
    assert (report.mended, report.lost, report.has_head) == (1, 4, None)
    assert report.to_json() == {**report.to_json(), "ok": True, "broken": None, "file": str(path)}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_changed_byte_is_found_where_it_is(tmp_path_factory, written, data):
    place = data.draw(st.integers(0, len(written) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != written[place]))
    path = tmp_path_factory.getbasetemp() / "changed.jsonl"
    path.write_bytes(written[:place] + bytes([byte]) + written[place + 1 :])
    broken = verify(path).broken
    assert broken is not None
    assert broken.offset <= place
    lines = written[:place].split(b"\n")
    whole = sum(line.endswith(b'"}') for line in lines[:-1])
    assert broken.record == whole + 1


@settings(max_examples=100, deadline=None)
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
    path = tmp_path_factory.getbasetemp() / "changed.jsonl"
    path.write_bytes(b"".join(new))
    assert not verify(path).ok


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_bytes_put_in_between_are_found(tmp_path_factory, written, data):
    place = data.draw(st.integers(0, len(written)))
    more = data.draw(st.binary(min_size=1, max_size=20))
    path = tmp_path_factory.getbasetemp() / "changed.jsonl"
    path.write_bytes(written[:place] + more + written[place:])
    assert not verify(path).ok


def test_the_reason_and_the_place_are_told(path):
    path.write_bytes(path.read_bytes().replace(b'"t1"', b'"t7"'))
    broken = verify(path).broken
    offset = path.read_bytes().index(b"\n") + 1
    assert str(broken) == f"record 2 (line 2, byte {offset}): its content doesn't fit its hash"


def test_a_torn_last_record_is_told(path):
    path.write_bytes(path.read_bytes()[:-5])
    report = verify(path)
    assert report.broken.record == report.records + 1 == 6
    assert "the last one: torn by a crash, or changed" in report.broken.reason


@pytest.mark.parametrize(("content", "reason"), [(b"", "the file is empty"), (b"hello\n", "doesn't end with a hash")])
def test_what_is_no_journal_is_broken_at_once(path, content, reason):
    path.write_bytes(content)
    broken = verify(path).broken
    assert (broken.record, broken.line, broken.offset) == (1, 1, 0)
    assert reason in broken.reason


def test_a_line_without_end_is_read_in_pieces(path):
    path.write_bytes(b"x" * (2 * MOST_LINE + 5))
    assert verify(path).broken.record == 1


@pytest.mark.parametrize(
    ("number", "facts", "previous", "reason"),
    [
        (1, {"kind": "call"}, START, "begins with another record"),
        (1, {"kind": "journal", "format": 2, "id": "a", "part": 1}, START, "begins with another record"),
        (1, {"kind": "journal", "format": 1, "id": "a"}, START, "begins with another record"),
        (1, {"kind": "journal", "format": 1, "id": "a", "part": 1}, "a" * 64, "isn't the journal's first record"),
        (5, {"kind": "journal", "format": 1, "id": "a", "part": 1}, START, "isn't the journal's first record"),
        (1, {"kind": "journal", "format": 1, "id": "a", "part": 1, "torn": {}}, START, "isn't there"),
    ],
)
def test_a_beginning_that_isn_t_one(path, number, facts, previous, reason):
    path.write_bytes(encode(number, "now", facts, previous)[0])
    assert reason in verify(path).broken.reason


def test_a_second_beginning_is_found(path, tmp_path):
    other = tmp_path / "other.jsonl"
    JournalFile(other).append([call(1)])
    path.write_bytes(path.read_bytes() + other.read_bytes())
    assert "another file begins here" in verify(path).broken.reason


def test_records_cut_off_at_the_end_show_by_a_head_that_was_kept(path):
    head = verify(path).head
    assert verify(path, head=head).has_head is True
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert verify(path).ok
    assert verify(path, head=head).has_head is False


def test_files_of_one_journal_have_to_continue_each_other(tmp_path):
    path = tmp_path / "audit.jsonl"
    journal = JournalFile(path, rotate_bytes=200)
    for number in range(4):
        journal.append([call(number)])
    parts = parts_of(path)
    assert all(report.ok for report in verify_all(path))
    head = verify(parts[0]).head
    assert next(report.has_head for report in verify_all(path, head=head)) is True
    parts[0].write_bytes(b"".join(parts[0].read_bytes().splitlines(keepends=True)[:-1]))
    reports = verify_all(path)
    assert [report.ok for report in reports][:2] == [True, False]
    assert reports[1].broken.reason == "it doesn't continue audit.jsonl.1"
    assert reports[1].broken.record == reports[0].number + 1


def test_a_missing_file_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "nowhere")
