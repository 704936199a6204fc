"""Sandbox of the file tools: a root directory, opened for a call, and path resolution that can't leave it.

A path is resolved first (`resolve`): component by component, links included, into parts below the root. Then it is
opened (`OpenRoot.directory`, `OpenRoot.open_file`): from the root's descriptor downwards, one component at a time,
never through a link. If something is swapped in between, opening fails, but doesn't leave the root.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias, TypeVar

from attrs import Factory, define, field

from pegboard import ToolContext, ToolError
from pegboard.errors import suggest
from pegboard.text import normalized, printable

_SHARE: Final = 0.9
"""The part of a call's own time limit that work may take, so that the results so far reach the model."""

_CHECKED: Final = 1_000
"""Items between two looks at the clock."""

T = TypeVar("T")


@define(eq=False)
class Deadline:
    """A time limit after which work stops with the results so far; it also stops if its call is cancelled, or at once.

    Attributes:
        seconds: The limit, from the creation of this object.
        call: The call that works.
    """

    seconds: float
    call: ToolContext | None = None
    _end: float = field(init=False, default=Factory(lambda self: time.monotonic() + self.seconds, takes_self=True))

    @classmethod
    def of(cls, seconds: float, call: ToolContext | None) -> Deadline:
        """The deadline of a call: a number of seconds, or most of the call's own time limit if that is shorter."""
        left = None if call is None else call.remaining
        return cls(seconds if left is None else min(seconds, left * _SHARE), call)

    def within(self, seconds: float) -> Deadline:
        """An earlier deadline, for a part of the work: at most half of the time that is left."""
        return Deadline(min(seconds, (self._end - time.monotonic()) / 2), self.call)

    def stop(self) -> None:
        """Stops the work now."""
        self._end = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it is time to stop."""
        return time.monotonic() >= self._end or (self.call is not None and self.call.cancelled)

    def check(self, doing: str) -> None:
        """Checks the time limit.

        Raises:
            ToolError: It has passed.
        """
        if self.is_over:
            raise ToolError(f"{doing} took longer than {self.seconds:.3g} seconds.")

    def iterate(self, items: Sequence[T], doing: str) -> Iterator[T]:
        """The items, with a check of the time limit after every thousandth.

        Raises:
            ToolError: It has passed.
        """
        for number, item in enumerate(items):
            if number % _CHECKED == _CHECKED - 1:
                self.check(doing)
            yield item


Kind: TypeAlias = Literal["file", "directory", "link", "other"]
"""The type of a directory entry; `other` is a pipe, a socket or a device."""

Parts: TypeAlias = tuple[str, ...]
"""A path below the root, component by component, links resolved; `()` is the root itself."""


def path_label(parts: Iterable[str]) -> str:
    """The path relative to the root, with `/`, each name `printable`; `"."` for the root.

    A name may hold anything but `/` and NUL: line ends that fake a second entry, terminal control sequences, bytes
    that aren't UTF-8. `resolve` finds files by their shown names too.
    """
    return "/".join(map(printable, parts)) or "."


_READ: Final = "read_file"
"""The tool whose rules decide what every tool may read."""

MAX_CHILDREN: Final = 200_000
"""Entries of one directory."""

# Windows lacks these; there the plugin refuses to register.
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)

# O_PATH opens a directory that may be entered but not listed; macOS lacks it.
_PASS: Final = _DIRECTORY | _NO_LINK | getattr(os, "O_PATH", 0)

# Without O_NONBLOCK, opening a pipe that was swapped in would block.
_FILE: Final = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_KINDS: Final[dict[int, Kind]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
}

Child: TypeAlias = tuple[str, Kind]
"""The name and type of a directory's entry. A plain tuple, as a walk makes one for each of many files."""


def kind_of(mode: int) -> Kind:
    """The file type in a `st_mode`."""
    return _KINDS.get(stat.S_IFMT(mode), "other")


@contextmanager
def as_tool_error(name: str) -> Generator[None]:
    """Converts an `OSError`, which would name paths of the host, to an error for the model.

    Raises:
        ToolError: With the path as the model knows it, and the reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
            raise ToolError(f"{name!r} changed while it was being opened. Try again.", retryable=True) from error
        reason = os.strerror(error.errno) if error.errno else "it can't be read"
        raise ToolError(f"{name!r}: {reason}.") from error


@define(eq=False)
class OpenRoot:
    """The root, open for one call.

    What the permission rules deny can neither be listed nor opened, by any path.

    Attributes:
        fd: Its descriptor.
        places: Absolute paths of the root: a model may write them, and links may lead there.
        call: The call whose rules apply; `None`: no rules do.
        is_absolute: Whether paths in it are shown to the model as absolute ones.
        denied: Whether the rules have removed something from a listing.
    """

    fd: int
    places: tuple[str, ...]
    call: ToolContext | None = None
    is_absolute: bool = False
    denied: bool = field(default=False, init=False)
    _allowed: dict[Parts, bool] = field(factory=dict[Parts, bool], init=False)
    _cached_parts: Parts = field(default=(), init=False)
    _cached_fd: int = field(default=-1, init=False)

    def directory(self, parts: Parts) -> int:
        """A descriptor of a directory below the root, for `dir_fd=`; no link is followed.

        It is valid until the next call for another directory: only the last one is cached, since files of one
        directory are opened one after the other.

        Raises:
            OSError: A component is missing, isn't a directory (a link isn't one), or may not be entered.
        """
        if not parts:
            return self.fd
        if parts != self._cached_parts:
            opened = self._walk_to(parts)
            self.close()
            self._cached_parts, self._cached_fd = parts, opened
        return self._cached_fd

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
        """Closes the cached directory."""
        if self._cached_parts:
            os.close(self._cached_fd)
            self._cached_parts = ()

    def place(self, parts: Parts) -> str:
        """The absolute path of these parts."""
        return "/".join((self.places[0].rstrip("/"), *parts)) or "/"

    def label(self, parts: Parts) -> str:
        """The path as shown to the model: relative to the root, or absolute."""
        return printable(self.place(parts)) if self.is_absolute else path_label(parts)

    def pattern(self, written: str, start: Parts) -> str:
        """A pattern relative to a directory: the directory's absolute path is removed from its start."""
        heads = ("/".join((place.rstrip("/"), *start, "")) for place in self.places)
        return next((f"/{written.removeprefix(head)}" for head in heads if written.startswith(head)), written)

    def below(self, path: str) -> str | None:
        """What follows the root in an absolute path, as written; `None`: it isn't in this root."""
        found = (path[len(place) :] for place in self.places if f"{path}/".startswith(place.rstrip("/") + "/"))
        return next(found, None)

    def is_allowed(self, parts: Parts) -> bool:
        """Whether the rules let these parts be read."""
        if self.call is not None and parts not in self._allowed:
            self._allowed[parts] = self.call.allows(_READ, self.place(parts))
        return self.call is None or self._allowed[parts]

    def check(self, parts: Parts, asked: str | None = None) -> None:
        """Raises `ToolError`, for the path as it was asked for, unless the rules let these parts be read."""
        if not self.is_allowed(parts):
            raise denial(self.label(parts) if asked is None else printable(asked))

    def check_edit(self, parts: Parts) -> None:
        """Raises `ToolError` unless the rules let these parts be changed."""
        if self.call is not None and not self.call.allows("edit", self.place(parts)):
            raise denial(self.label(parts))

    def status(self, parts: Parts) -> os.stat_result:
        """The result of `lstat`.

        Raises:
            OSError: It failed.
        """
        if not parts:
            return os.fstat(self.fd)
        return os.stat(parts[-1], dir_fd=self.directory(parts[:-1]), follow_symlinks=False)

    def children(self, parts: Parts) -> list[Child]:
        """The entries of a directory that the rules allow, in no order.

        Raises:
            OSError: It can't be listed.
            ToolError: The rules deny it, or it has more than `MAX_CHILDREN` entries.
        """
        self.check(parts)
        listed = os.open(".", _DIRECTORY, dir_fd=self.directory(parts))
        try:
            with os.scandir(listed) as entries:
                found: list[Child] = [(entry.name, _kind(entry)) for entry in islice(entries, MAX_CHILDREN + 1)]
        finally:
            os.close(listed)
        if len(found) > MAX_CHILDREN:
            raise ToolError(f"{self.label(parts)!r} has more than {MAX_CHILDREN:,} entries, too many to list.")
        if self.call is None or self.call.allows(_READ, None):
            return found
        names = set(self.call.allowed_names(_READ, self.place(parts), [name for name, _ in found]))
        self._allowed |= {(*parts, name): name in names for name, _ in found}
        self.denied = self.denied or len(names) < len(found)
        return [child for child in found if child[0] in names]

    def read_small(self, parts: Parts, most: int) -> bytes | None:
        """The bytes of a regular file that `children` gave; `None` if it has more than `most`, or grows meanwhile.

        Raises:
            OSError: It can't be opened.
            ToolError: It isn't a regular file any more.
        """
        opened = os.open(parts[-1], _FILE, dir_fd=self.directory(parts[:-1]))
        try:
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                _check_regular(self.label(parts), status)
            if status.st_size > most:
                return None
            data = os.read(opened, status.st_size + 1)  # a fixed, larger size costs more, in page faults
            return data if len(data) == status.st_size else None
        finally:
            os.close(opened)

    def open_file(self, parts: Parts) -> BinaryIO:
        """A regular file below the root, open for reading; never waits for a pipe or a device.

        Raises:
            OSError: It can't be opened.
            ToolError: The rules deny it, or it isn't a regular file.
        """
        self.check(parts)
        # Opening a device can have effects, so its type is checked first.
        _check_regular(self.label(parts), self.status(parts))
        opened = os.open(parts[-1], _FILE, dir_fd=self.directory(parts[:-1]))
        try:
            _check_regular(self.label(parts), os.fstat(opened))
        except ToolError:
            os.close(opened)
            raise
        return os.fdopen(opened, "rb")


def root_place(setting: str | None, work_dir: str | None) -> Path:
    """The absolute path of the root that `open_root` opens."""
    return Path(work_dir or ".").absolute() / Path(setting or ".").expanduser()


@define(eq=False)
class Roots:
    """The roots of a call, each opened on first use.

    Attributes:
        main: The root that relative paths start in.
        others: The paths of the other roots; files in them have absolute paths.
    """

    main: OpenRoot
    others: Sequence[str] = ()
    _stack: ExitStack = field(factory=ExitStack)
    _opened: dict[str, OpenRoot | None] = field(factory=dict[str, "OpenRoot | None"], init=False)

    def of(self, path: str) -> OpenRoot:
        """The root that a path is in: another than the main one only for an absolute path that is only in that."""
        if path.startswith("/") and self.main.below(path) is None:
            for other in self.others:
                root = self._open(other)
                if root is not None and root.below(path) is not None:
                    return root
        return self.main

    def _open(self, other: str) -> OpenRoot | None:
        if other not in self._opened:
            self._opened[other] = None
            with suppress(ToolError):  # a missing one contains nothing
                root = self._stack.enter_context(open_root(other, None, self.main.call))
                root.is_absolute, self._opened[other] = True, root
        return self._opened[other]


@contextmanager
def open_roots(roots: Sequence[str], work_dir: str | None = None, call: ToolContext | None = None) -> Generator[Roots]:
    """The roots, open for one call: the first is the main one; see `open_root`."""
    with ExitStack() as stack:
        main = stack.enter_context(open_root(roots[0] if roots else None, work_dir, call))
        yield Roots(main, roots[1:], stack)


@contextmanager
def open_root(setting: str | None, work_dir: str | None = None, call: ToolContext | None = None) -> Generator[OpenRoot]:
    """One root, open for one call.

    Args:
        setting: Its path, `~` allowed; a relative one starts at `work_dir`. `None` is `work_dir` itself.
        work_dir: By default the working directory of the process at the time of the call.
        call: The call whose rules apply; by default none do.

    Raises:
        ToolError: It can't be opened.
    """
    try:
        given = root_place(setting, work_dir)
        real = given.resolve()
        fd = os.open(real, _DIRECTORY)
    except (OSError, RuntimeError) as error:
        raise ToolError(
            "The working folder of the file tools can't be opened, so no file tool works. Ask the user to correct the "
            "setting 'root' of the plugin 'files'."
        ) from error
    root = OpenRoot(fd, (str(real), str(given)), call)
    try:
        yield root
    finally:
        root.close()
        os.close(fd)


def _kind(entry: os.DirEntry[str]) -> Kind:
    """The type of an entry, without a further system call where the directory has it."""
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "link" if entry.is_symlink() else "other"


def _check_regular(name: str, found: os.stat_result) -> None:
    """Raises `ToolError` unless a status is that of a regular file."""
    kind = kind_of(found.st_mode)
    if kind == "directory":
        raise ToolError(f"{name!r} is a directory. Use list_directory or glob to see its files.")
    if kind != "file":
        raise ToolError(f"{name!r} is a pipe, socket, device or link, not a regular file, and can't be opened.")


MAX_LINKS: Final = 40
"""Links in one path: Linux's own limit."""

MAX_PARTS: Final = 1_000
"""Components of one path, or of the target of one link."""


class MissingError(ToolError):
    """A file or directory doesn't exist."""


def resolve(root: OpenRoot, asked: str, *, create: bool = False, follow: bool = True) -> Parts:
    """Resolves a path to its parts below the root, links one by one.

    Args:
        root: The root that it must stay in.
        asked: Relative to the root; or absolute and below it.
        create: Whether its end need not exist; missing directories are taken as written, and must not include `..`.
        follow: Whether its end is followed if it is a link.

    Raises:
        ToolError: It leads out of the root, doesn't exist (near misses are named) or can't be examined; or the rules
            deny it, with the same error whether or not it exists.
    """
    _check_text(asked)
    done, links = list[str](), 0
    todo = _components(root, asked, asked)
    while todo:
        part = todo.pop()
        if part == "..":
            _go_up(root, done, asked)
        elif part not in {"", "."}:
            try:
                name, target = _find_entry(root, tuple(done), part, asked)
            except MissingError:
                if create:
                    below = (each for each in todo[::-1] if each not in {"", "."})
                    return _new_parts(root, (*done, part, *below), asked)
                root.check((*done, part), asked)
                raise
            if target is None or (not follow and all(part in {"", "."} for part in todo)):
                done.append(name)
                continue
            links += 1
            if links > MAX_LINKS:
                raise ToolError(f"{printable(asked)!r} goes through too many links.")
            if target.startswith("/"):
                done.clear()
            todo += _components(root, target, asked)
    if done:
        root.check(tuple(done), asked)
    return tuple(done)


def denial(asked: str) -> ToolError:
    """The error of every file tool for a path that the rules deny, whether or not it exists."""
    return ToolError(
        f"The permission rules deny access to {asked!r}. Continue without it, or tell the user what you need."
    )


def _go_up(root: OpenRoot, done: list[str], asked: str) -> None:
    if not done:
        raise _outside(asked)
    root.check(tuple(done), asked)
    done.pop()


def _new_parts(root: OpenRoot, parts: Parts, asked: str) -> Parts:
    """The parts of a file or directory to create.

    Raises:
        ToolError: Its path has `..` in a missing directory or unprintable characters, or the rules deny it.
    """
    if ".." in parts:
        raise ToolError(f"{printable(asked)!r} goes through a directory that doesn't exist. Use a path without '..'.")
    if odd := [part for part in parts if not part.isprintable()]:
        raise ToolError(f"{printable(odd[0])!r} can't be the name of a new file: it contains unprintable characters.")
    root.check(parts, asked)
    return parts


def _check_text(asked: str) -> None:
    try:
        os.fsencode(asked)
    except UnicodeEncodeError:
        raise ToolError(
            f"{printable(asked)!r} is not a valid path: it contains half a character (a lone surrogate)."
        ) from None
    if "\0" in asked:
        raise ToolError(f"{printable(asked)!r} is not a valid path: it contains a NUL character.")


def _components(root: OpenRoot, path: str, asked: str) -> list[str]:
    """The components of a path below the root, the last first.

    Raises:
        ToolError: It is absolute and not below the root, or too long.
    """
    below = root.below(path) if path.startswith("/") else path
    if below is None:
        raise _outside(asked)
    parts = below.split("/")[::-1]
    if len(parts) > MAX_PARTS:
        raise ToolError(f"The path has more than {MAX_PARTS:,} components.")
    return parts


def _outside(asked: str) -> ToolError:
    return ToolError(
        f"{printable(asked)!r} is outside of the working folder. Use a path relative to the working folder, such as "
        "'src/main.py', or '.' for the folder itself."
    )


def _find_entry(root: OpenRoot, parent: Parts, part: str, asked: str) -> tuple[str, str | None]:
    """The name of the entry that a component refers to, and its target if it is a link."""
    try:
        name, fd = part, root.directory(parent)
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            name = _find_by_label(root, parent, part, asked)
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            root.check((*parent, name), asked)
        return name, os.readlink(name, dir_fd=fd) if stat.S_ISLNK(found.st_mode) else None
    except NotADirectoryError as error:
        raise ToolError(f"{printable(asked)!r} goes through a file as if it were a directory.") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it can't be accessed"
        raise ToolError(f"{printable(asked)!r}: {reason}.") from error


def _find_by_label(root: OpenRoot, parent: Parts, part: str, asked: str) -> str:
    """The one name that is shown as this component, or else equals it in another Unicode normal form."""
    names, form = _readable_names(root, parent), normalized("NFC", part)
    same = [name for name in names if printable(name) == part] or [
        name for name in names if not name.isascii() and normalized("NFC", name) == form
    ]
    if len(same) == 1:
        return same[0]
    hint = "Use list_directory or glob to find the right path."
    if near := [root.label((*parent, name)) for name in suggest(part, names)]:
        hint = f"Did you mean {' or '.join(map(repr, near))}?"
    raise MissingError(f"{printable(asked)!r} doesn't exist. {hint}")


def _readable_names(root: OpenRoot, parent: Parts) -> list[str]:
    """The names in a directory that may be read; none if it may not be listed."""
    try:
        return [name for name, _ in root.children(parent)] if root.is_allowed(parent) else []
    except OSError:
        return []
