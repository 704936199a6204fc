"""`--functions FILE.py`: the public functions that a file defines, as tools for one run."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from pegboard.cli.failure import remark
from pegboard.errors import PegboardError

if TYPE_CHECKING:
    from pegboard.registry import ToolRegistry


def register_functions(registry: ToolRegistry, files: Iterable[Path]) -> None:
    """Hangs the functions of these files on the board, before those of plugins.

    A function that can't be a tool is left out, and standard error says why.

    Raises:
        click.UsageError: A file can't be run, or defines no public function.
    """
    for file in files:
        functions = list(public_functions(load_module(file)))
        if not functions:
            raise click.UsageError(f"{file} defines no public function")
        for function in functions:
            try:
                registry.register(function, on_conflict="shadow")
            except PegboardError as error:
                remark(f"{file}: {error}")


def load_module(file: Path) -> ModuleType:
    """Runs a file as a module of its own; its folder comes last on `sys.path`, for its imports.

    Raises:
        click.UsageError: It raised, or isn't Python; with the line.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    path = file.resolve()
    spec = spec_from_file_location(f"pegboard_functions_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{file} is no Python file: its name has to end in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise click.UsageError(f"{file}{_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: BaseException, path: Path) -> str:
    """Where in the file it happened."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    import traceback

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def public_functions(module: ModuleType) -> Iterator[Any]:
    """The functions that a module defines under their own public names, in its order; not those that it imports."""
    for name, value in vars(module).items():
        if name.startswith("_") or not inspect.isroutine(value):
            continue
        if value.__module__ == module.__name__ and value.__name__ == name:
            yield value
