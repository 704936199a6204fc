"""Programs that run within limits of time and output, and end with all processes that they start.

`RunningProgram` is the whole way: it ends a program at its limit, when its caller is cancelled, and with this process.

    import asyncio

    from pegboard.programs import OutputBuffer, RunningProgram

    program = RunningProgram(["printf", "hello"], OutputBuffer(10_000), limit=60.0)
    program.start()
    asyncio.run(program.wait())
    assert (program.code, bytes(program.output.head)) == (0, b"hello")

Without a `code`, it wasn't started (`failure` says why) or couldn't be killed.
For programs that are started otherwise, `ProcessTree` ends all their processes:

    import subprocess

    from pegboard.programs import ProcessTree

    tree = ProcessTree()
    process = subprocess.Popen(["sleep", "1000"], **tree.options())
    tree.add(process.pid)
    tree.kill()
    assert process.wait() == -9
"""

from __future__ import annotations

from pegboard.lazy import lazy_names

_NAMES = {"running": "OutputBuffer RunningProgram", "tree": "JOB Leftovers ProcessTree"}
"""Module -> its public names, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
