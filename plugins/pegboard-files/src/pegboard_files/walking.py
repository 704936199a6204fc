"""The walk: every entry below a directory that is neither hidden nor ignored, always in the same order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from attrs import define, field, frozen

from pegboard import ToolError
from pegboard_files.deadline import Deadline
from pegboard_files.globs import EVERYTHING, Globs
from pegboard_files.ignoring import (
    IGNORE_FILES,
    NOTHING_IGNORED,
    Ignoring,
    below_root,
    ignoring_above,
    matchable,
)
from pegboard_files.name import Kind, Parts, shown_path
from pegboard_files.root import Child, OpenRoot

MAX_DEPTH: Final = 200
"""How deep below the root a walk goes; each level costs a little more time."""


@frozen
class Entry:
    """What a walk meets.

    Attributes:
        parts: Where it is, below the root.
        kind: What it is; links are met, but not followed.
    """

    parts: Parts
    kind: Kind


@define
class Walk:
    """One walk, and what it had to leave out.

    Attributes:
        root: Where it can't get out of.
        deadline: When it stops.
        hidden: Whether names with a leading dot are walked too.
        no_ignore: Whether ignore files count for nothing.
        globs: Directories that they prune aren't entered; relative to where the walk starts.
        left_hidden: How many entries were left out as hidden.
        left_ignored: How many entries were left out by ignore files.
        unreadable: How many directories couldn't be listed.
        stopped: Whether the deadline passed before the end.
    """

    root: OpenRoot
    deadline: Deadline
    hidden: bool = False
    no_ignore: bool = False
    globs: Globs = EVERYTHING
    left_hidden: int = field(default=0, init=False)
    left_ignored: int = field(default=0, init=False)
    unreadable: int = field(default=0, init=False)
    stopped: bool = field(default=False, init=False)

    def entries(self, start: Parts, *, deep: bool = True) -> Iterator[Entry]:
        """The entries below `start`: each directory's names in byte order, as `rg --sort path` has them.

        Args:
            start: A directory. It is walked even if it is hidden or ignored itself, since it was named.
            deep: Whether to go on into directories.

        Raises:
            OSError: `start` itself can't be listed.
            ToolError: `start` itself has too many entries.
        """
        todo = [self._inside(start, self._ignoring_above(start))]
        while todo and not self._out_of_time():
            met = next(todo[-1], None)
            if met is None:
                todo.pop()
                continue
            entry, ignoring = met
            yield entry
            if deep and entry.kind == "directory" and self._goes_into(entry.parts, start):
                todo.append(self._inside_if_readable(entry.parts, ignoring))

    def _out_of_time(self) -> bool:
        self.stopped = self.deadline.passed
        return self.stopped

    def _goes_into(self, parts: Parts, start: Parts) -> bool:
        if len(parts) > MAX_DEPTH:
            self.unreadable += 1
            return False
        return self.globs.unwanted is None or not self.globs.prunes(shown_path(parts[len(start) :]) + "/")

    def _ignoring_above(self, start: Parts) -> Ignoring:
        """What holds in the parent of `start`, read from above the root downwards."""
        if self.no_ignore:
            return NOTHING_IGNORED
        ignoring = ignoring_above(self.root.places[0])
        for depth in range(len(start)):
            ignoring = ignoring.below(below_root(self.root, start[:depth]), depth)
        return ignoring

    def _inside_if_readable(self, parts: Parts, ignoring: Ignoring) -> Iterator[tuple[Entry, Ignoring]]:
        try:
            return self._inside(parts, ignoring)
        except (OSError, ToolError):
            self.unreadable += 1
            return iter(())

    def _inside(self, parts: Parts, ignoring: Ignoring) -> Iterator[tuple[Entry, Ignoring]]:
        """What is to be met in one directory, with what holds there."""
        children = sorted(self.root.children(parts), key=lambda child: os.fsencode(child.name))
        if not self.no_ignore and any(child.name in IGNORE_FILES for child in children):
            ignoring = ignoring.below(below_root(self.root, parts), len(parts))
        above = tuple(map(matchable, parts))
        return iter(
            [
                (Entry((*parts, child.name), child.kind), ignoring)
                for child in children
                if self._is_met(child, above, ignoring)
            ]
        )

    def _is_met(self, child: Child, above: Parts, ignoring: Ignoring) -> bool:
        said = ignoring.verdict((*above, matchable(child.name)), directory=child.kind == "directory")
        if said:
            self.left_ignored += 1
            return False
        # A `!` line shows a hidden name, as in ripgrep; what git keeps for itself is never shown.
        hidden = child.name == ".git" or (child.name.startswith(".") and said is None and not self.hidden)
        self.left_hidden += hidden
        return not hidden
