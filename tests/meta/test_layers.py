"""Import layers, and the modules that imports load."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCE / "pegboard").rglob("*.py")
    if "template" not in path.parts
)


def test_every_package_is_checked_by_import_linter_and_coverage() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    plugins = [path.parent.name for path in ROOT.glob("plugins/*/src/*/__init__.py")]
    _, one_way = project["importlinter"]["contracts"]
    assert {"pegboard", *plugins} == {*project["importlinter"]["root_packages"]} == {*one_way["ancestors"]}
    folders = [f"plugins/{name.replace('_', '-')}/src" for name in plugins]
    assert {"src/pegboard", *folders} == {*project["coverage"]["run"]["source_dirs"]}


FORK_AND_IMPORT = """
import os, sys
import asyncio, attrs, click, jsonschema_rs  # loaded once, as most modules need them
for name in sys.argv[1:]:
    if os.fork() == 0:
        try:
            __import__(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize("name", ["pegboard.dialects", "pegboard.wire"])
def test_the_old_name_of_a_module_says_what_it_is_called_now(name: str) -> None:
    now = name.replace("pegboard", "pegboard_clients")
    with pytest.raises(ModuleNotFoundError, match=rf"^{name} is now {now}: pip install pegboard-clients$"):
        import_module(f"{name}.anything")


@pytest.mark.slow
def test_every_module_imports_alone() -> None:
    """Each in a process that has loaded nothing of pegboard, so that none relies on earlier imports."""
    names = [name for name in MODULES if not name.endswith("__main__")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_AND_IMPORT, *names], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


OURS = "pegboard.dispatch.permissions pegboard.schema.text_types pegboard.schema.adapters"
FIRST_PROGRAM = """
import asyncio
from pegboard import ToolRegistry, tool
def add(a: int, b: int) -> int:
    "Adds two numbers."
    return a + b
registry = ToolRegistry()
registry.register(tool(add))
assert not asyncio.run(registry.call("add", '{"a": 1, "b": 2}')).is_error
"""
LATE = "approval approve background batch callbacks events executors find operations permissions shared_locks truncate"
"""Parts of dispatch that only some calls need."""


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import pegboard", "asyncio attr attrs cattrs jsonschema jsonschema_rs click pluggy json"),
        (
            "from pegboard import ToolRegistry, tool",
            f"cattrs jsonschema click pluggy importlib.metadata importlib_metadata platformdirs {OURS}",
        ),
        (
            "import pegboard.toolsets.predicates, pegboard.toolsets.expression",
            f"cattrs jsonschema jsonschema_rs click pluggy asyncio {OURS}",
        ),
        (
            "import pegboard.plugins.load, pegboard.cli.commands.look",
            f"asyncio cattrs jsonschema jsonschema_rs pluggy importlib_metadata pegboard.schema.messages {OURS}",
        ),
        (
            FIRST_PROGRAM,
            f"cattrs jsonschema click pluggy fnmatch {' '.join(f'pegboard.dispatch.{name}' for name in LATE.split())}",
        ),
        (
            FIRST_PROGRAM.replace("assert", "registry.add_callback('after_tool', lambda: None)\nassert", 1),
            "pegboard.dispatch.background pegboard.dispatch.batch pegboard.dispatch.approve",
        ),
    ],
)
def test_imports_load_nothing_heavy(statement: str, forbidden: str) -> None:
    """A statement doesn't load the forbidden modules."""
    script = f"import sys\n{statement}\nprint(*[name for name in {forbidden.split()!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_first_program_loads_at_most_216_modules() -> None:
    """One that defines a tool and calls it once; counted in addition to bare Python's."""
    script = f"import sys\nbefore = set(sys.modules)\n{FIRST_PROGRAM}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) <= 216


def test_importing_pegboard_loads_almost_nothing() -> None:
    """The package itself is only a table of names and their lazy lookup."""
    script = "import sys; before = set(sys.modules); import pegboard; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": ""}
    )
    assert done.stdout.split() == ["__future__", "pegboard", "pegboard.lazy"]
