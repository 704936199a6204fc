"""`Root`: the one folder that the tools can reach, and the only place where files are opened.

A path is resolved first (resolving.py): component by component, links included, into parts below the root.
Then it is opened (`OpenRoot.directory`, `OpenRoot.open_file`): from the root's own descriptor downwards,
one component at a time, never through a link. Whatever is swapped in between, opening can't leave the root:
at worst it fails.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from attrs import define, field, frozen

from pegboard import ToolError
from pegboard_files.name import Kind, Parts, shown_path

MAX_CHILDREN: Final = 200_000
"""Entries of one directory."""

# Windows has none of these; there the plugin says so before anything is opened (see plugin.py).
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# O_PATH passes through a directory that may be entered but not listed; macOS has no such thing.
_PASS: Final = _DIRECTORY | _NO_LINK | getattr(os, "O_PATH", 0)
# Without O_NONBLOCK a pipe that is swapped in would be waited for.
_FILE: Final = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)

_KINDS: Final[dict[int, Kind]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
}


@frozen
class Child:
    """One entry of a directory."""

    name: str
    kind: Kind


def kind_of(mode: int) -> Kind:
    """What a `st_mode` stands for."""
    return _KINDS.get(stat.S_IFMT(mode), "other")


@contextmanager
def told_of(parts: Parts) -> Generator[None]:
    """Words what the system refuses for the model: the path below the root and the reason.

    Raises:
        ToolError: Instead of an `OSError`, which would name paths of the host.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
            raise ToolError(
                f"{shown_path(parts)!r} changed while it was being opened. Try again.", retryable=True
            ) from error
        reason = os.strerror(error.errno) if error.errno else "it can't be read"
        raise ToolError(f"{shown_path(parts)!r}: {reason}.") from error


@define(eq=False)
class OpenRoot:
    """The root, open for one call.

    Attributes:
        fd: Its descriptor.
        places: Absolute paths that mean the root: a model may write them, and links may lead there.
    """

    fd: int
    places: tuple[str, ...]
    _kept_parts: Parts = field(default=(), init=False)
    _kept_fd: int = field(default=-1, init=False)

    def directory(self, parts: Parts) -> int:
        """A descriptor of a directory below the root, good for `dir_fd=`; no link is followed.

        It is good until another directory is asked for: the last one is kept, since files of one directory are
        opened one after the other.

        Raises:
            OSError: A component is missing, is no directory (a link is none), or may not be entered.
        """
        if not parts:
            return self.fd
        if parts != self._kept_parts:
            opened = self._walk_to(parts)
            self.close()
            self._kept_parts, self._kept_fd = parts, opened
        return self._kept_fd

    def _walk_to(self, parts: Parts) -> int:
        """Opens one component after the other."""
        fd = self.fd
        for part in parts:
            try:
                inner = os.open(part, _PASS, dir_fd=fd)
            finally:
                if fd != self.fd:
                    os.close(fd)
            fd = inner
        return fd

    def close(self) -> None:
        """Lets go of the directory that was kept."""
        if self._kept_parts:
            os.close(self._kept_fd)
            self._kept_parts = ()

    def status(self, parts: Parts) -> os.stat_result:
        """The status of what stands there; of a link, its own.

        Raises:
            OSError: It can't be had.
        """
        if not parts:
            return os.fstat(self.fd)
        return os.stat(parts[-1], dir_fd=self.directory(parts[:-1]), follow_symlinks=False)

    def children(self, parts: Parts) -> list[Child]:
        """The entries of a directory, in no order.

        Raises:
            OSError: It can't be listed.
            ToolError: It has more than `MAX_CHILDREN` entries.
        """
        listed = os.open(".", _DIRECTORY, dir_fd=self.directory(parts))
        try:
            with os.scandir(listed) as entries:
                found = [Child(entry.name, _kind(entry)) for entry in islice(entries, MAX_CHILDREN + 1)]
        finally:
            os.close(listed)
        if len(found) > MAX_CHILDREN:
            raise ToolError(f"{shown_path(parts)!r} has more than {MAX_CHILDREN:,} entries: too many to list.")
        return found

    def open_file(self, parts: Parts) -> BinaryIO:
        """A regular file below the root, open for reading; never waits for a pipe or a device.

        Raises:
            OSError: It can't be opened.
            ToolError: It is something else than a regular file.
        """
        # Opening a device can do something by itself, so it is looked at first.
        _regular(parts, self.status(parts))
        opened = os.open(parts[-1], _FILE, dir_fd=self.directory(parts[:-1]))
        try:
            _regular(parts, os.fstat(opened))
        except ToolError:
            os.close(opened)
            raise
        return os.fdopen(opened, "rb")


@frozen
class Root:
    """The one folder that the tools can reach.

    Attributes:
        setting: Its path, `~` allowed; `None` is the working directory at the time of the call.
    """

    setting: str | None = None

    @contextmanager
    def opened(self) -> Generator[OpenRoot]:
        """The root, open for one call.

        Raises:
            ToolError: It can't be opened.
        """
        try:
            given = (Path(self.setting).expanduser() if self.setting else Path.cwd()).absolute()
            real = given.resolve()
            fd = os.open(real, _DIRECTORY)
        except (OSError, RuntimeError) as error:
            raise ToolError(
                "The folder that the file tools work in can't be opened. No file tool works until whoever "
                "runs this program corrects the setting 'root' of the plugin 'files'."
            ) from error
        root = OpenRoot(fd, (str(real), str(given)))
        try:
            yield root
        finally:
            root.close()
            os.close(fd)


def _kind(entry: os.DirEntry[str]) -> Kind:
    """What an entry is, by what the directory itself says of it."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _regular(parts: Parts, found: os.stat_result) -> None:
    kind = kind_of(found.st_mode)
    if kind == "directory":
        raise ToolError(f"{shown_path(parts)!r} is a directory. Use list_directory or glob to look into it.")
    if kind != "file":
        raise ToolError(f"{shown_path(parts)!r} is no regular file (a pipe, socket, device or link): not opened.")
