"""`SkillSources`: the skills in folders of the user and in installed packages, and what is wrong with the others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from attrs import evolve, field, frozen

from pegboard import Problem
from pegboard.config import normalised, trust_file
from pegboard.errors import cause_of
from pegboard.files import os_error_text
from pegboard_skills.front_matter import SkillError
from pegboard_skills.skill import FILE, Skill, read_skill

GROUP: Final = "pegboard.skills"
"""The group of the entry points of packages that bring skills."""

_ASK_AUTHOR: Final = "Ask its author to correct it, or leave the package out of [plugins.skills] packages."

MOST_SKILLS: Final = 500
"""Skills of one folder."""

_MOST_ENTRIES: Final = 10_000
_Stamp: TypeAlias = tuple[int, ...] | None


@frozen
class FoundSkills:
    """The skills that can be used, and what is wrong with the others.

    Attributes:
        skills: By name, sorted.
        problems: For the operator, conflicts included.
        conflicts: Skills of one name that exclude each other, by name.
    """

    skills: dict[str, Skill]
    problems: tuple[Problem, ...] = ()
    conflicts: dict[str, list[Skill]] = field(factory=dict[str, list[Skill]])


@frozen
class Place:
    """The folder of a skill, which may be damaged.

    Attributes:
        folder: An absolute path.
        package: The distribution that brings it; `None` for a folder of the user.
        trusted: Whether its files count without the user's trust.
    """

    folder: Path
    package: str | None = None
    trusted: bool = False

    def problem(self, cause: str, fix: str | None = None, kind: str = "skill") -> Problem:
        """A problem with this skill, or with the folder of skills that it is."""
        subject = f"{kind} {str(self.folder)!r}{'' if self.package is None else f' of {self.package}'}"
        fix = fix if fix is not None or self.package is None else _ASK_AUTHOR
        return Problem(cause, subject=subject, distribution=self.package, fix=fix)


class SkillSources:
    """Where skills are: folders that the user names, and packages with entry points in the group `pegboard.skills`.

    Folders are searched at each request; a `SKILL.md` is read again when it has changed. Packages are searched once.

    Args:
        folders: Absolute paths of skills, or of folders of skills; `~` is expanded.
        packages: Patterns with `*` and `?` for the names of the distributions whose skills count.
        trusted: Whether the folders count without the user's trust, even if they belong to a project; for a program's
            own.

    Raises:
        ValueError: A folder isn't absolute: the working folder isn't trusted.
    """

    def __init__(
        self, folders: Iterable[str | Path] = (), packages: Iterable[str] = ("*",), *, trusted: bool = False
    ) -> None:
        self.folders = tuple(Path(each).expanduser() for each in folders)
        self.packages = tuple(packages)
        self.trusted = trusted
        for folder in self.folders:
            if not folder.is_absolute():
                raise ValueError(f"folders: {str(folder)!r:.200} isn't an absolute path; begin it with /, ~/ or ./")
        self._of_packages: tuple[list[tuple[Path, str]], list[Problem]] | None = None
        self._cache: dict[Place, tuple[tuple[_Stamp, _Stamp], Skill | SkillError]] = {}

    def find(self) -> FoundSkills:
        """The skills now. Of two of one name the user's is used; else neither is."""
        problems: list[Problem] = []
        usable: dict[str, list[Skill]] = {}
        trust = _stamp(trust_file())
        for place in self.places(problems):
            skill = self._read(place, trust)
            if isinstance(skill, SkillError):
                problems.append(place.problem("; ".join(skill.problems), skill.fix))
            else:
                usable.setdefault(skill.name, []).append(skill)
        skills: dict[str, Skill] = {}
        conflicts: dict[str, list[Skill]] = {}
        for name, several in sorted(usable.items()):
            first = [skill for skill in several if skill.package is None] or several
            if len(first) == 1:
                skills[name] = first[0]
            else:
                conflicts[name] = first
                folders = ", ".join(skill.source for skill in first)
                cause = f"several skills have this name, so none is used: {folders}"
                problems.append(Problem(cause, subject=f"skill {name!r}", fix="Rename or remove one of them."))
        return FoundSkills(skills, tuple(problems), conflicts)

    def places(self, problems: list[Problem]) -> Iterator[Place]:
        """The folders of all skills, each once; `problems` gets what is wrong with what is searched."""
        seen: set[tuple[int, int]] = set()
        for place in self._all_places(problems):
            try:
                facts = place.folder.stat()
            except OSError:  # it has vanished, or may not be searched
                continue
            if (facts.st_dev, facts.st_ino) not in seen:
                seen.add((facts.st_dev, facts.st_ino))
                yield place

    def _all_places(self, problems: list[Problem]) -> Iterator[Place]:
        for folder in self.folders:
            yield from _places_in(Place(folder, trusted=self.trusted), problems)
        if self._of_packages is None:
            faults: list[Problem] = []
            self._of_packages = list(_package_folders(self.packages, faults)), faults
        problems += self._of_packages[1]
        for folder, package in self._of_packages[0]:
            yield from _places_in(Place(folder, package, trusted=True), problems)

    def _read(self, place: Place, trust: _Stamp) -> Skill | SkillError:
        """The skill, or why it can't be used; cached while neither its file nor the user's trust changes."""
        stamps = _stamp(place.folder / FILE), trust
        known = self._cache.get(place)
        if known is not None and known[0] == stamps:
            return known[1]
        skill: Skill | SkillError
        try:
            skill, _ = read_skill(place.folder, package=place.package, trusted=place.trusted)
        except SkillError as error:
            skill = error
        self._cache[place] = stamps, skill
        return skill


def _stamp(path: Path) -> _Stamp:
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino


def _places_in(place: Place, problems: list[Problem]) -> Iterator[Place]:
    """The skills in a folder: itself, if it has a `SKILL.md`, else the folders in it that have one."""
    folder = place.folder
    if os.path.lexists(folder / FILE):
        yield place
        return

    def report(cause: str) -> None:
        fix = "Correct [plugins.skills] folders." if place.package is None else None
        problems.append(place.problem(cause, fix, "folder"))

    try:
        names = sorted(islice(os.listdir(folder), _MOST_ENTRIES))  # noqa: PTH208  names are enough
    except OSError as error:
        report(f"it can't be searched for skills: {os_error_text(error)}")
        return
    within = [folder / name for name in names if not name.startswith(".") and os.path.lexists(folder / name / FILE)]
    if not within:
        report(f"it has no {FILE}, and no folder in it has one")
    if len(within) > MOST_SKILLS:
        report(f"it has {len(within):,} skills; only the first {MOST_SKILLS} count")
    yield from (evolve(place, folder=each) for each in within[:MOST_SKILLS])


def _package_folders(patterns: Sequence[str], problems: list[Problem]) -> Iterator[tuple[Path, str]]:
    """The folders that installed packages name, sorted by package, each with its distribution. Nothing is imported."""
    named = sorted(_entry_points(problems) if patterns else (), key=lambda pair: (pair[0], pair[1].value))
    for package, entry in named:
        if not any(fnmatchcase(normalised(package), normalised(pattern)) for pattern in patterns):
            continue
        folders = list(_folders_of(entry.value))
        if not folders:
            cause = f"its entry point {entry.name} = {entry.value!r:.200} names no folder of a package"
            problems.append(Problem(cause, subject=f"skills of {package}", distribution=package, fix=_ASK_AUTHOR))
        yield from ((folder, package) for folder in folders)


def _entry_points(problems: list[Problem]) -> Iterable[tuple[str, EntryPoint]]:
    try:
        return [(entry.dist.name, entry) for entry in entry_points(group=GROUP) if entry.dist is not None]
    except Exception as error:  # noqa: BLE001  metadata of any installed package
        problems.append(Problem(f"the installed packages can't be searched: {cause_of(error)}", subject="skills"))
        return ()


def _folders_of(module: str) -> Iterator[Path]:
    """The existing folders of a dotted name: of its top-level package, which isn't imported, and then by its parts."""
    top, *parts = module.strip().split(".")
    try:
        spec = find_spec(top)
    except Exception:  # noqa: BLE001  finders of others answer here
        spec = None
    for location in () if spec is None else spec.submodule_search_locations or ():
        folder = Path(location, *parts)
        if folder.is_dir():
            yield folder
