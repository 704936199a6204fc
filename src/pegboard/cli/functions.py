"""The public functions of a file as tools, for `--functions FILE.py`."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from pegboard.cli.output import write_note
from pegboard.errors import PegboardError
from pegboard.registry import ToolRegistry


def register_functions(registry: ToolRegistry, files: Iterable[Path]) -> None:
    """Registers the public functions of files; they replace tools of the same name.

    A function that can't be a tool is left out, with the reason on standard error. A file that fails, or defines no
    public function, is a usage error.
    """
    for file in files:
        functions = list(public_functions(load_module(file)))
        if not functions:
            raise click.UsageError(f"{file} defines no public function")
        for function in functions:
            try:
                registry.register(function, on_conflict="shadow")
            except PegboardError as error:
                write_note(f"{file}: {error}")


def load_module(file: Path) -> ModuleType:
    """Imports a file as a module; its folder is appended to `sys.path`, for its imports."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = file.resolve()
    spec = spec_from_file_location(f"pegboard_functions_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{file} isn't a Python file: its name has to end in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise click.UsageError(f"{file}{_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: BaseException, path: Path) -> str:
    """The last line of the file in the traceback."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def public_functions(module: ModuleType) -> Iterator[Any]:
    """The public functions that a module defines itself, in order, without aliases."""
    for name, value in vars(module).items():
        if name.startswith("_") or not inspect.isroutine(value):
            continue
        if value.__module__ == module.__name__ and value.__name__ == name:
            yield value
