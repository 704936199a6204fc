"""Where a plugin's code lies, found out without importing any of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

MOST_SOURCES: Final = 1_000
"""A plugin with more files and folders than this isn't looked at each time: it is loaded instead."""


def place_of(module: str, root: str) -> Path | None:
    """The folder of a module's top-level package, or the file of a top-level module; nothing is imported.

    In a namespace package (PEP 420), which several distributions share, it is the first package or module inside it.

    Args:
        module: Dotted.
        root: Where to look if it isn't on `sys.path`.
    """
    top, *inner = module.split(".")
    spec = _found(top, root)
    if spec is None:
        return None
    if spec.origin is not None and spec.has_location:
        return Path(spec.origin).parent if spec.submodule_search_locations is not None else Path(spec.origin)
    return _inside([Path(folder) for folder in spec.submodule_search_locations or ()], inner)


def _found(top: str, root: str) -> ModuleSpec | None:
    """Asks the import system about a top-level name, which imports nothing."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    try:
        return find_spec(top) or PathFinder.find_spec(top, [root])
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


def source_paths(module: str, root: str) -> tuple[str, ...] | None:
    """The files and folders whose times tell whether a plugin's code has changed, sorted.

    Every file of its top-level package counts, not only Python's: a tool may be made of data.

    Returns:
        Paths; `None` where the package can't be found, or has more than 1,000 files and folders.
    """
    place = place_of(module, root)
    if place is None:
        return None
    paths: list[str] = []
    for path in _walked(str(place)):
        paths.append(path)
        if len(paths) > MOST_SOURCES:
            return None
    return tuple(sorted(paths))


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
