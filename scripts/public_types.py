"""Writes `src/pegboard/__init__.pyi`, the public names for type checkers, from the table of public names.

python scripts/public_types.py
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "pegboard"
WIDTH = 120
HEAD = "# The public names for type checkers. Written by scripts/public_types.py; don't edit.\n\n"


def public_types() -> str:
    """The stub's text."""
    of_module: dict[str, list[str]] = {}
    for name, module in _modules().items():
        of_module.setdefault(module, []).append(name)
    return HEAD + "".join(_imported(module, of_module[module]) for module in sorted(of_module))


def _modules() -> dict[str, str]:
    """Name -> module, read off the source."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (table,) = (
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_MODULES"
    )
    return ast.literal_eval(table)


def _imported(module: str, names: list[str]) -> str:
    aliases = [f"{name} as {name}" for name in sorted(names, key=_kind)]
    line = f"from pegboard.{module} import {', '.join(aliases)}\n"
    if len(line) <= WIDTH + 1:
        return line
    lines = "".join(f"    {alias},\n" for alias in aliases)
    return f"from pegboard.{module} import (\n{lines})\n"


def _kind(name: str) -> tuple[bool, bool, str]:
    """Constants, classes, functions: the order that ruff keeps imports in."""
    return not name.isupper(), not name[0].isupper(), name.lower()


if __name__ == "__main__":
    (PACKAGE / "__init__.pyi").write_text(public_types(), encoding="utf-8")
