"""Programs that run within limits of time and output, and end with all processes that they start.

`RunningProgram` is the whole way. For programs that are started otherwise, `ProcessTree` ends all their processes.
"""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "JOB": "tree",
    "Leftovers": "tree",
    "OutputBuffer": "running",
    "ProcessTree": "tree",
    "RunningProgram": "running",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
