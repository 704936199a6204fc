"""pegboard-processes: runs tools in child processes that can be killed, with memory limits."""

from __future__ import annotations

from pegboard_processes.pool import ChildProcesses

__all__ = ["ChildProcesses"]
