"""Prints every use of a private part of pegboard in the packages and examples of this checkout; there may be none.

Also each import of a module whose name is computed, as it may be a private one.

python scripts/private_uses.py
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from pegboard.plugins.imports import PrivateUse, private_uses

ROOT = Path(__file__).resolve().parents[1]
COMPUTED = "plugins/pegboard-processes/src/pegboard_processes/task.py"
"""It imports the modules of tools in a child process, by the names that its parent sends."""


def uses() -> list[PrivateUse]:
    """All of them."""
    folders = [*ROOT.glob("plugins/*/src"), *ROOT.glob("examples/*/src")]
    files = [path for folder in sorted(folders) for path in folder.rglob("*.py")]
    computed = (use for path in files for use in computed_imports(str(path.relative_to(ROOT)), path.read_text("utf-8")))
    return sorted({*private_uses(map(str, files), ROOT), *(use for use in computed if use.file != COMPUTED)})


def computed_imports(file: str, source: str) -> Iterator[PrivateUse]:
    """The imports of modules whose names aren't fixed texts, or begin with a dot."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            function = getattr(node.func, "attr", getattr(node.func, "id", ""))
            name = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in (None, "name"))][0:1]
            fixed = [each.value for each in name if isinstance(each, ast.Constant)]
            is_fixed = len(fixed) == len(name) and not str(*fixed).startswith(".")
            if function in ("import_module", "__import__") and not is_fixed:
                yield PrivateUse(file, node.lineno, ast.unparse(node))


if __name__ == "__main__":
    found = uses()
    print(*found, sep="\n")
    sys.exit(bool(found))
