"""Directory walks with ripgrep's rules for hidden and ignored entries, and pages of their results.

Sources of ignore rules, the first match wins: .rgignore, .ignore, .gitignore, .git/info/exclude, the user's global
excludes; within one source the deepest directory first. If the root is inside a git repository, the ignore files from
the repository's top down to the root apply too.

The rules are ripgrep's (https://github.com/BurntSushi/ripgrep/blob/master/GUIDE.md#automatic-filtering) with two
exceptions: .gitignore applies outside of repositories too, and ignore files that are links, pipes or enormous
are skipped, since reading them could leave the root, block forever or fill the memory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from attrs import define, field, frozen

from pegboard import ToolError
from pegboard.text import printable
from pegboard_files.patterns import EVERYTHING, Globs, Rules, rules_of
from pegboard_files.root import Child, Deadline, Kind, OpenRoot, Parts, as_tool_error, kind_of, resolve

MAX_IGNORE_BYTES: Final = 1 << 18
MAX_IGNORE_LINES: Final = 5_000
"""Limits of one ignore file: each line costs memory, and time for every entry."""

IGNORE_FILES: Final = frozenset({".git", ".rgignore", ".ignore", ".gitignore"})
"""The names of ignore files; `.git` marks a repository's top."""


@frozen
class Layer:
    """The rules of one ignore file.

    Attributes:
        rules: Its rules.
        depth: The depth of its directory below the root; 0 for the root and above.
        prefix: For a directory above the root: the path from it down to the root, ending in `/`; else `""`.
    """

    rules: Rules
    depth: int
    prefix: str = ""

    def verdict(self, parts: Parts, *, directory: bool) -> bool | None:
        """`True`: the entry is ignored; `False`: a `!` line includes it; `None`: no line matches."""
        path = self.prefix + "/".join(parts[self.depth :]) + ("/" if directory else "")
        return self.rules.verdict(path)


@frozen
class IgnoreRules:
    """All ignore rules of one directory, in each tuple the deepest directory first.

    Attributes:
        rgignore: From .rgignore files.
        ignore: From .ignore files.
        gitignore: From .gitignore files, up to the repository's top.
        exclude: From .git/info/exclude.
        everywhere: From the user's global excludes.
    """

    rgignore: tuple[Layer, ...] = ()
    ignore: tuple[Layer, ...] = ()
    gitignore: tuple[Layer, ...] = ()
    exclude: tuple[Layer, ...] = ()
    everywhere: tuple[Layer, ...] = ()

    def verdict(self, parts: Parts, *, directory: bool) -> bool | None:
        """Whether an entry of a directory that isn't ignored is ignored itself.

        Args:
            parts: Its path below the root, in `matchable` names.
            directory: Whether it is a directory.

        Returns:
            `True`: ignored; `False`: included by a `!` line (even if hidden); `None`: no rule matches.
        """
        for source in (self.rgignore, self.ignore, self.gitignore, self.exclude, self.everywhere):
            for layer in source:
                verdict = layer.verdict(parts, directory=directory)
                if verdict is not None:
                    return verdict
        return None

    def below(self, read: Callable[[str], str | None], depth: int, prefix: str = "", *, is_top: bool) -> IgnoreRules:
        """The rules of a directory in this one: its own ignore files before these.

        Args:
            read: Gives the text of an ignore file by its path in the directory, or `None`.
            depth: As in `Layer`.
            prefix: As in `Layer`.
            is_top: Whether it is a repository's top.
        """

        def layers(path: str) -> tuple[Layer, ...]:
            text = read(path)
            return () if text is None else (Layer(rules_of(text), depth, prefix),)

        return IgnoreRules(
            layers(".rgignore") + self.rgignore,
            layers(".ignore") + self.ignore,
            layers(".gitignore") + (() if is_top else self.gitignore),
            layers(".git/info/exclude") if is_top else self.exclude,
            self.everywhere,
        )


NOTHING_IGNORED: Final = IgnoreRules()


def matchable(name: str) -> str:
    """A name for matching: invalid UTF-8 and line ends, which RE2 can't match, are replaced."""
    if name.isprintable():
        return name
    return os.fsencode(name).decode(errors="replace").replace("\n", "\ufffd")


def rules_above(place: str) -> IgnoreRules:
    """The rules that the root inherits: from the repository around it and the user's global excludes.

    Args:
        place: The absolute path of the root, links resolved.
    """
    text = _read_anywhere(_global_excludes())
    rules = IgnoreRules(everywhere=() if text is None else (Layer(rules_of(text), 0),))
    root = Path(place)
    for above in _repository_around(root):
        prefix = "/".join(map(matchable, root.relative_to(above).parts)) + "/"
        # Reading above the root is fine: the operator chose the root.
        rules = rules.below(
            lambda name, above=above: _read_anywhere(f"{above}/{name}"), 0, prefix, is_top=(above / ".git").exists()
        )
    return rules


def rules_in(root: OpenRoot, parts: Parts, above: IgnoreRules) -> IgnoreRules:
    """The rules of a directory below the root.

    Args:
        root: The root; only files in it are read.
        parts: The directory.
        above: The rules of its parent.
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
    """The directories from the top of the repository that contains the root down to the root's parent."""
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


# ripgrep reads git's configuration in the same way: one key, in any section.
_EXCLUDES_FILE: Final = re.compile(r'(?im)^[ \t]*excludesfile[ \t]*=[ \t]*"?(?P<path>[^"\n]*[^"\s])')


def _global_excludes() -> str:
    """The path of the user's global excludes: git's `core.excludesFile`, or its default."""
    home = os.environ.get("HOME", "")
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    for place in (f"{home}/.gitconfig", f"{config}/git/config"):
        found = _EXCLUDES_FILE.search(_read_anywhere(place) or "")
        if found is not None:
            return re.sub("^~(?=/)", lambda _: home, found["path"])
    return f"{config}/git/ignore"


MAX_DEPTH: Final = 200
"""The maximum depth of a walk below the root; each level takes a little more time."""

Entry: TypeAlias = tuple[str, Parts, str, Kind]
"""An entry of a walk: its path below the start, as shown; its directory's parts; its name; and its type.

Links are given, but not followed. A plain tuple, and no parts of its own, as few of many entries match.
"""

_Folder: TypeAlias = tuple[Parts, str, IgnoreRules, Iterator[Child]]
"""A directory of a walk: its parts, what its entries' paths begin with, its rules, and the entries that are left."""


def _bytes_of(child: Child) -> bytes:
    return os.fsencode(child[0])


@define
class Walk:
    """A directory walk, with counts of what it left out.

    Attributes:
        root: The root that it stays in.
        deadline: When it stops.
        hidden: Whether to include names with a leading dot.
        no_ignore: Whether to disregard ignore files.
        globs: Directories that these prune aren't entered; relative to the start of the walk.
        left_hidden: The number of entries left out as hidden.
        left_ignored: The number of entries left out by ignore files.
        unreadable: The number of directories that couldn't be listed.
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
            deep: Whether to descend into directories.

        Raises:
            OSError: `start` itself can't be listed.
            ToolError: `start` itself has too many entries.
        """
        todo = [self._open(start, "", self._inherited_rules(start))]
        while todo:
            folder, prefix, rules, children = todo[-1]
            for name, kind in children:
                if self.deadline.is_over:
                    self.stopped = True
                    return
                path = prefix + printable(name)
                yield path, folder, name, kind
                if deep and kind == "directory" and not self.globs.prunes(inside := path + "/"):
                    todo += self._open_if_readable((*folder, name), inside, rules)
                    break
            else:
                todo.pop()

    def _inherited_rules(self, start: Parts) -> IgnoreRules:
        """The rules of the parent of `start`, read from above the root downwards."""
        if self.no_ignore:
            return NOTHING_IGNORED
        rules = rules_above(self.root.places[0])
        for depth in range(len(start)):
            rules = rules_in(self.root, start[:depth], rules)
        return rules

    def _open_if_readable(self, parts: Parts, prefix: str, rules: IgnoreRules) -> list[_Folder]:
        try:
            if len(parts) <= MAX_DEPTH:
                return [self._open(parts, prefix, rules)]
        except (OSError, ToolError):
            pass
        self.unreadable += 1
        return []

    def _open(self, parts: Parts, prefix: str, rules: IgnoreRules) -> _Folder:
        children = self.root.children(parts)
        children.sort(key=_bytes_of)
        if not self.no_ignore and any(name in IGNORE_FILES for name, _ in children):
            rules = rules_in(self.root, parts, rules)
        above = tuple(map(matchable, parts))
        is_plain = rules == NOTHING_IGNORED
        left = [
            child for child in children if (is_plain and child[0][0] != ".") or self._is_included(child, above, rules)
        ]
        return parts, prefix, rules, iter(left)

    def _is_included(self, child: Child, above: Parts, rules: IgnoreRules) -> bool:
        name, kind = child
        verdict = rules.verdict((*above, matchable(name)), directory=kind == "directory")
        if verdict:
            self.left_ignored += 1
            return False
        # A `!` line includes a hidden name, as in ripgrep; .git is never included.
        hidden = name == ".git" or (name.startswith(".") and verdict is None and not self.hidden)
        self.left_hidden += hidden
        return not hidden


@frozen
class DirectoryEntry:
    """One entry of a directory.

    Attributes:
        name: Its name.
        kind: Its type; links are not followed.
        size: The bytes of a file; null for anything else.
    """

    name: str
    kind: Kind
    size: int | None = None


@frozen
class FoundFile:
    """One path that a pattern matches.

    Attributes:
        path: Relative to the root.
        kind: Its type; links are not followed.
        size: The bytes of a file; null for anything else.
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
    with as_tool_error(root.label(parts)):
        kind = kind_of(root.status(parts).st_mode)
    if kind == "file":
        raise ToolError(f"{root.label(parts)!r} is a file, not a directory. Use read_file or grep.")
    if kind != "directory":
        raise ToolError(f"{root.label(parts)!r} is not a directory.")
    return parts


def list_entries(walk: Walk, start: Parts, offset: int, limit: int) -> tuple[list[DirectoryEntry], int]:
    """A page of a directory's entries, and the number of all of them."""
    with as_tool_error(walk.root.label(start)):
        entries = list(walk.entries(start, deep=False))
    page = entries[offset : offset + limit]
    shown = [DirectoryEntry(path, kind, size_of(walk.root, (*folder, name), kind)) for path, folder, name, kind in page]
    return shown, len(entries)


def find_files(walk: Walk, start: Parts, globs: Globs, offset: int, limit: int) -> tuple[list[FoundFile], bool]:
    """A page of the entries below a directory that globs match, and whether there are more."""
    with as_tool_error(walk.root.label(start)):
        matching = (entry for entry in walk.entries(start) if _matches(entry, globs))
        page = list(islice(matching, offset, offset + limit + 1))
    placed: list[tuple[Parts, Kind]] = [((*folder, name), kind) for _, folder, name, kind in page[:limit]]
    files = [FoundFile(walk.root.label(parts), kind, size_of(walk.root, parts, kind)) for parts, kind in placed]
    return files, len(page) > limit


def _matches(entry: Entry, globs: Globs) -> bool:
    """Files and links match as they are; a directory only matches a pattern that ends in `/`."""
    path, _, _, kind = entry
    if kind == "directory":
        return globs.takes(path + "/") and not globs.takes(path)
    return globs.takes(path)


def size_of(root: OpenRoot, parts: Parts, kind: Kind) -> int | None:
    """The bytes of a file; `None` for anything else, or if it was removed."""
    if kind != "file":
        return None
    try:
        status = root.status(parts)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
