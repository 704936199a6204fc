"""Reader of listing snapshots: texts ready to print, cached for one environment and valid while no stamp changes.

It imports nothing that a bare Python hasn't loaded: imports would take most of the warm command's time.
`pegboard.plugins.cache` writes snapshots.

A snapshot is one file, written atomically; a reader keeps it open, so it never sees half of one:

    pegboard snapshot 5
    <CRC-32 of the header, hexadecimal> <length of the header>
    <header: a tuple, by marshal>
    <body: the sections, one after the other>

The header has the snapshot's key; when it expires (seconds since 1970, 0 for never); section -> offset in the body,
length, CRC-32; and path -> stamp (`mtime_ns:size`, or `-` where there is nothing).
"""

# pathlib costs more than everything else that is done here:
# ruff: noqa: PTH109, PTH116, PTH118, PTH119, PTH120, PTH123, PTH208
from __future__ import annotations

import marshal
import os
import sys
import time
from zlib import crc32

from pegboard.files import known_user_folder, open_private, project_file

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

MAGIC = b"pegboard snapshot 5\n"
MISSING = b"-"
MOST_SECONDS = 3600  # how long a snapshot with a failed plugin is valid: the failure may not depend on any file
_PIECE_BYTES = 64 * 1024  # less than what the allocator asks the system for, and gives back
_MOST_HEADER_BYTES = 16 * 1024 * 1024
_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")


SnapshotPlace = tuple[bytes, str]  # the key of a snapshot, which names all that it is valid for; and its file


def snapshot_place(environ: Mapping[str, str] = os.environ) -> SnapshotPlace | None:
    """The place of this process's listing snapshot, before a plugin changes `sys.path`; `None` where there is none."""
    cache = known_user_folder("cache", environ)
    try:
        folder = os.getcwd()
    except OSError:  # the current folder was removed
        return None
    if cache is None:
        return None
    facts = (
        sys.version,
        sys.prefix,
        [os.path.join(folder, path) for path in sys.path],
        project_file(folder, environ),
        [(name, environ[name]) for name in sorted(environ) if name in _VARIABLES or name.startswith("PEGBOARD_")],
    )
    key = ascii(facts).encode()
    return key, f"{cache}/snapshots/{crc32(key):08x}"


def stamp_of(path: bytes) -> bytes:
    """Fingerprint of a file or a folder's list of entries: `mtime_ns:size`; `-` where there is nothing."""
    try:
        facts = os.stat(path)
    except OSError:
        return MISSING
    return b"%d:%d" % (facts.st_mtime_ns, facts.st_size)


class Snapshot:
    """An open snapshot: its sections by name. The caller closes it."""

    __slots__ = ("_body", "_file", "_sections")

    def __init__(self, file: BinaryIO, sections: dict[bytes, tuple[int, int, int]]) -> None:
        self._file = file
        self._body = file.tell()
        self._sections = sections

    def section(self, name: bytes) -> bytes:
        """A whole section; raises `ValueError` if it is damaged."""
        return b"".join(self.pieces(name))

    def pieces(self, name: bytes) -> Iterator[bytes]:
        """A whole section in pieces: for a large one, new memory costs more than reading twice; else as `section`."""
        crc = 0
        for piece in self._read(name):
            crc = crc32(piece, crc)
        if crc != self._sections[name][2]:
            raise ValueError("the snapshot is damaged")
        return self._read(name)

    def _read(self, name: bytes) -> Iterator[bytes]:
        offset, left, _ = self._sections[name]
        self._file.seek(self._body + offset)
        while piece := self._file.read(min(left, _PIECE_BYTES)):
            left -= len(piece)
            yield piece

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def open_snapshot(place: SnapshotPlace) -> Snapshot | None:
    """The snapshot of a place; `None` where there is none, it isn't private, is damaged, or is stale."""
    key, path = place
    try:
        file = open(open_private(path), "rb")  # noqa: SIM115  the caller closes it
    except OSError:
        return None
    try:
        magic, (crc, length) = file.readline(), file.readline().split(b" ")
        header = file.read(min(int(length), _MOST_HEADER_BYTES))
        if magic == MAGIC and crc32(header) == int(crc, 16):
            own, until, sections, stamps = marshal.loads(header)  # noqa: S302  the user's own, which others can't write
            left = until - time.time()  # more than an hour comes from a wrong clock
            if own == key and (not until or 0 <= left <= MOST_SECONDS) and is_fresh(stamps):
                return Snapshot(file, sections)
    except (OSError, ValueError, EOFError, TypeError):
        pass  # damaged: it will be written again
    file.close()
    return None


def is_fresh(stamps: Mapping[bytes, bytes]) -> bool:
    """Whether all of these stamps, by path, are unchanged."""
    return all(stamp_of(path) == stamp for path, stamp in stamps.items())


_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def own_version() -> str:
    """The version of the installed pegboard, by the name of its metadata folder; `"0+unknown"` if it has none."""
    folder = _metadata_folder()
    name = "0+unknown" if folder is None else os.path.basename(folder)
    return name.removeprefix("pegboard-").removesuffix(".dist-info")


def _metadata_folder() -> str | None:
    """The metadata of pegboard: next to the package, or, for an editable install, elsewhere on `sys.path`."""
    for path in (os.path.dirname(_PACKAGE), *sys.path):
        try:
            names = os.listdir(path or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith("pegboard-") and name.endswith(".dist-info"):
                return os.path.join(path, name)
    return None


def own_files() -> tuple[str, ...]:
    """The files that change when pegboard does: its metadata, and its code where that can be edited in place."""
    folder = _metadata_folder()
    metadata = () if folder is None else (os.path.join(folder, "METADATA"),)
    if folder is not None and os.path.dirname(folder) == os.path.dirname(_PACKAGE):
        return metadata
    files = (os.path.join(place, name) for place, _, names in os.walk(_PACKAGE) for name in names)
    return (*sorted(file for file in files if file.endswith(".py")), *metadata)


def own_key() -> str:
    """A text that changes when pegboard does."""
    stamps = b"\0".join(stamp_of(os.fsencode(file)) for file in own_files())
    return f"{own_version()} {crc32(stamps):08x}"
