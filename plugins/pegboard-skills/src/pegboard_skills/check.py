"""`check_skill`: everything that is wrong with a skill, and what its author should know."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from pegboard.json import size_text
from pegboard.schema.converter import JsonRecord
from pegboard_skills.folder import MOST_LISTED, list_files
from pegboard_skills.front_matter import SkillError
from pegboard_skills.skill import MOST_FILE, read_skill
from pegboard_skills.sources import Place

MOST_LINES: Final = 500
"""Lines of a `SKILL.md`, as Agent Skills recommends: all of it goes into the conversation."""


@frozen
class Checked(JsonRecord):
    """A skill that was checked.

    Attributes:
        folder: Its folder.
        package: The distribution that brings it, or `None`.
        problems: Why it can't be used.
        notes: What its author should know.
        fix: What the user can do about the problems, or `None`.
    """

    folder: str
    package: str | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fix: str | None = None


def check_skill(place: Place) -> Checked:
    """Checks a skill."""
    folder, package = place.folder, place.package
    notes: list[str] = []
    try:
        skill, text = read_skill(folder, package=package, trusted=place.trusted)
    except SkillError as error:
        return Checked(str(folder), package, error.problems, fix=error.fix)
    if skill.front.other:
        notes.append(f"unknown keys: {', '.join(map(repr, skill.front.other))}")
    if not text.strip():
        notes.append("it has no text after the front matter")
    if (lines := text.count("\n") + 1) > MOST_LINES:
        notes.append(f"its text has {lines:,} lines; more than {MOST_LINES} belong into files of their own")
    files = list_files(folder)
    notes += [f"{path!r} is a link or no file; it can't be read" for path in files.skipped]
    large = [path for path, size in files.sizes.items() if size > MOST_FILE]
    notes += [f"{path!r} is larger than {size_text(MOST_FILE)}; it can't be read" for path in large]
    if not files.is_whole:
        notes.append(f"it has more than {MOST_LISTED} files; only these many are listed to the model")
    return Checked(str(folder), package, (), tuple(notes))
