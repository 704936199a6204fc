"""`Stamps`: everything that a listing rests on, and how it was when the listing was made."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import Final

from attrs import define, field

from pegboard.plugins.found import FoundPlugin
from pegboard.plugins.manifest import find_manifest
from pegboard.plugins.own import own_files
from pegboard.plugins.snapshot import MISSING, stamp_of

_SETTLED_NS: Final = 20_000_000
"""File times move in ticks of some milliseconds: what changed this short a time before may change again unseen."""


@define
class Stamps:
    """Collects paths and their stamps, for one listing that is made meanwhile.

    Attributes:
        settled: Whether nothing has changed since this was made, or so shortly before that a further change could go
            unseen.
        complete: Whether everything that the listing rests on could be added.
    """

    settled: bool = field(default=True, init=False)
    complete: bool = field(default=True, init=False)
    _stamps: dict[bytes, bytes] = field(factory=dict[bytes, bytes], init=False)
    _started: int = field(factory=time.time_ns, init=False)

    @classmethod
    def of_environment(cls) -> Stamps:
        """Those of the folders on `sys.path`, and of pegboard itself. Take them before anything else is read."""
        stamps = cls()
        stamps.add(*(os.path.abspath(path) for path in sys.path))  # noqa: PTH100  a text, not a path object
        stamps.add(*own_files())
        return stamps

    def add(self, *paths: str) -> None:
        """Adds files and folders, missing ones too; the first stamp of a path is kept."""
        for path in map(os.fsencode, paths):
            if path not in self._stamps:
                self._stamps[path] = stamp = stamp_of(path)
                self.settled = self.settled and not self._is_fresh(stamp)

    def _is_fresh(self, stamp: bytes) -> bool:
        """Whether something changed just now. A time in the future is no change, but a wrong clock."""
        if stamp == MISSING:
            return False
        changed = int(stamp.partition(b":")[0])
        return self._started - _SETTLED_NS < changed <= time.time_ns()

    def add_plugin(self, found: FoundPlugin) -> None:
        """Adds a plugin's metadata and its manifest; where the metadata says nothing of the code, the code too.

        The code of a regular install isn't watched: an installer that changes it writes RECORD anew. Whoever edits it
        in place asks for `registry list --refresh`.
        """
        location = found.location
        metadata = "PKG-INFO" if location.endswith(".egg-info") else "METADATA"
        self.add(f"{location}/entry_points.txt", f"{location}/{metadata}", f"{location}/RECORD")
        manifest = find_manifest(found)
        if manifest is not None:
            self.add(str(manifest))
        if found.record() is None:
            sources = found.sources()
            self.complete = self.complete and sources is not None
            self.add(*(sources or ()))

    def fields(self) -> Iterable[bytes]:
        """Path, stamp, path, stamp, ..."""
        return (part for pair in self._stamps.items() for part in pair)
