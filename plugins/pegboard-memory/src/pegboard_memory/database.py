"""`Database`: one SQLite file that threads and processes can share."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import field, frozen

from pegboard import ToolError

T = TypeVar("T")
_VERSION: Final = 1
_TABLES: Final = """
CREATE TABLE blocks (scope TEXT, name TEXT, text TEXT, time REAL, PRIMARY KEY (scope, name)) WITHOUT ROWID;

CREATE TABLE entries (
    id INTEGER PRIMARY KEY, user TEXT, session TEXT, author TEXT, time REAL, text TEXT, metadata TEXT
);

CREATE VIRTUAL TABLE words USING fts5 (text, content='entries', content_rowid='id', tokenize='porter unicode61');

CREATE TRIGGER indexed AFTER INSERT ON entries
BEGIN INSERT INTO words (rowid, text) VALUES (new.id, new.text); END;

CREATE TABLE texts (key TEXT PRIMARY KEY, session TEXT, time REAL, data BLOB);

CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, taken REAL, message TEXT);
"""
_FAULTS: Final = {
    sqlite3.SQLITE_BUSY: "is in use by another program, and stayed locked for {seconds:g} s",
    sqlite3.SQLITE_LOCKED: "is in use by another program, and stayed locked for {seconds:g} s",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is damaged",
    sqlite3.SQLITE_FULL: "can't grow: the disk is full",
    sqlite3.SQLITE_READONLY: "can't be written",
    sqlite3.SQLITE_CANTOPEN: "can't be opened",
    sqlite3.SQLITE_INTERRUPT: "wasn't searched to the end: the call was cancelled",
}
_STEPS: Final = 10_000  # instructions of SQLite's virtual machine between two looks at `stop`
_RETRYABLE: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@frozen
class Database:
    """SQLite database for memory, full texts of results and messages.

    Each piece of work has its own connection and transaction, so that threads, forked processes and other programs can
    use the file at the same time, and one that is killed leaves all of its work, or none.

    Attributes:
        path: The file; it and its folder are made by the first work, for their owner alone.
        seconds: How long to wait while another program writes.
    """

    path: Path = field(converter=Path)
    seconds: float = 5.0

    @property
    def exists(self) -> bool:
        """Whether there is a file; reads ask first, as they needn't make one."""
        return self.path.exists()

    def check(self) -> None:
        """Checks the integrity of the whole file, if it exists.

        Raises:
            ToolError: As `work`.
        """
        if self.exists:
            with self.work() as connection:
                (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if result != "ok":
                raise self._error_of(sqlite3.SQLITE_CORRUPT, result)

    @contextmanager
    def work(self, *, write: bool = False, stop: threading.Event | None = None) -> Generator[sqlite3.Connection]:
        """A transaction: committed at the end, rolled back where it fails.

        Args:
            write: Whether it writes; then no other program can write at the same time.
            stop: Ends the statement that runs once it is set.

        Raises:
            ToolError: The file is locked, damaged or can't be used, or the work was stopped; nothing was changed.
        """
        try:
            with closing(self._connect()) as connection:
                if stop is not None:
                    connection.set_progress_handler(stop.is_set, _STEPS)
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            cause = error.strerror if isinstance(error, OSError) else error
            raise self._error_of(getattr(error, "sqlite_errorcode", 0) & 0xFF, cause) from error  # the primary code

    def read(self, reader: Callable[[Any], T], value: object) -> T:
        """What a reader makes of a value of a row.

        Raises:
            ToolError: The reader can't read it, so the file is damaged.
        """
        try:
            return reader(value)
        except (zlib.error, ValueError, TypeError) as error:
            raise self._error_of(sqlite3.SQLITE_CORRUPT, error) from error

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.path.exists():
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite's own would be readable by others
        connection = sqlite3.connect(self.path, timeout=self.seconds, isolation_level=None)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                self._make_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        """Makes the tables, unless another program has just made them."""
        deadline = time.monotonic() + self.seconds
        while True:  # SQLite's own timeout doesn't apply to changes of the journal mode
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in _RETRYABLE or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise ToolError("The memory was written by a newer pegboard-memory: update this one.")
        if version == 0:
            for statement in _TABLES.strip().split("\n\n"):  # executescript would commit first
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")

    def _error_of(self, code: int, cause: object) -> ToolError:
        """The error for users and models; only `registry doctor` shows the path of the file."""
        what = _FAULTS.get(code, f"can't be used: {cause}").format(seconds=self.seconds)
        retryable = code in _RETRYABLE
        hint = "Try again later." if retryable else "Continue without it, and tell the user to run: registry doctor"
        return ToolError(f"The memory {what}. Nothing was changed.", retryable=retryable, hint=hint)
