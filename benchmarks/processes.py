"""Timing whole processes, each beside bare Python before and after it."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen


@frozen
class Command:
    """A process to time.

    Attributes:
        argv: What runs.
        bare: The interpreter whose bare start it is held against.
        env: Its environment.
        before: Done before each run, untimed.
        most: In how many rounds it runs at most; slow ones run less often.
    """

    argv: tuple[str | Path, ...]
    bare: Path
    env: Mapping[str, str]
    before: Callable[[], object] | None = None
    most: int = 1000


class FailedError(Exception):
    """A measured process has failed: its figure would mean nothing."""


def run_timed(argv: Sequence[str | Path], env: Mapping[str, str]) -> tuple[float, float]:
    """Processor and wall milliseconds of a process and of those that it waited for; its output goes to a file.

    Raises:
        FailedError: It didn't end well.
    """
    with open(os.devnull, "rb") as nothing, (Path(env["HOME"]) / "output").open("wb") as output:  # noqa: PTH123
        started = time.perf_counter()
        process = subprocess.Popen(argv, stdin=nothing, stdout=output, stderr=subprocess.PIPE, env=env)
        assert process.stderr is not None
        complaint = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise FailedError(f"{' '.join(map(str, argv))}: {complaint.decode(errors='replace')[-2000:]}")
    return (used.ru_utime + used.ru_stime) * 1e3, wall * 1e3


def race(commands: Mapping[str, Command], rounds: int) -> dict[str, dict[str, float]]:
    """Runs all commands in turns, each between two bare starts.

    Returns:
        By label the medians: `cpu_ms`, `wall_ms`, `bare_ms` (CPU), `over_ms` (CPU over bare), `x_bare`, and
        `over_bare`: what comes on top of the bare start, in bare starts.
    """
    samples: dict[str, list[dict[str, float]]] = {label: [] for label in commands}
    for number in range(rounds):
        for label, command in commands.items():
            if number < command.most:
                samples[label].append(_beside_bare(command))
    return {label: medians(found) for label, found in samples.items()}


def _beside_bare(command: Command) -> dict[str, float]:
    bare = [command.bare, "-c", "pass"]
    before, _ = run_timed(bare, command.env)
    if command.before is not None:
        command.before()
    cpu, wall = run_timed(command.argv, command.env)
    after, _ = run_timed(bare, command.env)
    start = (before + after) / 2
    return {
        "cpu_ms": cpu,
        "wall_ms": wall,
        "bare_ms": start,
        "over_ms": cpu - start,
        "x_bare": cpu / start,
        "over_bare": cpu / start - 1,
    }


def medians(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The median of each number over the samples, at any depth; of anything else the last."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for sample in samples for key in sample):
        values = [sample[key] for sample in samples if key in sample]
        if isinstance(values[0], Mapping):
            found[key] = medians(values)
        elif isinstance(values[0], int | float):
            found[key] = statistics.median(values)
        else:
            found[key] = values[-1]
    return found
