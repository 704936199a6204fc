"""`discover`: the plugins of all installed distributions, none of them imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from attrs import define, field, frozen

from pegboard.catalogue import Problem
from pegboard.config.file import read_bounded, reason
from pegboard.plugins.distribution import (
    MetadataError,
    is_editable,
    metadata_folders,
    name_and_version,
    normalised,
)
from pegboard.plugins.entry_points import GROUP, parse_entry_points
from pegboard.plugins.found import FoundPlugin

_MOST_ENTRY_POINT_BYTES: Final = 1024 * 1024
_HEADER: Final = f"[{GROUP}]".encode()


@frozen
class Discovery:
    """What the installed distributions offer.

    Attributes:
        entries: The plugins in load order: by distribution, then by name.
        problems: Distributions and entry points that can't be used, each with its cause.
    """

    entries: tuple[FoundPlugin, ...] = ()
    problems: tuple[Problem, ...] = ()


def discover(paths: Sequence[str] | None = None) -> Discovery:
    """Finds the plugins of all installed distributions; what is wrong with one costs only that one.

    Args:
        paths: The folders to look in, `sys.path` by default; the first that has a distribution counts.
    """
    search = _Search()
    for name, locations in metadata_folders(sys.path if paths is None else paths, search.unreadable):
        search.look_at(name, locations)
    return search.discovery()


@define
class _Search:
    found: list[FoundPlugin] = field(factory=list[FoundPlugin])
    problems: list[Problem] = field(factory=list[Problem])

    def unreadable(self, path: str, why: str) -> None:
        self.problems.append(
            Problem(None, None, f"{path}, which is on sys.path, can't be listed: {why}; plugins in it are missing")
        )

    def look_at(self, name: str, locations: list[str]) -> None:
        """Reads one distribution; of several left behind by a broken install, the one written last counts."""
        texts = {location: text for location in locations if (text := self._entry_points(name, location))}
        if not texts:
            return
        location = max(locations, key=_written) if len(locations) > 1 else locations[0]
        if len(locations) > 1:
            folders = ", ".join(sorted(map(os.path.basename, locations)))
            self._report(
                None,
                name,
                f"is installed twice ({folders}); {os.path.basename(location)} counts: install it again",  # noqa: PTH119  a name, not a path
            )
        if location in texts:
            self._read(name, location, texts[location])

    def _entry_points(self, name: str, location: str) -> bytes | None:
        """The bytes of the file where it may name plugins."""
        try:
            text = read_bounded(f"{location}/entry_points.txt", _MOST_ENTRY_POINT_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            cause = f"entry_points.txt can't be read: {reason(error)}; whether it has plugins isn't known"
            self._report(None, name, cause)
            return None
        if _HEADER in text:
            return text
        # One that is damaged may have named plugins; what is whole and doesn't name the group has none.
        return text if _HEADER[:-1] + b"\n" in text + b"\n" or not _is_text(text) else None

    def _read(self, name: str, location: str, text: bytes) -> None:
        try:
            distribution, version = name_and_version(location)
            points, faults = parse_entry_points(text.decode("utf-8-sig"))
        except MetadataError as error:
            self._report(None, name, f"its plugins are left out: {error}")
        except UnicodeDecodeError:
            self._report(None, name, "its plugins are left out: entry_points.txt isn't UTF-8")
        else:
            editable = is_editable(location)
            if _HEADER not in text and not faults:
                self._report(None, name, "its plugins are left out: the group's name in entry_points.txt is damaged")
            for plugin, cause in faults:
                self._report(plugin or None, distribution, cause)
            self.found += [
                FoundPlugin(point.name, point.module, point.attribute, distribution, version, location, editable)
                for point in points
            ]

    def _report(self, plugin: str | None, distribution: str, cause: str) -> None:
        self.problems.append(Problem(plugin, distribution, cause))

    def discovery(self) -> Discovery:
        """What was found, in load order; of two plugins of one name the earlier counts."""
        taken: dict[str, FoundPlugin] = {}
        for found in sorted(self.found, key=lambda found: (normalised(found.distribution), found.name)):
            first = taken.setdefault(found.name, found)
            if first is not found:
                cause = f"plugin name {found.name!r} is taken by {first.distribution}: uninstall one of the two"
                self._report(found.name, found.distribution, cause)
        return Discovery(tuple(taken.values()), tuple(self.problems))


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return True


def _written(location: str) -> tuple[int, str]:
    return os.stat(location).st_mtime_ns, location  # noqa: PTH116  a text, as everywhere here
