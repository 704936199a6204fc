"""`discover`: finds the plugins of all installed distributions, without importing any.

`importlib_metadata` finds the distributions: in folders, in zip files and behind import finders. An entry point of the
group `pegboard` is a plugin (`name = module:attribute`, PyPA's entry points specification).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from pkgutil import resolve_name
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import field

from pegboard.config import normalised
from pegboard.errors import cause_of
from pegboard.files import os_error_text, read_bounded
from pegboard.tools.spec import Origin, Problem
from pegboard.typing import define, frozen

if TYPE_CHECKING:
    from importlib_metadata import Distribution

_T = TypeVar("_T")
GROUP: Final = "pegboard"
MOST_SOURCES: Final = 1_000  # a plugin with more files and folders than this isn't cached, but loaded each time
_MOST_RECORD_BYTES: Final = 64 * 1024 * 1024
_MOST_BYTES: Final = 1024 * 1024  # of any other metadata file
_MOST_PLUGINS: Final = 100  # of one distribution
_INFO_FOLDER: Final = re.compile(rb"-info(?=/)")
_PLAIN_NAME: Final = re.compile(r"[\w.+!-]+", re.ASCII)  # of a metadata folder or an entry point
_HIDDEN: Final = (".", "__pycache__")
_HEADER: Final = f"[{GROUP}"  # of the group in entry_points.txt; its bracket may be missing, which is reported
LEFT_OUT: Final = "its plugins are left out"
_FACTS: Final = {"Name": re.compile(r"[A-Za-z0-9._-]+"), "Version": re.compile(r"[!-~]+")}


class MetadataError(ValueError):
    """A distribution's metadata is invalid."""


@frozen
class FoundPlugin:
    """An entry point of an installed distribution, not imported yet.

    Attributes:
        name: The entry point's name, which is the plugin's.
        module: The module to import, dotted.
        attribute: What to take of it, dotted; `None` where the module itself is the plugin.
        distribution: The distribution's name as it writes it.
        version: Its version.
        location: Its metadata folder (`.../name-1.0.dist-info`), perhaps in a zip file; `None` where an import finder
            has the metadata elsewhere.
        editable: Whether it is installed as a link to its sources.
        trusted: Whether its tools' hints are trusted.
    """

    name: str
    module: str
    attribute: str | None
    distribution: str
    version: str
    location: str | None
    editable: bool = False
    trusted: bool = True

    @property
    def origin(self) -> Origin:
        """The origin of its tools."""
        return Origin(self.name, self.distribution, self.version, trusted=self.trusted)

    @property
    def root(self) -> str | None:
        """What holds the metadata: a folder or a zip file, on `sys.path` unless an import finder found it."""
        return None if self.location is None else os.path.dirname(self.location)  # noqa: PTH120  a path object costs ten times this

    def load(self) -> Any:
        """Imports what it names: a module, or something in it (`"Guard"`, `"plugins.Guard"`)."""
        return resolve_name(f"{self.module}:{self.attribute or ''}")

    def record(self) -> bytes | None:
        """The list of its files with their digests (`RECORD`); `None` where it doesn't cover the sources.

        It doesn't where the install is editable or zipped, or no installer wrote one.
        """
        if self.editable or self.location is None:
            return None
        try:
            return read_bounded(f"{self.location}/RECORD", _MOST_RECORD_BYTES) or None
        except OSError:
            return None

    def sources(self) -> tuple[str, ...] | None:
        """The paths of the code, sorted, for an install whose RECORD doesn't cover it; nothing is imported.

        Every file of the top-level package counts, not only Python's: a tool may be made of data. The source of a
        package in a zip file is that file. `None` where it can't be found, or has more than 1,000 files and folders.
        """
        place = self.place()
        if place is None:
            return None
        if not place.exists():
            return next(((str(file),) for file in place.parents if file.is_file()), None)
        paths = sorted(islice(_walk(str(place)), MOST_SOURCES + 1))
        return tuple(paths) if len(paths) <= MOST_SOURCES else None

    def place(self) -> Path | None:
        """The folder of the module's top-level package, or the file of a top-level module; nothing is imported.

        In a namespace package (PEP 420), which several distributions share, it is the first package or module inside
        it. `sys.path` comes before the folder that holds the metadata.
        """
        from importlib.machinery import PathFinder
        from importlib.util import find_spec

        top, *inner = self.module.split(".")
        try:
            spec = find_spec(top) or (None if self.root is None else PathFinder.find_spec(top, [self.root]))
            while inner and spec is not None and spec.origin is None:
                spec = PathFinder.find_spec(inner.pop(0), [*(spec.submodule_search_locations or ())])
        except Exception:  # noqa: BLE001  other people's finders answer here
            return None
        if spec is None or spec.origin is None or not spec.has_location:
            return None
        return Path(spec.origin) if spec.submodule_search_locations is None else Path(spec.origin).parent


def _walk(place: str) -> Iterator[str]:
    """A path and everything below it, without hidden, compiled and unreadable files."""
    yield place
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        yield from (f"{folder}/{name}" for name in (*folders, *files) if not name.startswith(_HIDDEN))


@frozen
class Discovery:
    """The plugins of the installed distributions."""

    entries: tuple[FoundPlugin, ...] = ()  # the plugins in load order: by distribution, then by name
    problems: tuple[Problem, ...] = ()  # distributions and entry points that can't be used, with the cause

    @property
    def left_out(self) -> frozenset[str]:
        """The normalised names of distributions whose plugins are all left out."""
        here = {normalised(found.distribution) for found in self.entries}
        return frozenset(each.distribution for each in self.problems if each.distribution and not each.plugin) - here


def discover(paths: Sequence[str] | None = None) -> Discovery:
    """Finds the plugins of all installed distributions; a broken one doesn't affect the others.

    Of `paths`, by default `sys.path`, the first that has a distribution counts. Import finders are always queried.
    """
    return _Search(list(sys.path if paths is None else paths)).run()


@define
class _Search:
    paths: list[str]
    found: list[FoundPlugin] = field(factory=list[FoundPlugin])
    problems: list[Problem] = field(factory=list[Problem])
    _all: list[Distribution] = field(factory=list[Any], init=False)
    _missing: set[str] = field(factory=set[str], init=False)
    _intruders: dict[str, str] | None = field(default=None, init=False)  # metadata folder -> what else has files in it

    def run(self) -> Discovery:
        """The plugins in load order; several distributions may have plugins of one name."""
        self._report_unreadable()
        self._all = list(self.distributions())
        for name, of_name in _by_name(self._all).items():
            self._look_at(name, of_name)
        taken: dict[tuple[str, str], FoundPlugin] = {}
        for found in sorted(self.found, key=lambda found: (normalised(found.distribution), found.name)):
            if taken.setdefault((found.distribution, found.name), found) is not found:
                cause = f"entry point {found.name!r} is listed twice; the first counts"
                self._report(found.name, found.distribution, cause)
        here = {normalised(found.distribution) for found in taken.values()}  # where another of the name is left out
        problems = (each for each in self.problems if each.distribution not in here or LEFT_OUT not in each.cause)
        return Discovery(tuple(taken.values()), tuple(problems))

    def _report_unreadable(self) -> None:
        for path in self.paths:
            try:
                os.scandir(path or ".").close()
            except FileNotFoundError:
                if os.path.isabs(path):  # noqa: PTH117  a text, as everywhere here
                    self._missing.add(path)
            except NotADirectoryError:
                continue
            except OSError as error:
                where = f"{path}, which is on sys.path,"
                self._report(None, None, f"{where} can't be listed: {os_error_text(error)}; plugins in it are missing")

    def distributions(self) -> Iterator[Distribution]:
        """All distributions, those on an earlier path before others of their name."""
        # Its import takes 25 ms, which only discovery has to pay.
        from importlib_metadata import Distribution, MetadataPathFinder

        MetadataPathFinder.invalidate_caches()
        try:
            yield from Distribution.discover(path=[path for path in self.paths if path not in self._missing])  # pyright: ignore[reportUnknownMemberType]
        except Exception as error:  # noqa: BLE001  other people's import finders answer here
            self._report(None, None, f"an import finder can't list its distributions: {cause_of(error)}")

    def _look_at(self, name: str, of_name: list[Distribution]) -> None:
        """Reads the distribution of a name: of several, the first on the path; of several in one folder, none.

        A folder without METADATA, the rest of an uninstall, counts only if there is no other.
        """
        if len(of_name) > 1:
            of_name = list(filter(_has_metadata, of_name)) or of_name
        given = {_location(each): self._read(name, _text, each, "entry_points.txt") for each in of_name}
        texts = {location: text for location, text in given.items() if text and _HEADER in text}  # it may name plugins
        if not texts:
            return
        installs = [each for each in of_name if not _folder(each).endswith(".egg-info")]  # which a build leaves behind
        roots = {os.path.realpath(root): root or "an import finder" for root in map(_root, reversed(installs))}
        if len(roots) > 1:
            where = " and in ".join(reversed(roots.values()))
            self._report(None, name, f"is installed in {where}; what comes first on sys.path counts")
        twins = {_location(each): each for each in of_name if _root(each) == _root(of_name[0])}
        if len(twins) > 1:
            folders = ", ".join(sorted(map(_folder, twins.values())))
            self._report(None, name, f"{LEFT_OUT}: it is installed twice ({folders}); install it again")
        elif (location := _location(of_name[0])) in texts:
            self._read(name, self._add_plugins, name, of_name[0], texts[location])

    def _read(self, name: str, read: Callable[..., _T], *arguments: Any) -> _T | None:
        """What a function reads of a distribution; an error is reported, and leaves the distribution out."""
        try:
            return read(*arguments)
        except MetadataError as error:
            self._report(None, name, f"{LEFT_OUT}: {error}")
        except Exception as error:  # noqa: BLE001  a line without "=", or other people's distributions
            self._report(None, name, f"{LEFT_OUT}: its metadata can't be read: {cause_of(error)}")
        return None

    def _add_plugins(self, name: str, distribution: Distribution, text: str) -> None:
        self._check_folder(distribution)
        facts = (*_identity(distribution), _location(distribution), _is_editable(distribution))
        if normalised(facts[0]) != name:
            raise MetadataError(f"METADATA names {facts[0]!r}, and its folder is {_folder(distribution)}")
        try:
            points: list[Any] = list(distribution.entry_points.select(group=GROUP))  # pyright: ignore[reportUnknownMemberType]
        except (TypeError, ValueError) as error:  # by version of importlib_metadata
            raise MetadataError(line_fault(text) or f"entry_points.txt can't be read: {cause_of(error)}") from None
        if not points and f"{_HEADER}\n" in f"{text}\n":
            raise MetadataError("the group's name in entry_points.txt is damaged")
        if len(points) > _MOST_PLUGINS:
            self._report(None, name, f"names {len(points):,} plugins; those beyond {_MOST_PLUGINS} are left out")
        for point in points[:_MOST_PLUGINS]:
            if not _PLAIN_NAME.fullmatch(point.name):
                named = ascii(point.name)
                cause = f"entry point {named} has an invalid name: it may have A-Z, a-z, 0-9 and . _ + ! - only"
                self._report(named[1:-1], facts[0], cause)
                continue
            try:
                self.found.append(FoundPlugin(point.name, point.module, point.attr or None, *facts))
            except (ValueError, AttributeError, AssertionError):  # by version of importlib_metadata
                wanted = "which isn't 'module' or 'module:attribute'"
                self._report(point.name, facts[0], f"entry point {point.name!r} names {point.value!r}, {wanted}")

    def _check_folder(self, distribution: Distribution) -> None:
        """Raises `MetadataError` if the metadata folder isn't this distribution's, or has files of another."""
        location, folder = _location(distribution), _folder(distribution)
        if location is None:
            return
        if not _PLAIN_NAME.fullmatch(folder):
            raise MetadataError("its metadata folder has an invalid name")
        if self._intruders is None:
            self._intruders = dict(chain.from_iterable(map(_folders_of_others, self._all)))
        if intruder := self._intruders.get(location.casefold()):
            raise MetadataError(f"{intruder} has installed files into its metadata folder {folder}")

    def _report(self, plugin: str | None, distribution: str | None, cause: str) -> None:
        """Reports a problem. A name that isn't ASCII is refused, and shown escaped: it could pass for another."""
        shown = None if distribution is None else ascii(distribution)[1:-1]
        self.problems.append(Problem(cause, plugin=plugin, distribution=shown))


def installed_distributions() -> dict[str, Distribution]:
    """The installed distributions by normalised name; of several of one name, the first on the path with metadata."""
    named = _by_name(_Search(list(sys.path)).distributions())
    return {name: next(filter(_has_metadata, of_name), of_name[0]) for name, of_name in named.items()}


def line_fault(text: str) -> str:
    """What is wrong with the first line of an `entry_points.txt` that can't be read or has no effect, or `""`."""
    is_in_group = False
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line.startswith("[") and line.endswith("]"):
            is_in_group = True
        elif line and not line.startswith("#") and not (is_in_group and "=" in line):
            cause = "has no '='" if is_in_group else "is in no [group]"
            return f"line {number} of its entry_points.txt {cause}: {ascii(line)[:80]}"
    return ""


def _by_name(distributions: Iterable[Distribution]) -> dict[str, list[Distribution]]:
    """Distributions by normalised name, in their order; without the rests of broken uninstalls."""
    named: dict[str, list[Distribution]] = {}
    for distribution in distributions:
        named.setdefault(_normalised_name(distribution), []).append(distribution)
    named.pop("", None)
    return named


def _has_metadata(distribution: Distribution) -> bool:
    try:
        return bool(_text(distribution, "METADATA") or _text(distribution, "PKG-INFO"))
    except Exception:  # noqa: BLE001  it is unreadable, which is reported where it is read
        return True


def _text(distribution: Distribution, file: str) -> str | None:
    """The text of a metadata file; `MetadataError` if it isn't a regular file, is too large, or isn't UTF-8."""
    with suppress(OSError):  # there is none, or it is in a zip file
        facts = os.stat(f"{_location(distribution) or ''}/{file}")  # noqa: PTH116  as everywhere here
        if not S_ISREG(facts.st_mode) or facts.st_size > _MOST_BYTES:
            raise MetadataError(f"{file} isn't a regular file, or has more than {_MOST_BYTES:,} bytes")
    try:
        return distribution.read_text(file)  # pyright: ignore[reportUnknownMemberType]
    except UnicodeDecodeError:
        raise MetadataError(f"{file} isn't UTF-8") from None


def _folders_of_others(distribution: Distribution) -> Iterator[tuple[str, str]]:
    """The metadata folders, other than its own, that a distribution has files in; each with the distribution's name."""
    own = _location(distribution)
    if own is None:
        return
    try:
        record = read_bounded(f"{own}/RECORD", _MOST_RECORD_BYTES)
    except OSError:
        return
    root, name = _root(distribution), _normalised_name(distribution)
    for end in _INFO_FOLDER.finditer(record):  # `path,digest,size` a line, where the digest may be anything, too
        path = record[record.rfind(b"\n", 0, end.start()) + 1 : end.end()].lstrip(b'"')
        folder = os.path.normpath(f"{root}/{os.fsdecode(path)}")
        if folder != own:
            yield folder.casefold(), name


def _location(distribution: Distribution) -> str | None:
    """The folder of its metadata, in a zip file too; only distributions that were found on a path have one."""
    path: object = getattr(distribution, "_path", None)  # there is no public name for it
    return None if path is None else os.path.abspath(str(path))  # noqa: PTH100  a text, as everywhere here


def _folder(distribution: Distribution) -> str:
    return os.path.basename(_location(distribution) or "")  # noqa: PTH119  as above


def _root(distribution: Distribution) -> str:
    return os.path.dirname(_location(distribution) or "")  # noqa: PTH120  as above


def _normalised_name(distribution: Distribution) -> str:
    """The normalised name, from the metadata folder's if there is one; `""` for the rest of a broken uninstall."""
    stem, _, kind = _folder(distribution).rpartition(".")
    if stem.startswith("~"):
        return ""
    name = stem.rpartition("-")[0] if kind == "dist-info" else stem.partition("-")[0]
    try:
        return normalised(name or distribution.metadata["Name"])
    except Exception:  # noqa: BLE001  other people's distributions answer here
        return ""


def _identity(distribution: Distribution) -> tuple[str, str]:
    """A distribution's name and version; `MetadataError` if METADATA can't be read, or lacks one of them."""
    text = _text(distribution, "METADATA") or _text(distribution, "PKG-INFO") or ""
    # Parsed here, as `distribution.metadata` imports the email package, which takes as long as all the rest.
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    headers = {name.strip().title(): value.strip() for name, _, value in reversed(list(lines))}
    for name, pattern in _FACTS.items():
        if not pattern.fullmatch(headers.get(name, "")):
            raise MetadataError(f"METADATA has no valid {name}")
    return headers["Name"], headers["Version"]


def _is_editable(distribution: Distribution) -> bool:
    """Whether it is installed as a link to its sources (PEP 660, by `direct_url.json`, PEP 610).

    One that can't be parsed counts as editable: its sources are then examined, which is never wrong.
    """
    text = _text(distribution, "direct_url.json") or "{}"
    try:
        return bool(json.loads(text).get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError, RecursionError):
        return True
