"""`discover`: the plugins of all installed distributions, none of them imported.

`importlib_metadata` finds the distributions: in folders, in zip files and behind import finders. An entry point of the
group `pegboard` is a plugin (`name = module:attribute`, PyPA's entry points specification).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen

from pegboard.catalogue import Problem
from pegboard.config.config import normalised
from pegboard.config.files import read_bounded, reason
from pegboard.errors import cause_of
from pegboard.plugins.snapshot import stamp_of
from pegboard.tools.spec import Origin

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from importlib_metadata import Distribution

GROUP: Final = "pegboard"
MOST_SOURCES: Final = 1_000
"""A plugin with more files and folders than this isn't looked at each time: it is loaded instead."""
_MOST_RECORD_BYTES: Final = 64 * 1024 * 1024
_HEADER: Final = f"[{GROUP}"
_LEFT_OUT: Final = "its plugins are left out"
_FACTS: Final = {"Name": re.compile(r"[A-Za-z0-9._-]+"), "Version": re.compile(r"[!-~]+")}


class MetadataError(ValueError):
    """A distribution's metadata doesn't say what it has to."""


@frozen
class FoundPlugin:
    """An entry point of an installed distribution, not imported yet.

    Attributes:
        name: The entry point's name, which is the plugin's.
        module: The module to import, dotted.
        attribute: What to take of it, dotted; `None` where the module itself is the plugin.
        distribution: The distribution's name as it writes it.
        version: Its version.
        location: Its metadata folder (`.../name-1.0.dist-info`), which may lie in a zip file; `None` where an import
            finder has the metadata elsewhere.
        editable: Whether it is installed as a link to its sources.
    """

    name: str
    module: str
    attribute: str | None
    distribution: str
    version: str
    location: str | None
    editable: bool = False

    @property
    def origin(self) -> Origin:
        """As its tools carry it."""
        return Origin(self.name, self.distribution, self.version)

    @property
    def root(self) -> str | None:
        """What holds the metadata: a folder or a zip file, on `sys.path` unless an import finder found it."""
        return None if self.location is None else os.path.dirname(self.location)  # noqa: PTH120  a path object costs ten times this

    def record(self) -> bytes | None:
        """The list of its files with their digests (`RECORD`); `None` where it doesn't cover the sources.

        That is where the install is editable or zipped, or no installer wrote one.
        """
        if self.editable or self.location is None:
            return None
        try:
            return read_bounded(f"{self.location}/RECORD", _MOST_RECORD_BYTES) or None
        except OSError:
            return None

    def sources(self) -> tuple[str, ...] | None:
        """The files and folders of the code, for an install whose RECORD doesn't cover it.

        Nothing is imported. Every file of the top-level package counts, not only Python's: a tool may be made of data.
        A package in a zip file has that file as its source.

        Returns:
            Paths, sorted; `None` where the package can't be found, or has more than 1,000 files and folders.
        """
        place = self.place()
        if place is None:
            return None
        if not place.exists():
            return next(((str(file),) for file in place.parents if file.is_file()), None)
        paths: list[str] = []
        for path in _walked(str(place)):
            paths.append(path)
            if len(paths) > MOST_SOURCES:
                return None
        return tuple(sorted(paths))

    def place(self) -> Path | None:
        """The folder of the module's top-level package, or the file of a top-level module; nothing is imported.

        In a namespace package (PEP 420), which several distributions share, it is the first package or module inside
        it. `sys.path` comes before the folder that holds the metadata.
        """
        top, *inner = self.module.split(".")
        spec = _module_spec(top, self.root)
        if spec is None:
            return None
        if spec.origin is not None and spec.has_location:
            return Path(spec.origin).parent if spec.submodule_search_locations is not None else Path(spec.origin)
        return _inside([Path(folder) for folder in spec.submodule_search_locations or ()], inner)

    def key(self) -> str | None:
        """A text that changes whenever the plugin's own code may have changed.

        Distribution, version, entry point, and the SHA-256 of RECORD or of the sources' paths, times and sizes.
        `None` where no such text can be had: what is known of the plugin then can't be kept.
        """
        state = self.record()
        if state is None:
            sources = self.sources()
            if sources is None:
                return None
            state = b"\0".join(part for path in map(os.fsencode, sources) for part in (path, stamp_of(path)))
        import hashlib

        facts = (self.distribution, self.version, self.name, self.module, self.attribute or "")
        return "\n".join((*facts, hashlib.sha256(state).hexdigest()))


def _module_spec(top: str, root: str | None) -> ModuleSpec | None:
    """Asks the import system about a top-level name, which imports nothing."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    try:
        return find_spec(top) or (None if root is None else PathFinder.find_spec(top, [root]))
    except Exception:  # noqa: BLE001  other people's finders answer here
        return None


def _inside(folders: list[Path], names: list[str]) -> Path | None:
    for name in names:
        for folder in folders:
            if (folder / name / "__init__.py").is_file():
                return folder / name
            if (folder / f"{name}.py").is_file():
                return folder / f"{name}.py"
        folders = [folder / name for folder in folders if (folder / name).is_dir()]
    return None


def _walked(place: str) -> Iterator[str]:
    """A path and everything below it, without hidden and compiled things and what can't be read."""
    yield place
    try:
        with os.scandir(place) as entries:
            inside = [entry for entry in entries if not entry.name.startswith((".", "__pycache__"))]
    except OSError:
        return
    for entry in inside:
        if entry.is_dir(follow_symlinks=False):
            yield from _walked(entry.path)
        else:
            yield entry.path


# Discovery --------------------------------------------------------------------------------------------------------


@frozen
class Discovery:
    """Plugins that the installed distributions offer.

    Attributes:
        entries: The plugins in load order: by distribution, then by name.
        problems: Distributions and entry points that can't be used, each with its cause.
    """

    entries: tuple[FoundPlugin, ...] = ()
    problems: tuple[Problem, ...] = ()


def discover(paths: Sequence[str] | None = None) -> Discovery:
    """Finds the plugins of all installed distributions; what is wrong with one costs only that one.

    Args:
        paths: Where to look, `sys.path` by default; the first that has a distribution counts. Import finders are asked
            in any case.
    """
    search = _Search(list(sys.path if paths is None else paths))
    search.run()
    return search.result()


@define
class _Search:
    paths: list[str]
    found: list[FoundPlugin] = field(factory=list[FoundPlugin])
    problems: list[Problem] = field(factory=list[Problem])

    def run(self) -> None:
        self._report_unreadable()
        named: dict[str, list[Distribution]] = {}
        for distribution in self._distributions():
            named.setdefault(_label(distribution), []).append(distribution)
        named.pop("", None)
        for name, of_name in named.items():
            of_first = [each for each in of_name if _root(each) == _root(of_name[0])]
            self._look_at(name, list({_location(each): each for each in of_first}.values()))

    def _report_unreadable(self) -> None:
        for path in self.paths:
            try:
                os.scandir(path or ".").close()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                cause = f"{path}, which is on sys.path, can't be listed: {reason(error)}; plugins in it are missing"
                self._report(None, None, cause)

    def _distributions(self) -> Iterator[Distribution]:
        """All distributions, those on an earlier path before others of their name."""
        # Its import takes 25 ms, which only discovery has to pay.
        from importlib_metadata import Distribution, MetadataPathFinder

        MetadataPathFinder.invalidate_caches()
        try:
            yield from Distribution.discover(path=self.paths)  # pyright: ignore[reportUnknownMemberType]
        except Exception as error:  # noqa: BLE001  other people's import finders answer here
            self._report(None, None, f"an import finder can't list its distributions: {cause_of(error)}")

    def _look_at(self, name: str, twins: list[Distribution]) -> None:
        """Reads one distribution; of several left behind by a broken install, the one written last counts."""
        texts = {id(each): text for each in twins if (text := self._entry_points(name, each)) is not None}
        if not texts:
            return
        newest = max(twins, key=_written)
        if len(twins) > 1:
            folders = ", ".join(sorted(map(_folder, twins)))
            self._report(None, name, f"is installed twice ({folders}); {_folder(newest)} counts: install it again")
        if id(newest) in texts:
            self._read(name, newest, texts[id(newest)])

    def _entry_points(self, name: str, distribution: Distribution) -> str | None:
        """The text of the file where it may name plugins."""
        try:
            text = _text(distribution, "entry_points.txt")
        except UnicodeDecodeError:
            self._report(None, name, f"{_LEFT_OUT}: entry_points.txt isn't UTF-8")
        except Exception as error:  # noqa: BLE001  other people's distributions answer here
            self._report(None, name, f"{_LEFT_OUT}: entry_points.txt can't be read: {cause_of(error)}")
        else:
            return text if text and _HEADER in text else None
        return None

    def _read(self, name: str, distribution: Distribution, text: str) -> None:
        try:
            facts = (*_identity(distribution), _location(distribution), _is_editable(distribution))
            if normalised(facts[0]) != name:
                raise MetadataError(f"METADATA names {facts[0]!r}, and its folder is {_folder(distribution)}")  # noqa: TRY301  reported like the rest
            points: Any = distribution.entry_points.select(group=GROUP)  # pyright: ignore[reportUnknownMemberType]
        except MetadataError as error:
            self._report(None, name, f"{_LEFT_OUT}: {error}")
        except Exception as error:  # noqa: BLE001  a line without "=", or other people's distributions
            self._report(None, name, f"{_LEFT_OUT}: entry_points.txt can't be parsed: {cause_of(error)}")
        else:
            if not points and f"{_HEADER}\n" in f"{text}\n":
                self._report(None, name, f"{_LEFT_OUT}: the group's name in entry_points.txt is damaged")
            for point in points:
                try:
                    module, attribute = point.module, point.attr or None
                except (ValueError, AttributeError, AssertionError):  # by version of importlib_metadata
                    cause = (
                        f"entry point {point.name!r} names {point.value!r}, which isn't 'module' or 'module:attribute'"
                    )
                    self._report(point.name, facts[0], cause)
                else:
                    self.found.append(FoundPlugin(point.name, module, attribute, *facts))

    def _report(self, plugin: str | None, distribution: str | None, cause: str) -> None:
        self.problems.append(Problem(plugin, distribution, cause))

    def result(self) -> Discovery:
        """What was found, in load order; several distributions may bring plugins of one name."""
        taken: dict[tuple[str, str], FoundPlugin] = {}
        for found in sorted(self.found, key=lambda found: (normalised(found.distribution), found.name)):
            if taken.setdefault((found.distribution, found.name), found) is not found:
                cause = f"entry point {found.name!r} stands twice; the first counts"
                self._report(found.name, found.distribution, cause)
        return Discovery(tuple(taken.values()), tuple(self.problems))


def _text(distribution: Distribution, file: str) -> str | None:
    return distribution.read_text(file)  # pyright: ignore[reportUnknownMemberType]


def _location(distribution: Distribution) -> str | None:
    """The folder of its metadata, in a zip file too; only distributions that were found on a path have one."""
    path: object = getattr(distribution, "_path", None)  # there is no public name for it
    return None if path is None else os.path.abspath(str(path))  # noqa: PTH100  a text, as everywhere here


def _folder(distribution: Distribution) -> str:
    return os.path.basename(_location(distribution) or "")  # noqa: PTH119  as above


def _root(distribution: Distribution) -> str:
    return os.path.dirname(_location(distribution) or "")  # noqa: PTH120  as above


def _written(distribution: Distribution) -> tuple[int, str]:
    try:
        return os.stat(_location(distribution) or "").st_mtime_ns, _folder(distribution)  # noqa: PTH116  as above
    except OSError:  # in a zip file
        return 0, _folder(distribution)


def _label(distribution: Distribution) -> str:
    """The normalised name, by the metadata folder's where there is one; `""` for the rest of a broken uninstall."""
    stem, _, kind = _folder(distribution).rpartition(".")
    if stem.startswith("~"):
        return ""
    name = stem.rpartition("-")[0] if kind == "dist-info" else stem.partition("-")[0]
    try:
        return normalised(name or distribution.metadata["Name"])
    except Exception:  # noqa: BLE001  other people's distributions answer here
        return ""


def _identity(distribution: Distribution) -> tuple[str, str]:
    """What a distribution calls itself: name and version.

    Raises:
        MetadataError: Its METADATA doesn't say one of them, or isn't UTF-8.
    """
    try:
        text = _text(distribution, "METADATA") or _text(distribution, "PKG-INFO") or ""
    except UnicodeDecodeError:
        raise MetadataError("METADATA isn't UTF-8") from None
    # Read here, as `distribution.metadata` loads the email package, which takes as long as all the rest.
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    headers = {name.strip().title(): value.strip() for name, _, value in reversed(list(lines))}
    for name, pattern in _FACTS.items():
        if not pattern.fullmatch(headers.get(name, "")):
            raise MetadataError(f"METADATA has no valid {name}")
    return headers["Name"], headers["Version"]


def _is_editable(distribution: Distribution) -> bool:
    """Whether it is installed as a link to its sources (PEP 660, by `direct_url.json`, PEP 610).

    What can't be understood is taken for editable: its sources are then looked at, which is never wrong.
    """
    text = _text(distribution, "direct_url.json")
    if not text:
        return False
    import json

    try:
        return bool(json.loads(text).get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError, RecursionError):
        return True
