"""Price of pegboard-lock: a resolution of 1,000 unchanged tools with a lock, beside one without, in one run.

    python benchmarks/locked.py

prints the processor time of a resolution without the plugin, and with it once the lock is parsed and the digests of the
code are known, each the least of many rounds that alternate, and the difference.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from pegboard import Config, Origin, Tool, ToolRegistry, register_plugin
from pegboard_lock import Comparison, Lock, LockPlugin, Present, lock_of, write_lock

TOOLS, ROUNDS = 1_000, 60


def tools() -> list[Tool]:
    """Tools of a plugin, with the code of an installed distribution."""
    origin = Origin("lock", "pegboard-lock", "0.3")
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}}}
    made = (Tool.from_schema(f"tool_{number}", schema) for number in range(TOOLS))
    return [each.evolve(origin=origin) for each in made]


def registries(folder: Path) -> dict[str, ToolRegistry]:
    """One without a lock, and one with it."""
    every = tools()
    plain, locked = ToolRegistry(), ToolRegistry()
    file = folder / "pegboard.lock"
    locked.contributions.config = Config(lock={"file": str(file)})
    register_plugin(locked, LockPlugin, "lock")
    for registry in (plain, locked):
        registry.register(*every)
    write_lock(file, lock_of(Comparison(Lock(), folder), Present(locked.tools())), whole=True)
    return {"without": plain, "with": locked}


async def measure(folder: Path) -> dict[str, float]:
    """Milliseconds of processor time of a resolution in each way, the least."""
    made = registries(folder)
    least = dict.fromkeys(made, float("inf"))
    for _ in range(ROUNDS):
        for name, registry in made.items():
            began = time.process_time()
            resolved = await registry.resolve()
            least[name] = min(least[name], (time.process_time() - began) * 1_000)
            assert (len(resolved), resolved.problems) == (TOOLS, ())
    return least


def main() -> None:
    """Prints a row for each way, and the difference."""
    with tempfile.TemporaryDirectory() as folder:
        least = asyncio.run(measure(Path(folder).resolve()))
    for name, milliseconds in least.items():
        print(f"{TOOLS:,} tools {name} a lock: {milliseconds:.2f} ms")
    print(f"the check: {least['with'] - least['without']:.2f} ms")


if __name__ == "__main__":
    main()
