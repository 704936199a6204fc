"""`Skill`: a folder with a `SKILL.md`, read and checked."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final
from urllib.parse import quote

from attrs import frozen

from pegboard import FileContent, ImageContent
from pegboard.config import may_bind
from pegboard.tools import media_type
from pegboard.typing import JsonObject
from pegboard_skills.folder import read_file
from pegboard_skills.front_matter import FrontMatter, SkillError, read_front_matter, split_text

FILE: Final = "SKILL.md"
MOST_SKILL: Final = 100_000
"""Bytes of a `SKILL.md`."""

MOST_FILE: Final = 1_000_000
"""Bytes of any other file that is read."""

_IMAGES: Final = ("image/gif", "image/jpeg", "image/png", "image/webp")  # that models accept


@frozen
class Skill:
    """A skill that can be used.

    Attributes:
        front: What its `SKILL.md` says about it.
        folder: Its folder, an absolute path.
        package: The distribution that brings it; `None` for one of the user's folders.
        trusted: Whether its files count without the user's trust, even if they belong to a project.
    """

    front: FrontMatter
    folder: Path
    package: str | None = None
    trusted: bool = False

    @property
    def name(self) -> str:
        """Its name, which is that of its folder."""
        return self.front.name

    @property
    def source(self) -> str:
        """Its folder, and the package that brings it."""
        return str(self.folder) if self.package is None else f"{self.package} ({self.folder})"

    def to_json(self) -> JsonObject:
        """The front matter's keys, the folder and the package."""
        package = {} if self.package is None else {"package": self.package}
        return {**self.front.to_json(), "folder": str(self.folder), **package}

    def read_text(self) -> str:
        """The text of its `SKILL.md`, as it is now.

        Raises:
            SkillError: The skill can't be used any more.
        """
        return read_skill(self.folder, package=self.package, trusted=self.trusted)[1]

    def read_file(self, path: str) -> str | ImageContent | FileContent:
        """A file of it: its text, or the image or PDF that it is.

        Args:
            path: The file's path below the skill's folder, with `/`.

        Raises:
            SkillError: The path leads elsewhere or through a link, or the file is missing, too large, something else,
                or part of a project and not trusted.
        """
        content = _read(self.folder, path, MOST_FILE, trusted=self.trusted)
        kind = media_type(content, "text/plain")
        if kind in _IMAGES:
            return ImageContent(content, kind)
        if kind == "application/pdf":
            return FileContent(f"skill:{quote(f'{self.name}/{path}')}", content, kind)
        try:
            if b"\0" not in content:
                return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            pass
        raise SkillError(f"{path!r:.200} isn't a UTF-8 text, an image or a PDF")


def read_skill(folder: Path, *, package: str | None = None, trusted: bool = False) -> tuple[Skill, str]:
    """Reads and checks a skill.

    Args:
        folder: Its folder, an absolute path.
        package: The distribution that brings it, or `None`.
        trusted: Whether its files count without the user's trust; else each file that belongs to a project, by
            `pegboard.config.may_bind`, has to be trusted with its present content.

    Returns:
        The skill, and the text of its `SKILL.md` after the front matter.

    Raises:
        SkillError: It can't be used.
    """
    front, text = split_text(_read(folder, FILE, MOST_SKILL, trusted=trusted))
    return Skill(read_front_matter(front, folder.name), folder, package, trusted), text


def _read(folder: Path, path: str, limit: int, *, trusted: bool) -> bytes:
    content = read_file(folder, path, limit)
    file = folder / path
    if not trusted and not may_bind(file, content):
        fix = f"review it, then run: registry config trust {shlex.quote(str(file))}"
        raise SkillError(f"{path!r:.200} belongs to a project, and isn't trusted as it is now", fix=fix)
    return content
