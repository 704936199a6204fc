"""What importing a plugin costs: the modules that come with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, Final

from pegboard.testing.notebook import Notebook
from pegboard.testing.subject import Subject

HEAVY: Final = (
    "PIL",
    "aiohttp",
    "anthropic",
    "boto3",
    "cattrs",
    "httpx",
    "jsonschema",
    "matplotlib",
    "numpy",
    "openai",
    "pandas",
    "pydantic",
    "requests",
    "scipy",
    "sklearn",
    "sqlalchemy",
    "tensorflow",
    "torch",
    "transformers",
)
"""Packages that take a tenth of a second and more, or megabytes, and that a plugin needs at a call, not before."""

_SECONDS: Final = 60.0
_SCRIPT: Final = """
import sys, json, importlib
from pegboard import Tool, ToolRegistry, hookimpl, tool
before = set(sys.modules)
try:
    importlib.import_module(sys.argv[1])
except BaseException as error:
    answer = {"cause": f"{type(error).__name__}: {error}"}
else:
    answer = {"modules": sorted(set(sys.modules) - before)}
sys.__stdout__.write("\\n" + json.dumps(answer) + "\\n")
"""


def check_budget(
    subject: Subject, notebook: Notebook, *, heavy: Iterable[str] = HEAVY, most_modules: int | None = None
) -> None:
    """Imports the plugin's module in a fresh process and counts what came with it beyond pegboard.

    Args:
        subject: The plugin; an object has no module to import, and a module that a fresh process doesn't find can't
            be measured.
        notebook: Gets the findings.
        heavy: Packages that importing the plugin must not load.
        most_modules: How many modules it may load, its own included; `None` sets no limit.
    """
    heavy = tuple(heavy)
    if subject.module is None or (not heavy and most_modules is None):
        return
    answer = _imported(subject.module)
    if "cause" in answer:
        notebook.note(f"its import couldn't be measured in a process of its own: {answer['cause']}")
        return
    loaded: list[str] = answer["modules"]
    for package in heavy:
        if package in loaded:
            notebook.finding(
                f"importing {subject.module} loads {package!r}, which is heavy and delays everybody else's tools: "
                f"import it inside the function that needs it, or pass heavy=... without it"
            )
    if most_modules is not None and len(loaded) > most_modules:
        notebook.finding(
            f"importing {subject.module} loads {len(loaded)} modules, more than {most_modules}: "
            "import at use what a call needs"
        )


def _imported(module: str) -> dict[str, Any]:
    """`{"modules": [...]}`, or `{"cause": ...}` where it couldn't be imported."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        done = subprocess.run(  # noqa: S603  this interpreter, a module that is imported here already
            [sys.executable, "-c", _SCRIPT, module],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
        return json.loads(done.stdout.rstrip("\n").rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        return {"cause": f"it took longer than {_SECONDS:g} s"}
    except ValueError:
        return {"cause": "the process ended while it was imported"}
