"""Counts the processor's instructions of a call, with each of its parts left out. Prints a table of RESULTS.md.

    python benchmarks/instructions.py           # needs valgrind; a minute
    python benchmarks/instructions.py --only path

Instructions are the same on a busy machine and in each run, so the parts add up where times would scatter; but an
instruction of one part may take longer than one of another. Counted by `valgrind --tool=cachegrind --cache-sim=no`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import ADAPTERS, INSIDE
from figures import OURS
from report import table

COUNT = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def counted(python: Path, only: str) -> dict[str, dict[str, float]]:
    """The instructions of one call, in thousands: what is done -> what is left out -> how many.

    Raises:
        RuntimeError: It failed.
    """
    argv = [*COUNT, python, INSIDE / "counted.py", ADAPTERS / f"{OURS}.py", only]
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    totals = {
        process: int(number.replace(",", ""))
        for process, number in re.findall(r"==(\d+)== I\s+refs:\s+([\d,]+)", done.stderr)
    }
    of_process: dict[str, tuple[str, str, int]] = json.loads(done.stdout)
    points: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for process, (what, part, calls) in of_process.items():
        points.setdefault((what, part), []).append((calls, totals[process]))
    found: dict[str, dict[str, float]] = {}
    for (what, part), ((few, first), (many, last)) in points.items():
        found.setdefault(what, {})[part] = (last - first) / (many - few) / 1_000
    return found


def rows(found: dict[str, dict[str, float]]) -> Iterator[tuple[str, str, str, str]]:
    """What is done, what is left out, the instructions, and how many fewer than with nothing left out."""
    for what, each in found.items():
        for part, one in each.items():
            yield what, part, f"{one:.1f}", "" if part == "nothing" else f"{each['nothing'] - one:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="what is done has to have this in its name")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="an interpreter with pegboard")
    asked = parser.parse_args()
    found = counted(asked.python, asked.only)
    print(table(("", "left out", "thousand instructions", "fewer by"), rows(found)), end="")


if __name__ == "__main__":
    main()
