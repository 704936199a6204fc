"""`Ignoring`: which entries of a walk are ignored, as ripgrep decides it.

Sources, the first one that has a say wins: .rgignore, .ignore, .gitignore, .git/info/exclude, the user's global
excludes; within one source the deepest directory first. Where the root lies inside a git repository, the ignore
files from the repository's top down to the root hold too.

The rules are ripgrep's (https://github.com/BurntSushi/ripgrep/blob/master/GUIDE.md#automatic-filtering) with two
exceptions: .gitignore counts outside of repositories too, and ignore files that are links, pipes or enormous
don't count, since reading them could leave the root, wait forever or fill the memory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from attrs import frozen

from pegboard import ToolError
from pegboard_files.name import Parts
from pegboard_files.root import OpenRoot
from pegboard_files.rules import Rules, rules_of

MAX_IGNORE_BYTES: Final = 1 << 18
MAX_IGNORE_LINES: Final = 5_000
"""What one ignore file may hold: each line costs memory, and a while for every entry."""

IGNORE_FILES: Final = frozenset({".git", ".rgignore", ".ignore", ".gitignore"})
"""The names that decide what is ignored; `.git` marks a repository's top."""


class Folder(Protocol):
    """A directory as far as ignore files go."""

    def has(self, name: str) -> bool:
        """Whether there is such a name in it."""
        ...

    def read(self, name: str) -> str | None:
        """The text of an ignore file by its path in the directory; `None` where there is none to read."""
        ...


@frozen
class Layer:
    """The rules of one ignore file.

    Attributes:
        rules: What it says.
        depth: How many components of a path below the root lead to its directory; 0 for the root and above.
        prefix: For a directory above the root: the way from it down to the root, ending in `/`; else `""`.
    """

    rules: Rules
    depth: int
    prefix: str = ""

    def verdict(self, parts: Parts, *, directory: bool) -> bool | None:
        """`True` ignores the entry, `False` keeps it by a `!` line, `None` says nothing."""
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
            `True` ignored, `False` kept by a `!` line (even if hidden), `None` nobody says anything.
        """
        for source in (self.rgignore, self.ignore, self.gitignore, self.exclude, self.everywhere):
            for layer in source:
                said = layer.verdict(parts, directory=directory)
                if said is not None:
                    return said
        return None

    def below(self, folder: Folder, depth: int, prefix: str = "") -> Ignoring:
        """What holds in a directory: its own ignore files on top of what holds above it.

        Args:
            folder: The directory.
            depth: As in `Layer`.
            prefix: As in `Layer`.
        """

        def layers(path: str) -> tuple[Layer, ...]:
            text = folder.read(path)
            return () if text is None else (Layer(rules_of(text), depth, prefix),)

        top = folder.has(".git")
        return Ignoring(
            layers(".rgignore") + self.rgignore,
            layers(".ignore") + self.ignore,
            layers(".gitignore") + (() if top else self.gitignore),
            layers(".git/info/exclude") if top else self.exclude,
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
        holding = holding.below(_Anywhere(above), 0, prefix)
    return holding


def below_root(root: OpenRoot, parts: Parts) -> Folder:
    """A directory below the root, read without leaving it."""
    return _BelowRoot(root, parts)


@frozen
class _BelowRoot:
    root: OpenRoot
    parts: Parts

    def has(self, name: str) -> bool:
        try:
            self.root.status((*self.parts, name))
        except OSError:
            return False
        return True

    def read(self, name: str) -> str | None:
        try:
            with self.root.open_file((*self.parts, *name.split("/"))) as file:
                return _text(file)
        except (OSError, ToolError):
            return None


@frozen
class _Anywhere:
    """A directory above the root: whoever runs the program chose the root, and so what is around it."""

    path: Path

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def read(self, name: str) -> str | None:
        return _read_anywhere(str(self.path / name))


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
