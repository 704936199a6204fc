"""pegboard-processes: runs tools in child processes that can be killed, with memory limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegboard_processes.pool import ChildProcesses as ChildProcesses

__all__ = ("ChildProcesses",)


def __getattr__(name: str) -> object:
    """Found at first use: a child process imports this package too, and needs neither a pool nor asyncio."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pegboard_processes.pool import ChildProcesses

    return ChildProcesses
