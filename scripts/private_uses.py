"""Prints every use of a private part of pegboard in the packages and examples of this checkout; there may be none.

python scripts/private_uses.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from pegboard.plugins.imports import PrivateUse, private_uses

ROOT = Path(__file__).resolve().parents[1]


def uses() -> list[PrivateUse]:
    """All of them."""
    folders = [*ROOT.glob("plugins/*/src"), *ROOT.glob("examples/*/src")]
    files = (str(path) for folder in sorted(folders) for path in folder.rglob("*.py"))
    return sorted(private_uses(files, ROOT))


if __name__ == "__main__":
    found = uses()
    print(*found, sep="\n")
    sys.exit(bool(found))
