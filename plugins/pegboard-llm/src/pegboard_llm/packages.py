"""llm's installed plugins, and what was found in them: a cache, so that each is loaded once."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from pegboard.config import normalised
from pegboard.errors import cause_of, check_keys, near_or_known
from pegboard.files import read_private, user_folder, write_private
from pegboard.json import digest_of, json_text
from pegboard.typing import JsonObject
from pegboard_llm.worker import parse_spec

_OWN: Final = "pegboard-llm"
_MOST_BYTES: Final = 64 << 20
_FAILURE_SECONDS: Final = 3600
_FORMAT: Final = 1


@frozen
class Settings:
    """Settings of the plugin.

    Attributes:
        toolboxes: Toolboxes with their arguments, in llm's notation.
        trust: Packages and tools whose calls run without asking.
        exclude: Packages that are left out.
    """

    toolboxes: tuple[str, ...] = ()
    trust: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Settings:
        """Reads `[plugins.llm]`.

        Raises:
            ValueError: A key is unknown, or a value isn't a list of texts.
        """
        check_keys(settings, ("toolboxes", "trust", "exclude", "offer"), "plugins.llm")
        lists = {key: _texts(key, value) for key, value in settings.items() if key != "offer"}
        packages = frozenset(map(normalised, lists.get("exclude", ())))
        return cls(lists.get("toolboxes", ()), frozenset(lists.get("trust", ())), packages)

    def trusts(self, package: str, tool: str) -> bool:
        """Whether a tool runs without asking."""
        return tool in self.trust or normalised(package) in map(normalised, self.trust)


def _texts(key: str, value: Any) -> tuple[str, ...]:
    texts: list[Any] = [*value] if isinstance(value, list | tuple) else [None]
    if not all(isinstance(each, str) for each in texts):
        raise ValueError(f"plugins.llm.{key} has to be a list of texts, not {value!r:.100}")
    return tuple(texts)


@frozen
class Package:
    """Plugin of llm: one entry point of a distribution.

    Attributes:
        distribution: The distribution's name.
        version: Its version.
        name: The entry point's name; another distribution may have the same.
        value: The entry point's module.
        label: The distribution, with the entry point's name if there are several.
        source: The file of its module, or `None` where it can't be found.
    """

    distribution: str
    version: str
    name: str
    value: str
    label: str
    source: str | None = field(default=None, eq=False)

    @property
    def key(self) -> str:
        """Its key in the cache: distribution, name and value."""
        return json.dumps([self.distribution, self.name, self.value])

    def identity(self, specs: Sequence[str]) -> str:
        """Digest of all that its tools depend on.

        Args:
            specs: Its toolboxes in the settings; a file among their arguments counts with its time.
        """
        facts = [
            self.version,
            _llm_version(),
            sys.version,
            stamp(self.source),
            [[each, *_files(each)] for each in specs],
        ]
        return digest_of(facts)


@cache
def _llm_version() -> str:
    return version("llm")


def stamp(path: str | Path | None) -> str:
    """Time and size of a file, or `""`."""
    try:
        facts = Path(path or "").stat()
    except (OSError, ValueError):
        return ""
    return f"{facts.st_mtime_ns}:{facts.st_size}"


def argument_files(spec: str) -> list[str]:
    """The files among a toolbox's arguments, as absolute paths."""
    with suppress(ValueError):
        _, positional, keywords = parse_spec(spec)
        paths = [Path(each).expanduser() for each in (*positional, *keywords.values()) if isinstance(each, str)]
        return [str(path.absolute()) for path in paths if len(str(path)) < 1_000 and path.is_file()]
    return []


def _files(spec: str) -> list[str]:
    return [part for path in argument_files(spec) for part in (path, stamp(path))]


def find_packages() -> list[Package]:
    """The installed plugins of llm, but for this package; of two versions of a distribution, the first on the path."""
    found: dict[str, list[tuple[str, str, str, str]]] = {}
    for each in entry_points(group="llm"):
        owner = each.dist
        name: Any = None if owner is None else owner.metadata["Name"]
        if owner is not None and isinstance(name, str) and normalised(name) != _OWN:
            found.setdefault(normalised(name), []).append((name, owner.version, each.name, each.value))
    return [
        Package(*facts, facts[0] if len(entries) == 1 else f"{facts[0]} ({facts[2]})", _source(facts[3]))
        for _, entries in sorted(found.items())
        for facts in entries
    ]


def _source(value: str) -> str | None:
    """The file of an entry point's module or package, which isn't imported."""
    try:
        spec = find_spec(value.partition(":")[0].partition(".")[0])
    except Exception:  # noqa: BLE001  a finder of another package may raise anything
        return None
    return None if spec is None else spec.origin


def _cache_file() -> Path:
    return Path(user_folder("cache"), "llm", f"{digest_of([sys.prefix, *sys.path])[:16]}.json")


class Cache:
    """What was found in each package, in one private file of the user's cache folder for each environment."""

    def __init__(self) -> None:
        self.path = _cache_file()
        self.marker = str(self.path.with_suffix(".late"))
        self._found: dict[str, JsonObject] = {}
        with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
            data: Any = json.loads(read_private(str(self.path), _MOST_BYTES))
            if data["format"] == _FORMAT:
                self._found = {str(key): dict(value) for key, value in data["packages"].items()}

    def get(self, package: Package, settings: Settings) -> JsonObject | None:
        """What was found in a package: `tools`, `classes`, `needy` and `problems`, or a `failure` of the last hour."""
        facts = self._found.get(package.key)
        if facts is None or facts.get("identity") != package.identity(specs_of(facts, settings)):
            return None
        is_old = time.time() - facts.get("time", 0) > _FAILURE_SECONDS
        has_failed = "failure" in facts or facts.get("problems")
        return None if has_failed and (is_old or facts.get("installed") != _digest_of_installed()) else facts

    def put(self, package: Package, settings: Settings, facts: JsonObject) -> JsonObject:
        """Stores what was found in a package."""
        facts = {**facts, "time": time.time(), "installed": _digest_of_installed()}
        facts["identity"] = package.identity(specs_of(facts, settings))
        self._found[package.key] = facts
        return facts

    def write(self, packages: Sequence[Package]) -> None:
        """Writes it, for these packages."""
        kept = {each.key: self._found[each.key] for each in packages if each.key in self._found}
        with suppress(OSError):  # it is only a cache
            write_private(str(self.path), json_text({"format": _FORMAT, "packages": kept}).encode())

    def touch(self, *, create: bool) -> None:
        """Changes `marker`, so that listings are made anew; if it isn't there, only where it is to be created.

        There is none where all packages were loaded in time for the first listing, which so remains valid.
        """
        if create or Path(self.marker).exists():
            with suppress(OSError):
                write_private(self.marker, str(time.time_ns()).encode())

    @staticmethod
    def clear() -> None:
        """Deletes it."""
        _cache_file().unlink(missing_ok=True)


def specs_of(facts: Mapping[str, Any], settings: Settings) -> list[str]:
    """The toolboxes of the settings whose class a package has; all of them for a package that failed."""
    classes = facts.get("classes")
    return [each for each in settings.toolboxes if classes is None or _class_of(each) in classes]


def _class_of(spec: str) -> str:
    with suppress(ValueError):
        return parse_spec(spec)[0]
    return ""


def spec_problems(settings: Settings, classes: Sequence[str] | None) -> list[str]:
    """What is wrong with the toolboxes of the settings.

    Args:
        settings: The settings.
        classes: The toolboxes of all packages; `None` where some aren't known.
    """
    problems: list[str] = []
    for spec in settings.toolboxes:
        try:
            name = parse_spec(spec)[0]
        except ValueError as error:
            problems.append(f"plugins.llm.toolboxes: {cause_of(error).partition(': ')[2]}")
            continue
        if classes is not None and name not in classes:
            problems.append(f"plugins.llm.toolboxes: no package has a toolbox {name!r}. {near_or_known(name, classes)}")
    return problems


def site_folders() -> list[str]:
    """The folders on the path, whose entries change when a package is installed."""
    return [path for each in sys.path if each and (path := os.path.abspath(each)) and Path(path).is_dir()]  # noqa: PTH100  a text


def _digest_of_installed() -> str:
    """Digest of the installed distributions, by the names of their metadata."""
    names = [each.name for folder in site_folders() for each in sorted(Path(folder).glob("*-info"))]
    return digest_of(names)
