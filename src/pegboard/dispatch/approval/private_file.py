"""One private file that several processes change: read with a bound, locked, written whole and for good."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from pegboard.errors import PendingError

LOCK_SECONDS: Final = 5.0
_LOOK_AGAIN: Final = 0.01
_SAFE: Final = os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class PrivateFile:
    """A file that only its user can read or write.

    Attributes:
        path: Where it is; its folder is made at the first write.
        most: How many bytes it may have.
    """

    path: Path
    most: int

    def stamp(self) -> tuple[int, int, int] | None:
        """What changes with each write; `None` where there is no file."""
        try:
            facts = self.path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        return facts.st_mtime_ns, facts.st_size, facts.st_ino

    def read(self) -> bytes | None:
        """Its bytes, or `None` where there is no file.

        Raises:
            OSError: It can't be read, is too large, is a link or no file, or isn't private to this user.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | _SAFE)
        except FileNotFoundError:
            return None
        with os.fdopen(fd, "rb") as file:
            _check_private(os.fstat(fd), str(self.path))
            data = file.read(self.most + 1)
        if len(data) > self.most:
            raise OSError(errno.EFBIG, f"larger than {self.most:,} bytes", str(self.path))
        return data

    def write(self, data: bytes) -> None:
        """Puts the file in place at once: after a crash there is the old one or the new one.

        Raises:
            OSError: It can't be written, or would be too large; the old one stands.
        """
        if len(data) > self.most:
            raise OSError(errno.EFBIG, f"would be larger than {self.most:,} bytes", str(self.path))
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _sync_folder(self.path.parent)

    @contextmanager
    def locked(self, seconds: float = LOCK_SECONDS) -> Generator[None]:
        """Keeps all others, threads and processes, from changing the file meanwhile; a crash lets go.

        Raises:
            PendingError: Another holds it for longer than `seconds`.
            OSError: It can't be locked.
        """
        import fcntl

        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | _SAFE, 0o600)
        try:
            end = time.monotonic() + seconds
            while not _lock(fd):
                if time.monotonic() > end:
                    raise PendingError(f"{self.path} is locked by another process for more than {seconds:g} s")
                time.sleep(_LOOK_AGAIN)
            yield
            fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)


def _lock(fd: int) -> bool:
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_private(facts: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "not private: another's, or others have rights on it (chmod 600)", path)


def _sync_folder(folder: Path) -> None:
    """Makes the new name last; some file systems don't take it, and lose nothing by it."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError:
        return
    finally:
        os.close(fd)
