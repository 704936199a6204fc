"""What a directory holds, and which files a glob finds."""

from __future__ import annotations

import stat
from itertools import islice

from attrs import frozen

from pegboard import ToolError
from pegboard_files.globs import Globs
from pegboard_files.name import Kind, Parts, shown, shown_path
from pegboard_files.resolving import resolve
from pegboard_files.root import OpenRoot, kind_of, told_of
from pegboard_files.walking import Entry, Walk


@frozen
class DirectoryEntry:
    """One name in a directory.

    Attributes:
        name: The name.
        kind: What it stands for; a link is not followed.
        size: Bytes, of a file; else null.
    """

    name: str
    kind: Kind
    size: int | None = None


@frozen
class FoundFile:
    """One path that a glob matches.

    Attributes:
        path: Relative to the root.
        kind: What it is.
        size: Bytes, of a file; else null.
    """

    path: str
    kind: Kind
    size: int | None = None


def directory_of(root: OpenRoot, path: str) -> Parts:
    """The parts of a directory that a model named.

    Raises:
        ToolError: There is no such directory.
    """
    parts = resolve(root, path)
    with told_of(parts):
        kind = kind_of(root.status(parts).st_mode)
    if kind == "file":
        raise ToolError(f"{shown_path(parts)!r} is a file, not a directory. Use read_file or grep.")
    if kind != "directory":
        raise ToolError(f"{shown_path(parts)!r} is not a directory.")
    return parts


def listed(walk: Walk, start: Parts, offset: int, limit: int) -> tuple[list[DirectoryEntry], int]:
    """A page of a directory's entries, and how many there are in all."""
    with told_of(start):
        entries = list(walk.entries(start, deep=False))
    page = entries[offset : offset + limit]
    return [DirectoryEntry(shown(entry.parts[-1]), entry.kind, size_of(walk.root, entry)) for entry in page], len(
        entries
    )


def found(walk: Walk, start: Parts, globs: Globs, offset: int, limit: int) -> tuple[list[FoundFile], bool]:
    """A page of what globs match below a directory, and whether there is more."""
    with told_of(start):
        matching = (entry for entry in walk.entries(start) if _matches(entry, start, globs))
        page = list(islice(matching, offset, offset + limit + 1))
    return [FoundFile(shown_path(entry.parts), entry.kind, size_of(walk.root, entry)) for entry in page[:limit]], len(
        page
    ) > limit


def _matches(entry: Entry, start: Parts, globs: Globs) -> bool:
    """Files and links match as they are; a directory only matches a pattern that ends in `/`."""
    path = shown_path(entry.parts[len(start) :])
    if entry.kind == "directory":
        return globs.takes(path + "/") and not globs.takes(path)
    return globs.takes(path)


def size_of(root: OpenRoot, entry: Entry) -> int | None:
    """The bytes of a file; `None` for anything else, or where it has gone."""
    if entry.kind != "file":
        return None
    try:
        status = root.status(entry.parts)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
