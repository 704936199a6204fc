"""`FoundPlugin`: an entry point of an installed distribution, not imported yet."""

from __future__ import annotations

import os
from typing import Final

from attrs import frozen

from pegboard.config.file import read_bounded
from pegboard.plugins.sources import source_paths

MOST_RECORD_BYTES: Final = 64 * 1024 * 1024


@frozen
class FoundPlugin:
    """What a distribution's metadata says of one plugin.

    Attributes:
        name: The entry point's name, which is the plugin's.
        module: The module to import, dotted.
        attribute: What to take of it, dotted; `None` where the module itself is the plugin.
        distribution: The distribution's name as it writes it.
        version: Its version.
        location: Its metadata folder (`.../name-1.0.dist-info`).
        editable: Whether it is installed as a link to its sources.
    """

    name: str
    module: str
    attribute: str | None
    distribution: str
    version: str
    location: str
    editable: bool = False

    @property
    def root(self) -> str:
        """The folder on `sys.path` that holds the metadata."""
        return os.path.dirname(self.location)  # noqa: PTH120  asked once a plugin: a path object costs ten times this

    def record(self) -> bytes | None:
        """The list of its files with their digests (`RECORD`); `None` where it says nothing of the sources.

        That is where the install is editable, or no installer wrote one.
        """
        if self.editable:
            return None
        try:
            return read_bounded(f"{self.location}/RECORD", MOST_RECORD_BYTES) or None
        except OSError:
            return None

    def sources(self) -> tuple[str, ...] | None:
        """The files and folders of the code, for an install whose RECORD says nothing of it.

        Nothing is imported. `None` where they can't be found, or are too many to look at each time.
        """
        return source_paths(self.module, self.root)

    def key(self) -> str | None:
        """A text that changes whenever the plugin's own code may have changed.

        Distribution, version, entry point, and the SHA-256 of RECORD or of the sources' paths, times and sizes.
        `None` where no such text can be had: what is known of the plugin then can't be kept.
        """
        state = self._state()
        if state is None:
            return None
        import hashlib

        facts = (self.distribution, self.version, self.name, self.module, self.attribute or "")
        return "\n".join((*facts, hashlib.sha256(state).hexdigest()))

    def _state(self) -> bytes | None:
        record = self.record()
        if record is not None:
            return record
        sources = self.sources()
        if sources is None:
            return None
        from pegboard.plugins.snapshot import stamp_of

        return b"\0".join(part for path in map(os.fsencode, sources) for part in (path, stamp_of(path)))
