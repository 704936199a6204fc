"""The database: transactions, concurrent use and damage."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from pegboard import ToolError
from pegboard_memory import Blocks, Database, OutboxRouter, SqliteMemory, SqliteTexts

COUNT = "SELECT count(*) FROM outbox"
PUT = "INSERT INTO outbox (message) VALUES ('a')"


def put(database):
    with database.work(write=True) as connection:
        connection.execute(PUT)


def count(database):
    with database.work() as connection:
        return connection.execute(COUNT).fetchone()[0]


def test_a_transaction_is_committed_or_rolled_back(database):
    assert not database.exists
    put(database)

    def fail():
        with database.work(write=True) as connection:
            connection.execute(PUT)
            raise ValueError("of the caller")

    with pytest.raises(ValueError, match="of the caller"):
        fail()
    assert (database.exists, count(database)) == (True, 1)


def test_the_database_is_private(database):
    put(database)
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.path.parent.stat().st_mode) == 0o700


def test_while_another_program_writes_reads_work_and_writes_time_out(database):
    put(database)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert count(database) == 1
        with pytest.raises(ToolError, match=r"stayed locked for 0.2 s\. Nothing was changed\.") as caught:
            put(database)
        assert (caught.value.retryable, caught.value.hint) == (True, "Try again later.")
    put(database)
    assert count(database) == 2


def test_a_writer_waits_for_another(database):
    patient = Database(database.path, 30.0)
    put(patient)
    with closing(sqlite3.connect(database.path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        writer = threading.Thread(target=put, args=(patient,))
        writer.start()
        other.execute(PUT)
        other.execute("COMMIT")
        writer.join(60)
    assert count(patient) == 3


def test_threads_that_begin_together_make_one_database(database):
    patient = Database(database.path, 30.0)
    writers = [threading.Thread(target=put, args=(patient,)) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert count(patient) == 8


@pytest.mark.parametrize("damage", [b"no database " * 500, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_a_damaged_file_is_an_error_and_unchanged(database, damage):
    database.path.parent.mkdir()
    database.path.write_bytes(damage)
    for work in (lambda: put(database), database.check):
        with pytest.raises(ToolError) as caught:
            work()
        assert caught.value.text == "The memory is damaged. Nothing was changed."
    assert database.path.read_bytes() == damage


@pytest.mark.parametrize(
    ("damage", "read"),
    [
        ("UPDATE texts SET data = x'00'", lambda database: SqliteTexts(database).load("key", session=None)),
        ("UPDATE entries SET metadata = '{'", lambda database: asyncio.run(SqliteMemory(database).search("plum"))),
        ("UPDATE entries SET metadata = NULL", lambda database: asyncio.run(SqliteMemory(database).search("plum"))),
        ("UPDATE outbox SET message = '7'", lambda database: OutboxRouter(database).take()),
    ],
)
def test_an_invalid_row_is_an_error(database, damage, read):
    SqliteTexts(database).keep("key", "text", session=None)
    asyncio.run(SqliteMemory(database).add("plum"))
    put(database)
    with database.work(write=True) as connection:
        connection.execute(damage)
    with pytest.raises(ToolError, match="is damaged"):
        read(database)


def test_check_finds_damaged_pages(database):
    database.check()
    assert not database.exists
    for _ in range(50):
        put(database)
    database.check()
    with closing(sqlite3.connect(database.path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = other.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'").fetchone()
        (size,) = other.execute("PRAGMA page_size").fetchone()
    data = bytearray(database.path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xaa" * size
    database.path.write_bytes(data)
    with pytest.raises(ToolError, match="is damaged"):
        database.check()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ToolError, match=r"can't be used: .*File exists"):
        put(Database(tmp_path / "file" / "memory.db"))


def test_a_database_of_a_newer_version_is_refused(database):
    put(database)
    with closing(sqlite3.connect(database.path)) as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(ToolError, match="newer pegboard-memory: update this one"):
        put(database)


def test_a_full_disk_is_an_error_and_stores_nothing(database, monkeypatch):
    put(database)
    real = sqlite3.connect

    def full(*arguments, **options):
        connection = real(*arguments, **options)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(ToolError, match="can't grow: the disk is full"):
        Blocks(database).create("ann", None, "large", "x" * 20_000)
    monkeypatch.undo()
    assert (Blocks(database).all("ann", None), count(database)) == ({}, 1)


WRITES = """
import sys
from pegboard_memory import Blocks, Database, OutboxRouter, SqliteMemory, SqliteTexts
blocks = Blocks(Database(sys.argv[1], 30.0))
for number in range(int(sys.argv[3])):
    blocks.change("ann", None, "log", f"{sys.argv[2]}-{number}")
    print(number, flush=True)
"""


def start(database, name, times):
    command = [sys.executable, "-c", WRITES, str(database.path), name, str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_lose_nothing_that_the_other_writes(database):
    Blocks(database).create("ann", None, "log", "start")
    with start(database, "a", 60) as one, start(database, "b", 60) as other:
        assert [one.wait(120), other.wait(120)] == [0, 0]
    lines = Blocks(database).all("ann", None)["log"].split("\n\n")
    assert sorted(lines[1:]) == sorted(f"{name}-{number}" for name in "ab" for number in range(60))
    for name in "ab":
        assert [line for line in lines if line.startswith(name)] == [f"{name}-{number}" for number in range(60)]


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_each_change_whole(database):
    """Killed right after it has printed that a change is made, while it makes the next."""
    patient = Database(database.path, 30.0)
    Blocks(patient).create("ann", None, "log", "start")
    for life in range(8):
        with start(patient, f"{life}", 10_000) as process:
            assert process.stdout is not None
            for _ in range(3 + life):
                process.stdout.readline()
            os.kill(process.pid, 9)
        lines = Blocks(patient).all("ann", None)["log"].split("\n\n")
        own = [line for line in lines if line.startswith(f"{life}-")]
        assert own == [f"{life}-{number}" for number in range(len(own))]
        assert len(own) >= 3 + life
        with patient.work() as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        Blocks(patient).change("ann", None, "log", "start", "")
