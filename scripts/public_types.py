"""Writes the public names of `pegboard` and of its packages for type checkers, `__init__.pyi`, from their tables.

python scripts/public_types.py
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1] / "src"
WIDTH = 120
HEAD = "# The public names for type checkers. Written by scripts/public_types.py; don't edit.\n\n"


def public_types() -> dict[Path, str]:
    """Stub file -> its text, for each package whose `__init__.py` has a table of names."""
    sources = [ROOT / "pegboard" / "__init__.py", *sorted(ROOT.glob("pegboard/*/__init__.py"))]
    return {
        path.with_suffix(".pyi"): HEAD + "".join(_imports_of(path))
        for path in sources
        if "_NAMES = {" in path.read_text()
    }


def _imports_of(path: Path) -> Iterator[str]:
    package = ".".join(path.parent.relative_to(ROOT).parts)
    if topics := _assigned(path, "_TOPICS"):
        yield _import(package, list(topics))
    for module, names in sorted(_assigned(path, "_NAMES").items()):
        yield _import(f"{package}.{module}", names.split())


def _assigned(path: Path, variable: str) -> Any:
    """The literal that a module assigns to a variable, read off the source, or `None`."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == variable:
            return ast.literal_eval(node.value)
    return None


def _import(module: str, names: list[str]) -> str:
    aliases = [f"{name} as {name}" for name in sorted(names, key=_kind)]
    line = f"from {module} import {', '.join(aliases)}\n"
    if len(line) <= WIDTH + 1:
        return line
    lines = "".join(f"    {alias},\n" for alias in aliases)
    return f"from {module} import (\n{lines})\n"


def _kind(name: str) -> tuple[bool, bool, str]:
    """Constants, classes, functions: the order that ruff keeps imports in."""
    return not name.isupper(), not name[0].isupper(), name.lower()


if __name__ == "__main__":
    for stub, text in public_types().items():
        stub.write_text(text, encoding="utf-8")
