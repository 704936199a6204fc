"""Runs a click or typer program: `python -m pegboard_commands.run_click MODULE:NAME [ARGUMENT]...`."""

from __future__ import annotations

import sys
from pkgutil import resolve_name


def main() -> None:
    """Runs it with the arguments of this process."""
    program, *arguments = sys.argv[1:]
    resolve_name(program)(arguments, prog_name=program)


if __name__ == "__main__":
    main()
