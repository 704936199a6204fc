"""Atomic changes of several files: staged next to their targets, checked, then renamed into place.

An existing file is never written to: a new one is created next to it, and renamed over it once it is complete. So
whenever the process ends, a file has its old or its new content. If several files change, each replaced one keeps a
backup (a hard link, else a copy) until all of them are in place, and a journal in the user's state folder lists them:
an error rolls everything back at once, and the next change rolls back what a killed process has left.

Directories are opened from the root downwards and never through a link, and are locked during the change, against
other writers in this process and in others.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, TypeAlias

from attrs import define, field, frozen

from pegboard import ReadonlyContext, ToolContext, ToolError
from pegboard.files import read_private, user_folder, write_private
from pegboard_files.editing import MAX_EDITED
from pegboard_files.root import Deadline, OpenRoot, Parts, as_tool_error, open_root

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_ALL_RIGHTS: Final = 0o7777
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})

_WRITERS: Final = 4
"""Threads that write files of one directory."""

Stamp: TypeAlias = tuple[int, int, int, int]
"""Fingerprint of a file's content: device, inode, size, time of the last change."""


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@frozen
class FileState:
    """A file as it was read, or a path without a file.

    Attributes:
        root: The root that it is in.
        parts: Its path below the root.
        data: Its bytes; the target of a link; `None`: there is no file.
        stamp: Its stamp; `None`: there is no file.
        is_link: Whether it is a link.
        mode: Its permissions; `None`: there is no file, or it is a link.
        missing: The folders above it that are missing, too, outermost first.
    """

    root: OpenRoot
    parts: Parts
    data: bytes | None = None
    stamp: Stamp | None = None
    is_link: bool = False
    mode: int | None = None
    missing: Sequence[FileState] = ()

    @property
    def name(self) -> str:
        """Its path, as shown to the model."""
        return self.root.label(self.parts)

    @property
    def place(self) -> str:
        """Its absolute path."""
        return self.root.place(self.parts)


def read_state(root: OpenRoot, parts: Parts, *, follow: bool = True) -> FileState:
    """Reads a file for a change; it may be missing.

    Args:
        root: The root that it is in.
        parts: Its path below the root.
        follow: `False`: it may be a link, which is to be changed itself.

    Raises:
        ToolError: It can't be read, isn't a regular file, is larger than `MAX_EDITED`, may not be changed, or the rules
            deny it.
    """
    name = root.label(parts)
    if not parts:
        raise ToolError(f"{name!r} is a directory. Use the path of a file.")
    if any(part.casefold() == ".git" for part in parts):
        raise ToolError(f"{name!r} can't be changed: files in .git are managed by git. Use git instead.")
    root.check_edit(parts)
    with as_tool_error(name):
        try:
            status = root.status(parts)
        except (FileNotFoundError, NotADirectoryError):
            root.check(parts)
            return FileState(root, parts, missing=_missing_folders(root, parts))
    if stat.S_ISLNK(status.st_mode) and not follow:
        root.check_edit(parts[:-1])  # rules follow the link, and so judge its target only
        with as_tool_error(name):
            target = os.readlink(parts[-1], dir_fd=root.directory(parts[:-1]))
        return FileState(root, parts, os.fsencode(target), stamp_of(status), is_link=True)
    with as_tool_error(name), root.open_file(parts) as file:
        status = os.fstat(file.fileno())
        if status.st_size > MAX_EDITED:
            raise ToolError(
                f"{name!r} has {status.st_size:,} bytes. Files of more than {MAX_EDITED:,} bytes can't be edited "
                "with this tool."
            )
        allowed = os.access(parts[-1], os.W_OK, dir_fd=root.directory(parts[:-1]))
        if not allowed or not status.st_mode & 0o222:
            raise ToolError(
                f"{name!r} is read-only ({stat.filemode(status.st_mode)}). Ask the user to make it writable."
            )
        mode = stat.S_IMODE(status.st_mode)
        return FileState(root, parts, file.read(MAX_EDITED + 1), stamp_of(status), mode=mode)


def _missing_folders(root: OpenRoot, parts: Parts) -> Sequence[FileState]:
    folders = [FileState(root, parts[:depth]) for depth in range(1, len(parts))]
    for place, folder in enumerate(folders):
        try:
            root.directory(folder.parts)
        except OSError:
            return folders[place:]
    return ()


@frozen
class Change:
    """The change of one file.

    Attributes:
        before: The file as it was read.
        data: Its new bytes; `None`: it is removed.
        like: For a moved file, the one whose mode and attributes the new one gets.
        mode: Its new permissions; `None`: those of the file that it replaces, or what the system gives.
        is_link: Whether it becomes a link; then `data` is its target.
    """

    before: FileState
    data: bytes | None
    like: FileState | None = None
    mode: int | None = None
    is_link: bool = False


@define(eq=False)
class _Slot:
    """One change in progress.

    Attributes:
        change: The change.
        folder: A descriptor of its directory.
        kept: Whether there may be a backup of the old file.
        put: The stamp of the new file, once it may be in place; `()`: the old one may be removed.
    """

    change: Change
    folder: int
    kept: bool = False
    put: Stamp | tuple[()] | None = None

    @property
    def name(self) -> str:
        """Its target's name in the directory."""
        return self.change.before.parts[-1]

    @property
    def new(self) -> str:
        """The name of the staged file."""
        return beside(self.name, "new")

    @property
    def old(self) -> str:
        """The name of the backup."""
        return beside(self.name, "old")

    def stamp(self) -> Stamp | None:
        """The stamp of the target now; `None`: there is no file."""
        try:
            return stamp_of(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False))
        except FileNotFoundError:
            return None

    def check(self) -> None:
        """Checks that the target is still what was read.

        Raises:
            ToolError: It has changed.
        """
        if self.stamp() != self.change.before.stamp:
            name = self.change.before.name
            raise ToolError(f"{name!r} was changed by another program. Read it again, then repeat the call.")

    def stage(self) -> None:
        """Writes the new file next to the target, with the mode and attributes of the old one."""
        remove(self.folder, self.new)
        if self.change.data is None:
            return
        before = self.change.before
        if self.change.is_link:
            os.symlink(self.change.data, self.new, dir_fd=self.folder)
            return
        like = before if before.stamp is not None and not before.is_link else self.change.like
        self._write(self.new, self.change.data, like)

    def _write(self, name: str, data: bytes, like: FileState | None) -> None:
        fd = os.open(name, _CREATE, 0o666, dir_fd=self.folder)
        with os.fdopen(fd, "wb") as file:
            if like is not None:
                _copy_rights(like, fd)
            if self.change.mode is not None:
                os.fchmod(fd, self.change.mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(fd)

    def keep(self) -> None:
        """Backs up the old file by a hard link, or by a copy on a file system without them."""
        remove(self.folder, self.old)
        before = self.change.before
        if before.data is None:
            return
        self.kept = True
        try:
            os.link(self.name, self.old, src_dir_fd=self.folder, dst_dir_fd=self.folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if before.is_link:
                os.symlink(before.data, self.old, dir_fd=self.folder)
            else:
                self._write(self.old, before.data, before)

    def put_in_place(self) -> None:
        """Renames the new file into place, or removes the old one. A new file never replaces an existing one."""
        self.check()
        self.put = self.new_stamp()
        if self.change.data is None:
            os.unlink(self.name, dir_fd=self.folder)
        elif self.change.before.stamp is None:
            link_or_rename(self.new, self.name, self.folder)
        else:
            os.replace(self.new, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def new_stamp(self) -> Stamp | tuple[()]:
        """The stamp of the staged file; `()` for a removal."""
        if self.change.data is None:
            return ()
        return stamp_of(os.stat(self.new, dir_fd=self.folder, follow_symlinks=False))

    def undo(self) -> None:
        """Restores the old file, unless another program has changed the target since."""
        if self.put is None or (self.stamp() or ()) != self.put:
            return
        if self.change.before.stamp is None:
            remove(self.folder, self.name)
        else:
            os.replace(self.old, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            self.kept = False
        self.put = None

    def clean(self) -> None:
        """Removes the staged file and the backup."""
        remove(self.folder, self.new)
        if self.kept:
            remove(self.folder, self.old)


def beside(name: str, kind: str) -> str:
    """The name of a temporary file next to another: the same each time, so that leftovers are replaced."""
    return f".pegboard-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.{kind}"


def remove(folder: int, name: str) -> None:
    """Removes a file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _copy_rights(like: FileState, fd: int) -> None:
    """Gives a new file the owner, mode and extended attributes of another, as far as this user may."""
    with like.root.open_file(like.parts) as file:
        old = file.fileno()
        status, new = os.fstat(old), os.fstat(fd)
        mode = status.st_mode & _ALL_RIGHTS
        if (status.st_uid, status.st_gid) != (new.st_uid, new.st_gid):
            try:
                os.fchown(fd, status.st_uid, status.st_gid)
            except PermissionError:  # set-user-ID and set-group-ID would apply to another owner
                mode &= ~(stat.S_ISUID | stat.S_ISGID)
        os.fchmod(fd, mode)
        for attribute in os.listxattr(old) if hasattr(os, "listxattr") else ():
            with suppress(OSError):
                os.setxattr(fd, attribute, os.getxattr(old, attribute))


def link_or_rename(source: str, target: str, folder: int | None = None) -> None:
    """Gives a staged file its name, if no file has it: by a hard link, or by renaming it where there are none."""
    try:
        os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(source, dir_fd=folder)


def commit(
    changes: Sequence[Change], deadline: Deadline, record: AbstractContextManager[None] | None = None
) -> list[Stamp | None]:
    """Commits changes of files: all of them, or none. Gives the stamp of each file as it was written.

    Args:
        changes: At most one for a file.
        deadline: When to give up; nothing is changed after it.
        record: Entered before the first file is changed, left after the last one, while the directories are locked.

    Raises:
        ToolError: One of them failed, and so none was made.
    """
    recover()
    made: list[FileState] = []
    slots: list[_Slot] = []
    journal: Path | None = None
    with ExitStack() as stack:
        try:
            with _report_errors(changes):
                slots += [_Slot(change, _folder_of(change.before, made, stack)) for change in changes]
                _lock([slot.folder for slot in slots], deadline, stack)
                for step in (_Slot.check, _Slot.stage, *([_Slot.keep] if len(slots) > 1 else [])):
                    for slot in slots:
                        step(slot)
                journal = _write_journal(slots) if len(slots) > 1 else None
                deadline.check("Preparing the change")
                stack.enter_context(record or nullcontext())
                for slot in slots:
                    slot.put_in_place()
                journal = journal and journal.rename(journal.with_suffix(_DONE))
        except BaseException:
            _undo(slots)
            for folder in reversed(made):
                with suppress(OSError):
                    os.rmdir(folder.parts[-1], dir_fd=folder.root.directory(folder.parts[:-1]))
            raise
        else:
            _clean(slots)
        finally:
            if journal is not None:
                with suppress(OSError):
                    journal.unlink()
        return [slot.put or None for slot in slots]


def commit_each(changes: Sequence[Change], deadline: Deadline) -> list[ToolError | None]:
    """Commits changes of files of one directory, each by itself, several at a time: most of it is waiting for the disk.

    Args:
        changes: At most one for a file, all with one root, whose open directory the threads share.
        deadline: When to give up waiting for other writers.

    Returns:
        For each change, why it wasn't made, or `None`.
    """
    if not changes:
        return []
    recover()
    with ExitStack() as stack:
        try:
            with _report_errors(changes):
                folder = _folder_of(changes[0].before, [], stack)
                _lock([folder], deadline, stack)
        except ToolError as error:
            return [error] * len(changes)
        with ThreadPoolExecutor(min(_WRITERS, len(changes))) as pool:
            return list(pool.map(_commit_alone, (_Slot(change, folder) for change in changes)))


def _commit_alone(slot: _Slot) -> ToolError | None:
    """Commits a change whose directory is locked."""
    try:
        with _report_errors([slot.change]):
            slot.check()
            slot.stage()
            slot.put_in_place()
    except ToolError as error:
        return error
    finally:
        _clean([slot])
    return None


def _undo(slots: Sequence[_Slot]) -> None:
    """Rolls all changes back, and removes the temporary files.

    Raises:
        ToolError: A file can't be restored: it says where the old content is.
    """
    lost: list[str] = []
    for slot in reversed(slots):
        try:
            slot.undo()
        except OSError:
            lost.append(slot.change.before.name + (f" (its old content is in {slot.old})" if slot.kept else ""))
            slot.kept = False
    _clean(slots)
    if lost:
        raise ToolError(f"A change failed, and these files couldn't be restored: {', '.join(lost)}. Tell the user.")


def _clean(slots: Iterable[_Slot]) -> None:
    for slot in slots:
        with suppress(OSError):
            slot.clean()


def _journal_folder() -> Path:
    return Path(user_folder("state"), "files")


_DONE: Final = ".done"


def _write_journal(slots: Iterable[_Slot]) -> Path | None:
    """Writes the journal of a change for a process that finds it unfinished; `None`: it can't be written here."""
    entries = [
        {"root": state.root.places[0], "parts": state.parts, "had": state.stamp is not None, "put": slot.new_stamp()}
        for slot in slots
        for state in (slot.change.before,)
    ]
    path = _journal_folder() / f"{os.getpid()}-{secrets.token_hex(8)}.json"
    try:
        write_private(str(path), json.dumps(entries).encode())
    except OSError:
        return None
    return path


MAX_JOURNAL: Final = 1 << 20


def recover() -> None:
    """Rolls back what killed processes have left; a running writer still has its directories locked."""
    try:
        journals = sorted(path for path in _journal_folder().iterdir() if path.suffix in {".json", _DONE})
    except OSError:
        return
    for path in journals:
        with suppress(OSError, ValueError, KeyError, TypeError, ToolError), ExitStack() as stack:
            slots: list[_Slot] = []
            for entry in json.loads(read_private(str(path), MAX_JOURNAL)):
                root = stack.enter_context(open_root(entry["root"]))
                stamp = (0, 0, 0, 0) if entry["had"] else None  # an undo only asks whether there is one
                state = FileState(root, tuple(entry["parts"]), stamp=stamp)
                folder = os.dup(root.directory(state.parts[:-1]))
                stack.callback(os.close, folder)
                slots.append(_Slot(Change(state, None), folder, kept=entry["had"], put=tuple(entry["put"])))
            _lock([slot.folder for slot in slots], Deadline(0), stack)
            if path.exists():
                (_clean if path.suffix == _DONE else _undo)(slots)
                path.unlink()


@contextmanager
def _report_errors(changes: Sequence[Change]) -> Generator[None]:
    """Converts an `OSError` to an error for the model that says that nothing was changed."""
    try:
        yield
    except OSError as error:
        names = ", ".join(repr(change.before.name) for change in changes[:3])
        reason = os.strerror(error.errno) if error.errno else "the system refused it"
        raise ToolError(f"{names}: {reason}. Nothing was changed.") from error


def _folder_of(state: FileState, made: list[FileState], stack: ExitStack) -> int:
    """A descriptor of a file's directory, which is created if it is missing."""
    root, above = state.root, state.parts[:-1]
    for depth in range(1, len(above) + 1):
        try:
            root.directory(above[:depth])
        except FileNotFoundError:
            os.mkdir(above[depth - 1], dir_fd=root.directory(above[: depth - 1]))
            made.append(FileState(root, above[:depth]))
    fd = os.dup(root.directory(above))
    stack.callback(os.close, fd)
    return fd


def _lock(folders: Iterable[int], deadline: Deadline, stack: ExitStack) -> None:
    """Locks directories against other writers, in a fixed order that avoids deadlocks.

    Raises:
        ToolError: Another writer holds a lock for too long.
    """
    by_inode = {(status.st_dev, status.st_ino): fd for fd in folders for status in (os.fstat(fd),)}
    for _, fd in sorted(by_inode.items()):
        try:
            lock = os.open(".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0), dir_fd=fd)
        except PermissionError:
            continue  # writable but not readable: its files are checked, but not locked
        stack.callback(os.close, lock)
        while not _try_lock(lock):
            deadline.check("Waiting for another program that is writing")
            time.sleep(0.01)


@contextmanager
def hold_folder(root: OpenRoot, parts: Parts) -> Generator[None]:
    """Locks the directory of a file, if there is one, against other writers.

    Raises:
        ToolError: A writer has locked it.
    """
    with ExitStack() as stack:
        with suppress(FileNotFoundError, NotADirectoryError):
            _lock([root.directory(parts[:-1])], Deadline(0), stack)
        yield


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


MAX_SEEN: Final = 10_000
"""Files that are remembered as read."""


def session_of(call: ToolContext | ReadonlyContext | None) -> object:
    """Key of `SeenFiles`: one user's session."""
    return (None, None) if call is None else (call.user, call.session)


@define(eq=False)
class SeenFiles:
    """Record of the files that sessions have read, to refuse changes of files that changed since."""

    _seen: dict[tuple[object, str], tuple[Stamp, bool]] = field(factory=dict[tuple[object, str], tuple[Stamp, bool]])

    def note(self, session: object, place: str, stamp: Stamp | None, *, shown: bool = False) -> None:
        """Records that a session has read a file.

        Args:
            session: The session.
            place: The file's absolute path.
            stamp: Its stamp; `None`: it was removed.
            shown: Whether the user was only shown the diff; this never replaces an earlier record.
        """
        key = session, place
        if shown and (key in self._seen or stamp is None):
            return
        self._seen.pop(key, None)
        if stamp is not None:
            self._seen[key] = stamp, not shown
        while len(self._seen) > MAX_SEEN:
            self._seen.pop(next(iter(self._seen)), None)

    def check(self, session: object, state: FileState, *, read_first: bool = False) -> None:
        """Checks that a file is still what the session has read.

        Args:
            session: The session that changes it.
            state: The file as it is now.
            read_first: Whether the session must have read it, or the user have been shown the diff.

        Raises:
            ToolError: It has changed since, or wasn't read.
        """
        if state.stamp is None:
            return
        key = session, state.place
        stamp, read = self._seen.get(key, (None, False))
        if stamp not in (None, state.stamp):
            if not read:  # the next call shows a new diff
                del self._seen[key]
            seen = "read" if read else "shown for approval"
            raise ToolError(f"{state.name!r} was changed since it was {seen}. Read it again before you change it.")
        if read_first and stamp is None:
            raise ToolError(
                f"{state.name!r} already exists ({state.stamp[2]:,} bytes). Read it before you replace it. To change a "
                "part of it, use an edit tool.",
                hint="The user can allow that unread: read_first = false in the settings of the plugin 'files'.",
            )
