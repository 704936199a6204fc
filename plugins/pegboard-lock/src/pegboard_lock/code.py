"""Digests of the code of distributions and of files of functions, cached by the stamps of their files."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from attrs import define, evolve, field, frozen

from pegboard import Tool
from pegboard.files import read_private, user_folder, write_private
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from importlib.metadata import Distribution

Code: TypeAlias = "str | dict[str, str] | None"
"""`"sha256:..."`; with compiled files, a digest of the others under `"*"` and one for each wheel tag; or unknown."""

FILE: Final = "file:"
"""What the name of a file of functions begins with, in place of a distribution's."""

_NOT_OWN: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"})
_NO_CODE: Final = frozenset(
    {"__pycache__", ".DS_Store", ".git", ".hg", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".svn"}
)
"""Files and folders that aren't code, and change by themselves."""
_PROJECT_FILES: Final = ("pyproject.toml", "setup.py", "setup.cfg")
_METADATA: Final = (".egg-info", ".dist-info")
_COMPILED: Final = (".so", ".pyd", ".dll", ".dylib")
_MOST_FILES: Final = 20_000
_MOST_BYTES: Final = 1024 * 1024 * 1024
_MOST_CACHE: Final = 8 * 1024 * 1024
_MOST_CACHED: Final = 1_000
_SECONDS: Final = 1.0  # between two looks at the stamps of the same files
_SETTLED_NS: Final = 2_000_000_000  # a file that changed just now may change again under the same stamp
_CACHE: Final = "lock-code.json"


@frozen
class _Files:
    """The files of a distribution: (name, path), sorted; `version`, and the wheel tag of compiled ones.

    While the paths in `watched` stay as they are, the list does, too.
    """

    named: tuple[tuple[str, str], ...]
    version: str | None = None
    tag: str = ""
    watched: tuple[str, ...] = ()


@define
class _Known:
    examined_at: float
    files: _Files | None
    listing: str  # the stamps of what is watched, or `""`
    stamp: str
    code: Code


@define(eq=False)
class CodeDigests:
    """Digests of code by distribution, by file of functions, or by toolset.

    The files' stamps are examined at most once a second; their content is read if a stamp has changed. Digests are
    kept for other processes in a private file of the user's cache folder.

    Attributes:
        base: The folder that paths of files of functions are relative to.
        clock: The clock, in seconds.
    """

    base: Path = field(converter=Path.resolve)
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, _Known] = field(factory=dict[str, _Known], init=False)
    _stored: dict[str, Any] | None = field(default=None, init=False)
    _outside: dict[str, set[str]] = field(factory=dict[str, "set[str]"], init=False)  # files, by their code's name

    def name_of(self, tool: Tool) -> str | None:
        """The name of a tool's code: its distribution's, or `"file:PATH"` of a host's function; `None` if unknown.

        A file that isn't below the base is named without its folders, which other machines don't have.
        """
        origin = tool.origin
        if origin.distribution is not None or origin.plugin is not None or origin.toolset is not None:
            return origin.distribution
        if (path := _file_of(tool)) is None:
            return None
        if path.is_relative_to(self.base):
            return FILE + path.relative_to(self.base).as_posix()
        self._outside.setdefault(name := FILE + path.name, set()).add(str(path))
        return name

    def entry(self, name: str) -> JsonObject:
        """The entry of a distribution, or of `"file:PATH"`, in a lock: its version and its code."""
        known = self._examine(name, lambda: self._files_of(name))
        return {"version": known.files and known.files.version, "code": known.code}

    def of_toolset(self, name: str, places: Iterable[str]) -> Code:
        """The digest of the files at these places, and below those that are folders."""
        return self._examine(f"toolset:{name}", lambda: _files_at(places)).code

    def _examine(self, name: str, find: Callable[[], _Files | None]) -> _Known:
        now, known = self.clock(), self._known.get(name)
        if known is not None and now < known.examined_at + _SECONDS:
            return known
        is_listed = known is not None and known.listing and known.listing == _listing(known.files)
        files = known.files if known is not None and is_listed else find()
        stamp, latest = ("", 0) if files is None else _stamp(files)
        if known is None or known.stamp != stamp or not stamp:
            known = _Known(now, files, "", stamp, self._code(name, files, stamp, latest))
        known.examined_at, known.files, known.listing = now, files, _listing(files)
        self._known[name] = known
        return known

    def _files_of(self, name: str) -> _Files | None:
        if not name.startswith(FILE):
            return _files_of_distribution(name)
        path = name.removeprefix(FILE)
        places = self._outside.get(name, ()) if "/" not in path else ()
        return _files_at(places or [str(self.base / path)])

    def _code(self, name: str, files: _Files | None, stamp: str, latest: int) -> Code:
        if files is None or not stamp:
            return None
        if self._stored is None:
            self._stored = _read_cache()
        if (stored := self._stored.get(name)) is not None and stored[0] == stamp:
            return stored[1]
        try:
            code = _digest(files)
        except OSError:
            return None
        if latest < time.time_ns() - _SETTLED_NS:
            self._stored = {**dict([*self._stored.items()][-_MOST_CACHED:]), name: [stamp, code]}
            with suppress(OSError):
                write_private(_cache_file(), json.dumps(self._stored).encode())
        return code


def _file_of(tool: Tool) -> Path | None:
    """The file that a tool's function is written in, without links."""
    function: Any = getattr(tool.handler, "function", None)
    while (inner := getattr(function, "func", getattr(function, "__wrapped__", None))) is not None:
        function = inner
    code: Any = getattr(getattr(function, "__func__", function), "__code__", None)
    file: Any = getattr(code, "co_filename", None)
    return Path(file).resolve() if isinstance(file, str) and os.path.isfile(file) else None  # noqa: PTH113  a text, as of `exec`


def _files_at(places: Iterable[str]) -> _Files | None:
    """The files at these places, and below those that are folders, named from the last part of each on."""
    named: list[tuple[str, str]] = []
    watched: list[str] = []
    for place in map(Path, places):
        if not place.is_dir():
            watched.append(str(place.parent))
            named += [(place.name, str(place))] if place.is_file() else []
            continue
        for folder, folders, files in os.walk(place, followlinks=True):
            real = os.path.realpath(folder)  # a link to a folder above would never end
            folders[:] = (name for name in folders if name not in _NO_CODE and not _leads_up(real, folder, name))
            watched.append(folder)
            paths = (Path(folder, name) for name in files if name not in _NO_CODE)
            named += ((path.relative_to(place.parent).as_posix(), str(path)) for path in paths)
            if len(named) + len(watched) > _MOST_FILES:
                return None
    return _Files(tuple(sorted(named)), watched=tuple(watched)) if named else None


def _leads_up(real: str, folder: str, name: str) -> bool:
    """Whether an entry of a folder is a link to that folder or one above."""
    target = os.path.realpath(os.path.join(folder, name))  # noqa: PTH118  as `os.walk`
    return Path(real).is_relative_to(target)


def change_of_code(locked: Any, now: Code) -> str | None:
    """How code differs from the locked one, in words that follow "the code"; `None` if it is the same, or was unknown.

    Compiled files of a wheel tag that the lock doesn't have were never accepted.
    """
    if locked is None or locked == now:
        return None
    if now is None:
        return "can't be examined"
    before = cast("dict[str, Any]", locked) if isinstance(locked, dict) else {}
    tags = {} if isinstance(now, str) else now
    if not tags or any(before.get(tag) not in (None, digest) for tag, digest in tags.items()) or "*" not in before:
        return "has changed"
    new = sorted(tags.keys() - before.keys())
    return f"isn't locked for {', '.join(new)}" if new else None


def join_code(locked: Any, now: Code) -> Code:
    """Code for a lock: with the digests of other wheel tags, if the rest of the code is the same."""
    if isinstance(locked, dict) and isinstance(now, dict) and cast("JsonObject", locked).get("*") == now.get("*"):
        return {**cast("dict[str, str]", locked), **now}
    return now


def _files_of_distribution(name: str) -> _Files | None:
    from importlib.metadata import PackageNotFoundError, distribution  # 20 ms

    try:
        found = distribution(name)
        version = str(found.version)
        folders = _folders_on_path(found)
        if folders or _is_editable(found):
            files, tag = _sources(found, folders), "editable"
        else:
            files, tag = _files_in_record(found), _tag(found)
    except (PackageNotFoundError, OSError, ValueError, UnicodeError):
        return None
    if files is None or len(files.named) > _MOST_FILES:
        return _Files((), version)
    return evolve(files, version=version, tag=tag)


def _is_editable(found: Distribution) -> bool:
    text = found.read_text("direct_url.json")
    if not text:
        return False
    try:
        return bool(json.loads(text).get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError, RecursionError):
        return True


def _folders_on_path(found: Distribution) -> set[str]:
    """The folders that a distribution puts on `sys.path` by `.pth` files, as an editable install does."""
    names = (row[0] for row in csv.reader((found.read_text("RECORD") or "").splitlines()) if row)
    files = [Path(str(found.locate_file(name))) for name in names if name.endswith(".pth") and "/" not in name]
    lines = (line.strip() for file in files if file.is_file() for line in file.read_text("utf-8").splitlines())
    return {line for line in lines if os.path.isabs(line) and os.path.isdir(line)}  # noqa: PTH112, PTH117  texts


def _files_in_record(found: Distribution) -> _Files | None:
    """The files in RECORD that belong to the distribution itself; `None` without one."""
    record = found.read_text("RECORD")  # read here, as `files` leaves out what is missing, by version of the finder
    if not record:
        return None
    own: list[tuple[str, str]] = []
    watched = ""
    for row in csv.reader(record.splitlines()):
        file = PurePosixPath(row[0]) if row else PurePosixPath()
        parts = file.parts
        is_metadata = len(parts) == 2 and parts[0].endswith(".dist-info")
        if not parts or ".." in parts or file.is_absolute() or "__pycache__" in parts:
            continue  # scripts and data elsewhere, and compiled code
        if not (is_metadata and (parts[1] in _NOT_OWN or parts[1] == "WHEEL")):
            own.append((file.as_posix(), str(found.locate_file(str(file)))))
        elif parts[1] == "RECORD":
            watched = str(found.locate_file(str(file)))
    return _Files(tuple(sorted(own)), watched=(watched,) if watched else ())


def _tag(found: Distribution) -> str:
    lines = (found.read_text("WHEEL") or "").splitlines()
    return ".".join(sorted(line.partition(":")[2].strip() for line in lines if line.startswith("Tag:"))) or "unknown"


def _sources(found: Distribution, folders: Iterable[str]) -> _Files | None:
    """The files of the packages that the plugins of an editable install are in, and of those beside them.

    A folder with the project's own file has more than packages: tests, environments.
    """
    sources = [each for each in map(Path, folders) if not any((each / name).exists() for name in _PROJECT_FILES)]
    places = (place for each in sources for place in each.iterdir() if place.suffix not in _METADATA)
    own = {str(place) for place in places if place.name not in _NO_CODE}
    for module in {point.module for point in found.entry_points if point.group == "pegboard"}:
        place = _place(module)
        if place is None:
            return None
        own.add(str(place))
    files = _files_at(own)
    return files and evolve(files, watched=(*files.watched, *map(str, sources)))


def _place(module: str) -> Path | None:
    """The folder of a module's top-level package, or the file of a module; nothing is imported."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    top, *inner = module.split(".")
    try:
        spec = find_spec(top)
        while inner and spec is not None and spec.origin is None:  # a namespace package
            spec = PathFinder.find_spec(inner.pop(0), [*(spec.submodule_search_locations or ())])
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    return Path(spec.origin) if spec.submodule_search_locations is None else Path(spec.origin).parent


def _listing(files: _Files | None) -> str:
    """The stamps of what is watched; `""` if that can't be read, or changed just now."""
    stamps: list[str] = []
    try:
        for path in () if files is None else files.watched:
            facts = os.stat(path)  # noqa: PTH116  as below
            if facts.st_mtime_ns > time.time_ns() - _SETTLED_NS:
                return ""
            stamps.append(f"{path}:{facts.st_mtime_ns}:{facts.st_ino}")
    except OSError:
        return ""
    return "\n".join(stamps)


def _stamp(files: _Files) -> tuple[str, int]:
    """A digest of the stamps of files, `""` if one can't be read, and the time of the latest change in ns."""
    stamps: list[str] = []
    latest = size = 0
    try:
        for name, path in files.named:
            facts = os.stat(path)  # noqa: PTH116  a path object costs ten times this
            latest, size = max(latest, facts.st_mtime_ns), size + facts.st_size
            stamps.append(f"{name}:{path}:{facts.st_mtime_ns}:{facts.st_ctime_ns}:{facts.st_size}:{facts.st_ino}")
    except OSError:
        return "", 0
    if not stamps or size > _MOST_BYTES:
        return "", 0
    return hashlib.sha256("\n".join(stamps).encode("utf-8", "surrogateescape")).hexdigest(), latest


def _digest(files: _Files) -> Code:
    compiled = [each for each in files.named if each[0].endswith(_COMPILED)]
    rest = _digest_of(each for each in files.named if not each[0].endswith(_COMPILED))
    return {"*": rest, files.tag: _digest_of(compiled)} if compiled else rest


def _digest_of(files: Iterable[tuple[str, str]]) -> str:
    contents: list[tuple[str, str]] = []
    for name, path in files:
        with Path(path).open("rb") as file:
            contents.append((name, hashlib.file_digest(file, "sha256").hexdigest()))
    whole = hashlib.sha256()
    for name, content in sorted(contents):  # of two files of one name, too, in the same order on every machine
        whole.update(f"{json.dumps(name)} {content}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def _cache_file() -> str:
    return os.path.join(user_folder("cache"), _CACHE)  # noqa: PTH118  a text is wanted


def _read_cache() -> dict[str, Any]:
    """The stored digests by name, each with its stamp."""
    try:
        data: Any = json.loads(read_private(_cache_file(), _MOST_CACHE))
    except (OSError, ValueError, RecursionError):
        return {}
    table = cast("JsonObject", data) if isinstance(data, dict) else {}
    return {name: each for name, each in table.items() if isinstance(each, list) and len(cast("list[Any]", each)) == 2}
