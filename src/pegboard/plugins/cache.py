"""The user's cache: manifests of loaded plugins, and the texts that the warm command prints.

Its files are readable by the user alone, written atomically, checked before use, and bounded in number, size and age.
Nothing here fails a command: what can't be cached isn't.
"""

from __future__ import annotations

import json
import marshal
import os
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from attrs import evolve, field

from pegboard.catalogue import PublishedTools
from pegboard.config import lacks_secrets, normalised
from pegboard.errors import ManifestError
from pegboard.files import user_folder, write_private
from pegboard.plugins.discovery import FoundPlugin
from pegboard.plugins.manifest import PluginManifest, find_manifest
from pegboard.plugins.snapshot import (
    MAGIC,
    MISSING,
    MOST_SECONDS,
    SnapshotPlace,
    open_snapshot,
    own_files,
    own_key,
    stamp_of,
)
from pegboard.typing import define

_SETTLED_NS: Final = 20_000_000  # file times are coarse: a file that changed just now may change again unnoticed
_MOST_MANIFEST_BYTES: Final = 16 * 1024 * 1024
_MOST_SNAPSHOT_BYTES: Final = 128 * 1024 * 1024
_MOST_MANIFESTS: Final = 4_000
_MOST_SNAPSHOTS: Final = 24
_MOST_BYTES: Final = 256 * 1024 * 1024
_OLDEST_SECONDS: Final = 90 * 24 * 3600
_FORMAT: Final = 6


@define
class Stamps:
    """Stamps of the paths that one cached listing depends on."""

    settled: bool = field(default=True, init=False)  # whether no change since, or shortly before, can go unnoticed
    complete: bool = field(default=True, init=False)  # whether everything that the listing depends on could be added
    by_path: dict[bytes, bytes] = field(factory=dict[bytes, bytes], init=False)  # path -> stamp
    _started: int = field(factory=time.time_ns, init=False)

    @classmethod
    def of_environment(cls) -> Stamps:
        """The stamps of the folders on `sys.path` and of pegboard. Take them before anything else is read."""
        stamps = cls()
        stamps.add(*(os.path.abspath(path) for path in sys.path))  # noqa: PTH100  a text, not a path object
        stamps.add(*own_files())
        return stamps

    def add(self, *paths: str) -> None:
        """Adds files and folders, missing ones too; the first stamp of a path stays."""
        for path in map(os.fsencode, paths):
            if path not in self.by_path:
                self._put(path, stamp_of(path))

    def _put(self, path: bytes, stamp: bytes) -> None:
        """Adds a stamp; of just now, nothing is settled: but a time in the future is a wrong clock, not a change."""
        self.by_path.setdefault(path, stamp)
        if stamp != MISSING and self._started - _SETTLED_NS < int(stamp.partition(b":")[0]) <= time.time_ns():
            self.settled = False

    def add_plugin(self, found: FoundPlugin) -> None:
        """Adds a plugin's RECORD and manifest; where RECORD doesn't cover the code, its other metadata and the code."""
        location, manifest = found.location, find_manifest(found)
        if location is not None:
            self.add(f"{location}/RECORD")
        if manifest is not None:
            self.add(str(manifest))
        if found.record() is not None:
            return
        if location is not None:
            metadata = "PKG-INFO" if location.endswith(".egg-info") else "METADATA"
            self.add(f"{location}/entry_points.txt", f"{location}/{metadata}")
        sources = found.sources()
        self.complete = self.complete and sources is not None
        self.add(*(sources or ()))

    def add_published(self, published: PublishedTools) -> None:
        """Adds the files that published tools were read from, with their stamps at that time."""
        for path, stamp in published.files.items():
            self._put(os.fsencode(path), stamp.encode())
        self.complete = self.complete and not published.failed


def cache_folder() -> Path:
    """The user's cache folder, as platformdirs names it."""
    return Path(user_folder("cache"))


@define
class CachedManifests:
    """Cache of the manifests of plugins that ship none, from when they were last loaded; one snapshot each.

    The key is distribution, version, entry point, settings, Python's minor version, platform, environment
    (`sys.prefix`) and pegboard; an entry is valid while the stamps of the plugin are (see `Stamps.add_plugin`).
    """

    folder: Path = field(factory=lambda: cache_folder() / "manifests")
    _own: str | None = field(default=None, init=False)

    def get(self, found: FoundPlugin, settings: Mapping[str, Any]) -> PluginManifest | None:
        """The manifest of a plugin with these settings, perhaps with a `failure` of less than an hour ago; else `None`.

        A failure is void once something is installed or removed, as the cause may have been a missing package; so is
        a toolset's failure to publish. What toolsets have published is valid until the files that it was read from
        change.
        """
        place = self._place(found, settings)
        snapshot = None if place is None else open_snapshot(place)
        if snapshot is None:
            return None
        with closing(snapshot), suppress(OSError, ValueError, RecursionError, LookupError, ManifestError):
            path, known = (json.loads(snapshot.section(name)) for name in (b"path", b"known"))
            if path in (None, _import_path()):
                return PluginManifest.from_json(known, found)
        return None

    def put(self, found: FoundPlugin, settings: Mapping[str, Any], manifest: PluginManifest) -> bool:
        """Stores the manifest of a plugin with these settings; returns whether it was stored.

        It isn't while the settings refer to a missing secret: with it, the plugin may bring more.
        """
        place, stamps, is_temporary = self._place(found, settings), Stamps(), manifest.failure is not None
        stamps.add_plugin(found)
        is_missing = is_temporary and found.place() is None  # its failure is stored, though it has no files
        if place is None or lacks_secrets(settings) or not (stamps.complete or is_missing):
            return False
        if manifest.published is not None:
            stamps.add_published(manifest.published)
            is_temporary = is_temporary or manifest.published.failed
        until, path = (int(time.time()) + MOST_SECONDS, _import_path()) if is_temporary else (0, None)
        stamps.add(*(path or ()))
        known = json.dumps(manifest.to_json(), separators=(",", ":")).encode()
        if len(known) > _MOST_MANIFEST_BYTES:
            return False
        return _write(place, {b"path": json.dumps(path).encode(), b"known": known}, stamps, until, most=_MOST_MANIFESTS)

    def forget(self, found: FoundPlugin, settings: Mapping[str, Any]) -> None:
        """Deletes the entry of a plugin with these settings, as its code differs."""
        if (place := self._place(found, settings)) is not None:
            with suppress(OSError):
                Path(place[1]).unlink()

    def _place(self, found: FoundPlugin, settings: Mapping[str, Any]) -> SnapshotPlace | None:
        """The key and the file of an entry; `None` where a setting has no stable text."""
        digest = ""
        if settings:
            import hashlib  # as slow as reading some manifests

            try:
                text = json.dumps(settings, sort_keys=True, default=_plain)
            except (TypeError, ValueError, AttributeError, RecursionError):
                return None
            digest = hashlib.sha256(text.encode()).hexdigest()
        if self._own is None:
            self._own = own_key()
        facts = (_FORMAT, evolve(found, trusted=True), found.place(), digest, sys.version_info[:2], sys.platform)
        key = "\n".join(map(str, (*facts, sys.prefix, self._own))).encode("utf-8", "surrogatepass")
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in found.name)[:60]
        return key, str(self.folder / f"{normalised(found.distribution)[:60]}-{plain}-{crc32(key):08x}")


def _import_path() -> list[str]:
    """`sys.path` as texts: a host may have added `Path`s, and the working folder may be gone."""
    return [str(path) or "." for path in sys.path]


def _plain(value: Any) -> Any:
    """Other mappings as objects, TOML's dates as texts."""
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return f"{type(value).__name__} {value.isoformat()}"


def write_snapshot(place: SnapshotPlace, sections: Mapping[bytes, bytes], stamps: Stamps, until: int = 0) -> bool:
    """Stores what the warm command prints; returns whether it was stored.

    It isn't where the stamps, taken before anything was read, can't show every later change, as for a file that changed
    a moment ago. `until`: when it expires, in seconds since 1970; 0 for never.
    """
    if not stamps.settled or not stamps.complete:
        return False
    return _write(place, sections, stamps, until, most=_MOST_SNAPSHOTS)


def _write(place: SnapshotPlace, sections: Mapping[bytes, bytes], stamps: Stamps, until: int, *, most: int) -> bool:
    """Writes a snapshot, and deletes the oldest in its folder beyond `most`; returns whether it was written."""
    key, path = place
    *starts, end = accumulate(map(len, sections.values()), initial=0)
    if end > _MOST_SNAPSHOT_BYTES:
        return False
    places = {name: (at, len(data), crc32(data)) for at, (name, data) in zip(starts, sections.items(), strict=True)}
    header = marshal.dumps((key, until, places, stamps.by_path))
    front = MAGIC + f"{crc32(header):08x} {len(header)}\n".encode()
    try:
        write_private(path, front, header, *sections.values())
    except OSError:
        return False
    prune(Path(path).parent, most=most)
    return True


def forget_snapshots() -> None:
    """Deletes every listing snapshot, after a decision of the user that no stamp shows."""
    prune(cache_folder() / "snapshots", most=0)


def prune(folder: Path, *, most: int) -> None:
    """Deletes files older than 90 days, and the oldest beyond so many files or 256 MiB."""
    count = size = 0
    with suppress(OSError):  # there is no such folder, or a file can't be removed
        with os.scandir(folder) as entries:
            files = [(each.stat(), Path(each.path)) for each in entries if each.is_file(follow_symlinks=False)]
        for facts, path in sorted(files, key=lambda file: file[0].st_mtime, reverse=True):
            count, size = count + 1, size + facts.st_size
            if count > most or size > _MOST_BYTES or time.time() - facts.st_mtime > _OLDEST_SECONDS:
                path.unlink(missing_ok=True)
