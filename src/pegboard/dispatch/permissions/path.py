"""Paths: where they really are, and the patterns that look at them."""

from __future__ import annotations

import errno
import os
import re
import sys
from typing import Final

from attrs import field, frozen

from pegboard.dispatch.permissions.match import Match, Unreadable, exactly
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.permissions.wildcard import Wildcard, wildcard

MOST_LINKS: Final = 40
"""Links on the way to one place, as Linux has it."""

MOST_BYTES: Final = 4096
"""Of one path, as Linux has it (`PATH_MAX`)."""

_NO_LINK: Final = frozenset({errno.EINVAL, errno.ENOENT, errno.ENOTDIR, errno.EACCES})
"""What `readlink` says where there is no link, nothing at all, or where this process can't go either."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FOLDS_CASE: Final = sys.platform in ("darwin", "win32")
"""Whether `A` and `a` may be one file: then what is denied is denied in either case."""


class LostError(ValueError):
    """Nobody can say where a path leads."""


def path_parts(text: str, folder: str) -> tuple[Place | Unreadable]:
    """The place of a path, or what is said of a path that leads nowhere.

    Args:
        text: The path; a relative one starts at `folder`, `~` is the user's home.
        folder: Absolute.
    """
    try:
        return (place_of(text, folder),)
    except LostError:
        return (Unreadable(text),)


def place_of(text: str, folder: str) -> Place:
    """Where a path leads: component by component, through links; what doesn't exist yet stays as it is written.

    A tool may take `..` back before it follows links, or after: where these differ, both places count.

    Raises:
        LostError: Links that go round in circles, a path that no system takes, or a URL.
    """
    if not text or _SCHEME.match(text):
        raise LostError("no path")
    written = _joined(text, folder)
    real = resolved(written)
    short = os.path.normpath(written)
    other = resolved(short) if ".." in written else real
    return Place((real,) if other == real else (real, other), short, folder)


def resolved(path: str) -> str:
    """An absolute path without links, `.` and `..`; its end need not exist.

    Raises:
        LostError: See `place_of`.
    """
    done, links = "", 0
    waiting = path.split("/")[::-1]
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        target = _target(f"{done}/{part}")
        if target is None:
            done = f"{done}/{part}"
            continue
        links += 1
        if links > MOST_LINKS:
            raise LostError("too many links")
        done = "" if target.startswith("/") else done
        waiting.extend(target.split("/")[::-1])
    return done or "/"


def _joined(text: str, folder: str) -> str:
    path = os.path.join(folder, os.path.expanduser(text))  # noqa: PTH111, PTH118  (pathlib takes "." and "//" away)
    try:
        if "\0" in path or len(os.fsencode(path)) > MOST_BYTES:
            raise LostError("no path")
    except UnicodeEncodeError:
        raise LostError("no path") from None
    return path


def _target(path: str) -> str | None:
    """Where a link leads, or `None` where there is none."""
    try:
        return os.readlink(path)  # noqa: PTH115  (it costs half as much)
    except OSError as error:
        if error.errno in _NO_LINK:
            return None
        raise LostError(f"{error.strerror}") from None


@frozen
class PathPattern:
    """A pattern of paths.

    Attributes:
        start: What a place has to start with, literally: a folder without links, with its last `/`.
        rest: What has to follow; `None`: nothing.
    """

    start: str
    rest: Wildcard | None

    def matches(self, place: str) -> bool:
        """Whether a place is meant."""
        if self.rest is None:
            return place == self.start
        return place.startswith(self.start) and self.rest.matches(place[len(self.start) :])

    def touches(self, place: str) -> bool:
        """Whether a place may be meant, on a system that may take `A` for `a`."""
        return self.matches(place) or (_FOLDS_CASE and self._folded().matches(place.casefold()))

    def _folded(self) -> PathPattern:
        rest = self.rest and wildcard(self.rest.pattern.casefold())
        return PathPattern(self.start.casefold(), rest)


def path_pattern(pattern: str, folder: str, *, follow: bool = True) -> PathPattern | None:
    """The pattern for places: its literal start is resolved as a path is.

    A pattern that starts with `*` or `?` starts anywhere; any other that is relative starts at `folder`.

    Args:
        pattern: As in a rule.
        folder: Absolute.
        follow: Whether links in its literal start are followed.

    Returns:
        `None` where its start leads nowhere.
    """
    literal = re.match(r"[^*?]*", pattern)
    assert literal is not None
    if not literal[0]:
        return PathPattern("", wildcard(pattern))
    cut = len(pattern) if literal[0] == pattern else literal[0].rfind("/") + 1
    start, rest = pattern[:cut], pattern[cut:]
    try:
        place = _joined(start or ".", folder)
        place = resolved(place) if follow else os.path.normpath(place)
    except LostError:
        return None
    if not rest:
        return PathPattern(place, None)
    return PathPattern(place if place == "/" else f"{place}/", wildcard(rest))


@frozen
class Place:
    """A place in the file system.

    Attributes:
        real: Where it really is, without links; two where `..` can be read in two ways.
        written: As it was written, but absolute and without `..`: only to deny and to ask.
        folder: Where relative patterns start.
    """

    real: tuple[str, ...]
    written: str
    folder: str
    inside: bool = field(default=False, init=False)

    @property
    def shown(self) -> str:
        """Where it really is."""
        return self.real[0]

    @property
    def always(self) -> str | None:
        """Everything in its folder; only itself in the root."""
        around = self.shown.rpartition("/")[0]
        return exactly(self.shown) if not around else (start := exactly(around)) and f"{start}/*"

    def match(self, rule: Rule) -> Match:
        """By where it really is; what denies or asks also looks at the way there."""
        first = rule.first_path(self.folder)
        if rule.allows:
            return Match.SURELY if first is not None and all(map(first.matches, self.real)) else Match.NO
        patterns = (first, rule.path(self.folder), path_pattern(rule.pattern, self.folder, follow=False))
        if None in patterns:
            return Match.PERHAPS
        meant = [any(p.touches(each) for p in patterns if p is not None) for each in (*self.real, self.written)]
        if not any(meant):
            return Match.NO
        return Match.SURELY if all(meant) else Match.PERHAPS


__all__ = ["LostError", "PathPattern", "Place", "path_parts", "path_pattern", "place_of", "resolved"]
