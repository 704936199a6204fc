"""The journal: what it records, without secrets, in a thread of its own."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from pegboard import (
    Once,
    ReadonlyContext,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    register_plugin,
    tool,
)
from pegboard.json import digest_of
from pegboard_guard import Journal, journal as writer_module, verify
from pegboard_guard.journal import Writer

ANN = ReadonlyContext(user="ann", session="s1", agent="writer", invocation="i1")


@tool
async def look(at: str = "", password: str = "") -> str:
    """Look at something."""
    if at == "gone":
        raise ToolError("It is gone.")
    return f"seen {at}"


def make_registry(journal):
    registry = ToolRegistry()
    registry.register(look)
    record = register_plugin(registry, journal, "journal")
    assert record.status == "loaded", record.cause
    return registry


def calls(path):
    """The records of the journal without the first."""
    return [json.loads(line) for line in path.read_bytes().splitlines()][1:]


def keyed(path, arguments):
    """The digest of arguments, computed with the journal's key."""
    key = path.with_name(f"{path.name}.key").read_bytes()
    return f"hmac-sha256:{hmac.digest(key, digest_of(arguments).encode(), 'sha256').hex()}"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def test_each_call_is_a_record(path):
    registry = make_registry(Journal(path, now=lambda: 5.0))
    registry.call_sync("look", {"at": "a"}, ToolContext(ANN, "call_1"))
    (record,) = calls(path)
    assert record.pop("seconds") >= 0
    assert {key: record.pop(key) for key in ("n", "prev", "hash")}["n"] == 2
    assert record == {
        "at": "1970-01-01T00:00:05.000000Z",
        "kind": "call",
        "tool": "look",
        "call": "call_1",
        "session": "s1",
        "turn": "i1",
        "user": "ann",
        "agent": "writer",
        "digest": keyed(path, {"at": "a"}),
        "outcome": "ok",
    }


@pytest.mark.parametrize(
    ("name", "arguments", "outcome"),
    [
        ("look", {"at": "gone"}, "tool_failure"),
        ("look", {"at": 1}, "invalid_arguments"),
        ("missing", {}, "unknown_tool"),
    ],
)
def test_every_outcome_is_recorded(path, name, arguments, outcome):
    make_registry(Journal(path)).call_sync(name, arguments)
    (record,) = calls(path)
    assert (record["tool"], record["outcome"]) == (name, outcome)


async def test_a_record_is_there_before_the_result_is(path):
    registry = make_registry(Journal(path))
    for number in range(5):
        await registry.call("look", {"at": "a"})
        assert len(calls(path)) == number + 1


async def test_concurrent_calls_share_a_sync(path, monkeypatch):
    synced, put, all_wait = [], [], threading.Event()
    real, real_put = os.fsync, Writer.put

    def counting_put(*arguments):
        put.append(arguments)
        if len(put) == 200:
            all_wait.set()
        return real_put(*arguments)

    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), all_wait.wait(60), real(fd)))
    monkeypatch.setattr(Writer, "put", counting_put)
    registry = make_registry(Journal(path, wait_seconds=60))
    await asyncio.gather(*(registry.call("look", {"at": str(number)}) for number in range(200)))
    assert len(calls(path)) == 200
    assert verify(path).ok
    assert len(synced) < 100


def test_without_fsync_everything_is_written_after_close(path):
    journal = Journal(path, fsync="never")
    registry = make_registry(journal)
    for _ in range(20):
        registry.call_sync("look")
    assert journal.close(60)
    assert len(calls(path)) == 20
    registry.call_sync("look")
    assert journal.close(60)
    assert len(calls(path)) == 21


def test_with_starts_the_beginning_of_a_call_is_recorded(path):
    seen = []

    @tool
    async def peek() -> None:
        """Look at the journal."""
        seen.extend(calls(path))

    registry = make_registry(Journal(path, starts=True))
    registry.register(peek)
    registry.call_sync("peek", {}, ToolContext(ANN, "c1"))
    (start,) = seen
    assert (start["kind"], start["tool"], start["call"], "outcome" in start) == ("start", "peek", "c1", False)
    assert [record["kind"] for record in calls(path)] == ["start", "call"]


def test_the_approvers_name_is_recorded_if_known(path):
    """From the host; the result of a tool can't set it."""
    registry = make_registry(Journal(path))
    registry.call_sync("look", {}, ToolContext(values={"approved_by:": "ann"}))
    registry.add_callback("before_tool", lambda: ToolResult("cached", metadata={"approved_by": "bob"}))
    registry.call_sync("look")
    assert [record.get("approvedBy") for record in calls(path)] == ["ann", None]


def test_an_approver_may_set_its_name(path):
    @tool(requires_confirmation=True)
    async def wipe() -> str:
        """Wipe it."""
        return "wiped"

    async def approver(request, context):
        context.values[f"approved_by:{context.call_id}"] = "ann"
        return Once()

    registry = make_registry(Journal(path))
    registry.register(wipe)
    assert asyncio.run(registry.call("wipe", {}, approver=approver)).text == "wiped"
    assert calls(path)[0]["approvedBy"] == "ann"


def test_interrupted_calls_are_recorded(path):
    @tool
    async def wait() -> None:
        """Wait forever."""
        batch.interrupt()
        await asyncio.Event().wait()

    registry = make_registry(Journal(path))
    registry.register(wait)

    async def main():
        nonlocal batch
        batch = await registry.batch([ToolCall("wait", {}, "1"), ToolCall("look", {}, "2")], sequential=True)
        await batch.run()

    batch = None
    asyncio.run(main())
    assert sorted((record["call"], record["outcome"]) for record in calls(path)) == [("1", "aborted"), ("2", "skipped")]


# Arguments and secrets ------------------------------------------------------------------------------------------------


def test_arguments_are_without_secrets(path):
    arguments = {"at": "https://ann:hunter2@example.com", "password": "hunter2"}
    make_registry(Journal(path, arguments=True)).call_sync("look", arguments)
    assert calls(path)[0]["arguments"] == {"at": "https://[redacted]@example.com", "password": "[redacted]"}
    assert calls(path)[0]["digest"] == keyed(path, arguments)


def test_digests_are_keyed_by_a_secret_next_to_the_journal(path):
    """Or anyone who reads the journal could guess a short secret."""
    for _ in range(2):
        make_registry(Journal(path)).call_sync("look", {"at": "1234"})
    one, other = (call["digest"] for call in calls(path))
    assert one == other == keyed(path, {"at": "1234"})
    assert digest_of({"at": "1234"}).removeprefix("sha256:") not in path.read_text()
    assert stat.S_IMODE(path.with_name(f"{path.name}.key").stat().st_mode) == 0o600
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, f"{path.name}.key"]


@pytest.mark.parametrize(
    "make", [lambda key: key.write_bytes(b"k" * 32), lambda key: key.mkdir(), lambda key: key.symlink_to("/dev/zero")]
)
def test_a_key_that_is_not_private_is_not_used(path, make):
    key = path.with_name(f"{path.name}.key")
    make(key)
    if key.is_file():
        key.chmod(0o644)
    make_registry(Journal(path)).call_sync("look", {"at": "1234"})
    (call,) = calls(path)
    guess = hmac.digest(b"k" * 32, digest_of({"at": "1234"}).encode(), "sha256").hex()
    assert call["digest"].startswith("hmac-sha256:")
    assert guess not in call["digest"]


def test_long_arguments_are_cut(path):
    make_registry(Journal(path, arguments=True)).call_sync("look", {"at": "word " * 10_000})
    shown = calls(path)[0]["arguments"]
    assert isinstance(shown, str)
    assert len(shown) <= 2000
    assert shown.startswith('{"at": "word word')


def test_further_secrets_can_be_named(path):
    journal = Journal(path, arguments=True, redact=["at"], redact_values=r"\bhunter\d")
    make_registry(journal).call_sync("look", {"at": "x"}, ReadonlyContext(user="hunter2"))
    assert (calls(path)[0]["arguments"], calls(path)[0]["user"]) == ({"at": "[redacted]"}, "[redacted]")


def test_a_model_can_not_forge_a_record_or_fill_the_disk(path):
    name = 'x\n{"n":1}\u202e' + "y " * 100_000
    make_registry(Journal(path)).call_sync(name, {})
    (record,) = calls(path)
    assert record["tool"].startswith('x\n{"n":1}\u202e')
    assert len(record["tool"]) <= 203
    assert path.read_bytes().isascii()
    assert verify(path).ok


def test_unread_arguments_have_no_digest(path):
    make_registry(Journal(path)).call_sync("look", "{not json")
    assert (calls(path)[0]["outcome"], calls(path)[0]["digest"]) == ("invalid_arguments", None)


# Journals that can't be written ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_logging_a_warning_goes_to_standard_error_once(tmp_path):
    script = f"""
from pegboard import ToolRegistry, register_plugin, tool
from pegboard_guard import Journal
registry = ToolRegistry()
registry.register(tool(lambda: "done", name="do", description="Do."))
register_plugin(registry, Journal({str(tmp_path)!r}), "journal")
print(registry.call_sync("do").text, registry.call_sync("do").text)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "done done\n"
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("pegboard.guard: ")]
    assert line.startswith(f"pegboard.guard: the journal {tmp_path} isn't written: IsADirectoryError")


def test_a_hanging_disk_delays_only_one_call(path, monkeypatch, caplog):
    journal = Journal(path, wait_seconds=0.1)
    free = threading.Event()
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (free.wait(60), real(fd)))
    registry = make_registry(journal)
    assert [registry.call_sync("look", {"at": "a"}).text for _ in range(3)] == ["seen a"] * 3
    assert [record.getMessage() for record in caplog.records if record.name == "pegboard.guard"] == [
        f"the journal {path} takes longer than 0.1 s: calls no longer wait for it"
    ]
    free.set()
    assert journal.close(60)
    assert len(calls(path)) == 3
    journal.wait_seconds = 60
    registry.call_sync("look")
    assert len(calls(path)) == 4


def test_a_journal_that_still_writes_is_not_closed(path, monkeypatch):
    journal = Journal(path, fsync="each", wait_seconds=0.1)
    free = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _: free.wait(60))
    make_registry(journal).call_sync("look")
    assert journal.close(0.01) is False
    free.set()
    assert journal.close(60)


def test_nothing_is_opened_before_the_first_call(path):
    make_registry(Journal(path))
    assert not path.exists()


def test_a_relative_path_starts_in_the_working_folder_of_its_creation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = Journal("audit.jsonl")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    make_registry(journal).call_sync("look")
    assert (tmp_path / "audit.jsonl").exists()


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"file": ""}, TypeError, "file must be the path of a file, got ''"),
        ({"file": 3}, TypeError, "file must be the path of a file, got 3"),
        ({"fsync": "often"}, ValueError, "fsync must be one of 'each', 'never', got a string"),
        ({"starts": 1}, TypeError, "starts must be true or false, got 1"),
        ({"keep": -1}, ValueError, "keep must be from 0 to"),
        ({"rotate_bytes": 1.5}, TypeError, "rotate_bytes must be a whole number, got 1.5"),
        ({"wait_seconds": 0}, ValueError, "wait_seconds must be a number of seconds from 0.1 on, got 0"),
        ({"wait_seconds": "1"}, TypeError, "wait_seconds must be a number of seconds, got a string"),
        ({"redact": [""]}, ValueError, "redact must name something"),
        ({"redact": 4}, TypeError, "redact must be a string or a list of strings, got 4"),
        ({"redact_values": ["a", "("]}, ValueError, r"redact_values\[1\] isn't a regular expression: missing \)"),
    ],
)
def test_wrong_settings_are_refused(settings, error, text):
    with pytest.raises(error, match=text.replace("(", r"\(")):
        Journal(**{"file": "audit.jsonl", **settings})


# A process that is killed ---------------------------------------------------------------------------------------------

_KILLED = """
import asyncio, sys
from pegboard import ToolContext, ToolRegistry, register_plugin, tool
from pegboard_guard import Journal

@tool
async def do() -> str:
    "Do."
    return "done"

async def worker(registry, name):
    number = 0
    while True:
        number += 1
        await registry.call("do", {}, ToolContext(call_id=f"{name}{number}"))
        print(f"{name}{number}", flush=True)

async def main():
    registry = ToolRegistry()
    registry.register(do)
    register_plugin(registry, Journal(sys.argv[1], wait_seconds=60), "journal")
    await asyncio.gather(*(worker(registry, name) for name in "abcd"))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_killed_process_leaves_a_record_of_each_finished_call(path):
    process = subprocess.Popen([sys.executable, "-c", _KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    finished = [process.stdout.readline().strip() for _ in range(200)]
    process.send_signal(signal.SIGKILL)
    finished += process.stdout.read().split()[:-1]
    process.stdout.close()
    process.wait(30)
    make_registry(Journal(path)).call_sync("look")
    assert verify(path).ok
    written = [record.get("call") for record in calls(path)]
    assert set(finished) <= set(written)


class Disk:
    """Fake file: stores what is written; may fail or block."""

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
        assert self.opened.wait(60)
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


def test_done_is_called_once_the_record_is_written(writer, disk):
    done = threading.Event()
    disk.opened.clear()
    writer.put(facts(1), done.set)
    assert disk.reached.wait(60)
    assert not done.is_set()
    disk.opened.set()
    assert done.wait(60)
    assert disk.records == [facts(1)]


def test_waiting_records_are_written_together(writer, disk):
    """All records that come during one write are written by the next."""
    disk.opened.clear()
    writer.put(facts(0))
    assert disk.reached.wait(60)
    for number in range(1, 50):
        writer.put(facts(number))
    disk.opened.set()
    assert writer.flush(60)
    assert [len(batch) for batch in disk.batches] == [1, 49]
    assert [record["number"] for record in disk.records] == list(range(50))


def test_a_failing_disk_is_logged_once_and_the_gap_is_recorded(writer, disk, caplog):
    disk.error = OSError(28, "No space left on device")
    done = []
    for number in range(3):
        writer.put(facts(number), lambda: done.append(True))
        writer.flush(60)
    assert len(done) == 3
    assert [record.getMessage() for record in caplog.records] == [
        (
            "the journal audit.jsonl isn't written: OSError: [Errno 28] No space left on device. "
            "Calls go on without it; lost records are counted"
        )
    ]
    disk.error = None
    writer.put(facts(3))
    assert writer.flush(60)
    assert disk.records == [{"kind": "lost", "records": 3}, facts(3)]
    assert caplog.records[-1].getMessage() == "the journal audit.jsonl is written again; 3 records were lost"
    writer.put(facts(4))
    writer.flush(60)
    assert disk.records[-1] == facts(4)


def test_records_beyond_the_queue_limit_are_counted_as_lost(disk, caplog):
    writer = Writer(disk.append, "audit.jsonl", most=3)
    disk.opened.clear()
    writer.put(facts(0))
    assert disk.reached.wait(60)
    assert [writer.put(facts(number)) for number in range(1, 6)] == [True, True, True, False, False]
    assert "3 records wait to be written" in caplog.text
    disk.opened.set()
    assert writer.flush(60)
    assert {"kind": "lost", "records": 2} in disk.records


def test_the_thread_ends_when_idle_and_a_new_one_starts(writer, disk, monkeypatch):
    monkeypatch.setattr(writer_module, "LINGER_SECONDS", 0.01)
    for number in range(2):
        writer.put(facts(number))
        assert writer.flush(60)
        disk.threads[-1].join(60)
        assert not disk.threads[-1].is_alive()
    assert disk.records == [facts(0), facts(1)]
    assert disk.threads[0] is not disk.threads[1]


def test_without_a_thread_a_record_is_lost_without_an_error(writer, monkeypatch, caplog):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert writer.put(facts(1)) is False
    assert "can't start new thread" in caplog.text


_EXIT = """
import sys
from pathlib import Path
from pegboard_guard import journal
from pegboard_guard.journal_file import JournalFile
from pegboard_guard.journal import Writer
journal.EXIT_SECONDS = 60
writer = Writer(JournalFile(Path(sys.argv[1]), sync=False).append, "journal")
for number in range(3000):
    writer.put({"kind": "call", "tool": f"t{number}"})
"""

_FORK = """
import os, sys
from pathlib import Path
from pegboard_guard import journal_file
from pegboard_guard.journal_file import JournalFile
from pegboard_guard.journal import Writer
journal_file.LOCK_SECONDS = 60
writer = Writer(JournalFile(Path(sys.argv[1]), sync=False).append, "journal")
for number in range(200):
    writer.put({"kind": "call", "tool": "before"})
child = os.fork()
for number in range(200):
    writer.put({"kind": "call", "tool": "child" if child == 0 else "parent"})
assert writer.flush(60)
if child == 0:
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("script", "calls"), [(_EXIT, 3000), (_FORK, 600)])
def test_nothing_is_lost_or_written_twice_at_the_end_of_the_program_or_in_a_forked_child(tmp_path, script, calls):
    path = tmp_path / "audit.jsonl"
    assert subprocess.run([sys.executable, "-c", script, str(path)], timeout=120, check=False).returncode == 0
    assert verify(path).ok
    assert verify(path).records == calls + 1
