"""The changes of whole turns: what each file was before a turn, and what the turn made of it.

They are kept in one SQLite file in the user's state folder, by user and session, so that they outlive the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import time
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby, starmap
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from attrs import astuple, define, evolve, field, frozen

from pegboard import ReadonlyContext, ToolContext, ToolError
from pegboard.errors import log_failure
from pegboard.files import OTHERS_WRITE, others_can_write, user_folder
from pegboard.json import list_text
from pegboard.text import printable
from pegboard_files.root import Deadline, OpenRoot, Parts, open_root
from pegboard_files.tools import Settings
from pegboard_files.writing import Change, FileState, commit_each, hold_folder, link_or_rename, read_state, recover

_DAY: Final = 86_400.0
_NAME_BYTES: Final = 200
"""Bytes that a file counts besides its contents."""

_MOST_MISSED: Final = 1_000
"""Turns that are remembered for a change that couldn't be recorded."""

_FOLDER_SECONDS: Final = 10.0
"""How long an undo may wait for other writers in one folder."""

_AT_ONCE: Final = 64
"""Files of one folder that are undone together."""

DISTURBED: Final = "during the turn it was also changed by another program, or in a way that couldn't be recorded"

_TABLES: Final = (
    "PRAGMA auto_vacuum = FULL",
    "PRAGMA journal_mode = WAL",
    """CREATE TABLE turns (
        id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT, invocation TEXT, token TEXT, continues INTEGER DEFAULT 0,
        time REAL, expires REAL, bytes INTEGER DEFAULT 0, files INTEGER DEFAULT 0,
        UNIQUE (owner, invocation, token))""",
    """CREATE TABLE changes (
        turn INTEGER REFERENCES turns ON DELETE CASCADE, place TEXT, root TEXT, is_folder INTEGER DEFAULT 0, name TEXT,
        is_link INTEGER DEFAULT 0, mode INTEGER, kept INTEGER DEFAULT 1, disturbed INTEGER DEFAULT 0,
        old_digest TEXT, new_digest TEXT, size INTEGER DEFAULT 0, old BLOB, new BLOB,
        PRIMARY KEY (turn, place, is_folder))""",
    """CREATE TABLE intents (
        turn INTEGER REFERENCES turns ON DELETE CASCADE, folders TEXT, place TEXT, root TEXT, is_folder INTEGER,
        name TEXT, is_link INTEGER, mode INTEGER, kept INTEGER, disturbed INTEGER, old_digest TEXT, new_digest TEXT,
        old BLOB, new BLOB, PRIMARY KEY (turn, place))""",
)
_COLUMNS: Final = "place, root, is_folder, name, is_link, mode, kept, disturbed, old_digest, new_digest, old, new"
_IS_CHANGED: Final = "old_digest IS NOT new_digest"
_HAS_CHANGED: Final = f"EXISTS (SELECT 1 FROM changes WHERE turn = id AND {_IS_CHANGED})"  # noqa: S608

_OF_TURN: Final = "pegboard_files.turn"
"""Key in the values of a turn of what tells it from others of the same id: a host may count from 1 in each process."""

_NAME: Final = "turns.sqlite"


@frozen
class FileChange:
    """The net change of one file in a turn; or a folder that the turn has made.

    Attributes:
        place: Its absolute path as JSON: names that aren't UTF-8 are escaped.
        root: The folder that the tools were confined to, likewise.
        is_folder: Whether it is a folder that the turn has made; then it has only a name.
        name: Its path, as shown to the model.
        is_link: Whether it was a link, which the turn has deleted or replaced.
        mode: The permissions that it had when the turn deleted it; `None`: it didn't.
        kept: Whether its contents are kept; if not, `old` and `new` are `None`.
        disturbed: Whether the turn may have begun with another content: another program has changed it between two
            changes of the turn, or a change couldn't be recorded.
        old_digest: The digest of its bytes before the turn; `None`: there was no file.
        new_digest: That after the turn's last change; `None`: there was no file.
        old: Its bytes before the turn.
        new: Its bytes after the turn's last change.
    """

    place: str
    root: str
    is_folder: bool = field(converter=bool)
    name: str
    is_link: bool = field(converter=bool)
    mode: int | None
    kept: bool = field(converter=bool)
    disturbed: bool = field(converter=bool)
    old_digest: str | None
    new_digest: str | None
    old: bytes | None = field(repr=False)
    new: bytes | None = field(repr=False)

    @property
    def kind(self) -> str:
        """`"added"`, `"modified"` or `"deleted"`."""
        if self.old_digest is None:
            return "added"
        return "deleted" if self.new_digest is None else "modified"


@frozen
class TurnOfSession:
    """A turn that has changed files.

    Attributes:
        id: Its number in the store.
        invocation: Its id.
        time: When it last changed a file, in seconds since 1970.
        files: The number of files.
    """

    id: int
    invocation: str
    time: float
    files: int


@frozen
class Undone:
    """What the undo of a turn did.

    Attributes:
        restored: The names of the files that are as they were before the turn.
        refused: Name -> why the file was left as it is.
    """

    restored: Sequence[str]
    refused: dict[str, str]

    @property
    def model_note(self) -> str:
        """What the model has to know of it, for a message of the host; empty if no file was restored."""
        if not self.restored:
            return ""
        return f"The user has undone your changes of {list_text(self.restored)}: these files are as they were before."


@define(eq=False)
class TurnStore:
    """The store of the turns' changes; threads and processes can share its file.

    Within its limits, the oldest turns go first. Of a turn that is larger by itself, the further files are known by
    name only.

    Attributes:
        most_bytes: The most bytes of all contents.
        most_files: The most files of all turns.
        days: After how many days a turn is forgotten.
        path: The file; it and its folder are made by the first change, for their owner alone.
    """

    most_bytes: int = 200_000_000
    most_files: int = 20_000
    days: float = 30.0
    path: Path = field(factory=lambda: Path(user_folder("state"), "files", _NAME))
    _missed: deque[tuple[str, str]] = field(factory=lambda: deque(maxlen=_MOST_MISSED), init=False, repr=False)

    @classmethod
    def of(cls, settings: Settings) -> TurnStore:
        """The store with the limits of the settings."""
        return cls(settings.undo_bytes, settings.undo_files, settings.undo_days)

    @contextmanager
    def record(self, call: ToolContext | None, changes: Sequence[Change]) -> Generator[None]:
        """Records the changes that a call makes in the body of the `with`; a call outside of a turn isn't recorded.

        They are intents before the body, so that none that was made is lost if the process dies. The changes of an
        agent belong to the turn at the top.

        A failure is logged: what is done is done, only it can't be undone.

        Args:
            call: The call.
            changes: Each with the file as it is before, and its new bytes.
        """
        turn = self._intend(call, changes)
        yield
        if turn is not None:
            with _log_failures(), self._work() as connection:
                for change in changes:
                    self._settle(connection, turn, json.dumps(change.before.place), _digest(change.data))
                self._forget(connection, turn)

    def _intend(self, call: ToolContext | None, changes: Sequence[Change]) -> int | None:
        """Records what a call is about to do; gives the turn, or `None` if there is nothing to record, or it failed."""
        top = call and (call.root or call.request)
        if not changes or top is None or top.invocation is None:
            return None
        key = owner_of(top), top.invocation
        with _log_failures(lambda: self._missed.append(key)), self._work() as connection:
            turn, now = _begin_turn(connection, top), time.time()
            for change in changes:
                intent = _intent_of(change, disturbed=key in self._missed)
                self._settle(connection, turn, intent.place, intent.old_digest)
                folders = json.dumps([(json.dumps(folder.place), folder.name) for folder in change.before.missing])
                insert = f"INSERT INTO intents (turn, folders, {_COLUMNS}) VALUES ({', '.join('?' * 14)})"  # noqa: S608
                connection.execute(insert, (turn, folders, *astuple(intent)))
            expires = now + self.days * _DAY
            connection.execute("UPDATE turns SET time = ?, expires = ? WHERE id = ?", (now, expires, turn))
            return turn
        return None

    def _settle(self, connection: sqlite3.Connection, turn: int, place: str, found: str | None) -> None:
        """Makes an intent a change if the file has its new content, and forgets it."""
        where = "FROM intents WHERE turn = ? AND place = ?"
        row = connection.execute(f"SELECT folders, {_COLUMNS} {where}", (turn, place)).fetchone()
        if row is not None and connection.execute(f"DELETE {where}", (turn, place)).rowcount:
            folders, intent = json.loads(row[0]), FileChange(*row[1:])
            if intent.new_digest == found:
                self._add_change(connection, turn, intent, folders)

    def _settle_rest(self) -> None:
        """Settles the intents of calls that failed or were killed; those of running ones have their folder locked.

        Raises:
            ToolError: The store can't be read.
        """
        if intents := list(self._read("SELECT turn, place, root FROM intents")):
            recover()
        for turn, place, root_place in intents:
            with (
                suppress(ToolError, OSError),
                _open_place(place, root_place) as (root, parts),
                hold_folder(root, parts),
                _log_failures(),
                self._work() as connection,
            ):
                self._settle(connection, turn, place, _digest_of(read_state(root, parts, follow=False)))

    def turns(self, context: ReadonlyContext | ToolContext) -> list[TurnOfSession]:
        """The turns of a session that have changed files, net, the newest first.

        Raises:
            ToolError: The store can't be read.
        """
        query = (
            "SELECT id, invocation, time, files FROM turns WHERE owner = ? AND expires > ? AND "  # noqa: S608
            f"{_HAS_CHANGED} ORDER BY id DESC"
        )
        self._settle_rest()
        return [TurnOfSession(*row) for row in self._read(query, owner_of(context), time.time())]

    def end_turn(self, context: ReadonlyContext, *, continues: bool) -> TurnOfSession | None:
        """The turn of this context, which has ended or waits; or `None` if it has changed no file, net.

        Args:
            context: Its user, session and id.
            continues: Whether a later turn of this id belongs to it. If not, or if this was never called as the
                process was killed, that is a turn of its own.

        Raises:
            ToolError: The store can't be read.
        """
        if not self.path.exists():
            return None
        self._settle_rest()
        try:
            with self._work() as connection:
                if (found := _find_turn(connection, context)) is None:
                    return None
                connection.execute("UPDATE turns SET continues = ? WHERE id = ?", (continues, found[0]))
                query = f"SELECT id, invocation, time, files FROM turns WHERE id = ? AND {_HAS_CHANGED}"  # noqa: S608
                row = connection.execute(query, found[:1]).fetchone()
        except (sqlite3.Error, OSError) as error:
            raise _store_error(error) from error
        return row and TurnOfSession(*row)

    def changes(self, turn: TurnOfSession) -> Iterator[FileChange]:
        """The net changes of a turn by their paths, without files that are again as they were.

        Raises:
            ToolError: The store can't be read.
        """
        query = f"SELECT {_COLUMNS} FROM changes WHERE turn = ? AND {_IS_CHANGED} ORDER BY place"  # noqa: S608
        return starmap(FileChange, self._read(query, turn.id))

    def undo(self, turn: TurnOfSession, deadline: Deadline) -> Undone:
        """Makes files as they were before a turn, each by itself; one that was changed since stays as it is.

        Folders that the turn has made are removed if they are empty. What could be undone is forgotten; the rest stays,
        for another attempt.

        Args:
            turn: The turn.
            deadline: When to stop; further files stay as they are.

        Raises:
            ToolError: The store can't be read.
        """
        restored, refused, done, named = list[str](), dict[str, str](), list[str](), set[str]()
        stopped = ToolError("the undo was stopped before; it can be repeated.")
        for batch in self._batches(turn):
            if batch[0].is_folder:
                _remove_folder(batch[0])
                continue
            errors = [stopped] * len(batch) if deadline.is_over else _restore(batch)
            for change, error in zip(batch, errors, strict=True):
                name = printable(json.loads(change.place)) if change.name in named else change.name  # of two roots
                named.add(name)
                if error is None:
                    restored.append(name)
                    done.append(change.place)
                else:
                    refused[name] = error.text
        try:
            with self._work() as connection:
                delete = "DELETE FROM changes WHERE turn = ? AND place = ? AND NOT is_folder"
                connection.executemany(delete, [(turn.id, place) for place in done])
                rest = "SELECT coalesce(sum(size), 0), count(*) FROM changes WHERE turn = id AND NOT is_folder"
                connection.execute(f"UPDATE turns SET (bytes, files) = ({rest}) WHERE id = ?", (turn.id,))  # noqa: S608
                if not refused:
                    connection.execute("DELETE FROM turns WHERE id = ?", (turn.id,))
        except (sqlite3.Error, OSError) as error:  # another undo of it finds all files as they were
            log_failure("forgetting a turn that was undone", error)
        return Undone(sorted(restored), refused)

    def _batches(self, turn: TurnOfSession) -> Iterator[list[FileChange]]:
        """What an undo has to do, what came last first: a folder, or some files of one folder."""
        keys = "SELECT is_folder, root, place FROM changes WHERE turn = ? AND (is_folder OR "
        rows = list(self._read(f"{keys} {_IS_CHANGED}) ORDER BY rowid DESC", turn.id))
        files = f"SELECT {_COLUMNS} FROM changes WHERE turn = ? AND is_folder = ? AND place IN "  # noqa: S608
        for is_folder, group in groupby(rows, key=itemgetter(0)):
            folders = defaultdict[object, list[str]](list)
            for number, (_, root, place) in enumerate(group):
                folders[number if is_folder else (root, place.rpartition("/")[0])].append(place)
            for places in folders.values():
                for start in range(0, len(places), _AT_ONCE):
                    batch = places[start : start + _AT_ONCE]
                    found = self._read(f"{files}({', '.join('?' * len(batch))})", turn.id, is_folder, *batch)
                    if changes := list(starmap(FileChange, found)):  # another undo may have been faster
                        yield changes

    def _add_change(
        self, connection: sqlite3.Connection, turn: int, change: FileChange, folders: Sequence[tuple[str, str]]
    ) -> None:
        """Adds a change that was made to its turn, and the folders that it has made: the place and name of each."""
        place, old, new = change.place, change.old, change.new
        query = "SELECT kept, new_digest, coalesce(length(old), 0), size FROM changes "
        row = connection.execute(f"{query}WHERE turn = ? AND place = ? AND NOT is_folder", (turn, place)).fetchone()
        kept, last_digest, old_size, last_size = row or (True, change.old_digest, len(old or b""), 0)
        disturbed = last_digest != change.old_digest if row else change.disturbed
        size = old_size + len(new or b"") + _NAME_BYTES
        used, files = connection.execute("SELECT bytes, files FROM turns WHERE id = ?", (turn,)).fetchone()
        kept = bool(kept) and used - last_size + size <= self.most_bytes and files + (row is None) <= self.most_files
        size = size if kept else _NAME_BYTES
        insert = "INSERT OR IGNORE INTO changes (turn, place, root, is_folder, name) VALUES (?, ?, ?, 1, ?)"
        connection.executemany(insert, [(turn, folder, change.root, name) for folder, name in folders])
        contents = {} if kept else {"old": None, "new": None}
        added = evolve(change, kept=kept, disturbed=disturbed, **contents)
        connection.execute(
            f"INSERT INTO changes (turn, size, {_COLUMNS}) VALUES ({', '.join('?' * 14)}) "  # noqa: S608
            "ON CONFLICT (turn, place, is_folder) DO UPDATE SET size = excluded.size, kept = excluded.kept, "
            "mode = coalesce(mode, excluded.mode), disturbed = disturbed OR excluded.disturbed, "
            "new_digest = excluded.new_digest, old = CASE WHEN excluded.kept THEN old END, new = excluded.new",
            (turn, size, *astuple(added)),
        )
        connection.execute(
            "UPDATE turns SET bytes = bytes + ?, files = files + ? WHERE id = ?", (size - last_size, row is None, turn)
        )

    def _forget(self, connection: sqlite3.Connection, turn: int) -> None:
        """Deletes turns that are too old, and the oldest while all are too large."""
        connection.execute("DELETE FROM turns WHERE expires <= ? AND id != ?", (time.time(), turn))
        used, files = connection.execute("SELECT sum(bytes), sum(files) FROM turns").fetchone()
        others = connection.execute("SELECT id, bytes, files FROM turns WHERE id != ? ORDER BY time", (turn,))
        for id_, its_bytes, its_files in others.fetchall():
            if used <= self.most_bytes and files <= self.most_files:
                return
            connection.execute("DELETE FROM turns WHERE id = ?", (id_,))
            used, files = used - its_bytes, files - its_files

    def _read(self, query: str, *values: Any) -> Generator[tuple[Any, ...]]:
        if not self.path.exists():
            return
        try:
            with self._work() as connection:
                yield from connection.execute(query, values)
        except (sqlite3.Error, OSError) as error:
            raise _store_error(error) from error

    @contextmanager
    def _work(self) -> Generator[sqlite3.Connection]:
        """A connection; what was done is committed at the end, and rolled back where it fails.

        Raises:
            OSError: The file can't be made, or others can write it: they could have its undo write any content.
        """
        if not self.path.exists():
            self._make()
        if others_can_write(str(self.path)):
            raise PermissionError(f"{self.path}: {OTHERS_WRITE}")
        with closing(sqlite3.connect(self.path, timeout=5.0)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
            with connection:
                yield connection

    def _make(self) -> None:
        """Makes the file under another name first, so that others never see one without tables."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with closing(sqlite3.connect(draft)) as connection:
                for statement in _TABLES:
                    connection.execute(statement)
            with suppress(FileExistsError):
                link_or_rename(str(draft), str(self.path))
        finally:
            draft.unlink(missing_ok=True)


def owner_of(context: ReadonlyContext | ToolContext) -> str:
    """The key of a user's session."""
    return hashlib.sha256(json.dumps([context.user, context.session]).encode()).hexdigest()


def _find_turn(connection: sqlite3.Connection, context: ReadonlyContext) -> tuple[int, str] | None:
    """The id and the token of the turn of this context, if it is known."""
    query = "SELECT id, token FROM turns WHERE owner = ? AND invocation = ?"
    key = owner_of(context), context.invocation
    if context.values is None:  # outside of `run_turn`, and in another process, the id has to do
        return connection.execute(f"{query} ORDER BY id DESC LIMIT 1", key).fetchone()
    if (token := context.values.get(_OF_TURN)) is None:
        return connection.execute(f"{query} AND (continues OR token = '') ORDER BY id DESC LIMIT 1", key).fetchone()
    return connection.execute(f"{query} AND token = ?", (*key, token)).fetchone()


def _begin_turn(connection: sqlite3.Connection, context: ReadonlyContext) -> int:
    """The id of the turn of this context, which is added if it is new."""
    found, token = _find_turn(connection, context), ""
    if context.values is not None:  # of calls side by side, the first one decides
        token = context.values.setdefault(_OF_TURN, found[1] if found else secrets.token_hex(8))
    elif found:
        return found[0]
    where, key = "owner = ? AND invocation = ? AND token = ?", (owner_of(context), context.invocation, token)
    connection.execute("INSERT OR IGNORE INTO turns (owner, invocation, token) VALUES (?, ?, ?)", key)
    connection.execute(f"UPDATE turns SET continues = 0 WHERE {where}", key)  # noqa: S608
    (id_,) = connection.execute(f"SELECT id FROM turns WHERE {where}", key).fetchone()  # noqa: S608
    return id_


def _digest(data: bytes | None, *, is_link: bool = False) -> str | None:
    return None if data is None else hashlib.sha256(b"link:" * is_link + data).hexdigest()


def _digest_of(state: FileState) -> str | None:
    return _digest(state.data, is_link=state.is_link)


def _intent_of(change: Change, *, disturbed: bool) -> FileChange:
    before, new = change.before, change.data
    mode = before.mode if new is None else None
    places = json.dumps(before.place), json.dumps(before.root.places[0]), False, before.name
    digests = _digest_of(before), _digest(new)
    return FileChange(*places, before.is_link, mode, True, disturbed, *digests, before.data, new)  # noqa: FBT003


@contextmanager
def _log_failures(then: Callable[[], None] = lambda: None) -> Generator[None]:
    """Logs a failure to record changes, and calls a function then."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:  # the last: a host's id that isn't Unicode
        then()
        log_failure("recording a change of files for its undo", error)


def _store_error(error: Exception) -> ToolError:
    return ToolError(f"The changes of earlier turns can't be read: {error}.")


def _restore(batch: Sequence[FileChange]) -> list[ToolError | None]:
    """Makes files of one folder as they were before the turn; one may be so already, as after an undo that was killed.

    Returns:
        For each, why it is left: it was changed by another program, its old content wasn't kept, or can't be written.
    """
    errors, changes = dict[str, ToolError | None](), dict[str, Change]()
    try:
        with _open_place(batch[0].place, batch[0].root) as (root, parts):
            for change in batch:
                try:
                    name = json.loads(change.place).rpartition("/")[2]
                    state = read_state(root, (*parts[:-1], name), follow=False)
                    found = _digest_of(state)
                    if found != change.old_digest:
                        _check_unchanged(change, found)
                        changes[change.place] = Change(state, change.old, mode=change.mode, is_link=change.is_link)
                except ToolError as error:
                    errors[change.place] = error
            errors |= zip(changes, commit_each(list(changes.values()), Deadline(_FOLDER_SECONDS)), strict=True)
    except ToolError as error:  # there is no such root any more
        return [error] * len(batch)
    return [errors.get(change.place) for change in batch]


def _remove_folder(change: FileChange) -> None:
    """Removes a folder, if it is there and empty."""
    with suppress(OSError, ToolError), _open_place(change.place, change.root) as (root, parts):
        os.rmdir(parts[-1], dir_fd=root.directory(parts[:-1]))


@contextmanager
def _open_place(place: str, root_place: str) -> Generator[tuple[OpenRoot, Parts]]:
    """The root of a change, open, and the parts of its path below it; raises `ToolError` if it can't be opened."""
    top = json.loads(root_place)
    with open_root(top) as root:
        yield root, tuple(json.loads(place).removeprefix(top).strip("/").split("/"))


def _check_unchanged(change: FileChange, found: str | None) -> None:
    if not change.kept:
        raise ToolError("its content before the turn wasn't kept: the turn's changes exceed undo_bytes or undo_files.")
    if change.disturbed:
        raise ToolError(f"{DISTURBED}; restoring it would lose that change.")
    if found != change.new_digest:
        raise ToolError("it was changed since the turn; restoring it would lose that change.")
