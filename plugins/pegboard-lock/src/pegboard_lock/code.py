"""Digests of the code of distributions and of files of functions, cached by the stamps of their files."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from attrs import define, field, frozen

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
    """The files of a distribution: (name, path), sorted; `version`, and the wheel tag of compiled ones."""

    named: tuple[tuple[str, str], ...]
    version: str | None = None
    tag: str = ""


@define
class _Known:
    examined_at: float
    files: _Files | None
    stamp: str
    code: Code


@define(eq=False)
class CodeDigests:
    """Digests of code by distribution, or by file of functions.

    The files' stamps are examined at most once a second; their content is read if a stamp has changed. Digests are
    kept for other processes in a private file of the user's cache folder.

    Attributes:
        clock: The clock, in seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _known: dict[str, _Known] = field(factory=dict[str, _Known], init=False)
    _stored: dict[str, Any] | None = field(default=None, init=False)

    def entry(self, name: str, base: Path) -> JsonObject:
        """The entry of a distribution, or of `"file:PATH"`, in a lock: its version and its code.

        Args:
            name: The distribution's name, or `"file:"` and a path.
            base: The folder that paths of files are relative to.
        """
        known = self._examined(name, base)
        return {"version": known.files and known.files.version, "code": known.code}

    def _examined(self, name: str, base: Path) -> _Known:
        now, known = self.clock(), self._known.get(name)
        if known is not None and now < known.examined_at + _SECONDS:
            return known
        files = _files_of(name, base)
        stamp, latest = ("", 0) if files is None else _stamp(files)
        if known is None or known.stamp != stamp or not stamp:
            known = self._known[name] = _Known(now, files, stamp, self._code(name, files, stamp, latest))
        known.examined_at = now
        return known

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


def code_name(tool: Tool, base: Path) -> str | None:
    """The name of a tool's code: its distribution's, or `"file:PATH"` of the host's function; `None` if unknown."""
    origin = tool.origin
    if origin.distribution is not None or origin.plugin is not None or origin.toolset is not None:
        return origin.distribution
    function: Any = getattr(tool.handler, "function", None)
    while (inner := getattr(function, "func", getattr(function, "__wrapped__", None))) is not None:
        function = inner
    code: Any = getattr(getattr(function, "__func__", function), "__code__", None)
    file: Any = getattr(code, "co_filename", None)
    if not isinstance(file, str) or not os.path.isfile(file):  # noqa: PTH113  a text, as of `exec`
        return None
    path = Path(file).resolve()
    return FILE + (path.relative_to(base) if path.is_relative_to(base) else Path(path.name)).as_posix()


def same_code(locked: Any, now: Code) -> bool:
    """Whether code is the locked one, as far as the lock knows it for this machine."""
    if locked is None or isinstance(locked, str) or not isinstance(now, dict):
        return locked is None or locked == now
    before = cast("dict[str, Any]", locked)
    return all(before.get(tag, digest if tag != "*" else None) == digest for tag, digest in now.items())


def joined_code(locked: Any, now: Code) -> Code:
    """Code for a lock: with the digests of other wheel tags, if the rest of the code is the same."""
    if isinstance(locked, dict) and isinstance(now, dict) and cast("JsonObject", locked).get("*") == now.get("*"):
        return {**cast("dict[str, str]", locked), **now}
    return now


def _files_of(name: str, base: Path) -> _Files | None:
    if name.startswith(FILE):
        path = base / name.removeprefix(FILE)
        return _Files(((path.name, str(path)),)) if path.is_file() else None
    from importlib.metadata import PackageNotFoundError, distribution  # 20 ms

    try:
        found = distribution(name)
        version = str(found.version)
        files, tag = (_sources(found), "") if _is_editable(found) else (_installed(found), _tag(found))
    except (PackageNotFoundError, OSError, ValueError, UnicodeError):
        return None
    if files is None:
        return _Files((), version)
    named = tuple(sorted(files))
    return _Files(named if len(named) <= _MOST_FILES else (), version, tag)


def _is_editable(found: Distribution) -> bool:
    text = found.read_text("direct_url.json")
    if not text:
        return False
    try:
        return bool(json.loads(text).get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError, RecursionError):
        return True


def _installed(found: Distribution) -> list[tuple[str, str]] | None:
    """The files in RECORD that belong to the distribution itself; `None` without one."""
    record = found.read_text("RECORD")  # read here, as `files` leaves out what is missing, by version of the finder
    if not record:
        return None
    own: list[tuple[str, str]] = []
    for row in csv.reader(record.splitlines()):
        file = PurePosixPath(row[0]) if row else PurePosixPath()
        parts = file.parts
        is_metadata = len(parts) == 2 and parts[0].endswith(".dist-info")
        if not parts or ".." in parts or file.is_absolute() or "__pycache__" in parts:
            continue  # scripts and data elsewhere, and compiled code
        if not (is_metadata and (parts[1] in _NOT_OWN or parts[1] == "WHEEL")):
            own.append((file.as_posix(), str(found.locate_file(str(file)))))
    return own


def _tag(found: Distribution) -> str:
    lines = (found.read_text("WHEEL") or "").splitlines()
    return ".".join(sorted(line.partition(":")[2].strip() for line in lines if line.startswith("Tag:"))) or "unknown"


def _sources(found: Distribution) -> list[tuple[str, str]] | None:
    """The files of the packages that the plugins of an editable install are in."""
    own: dict[str, str] = {}
    for module in {point.module for point in found.entry_points if point.group == "pegboard"}:
        place = _place(module)
        if place is None:
            return None
        if place.is_file():
            own[place.name] = str(place)
            continue
        for path in _below(place):
            own[path.relative_to(place.parent).as_posix()] = str(path)
            if len(own) > _MOST_FILES:
                return None
    return [*own.items()]


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


def _below(place: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


def _stamp(files: _Files) -> tuple[str, int]:
    """A digest of the stamps of files, `""` if one can't be read, and the time of the latest change in ns."""
    stamps: list[str] = []
    latest = size = 0
    try:
        for name, path in files.named:
            facts = os.stat(path)  # noqa: PTH116  a path object costs ten times this
            latest, size = max(latest, facts.st_mtime_ns), size + facts.st_size
            stamps.append(f"{name}:{path}:{facts.st_mtime_ns}:{facts.st_size}:{facts.st_ino}")
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
    whole = hashlib.sha256()
    for name, path in files:
        with Path(path).open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
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
