"""The files of a skill: confined to its folder, through no link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from attrs import frozen

from pegboard.files import os_error_text
from pegboard.json import size_text
from pegboard.text import printable
from pegboard_skills.front_matter import SkillError

MOST_LISTED: Final = 200
"""Files that are listed."""

_MOST_WALKED: Final = 2_000  # folders
_HIDDEN: Final = "__pycache__"
_FILE: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe doesn't block
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


@frozen
class Files:
    """The files in a skill's folder, without hidden ones.

    Attributes:
        sizes: The path of each below the folder, with `/`, and its bytes; sorted by folder.
        skipped: Paths of links and of what is no file.
        is_whole: Whether these are all; only the first 200 are listed.
    """

    sizes: dict[str, int]
    skipped: tuple[str, ...] = ()
    is_whole: bool = True


def list_files(folder: Path) -> Files:
    """The files in a folder and below; what can't be read is left out."""
    sizes: dict[str, int] = {}
    skipped: list[str] = []
    for path, facts in _walk(folder):
        if stat.S_ISREG(facts.st_mode):
            sizes[path] = facts.st_size
        else:
            skipped.append(path)
        if len(sizes) + len(skipped) > MOST_LISTED:
            return Files(dict(islice(sizes.items(), MOST_LISTED)), tuple(skipped), is_whole=False)
    return Files(sizes, tuple(skipped))


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    for place, folders, names in islice(os.walk(folder), _MOST_WALKED):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != _HIDDEN)
        links = [each for each in folders if os.path.islink(os.path.join(place, each))]  # noqa: PTH114, PTH118  texts
        for name in sorted([*names, *links]):
            if name.startswith("."):
                continue
            path = Path(place, name)
            try:
                facts = path.lstat()
            except OSError:
                continue
            yield path.relative_to(folder).as_posix(), facts


def read_file(folder: Path, path: str, limit: int) -> bytes:
    """The bytes of a file of a skill.

    Args:
        folder: The skill's folder. It may be a link itself; nothing below it is followed if it is one.
        path: The file's path below the folder, with `/`.
        limit: The most bytes that it may have.

    Raises:
        SkillError: The path leads out of the folder or through a link, or the file is missing, is no regular file, is
            too large or can't be read.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    shown = printable(path)
    is_odd = os.sep == "\\" and any(mark in path for mark in "\\:")
    if path.startswith("/") or ".." in parts or "\0" in path or is_odd:
        raise SkillError(f"{shown!r:.200} isn't a path below the skill's folder")
    if not parts:
        raise SkillError(f"{shown!r:.200} is the skill's folder, not a file")
    try:
        descriptor = _open(folder, parts)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SkillError(f"{shown!r:.200} isn't a file")
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(limit + 1)
        finally:
            os.close(descriptor)
    except (OSError, UnicodeError) as error:
        raise SkillError(f"{shown!r:.200} {_reason(error)}") from error
    if len(content) > limit:
        raise SkillError(f"{shown!r:.200} is too large: over {size_text(limit)}")
    return content


def _open(folder: Path, parts: list[str]) -> int:
    """Opens a file below a folder, one part after the other, so that nothing swapped in leads out of it."""
    if os.open not in os.supports_dir_fd:  # Windows
        place = folder.joinpath(*parts)
        if place.resolve() != folder.resolve().joinpath(*parts):
            raise OSError(errno.ELOOP, "a link")
        return os.open(place, _FILE)
    inner = os.open(folder, _FOLDER)
    for part in parts[:-1]:
        outer = inner
        try:
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
        finally:
            os.close(outer)
    try:
        return os.open(parts[-1], _FILE, dir_fd=inner)
    finally:
        os.close(inner)


def _reason(error: OSError | UnicodeError) -> str:
    code = getattr(error, "errno", None)
    if code == errno.ELOOP:
        return "is a link, which isn't followed"
    if code == errno.ENOTDIR:
        return "isn't in a folder of the skill, or leads through a link, which isn't followed"
    if code in (errno.ENOENT, errno.ENAMETOOLONG) or not isinstance(error, OSError):
        return "doesn't exist"
    return f"can't be read: {os_error_text(error)}"
