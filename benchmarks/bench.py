"""Configuration of a benchmark run, and the groups that are measured inside one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, field, frozen
from figures import FLOOR, OURS
from processes import FailedError, medians

STARTED = time.monotonic()
ALONE = ("laden", "parts", "keyed", "lasting", "processed", "searched")
"""Groups without peers: none of them has the feature, or only the growth matters, and takes minutes."""
INSIDE = Path(__file__).resolve().parent / "inside"
ADAPTERS = INSIDE / "adapters"


@frozen
class Sizes:
    """Sizes of a run.

    Attributes:
        inside: The size of each group that runs in one process (see `inside/measure.py`).
        repeated: The number of runs of each of them.
        starts: The number of starts of each small program.
        commands: The number of starts of each command.
        many: The number of plugins in the large folder, and of tools in each.
        files: The number of files that file tools search, and how often.
    """

    inside: Mapping[str, int]
    repeated: Mapping[str, int]
    starts: int
    commands: int
    many: tuple[int, int]
    files: tuple[int, int]


FULL = Sizes(
    {
        "define": 1000,
        "traced": 400,
        "resident": 1000,
        "half": 10_000,
        "call": 60,
        "laden": 60,
        "parts": 60,
        "check": 60,
        "flood": 1000,
        "dispatch": 1000,
        "keyed": 10_000,
        "process": 30,
        "refuse": 20,
        "lasting": 1_000_000,
        "export": 10_000,
        "processed": 40,
        "searched": 10_000,
    },
    {
        "define": 2,
        "traced": 1,
        "resident": 1,
        "half": 1,
        "call": 3,
        "laden": 3,
        "parts": 3,
        "check": 2,
        "flood": 3,
        "dispatch": 3,
        "keyed": 1,
        "process": 2,
        "refuse": 1,
        "lasting": 1,
        "export": 1,
        "processed": 2,
        "searched": 1,
    },
    starts=4,
    commands=15,
    many=(500, 20),
    files=(100_000, 3),
)
QUICK = Sizes(
    {
        "define": 100,
        "traced": 100,
        "resident": 100,
        "half": 500,
        "call": 8,
        "laden": 5,
        "parts": 5,
        "check": 5,
        "flood": 100,
        "dispatch": 100,
        "keyed": 1000,
        "process": 3,
        "refuse": 3,
        "lasting": 2000,
        "export": 500,
        "processed": 5,
        "searched": 500,
    },
    dict.fromkeys(FULL.repeated, 1),
    starts=1,
    commands=1,
    many=(7, 4),
    files=(1_000, 1),
)


@frozen
class Bench:
    """One run.

    Attributes:
        pythons: Interpreters by name; pegboard's is there, and bare Python runs on it.
        sizes: The sizes of the run.
        scratch: A folder for homes and plugins, removed afterwards.
        env: The environment of the measured processes.
    """

    pythons: Mapping[str, Path]
    sizes: Sizes
    scratch: Path
    env: Mapping[str, str] = field(init=False, default=Factory(lambda self: self._clean(), takes_self=True))

    def _clean(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        home = self.new_home("home")
        quiet = {"LLM_USER_PATH": home, "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        return {**kept, **quiet, "HOME": home, "PYTHONHASHSEED": "0"}

    @property
    def ours(self) -> Path:
        """pegboard's interpreter."""
        return self.pythons[OURS]

    def new_home(self, name: str) -> str:
        """An empty folder for `HOME`."""
        home = self.scratch / "homes" / name
        home.mkdir(parents=True)
        return str(home)

    def adapters(self, group: str) -> Iterator[tuple[str, Path, Path]]:
        """Name, interpreter and file of each adapter of a group, bare Python first."""
        yield FLOOR, self.ours, ADAPTERS / "floor.py"
        for name, python in self.pythons.items():
            if name == OURS or group not in ALONE:
                yield name, python, ADAPTERS / f"{name}.py"

    def inside(self, groups: Sequence[str]) -> dict[str, Any]:
        """Measures groups, each in a fresh process; the adapters take turns.

        A group that fails is left out.
        """
        samples: dict[str, dict[str, list[Any]]] = {group: {} for group in groups}
        for number in range(max((self.sizes.repeated[group] for group in groups), default=0)):
            for group in [group for group in samples if number < self.sizes.repeated[group]]:
                try:
                    for name, found in self._measured(group):
                        samples[group].setdefault(name, []).append(found)
                except FailedError as error:
                    tell(f"{group} is left out, it failed: {str(error).strip().splitlines()[-1]}")
                    del samples[group]
        return {group: {name: medians(each) for name, each in of.items()} for group, of in samples.items()}

    def _measured(self, group: str) -> Iterator[tuple[str, Any]]:
        for name, python, adapter in self.adapters(group):
            tell(f"{group} {name}")
            argv = [python, INSIDE / "measure.py", adapter, group, str(self.sizes.inside[group])]
            done = subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found = json.loads(done.stdout.splitlines()[-1])
                if found is not None:  # supported by the adapter
                    yield name, found
            elif name in (OURS, FLOOR):
                raise FailedError(done.stderr)
            else:
                tell(f"left out, it failed: {done.stderr.strip().splitlines()[-1]}")


def namespace_of(adapter: Path) -> dict[str, Any]:
    """The namespace of an adapter file, which imports its package only on use."""
    space: dict[str, Any] = {}
    exec(compile(adapter.read_text(), str(adapter), "exec", dont_inherit=True), space)
    return space


def tell(text: str) -> None:
    """Prints the progress of the run."""
    print(f"{time.monotonic() - STARTED:4.0f} s  {text}", file=sys.stderr, flush=True)
