"""`resolve`: from a path as a model writes it to the parts below the root that it stands for."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from attrs import define, field

from pegboard import ToolError
from pegboard_files.name import Parts, near_misses, shown, shown_path
from pegboard_files.root import OpenRoot

MAX_LINKS: Final = 40
"""As many links in one path as Linux follows."""

MAX_PARTS: Final = 1_000
"""Components of one path, or of where one link leads."""


def resolve(root: OpenRoot, asked: str) -> Parts:
    """The parts below the root that a path stands for, links resolved one by one.

    Args:
        root: What can't be left.
        asked: Relative to the root; or absolute and below it.

    Raises:
        ToolError: It leads out of the root, doesn't exist (near misses are named) or can't be looked at.
    """
    _check_text(asked)
    way = _Way(root, asked)
    way.lead(asked)
    while way.todo:
        way.step()
    return tuple(way.done)


@define(eq=False)
class _Way:
    """How far the resolving of one path is.

    Attributes:
        root: What can't be left.
        asked: The whole path, for errors.
        todo: The components ahead.
        done: The parts behind: real names, no link among them.
        links: How many links were followed.
    """

    root: OpenRoot
    asked: str
    todo: deque[str] = field(factory=deque[str])
    done: list[str] = field(factory=list[str])
    links: int = 0

    def step(self) -> None:
        """Takes one component."""
        part = self.todo.popleft()
        if part in {"", "."}:
            return
        if part == "..":
            self._up()
            return
        name, target = self._look(part)
        if target is None:
            self.done.append(name)
            return
        self.links += 1
        if self.links > MAX_LINKS:
            raise ToolError(f"{shown(self.asked)!r} runs through too many links.")
        self.lead(target)

    def lead(self, path: str) -> None:
        """Puts the components of a path ahead; an absolute one starts at the root again.

        Raises:
            ToolError: It is absolute and not below the root, or too long.
        """
        if path.startswith("/"):
            path = self._below_root(path)
            self.done.clear()
        parts = path.split("/")
        if len(parts) > MAX_PARTS:
            raise ToolError(f"the path has more than {MAX_PARTS} components.")
        self.todo.extendleft(reversed(parts))

    def _below_root(self, path: str) -> str:
        for place in self.root.places:
            if path == place or path.startswith(place.rstrip("/") + "/"):
                return path[len(place) :]
        raise self._outside()

    def _up(self) -> None:
        if not self.done:
            raise self._outside()
        self.done.pop()

    def _outside(self) -> ToolError:
        return ToolError(
            f"{shown(self.asked)!r} is outside of the folder that the file tools work in. "
            "Give a path relative to that folder, such as 'src/main.py', or '.' for the folder itself."
        )

    def _look(self, part: str) -> tuple[str, str | None]:
        """The name that a component stands for, and where it leads if it is a link."""
        with self._worded():
            name, fd = part, self.root.directory(tuple(self.done))
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                name = self._by_shown_name(part)
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            return name, os.readlink(name, dir_fd=fd) if stat.S_ISLNK(found.st_mode) else None

    def _by_shown_name(self, part: str) -> str:
        """The one name that is shown as this component."""
        try:
            names = [child.name for child in self.root.children(tuple(self.done))]
        except OSError:
            names = []
        same = [name for name in names if shown(name) == part]
        if len(same) == 1:
            return same[0]
        near = [shown_path((*self.done, name)) for name in near_misses(part, names)]
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ToolError(f"there is no {shown(self.asked)!r}.{hint}")

    @contextmanager
    def _worded(self) -> Generator[None]:
        """Words what the system refuses."""
        try:
            yield
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                raise ToolError(f"{shown(self.asked)!r} leads through something that is no directory.") from error
            reason = os.strerror(error.errno) if error.errno else "it can't be looked at"
            raise ToolError(f"{shown(self.asked)!r}: {reason}.") from error


def _check_text(asked: str) -> None:
    try:
        os.fsencode(asked)
    except UnicodeEncodeError:
        raise ToolError(f"{shown(asked)!r} is not a path: it holds half a character.") from None
    if "\0" in asked:
        raise ToolError(f"{shown(asked)!r} is not a path: it holds a NUL character.")
