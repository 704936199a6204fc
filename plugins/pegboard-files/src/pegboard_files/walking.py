"""Directory walks: which entries are hidden or ignored, as ripgrep decides it, and pages of what was found.

Sources of ignore rules, the first one that has a say wins: .rgignore, .ignore, .gitignore, .git/info/exclude, the
user's global excludes; within one source the deepest directory first. Where the root lies inside a git repository, the
ignore files from the repository's top down to the root hold too.

The rules are ripgrep's (https://github.com/BurntSushi/ripgrep/blob/master/GUIDE.md#automatic-filtering) with two
exceptions: .gitignore counts outside of repositories too, and ignore files that are links, pipes or enormous
don't count, since reading them could leave the root, wait forever or fill the memory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from attrs import define, field, frozen

from pegboard import ToolError
from pegboard.tools.visible import printable
from pegboard_files.patterns import EVERYTHING, Globs, Rules, rules_of
from pegboard_files.root import Child, Deadline, Kind, OpenRoot, Parts, kind_of, resolve, shown_path, worded

MAX_IGNORE_BYTES: Final = 1 << 18
MAX_IGNORE_LINES: Final = 5_000
"""What one ignore file may hold: each line costs memory, and a while for every entry."""

IGNORE_FILES: Final = frozenset({".git", ".rgignore", ".ignore", ".gitignore"})
"""The names that decide what is ignored; `.git` marks a repository's top."""


@frozen
class Layer:
    """The rules of one ignore file.

    Attributes:
        rules: Its rules.
        depth: How many components of a path below the root lead to its directory; 0 for the root and above.
        prefix: For a directory above the root: the way from it down to the root, ending in `/`; else `""`.
    """

    rules: Rules
    depth: int
    prefix: str = ""

    def verdict(self, parts: Parts, *, directory: bool) -> bool | None:
        """`True` ignores the entry, `False` keeps it by a `!` line, `None` has no say."""
        path = self.prefix + "/".join(parts[self.depth :]) + ("/" if directory else "")
        return self.rules.verdict(path)


@frozen
class Ignoring:
    """Everything that has a say in one directory. Each tuple holds the deepest directory first.

    Attributes:
        rgignore: From .rgignore files.
        ignore: From .ignore files.
        gitignore: From .gitignore files, no further up than the repository's top.
        exclude: From .git/info/exclude.
        everywhere: From the user's global excludes.
    """

    rgignore: tuple[Layer, ...] = ()
    ignore: tuple[Layer, ...] = ()
    gitignore: tuple[Layer, ...] = ()
    exclude: tuple[Layer, ...] = ()
    everywhere: tuple[Layer, ...] = ()

    def verdict(self, parts: Parts, *, directory: bool) -> bool | None:
        """Whether an entry is ignored; asked for one whose directory isn't.

        Args:
            parts: Its path below the root, in names fit for matching (see `matchable`).
            directory: Whether it is a directory.

        Returns:
            `True` ignored, `False` kept by a `!` line (even if hidden), `None` no rule matches.
        """
        for source in (self.rgignore, self.ignore, self.gitignore, self.exclude, self.everywhere):
            for layer in source:
                verdict = layer.verdict(parts, directory=directory)
                if verdict is not None:
                    return verdict
        return None

    def below(self, read: Callable[[str], str | None], depth: int, prefix: str = "", *, is_top: bool) -> Ignoring:
        """What holds in a directory: its own ignore files on top of what holds above it.

        Args:
            read: Gives the text of an ignore file by its path in the directory; `None` where there is none to read.
            depth: As in `Layer`.
            prefix: As in `Layer`.
            is_top: Whether it is a repository's top.
        """

        def layers(path: str) -> tuple[Layer, ...]:
            text = read(path)
            return () if text is None else (Layer(rules_of(text), depth, prefix),)

        return Ignoring(
            layers(".rgignore") + self.rgignore,
            layers(".ignore") + self.ignore,
            layers(".gitignore") + (() if is_top else self.gitignore),
            layers(".git/info/exclude") if is_top else self.exclude,
            self.everywhere,
        )


NOTHING_IGNORED: Final = Ignoring()


def matchable(name: str) -> str:
    """A name as ignore rules see it: stray bytes and line ends, which RE2 can't match, replaced."""
    if name.isprintable():
        return name
    return os.fsencode(name).decode(errors="replace").replace("\n", "\ufffd")


def ignoring_above(place: str) -> Ignoring:
    """What holds in the root before its own ignore files: from the repository around it and the user's excludes.

    Args:
        place: The absolute path of the root, links resolved.
    """
    text = _read_anywhere(_global_excludes())
    holding = Ignoring(everywhere=() if text is None else (Layer(rules_of(text), 0),))
    root = Path(place)
    for above in _repository_around(root):
        prefix = "/".join(map(matchable, root.relative_to(above).parts)) + "/"
        # It may be read anywhere: the operator chose the root, and so what is around it.
        holding = holding.below(
            lambda name, above=above: _read_anywhere(f"{above}/{name}"), 0, prefix, is_top=(above / ".git").exists()
        )
    return holding


def ignoring_in(root: OpenRoot, parts: Parts, above: Ignoring) -> Ignoring:
    """What holds in a directory below the root, which isn't left.

    Args:
        root: What can't be left.
        parts: The directory.
        above: What holds above it.
    """

    def read(name: str) -> str | None:
        try:
            with root.open_file((*parts, *name.split("/"))) as file:
                return _text(file)
        except (OSError, ToolError):
            return None

    try:
        root.status((*parts, ".git"))
    except OSError:
        return above.below(read, len(parts), is_top=False)
    return above.below(read, len(parts), is_top=True)


def _repository_around(root: Path) -> Sequence[Path]:
    """The directories from the top of the repository that the root lies in down to the root's parent."""
    if (root / ".git").exists():
        return ()
    for index, above in enumerate(root.parents):
        if (above / ".git").exists():
            return tuple(reversed(root.parents[: index + 1]))
    return ()


def _read_anywhere(path: str) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            return _text(file) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None


def _text(file: BinaryIO) -> str | None:
    data = file.read(MAX_IGNORE_BYTES + 1)
    if len(data) > MAX_IGNORE_BYTES or data.count(b"\n") > MAX_IGNORE_LINES:
        return None
    return data.decode(errors="replace")


def _global_excludes() -> str:
    """Where the user's global excludes stand: git's `core.excludesFile`, or git's default place for them."""
    home = os.environ.get("HOME", "")
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    for place in (f"{home}/.gitconfig", f"{config}/git/config"):
        found = _EXCLUDES_FILE.search(_read_anywhere(place) or "")
        if found is not None:
            return re.sub("^~(?=/)", lambda _: home, found["path"])
    return f"{config}/git/ignore"


# ripgrep reads git's configuration in the same way: one key, whatever its section.
_EXCLUDES_FILE: Final = re.compile(r'(?im)^[ \t]*excludesfile[ \t]*=[ \t]*"?(?P<path>[^"\n]*[^"\s])')
MAX_DEPTH: Final = 200
"""How deep below the root a walk goes; each level costs a little more time."""


@frozen
class Entry:
    """Entry of a walk: a file or a directory.

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
            ignoring = ignoring_in(self.root, start[:depth], ignoring)
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
            ignoring = ignoring_in(self.root, parts, ignoring)
        above = tuple(map(matchable, parts))
        return iter(
            [
                (Entry((*parts, child.name), child.kind), ignoring)
                for child in children
                if self._is_met(child, above, ignoring)
            ]
        )

    def _is_met(self, child: Child, above: Parts, ignoring: Ignoring) -> bool:
        verdict = ignoring.verdict((*above, matchable(child.name)), directory=child.kind == "directory")
        if verdict:
            self.left_ignored += 1
            return False
        # A `!` line shows a hidden name, as in ripgrep; what git keeps for itself is never shown.
        hidden = child.name == ".git" or (child.name.startswith(".") and verdict is None and not self.hidden)
        self.left_hidden += hidden
        return not hidden


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
    with worded(root.shown(parts)):
        kind = kind_of(root.status(parts).st_mode)
    if kind == "file":
        raise ToolError(f"{root.shown(parts)!r} is a file, not a directory. Use read_file or grep.")
    if kind != "directory":
        raise ToolError(f"{root.shown(parts)!r} is not a directory.")
    return parts


def listed(walk: Walk, start: Parts, offset: int, limit: int) -> tuple[list[DirectoryEntry], int]:
    """A page of a directory's entries, and how many there are in all."""
    with worded(walk.root.shown(start)):
        entries = list(walk.entries(start, deep=False))
    page = entries[offset : offset + limit]
    return [DirectoryEntry(printable(entry.parts[-1]), entry.kind, size_of(walk.root, entry)) for entry in page], len(
        entries
    )


def found(walk: Walk, start: Parts, globs: Globs, offset: int, limit: int) -> tuple[list[FoundFile], bool]:
    """A page of what globs match below a directory, and whether there is more."""
    with worded(walk.root.shown(start)):
        matching = (entry for entry in walk.entries(start) if _matches(entry, start, globs))
        page = list(islice(matching, offset, offset + limit + 1))
    files = [FoundFile(walk.root.shown(entry.parts), entry.kind, size_of(walk.root, entry)) for entry in page[:limit]]
    return files, len(page) > limit


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
