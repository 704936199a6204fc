"""Overhead of a command run by the tools of pegboard-shell, compared with the bare process.

python benchmarks/commands.py [--rounds 200]

Each command alternates with the same process by `subprocess.run`; prints the medians of the wall times and of the
ratios. It isn't part of `run.py`: processor time says little about processes that mostly wait.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pegboard import Permissions, ToolRegistry
from pegboard.testing import plugin_registry
from pegboard_shell.sandbox import Sandbox


def bare(command: list[str], folder: str) -> float:
    """Seconds of one process, including reading its output."""
    began = time.perf_counter()
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        start_new_session=True,
        check=True,
    )
    return time.perf_counter() - began


async def called(registry: ToolRegistry, command: str | list[str]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    result = await registry.call("shell", {"command": command})
    assert result.metadata["exit_code"] == 0, result.text
    return time.perf_counter() - began


def registry_in(folder: str, sandbox: str) -> ToolRegistry:
    """A registry with the tools, without approvals."""
    registry = plugin_registry("shell", settings={"shell": {"root": folder, "sandbox": sandbox}})
    registry.permissions = Permissions(mode="bypass")
    return registry


async def race(rounds: int, ours: Callable[[], Awaitable[float]], floor: Callable[[], float]) -> tuple[float, float]:
    """The medians of our seconds, and of their ratio to the floor's."""
    await ours()  # warm-up: loads modules, and detects the sandbox
    pairs = [(floor(), await ours()) for _ in range(rounds)]
    return statistics.median(own for _, own in pairs), statistics.median(own / other for other, own in pairs)


async def measured(rounds: int) -> list[tuple[str, float, float]]:
    """Label, seconds, and ratio to the bare process of each command."""
    with tempfile.TemporaryDirectory() as folder:
        plain, box = registry_in(folder, "none"), Sandbox("workspace-write")
        rows: list[tuple[str, Any, Any, list[str]]] = [
            ("a program that does nothing", plain, ["true"], ["true"]),
            ("a line that does nothing", plain, "true", ["/bin/bash", "-c", "true"]),
            ("a line that writes 1 MiB", plain, "head -c 1048576 /dev/zero | tr '\\0' x", []),
        ]
        if box.obstacle is None:
            walls = box.wrap(["/bin/bash", "-c", "true"], folder, folder)
            rows.append(("a line in the sandbox", registry_in(folder, "workspace-write"), "true", walls))
        found = []
        for label, registry, command, floor in rows:
            beside = floor or ["/bin/bash", "-c", command]
            seconds, ratio = await race(
                rounds, lambda r=registry, c=command: called(r, c), lambda b=beside: bare(b, folder)
            )
            found.append((label, seconds, ratio))
        return found


def main() -> int:
    """Measures, and prints rows of a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    print("| command | ms | x the bare process |\n| --- | --- | --- |")
    for label, seconds, ratio in asyncio.run(measured(options.rounds)):
        print(f"| {label} | {seconds * 1_000:.2f} | {ratio:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
