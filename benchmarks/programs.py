"""Whole programs: what importing costs, and what it loads."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from bench import ADAPTERS, INSIDE, Bench, namespace_of, tell
from figures import OURS
from processes import Command, race

HEAVY = (
    "asyncio",
    "attr",
    "cattrs",
    "click",
    "hashlib",
    "importlib.metadata",
    "importlib_metadata",
    "json",
    "jsonschema",
    "jsonschema_rs",
    "pluggy",
)
_FIRST_CALL = str(INSIDE / "first_call.py")


def starts(bench: Bench) -> dict[str, Any]:
    """By name: `import`, the statement after which one can define and call; `first call`, a program that does."""
    commands = {f"{OURS}/alone": Command((bench.ours, "-c", "import pegboard"), bench.ours, bench.env)}
    for name, python, adapter in bench.adapters("start"):
        statement = (python, "-c", namespace_of(adapter)["IMPORT"])
        commands[f"{name}/import"] = Command(statement, python, bench.env)
        commands[f"{name}/first call"] = Command((python, _FIRST_CALL, str(adapter)), python, bench.env)
    tell("start")
    found: dict[str, Any] = {}
    for label, each in race(commands, bench.sizes.starts).items():
        name, what = label.split("/")
        found.setdefault(name, {})[what] = each
    return found


def modules(bench: Bench, registry: str, warm: Mapping[str, str]) -> dict[str, Any]:
    """How many modules are loaded by imports and by the command, over bare Python; and which heavy ones.

    Args:
        bench: The run.
        registry: The path of the command.
        warm: An environment in which it has been asked before.
    """
    programs = {
        "`import pegboard`": ("-c", "import pegboard"),
        "`from pegboard import ToolRegistry, tool`": ("-c", "from pegboard import ToolRegistry, tool"),
        "import, define, call once": (_FIRST_CALL, str(ADAPTERS / f"{OURS}.py")),
        "`registry list --json`, warm": (registry, "list", "--json"),
        "`registry --help`": (registry, "--help"),
    }
    bare = _loaded(bench, ("-c", "pass"), warm)
    return {what: _counted(_loaded(bench, program, warm) - bare) for what, program in programs.items()}


def _loaded(bench: Bench, program: Sequence[str], env: Mapping[str, str]) -> set[str]:
    argv = [bench.ours, "-X", "importtime", *program]
    done = subprocess.run(argv, env=env, check=True, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def _counted(names: set[str]) -> dict[str, Any]:
    return {"modules": len(names), "heavy": [name for name in HEAVY if name in names]}
