from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from pegboard_guard.journal import writer as writer_module
from pegboard_guard.journal.verify import verify
from pegboard_guard.journal.writer import Writer


class Disk:
    """Stands for the file: keeps what is written, fails or waits when it is told to."""

    def __init__(self):
        self.batches = []
        self.threads = []
        self.error = None
        self.opened = threading.Event()
        self.opened.set()
        self.reached = threading.Event()

    def append(self, records):
        self.threads.append(threading.current_thread())
        self.reached.set()
        assert self.opened.wait(10)
        if self.error is not None:
            raise self.error
        self.batches.append(list(records))

    @property
    def records(self):
        return [record for batch in self.batches for record in batch]


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def writer(disk):
    return Writer(disk.append, "audit.jsonl")


def facts(number):
    return {"kind": "call", "number": number}


def test_records_are_written_in_order(writer, disk):
    for number in range(100):
        assert writer.put(facts(number))
    assert writer.flush(10)
    assert [record["number"] for record in disk.records] == list(range(100))


def test_done_is_called_once_the_record_is_written(writer, disk):
    done = threading.Event()
    disk.opened.clear()
    writer.put(facts(1), done.set)
    assert disk.reached.wait(10)
    assert not done.is_set()
    disk.opened.set()
    assert done.wait(10)
    assert disk.records == [facts(1)]


def test_what_waits_is_written_at_once(writer, disk):
    """One trip to the disk for all the calls that end meanwhile."""
    disk.opened.clear()
    writer.put(facts(0))
    assert disk.reached.wait(10)
    for number in range(1, 50):
        writer.put(facts(number))
    disk.opened.set()
    assert writer.flush(10)
    assert [len(batch) for batch in disk.batches] == [1, 49]


def test_flush_gives_up_in_time(writer, disk):
    disk.opened.clear()
    writer.put(facts(1))
    assert writer.flush(0.01) is False
    disk.opened.set()
    assert writer.flush(10) is True


def test_a_failing_disk_is_told_once_and_the_gap_stands_in_the_journal(writer, disk, caplog):
    disk.error = OSError(28, "No space left on device")
    done = []
    for number in range(3):
        writer.put(facts(number), lambda: done.append(True))
        writer.flush(10)
    assert len(done) == 3
    assert [record.getMessage() for record in caplog.records] == [
        (
            "the journal audit.jsonl isn't written: OSError: [Errno 28] No space left on device. "
            "Calls go on without it; lost records are counted"
        )
    ]
    disk.error = None
    writer.put(facts(3))
    assert writer.flush(10)
    assert disk.records == [{"kind": "lost", "records": 3}, facts(3)]
    assert caplog.records[-1].getMessage() == "the journal audit.jsonl is written again; 3 records were lost"
    writer.put(facts(4))
    writer.flush(10)
    assert disk.records[-1] == facts(4)


def test_more_than_may_wait_are_lost_and_counted(disk, caplog):
    writer = Writer(disk.append, "audit.jsonl", most=3)
    disk.opened.clear()
    writer.put(facts(0))
    assert disk.reached.wait(10)
    assert [writer.put(facts(number)) for number in range(1, 6)] == [True, True, True, False, False]
    assert "3 records wait to be written" in caplog.text
    disk.opened.set()
    assert writer.flush(10)
    assert {"kind": "lost", "records": 2} in disk.records


def test_its_thread_ends_when_nothing_comes_and_a_new_one_is_made(writer, disk, monkeypatch):
    monkeypatch.setattr(writer_module, "LINGER_SECONDS", 0.01)
    for number in range(2):
        writer.put(facts(number))
        assert writer.flush(10)
        disk.threads[-1].join(10)
        assert not disk.threads[-1].is_alive()
    assert disk.records == [facts(0), facts(1)]
    assert disk.threads[0] is not disk.threads[1]


def test_no_thread_is_no_record_and_no_error(writer, monkeypatch, caplog):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert writer.put(facts(1)) is False
    assert "can't start new thread" in caplog.text


def test_a_forked_child_writes_only_what_is_its_own(disk):
    """As far as one process can show it: its number is another, the thread and what waited were its parent's."""
    writer = Writer(disk.append, "audit.jsonl")
    disk.opened.clear()
    writer.put(facts(0))
    assert disk.reached.wait(10)
    writer._process = -1
    child = Disk()
    writer.append = child.append
    writer.put(facts(1))
    assert writer.flush(10)
    assert child.records == [facts(1)]
    disk.opened.set()


def test_the_end_of_the_program_waits_for_what_is_still_to_be_written(writer, disk):
    disk.opened.clear()
    writer.put(facts(1))
    ending = threading.Thread(target=writer_module._flush_all)
    ending.start()
    disk.opened.set()
    ending.join(10)
    assert disk.records == [facts(1)]


_EXIT = """
import sys
from pathlib import Path
from pegboard_guard.journal.file import JournalFile
from pegboard_guard.journal.writer import Writer
writer = Writer(JournalFile(Path(sys.argv[1]), sync=False).append, "journal")
for number in range(3000):
    writer.put({"kind": "call", "tool": f"t{number}"})
"""

_FORK = """
import os, sys
from pathlib import Path
from pegboard_guard.journal.file import JournalFile
from pegboard_guard.journal.writer import Writer
writer = Writer(JournalFile(Path(sys.argv[1]), sync=False).append, "journal")
for number in range(200):
    writer.put({"kind": "call", "tool": "before"})
child = os.fork()
for number in range(200):
    writer.put({"kind": "call", "tool": "child" if child == 0 else "parent"})
assert writer.flush(30)
if child == 0:
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize(("script", "calls"), [(_EXIT, 3000), (_FORK, 600)])
def test_nothing_is_lost_or_written_twice_at_the_end_of_the_program_or_in_a_forked_child(tmp_path, script, calls):
    path = tmp_path / "audit.jsonl"
    assert subprocess.run([sys.executable, "-c", script, str(path)], timeout=60, check=False).returncode == 0
    assert verify(path).ok
    assert verify(path).records == calls + 1
