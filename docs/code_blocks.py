"""Runs the code blocks of README and docs: `PYTHONPATH=docs pytest -p code_blocks README.md docs`.

Python blocks of one page share their names. In a console block each `$ ` line is run by bash, in a folder that the
page's blocks share, and must succeed; its output must be the text below it, where `...` matches anything.
Blocks in TOML and others with a file name in their first line (`# pegboard.toml`) are written to that file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parents[1]


def run_console(example: Example) -> str | None:
    """Runs the commands; gives the differences in their output."""
    commands: list[tuple[str, str]] = []
    for line in example.parsed.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], ""))
        else:
            command, wanted = commands.pop()
            commands.append((command, f"{wanted}{line}\n"))
    for command, wanted in commands:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=example.namespace["folder"],
            env=example.namespace["environment"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if wanted and not OutputChecker().check_output(wanted, done.stdout, ELLIPSIS | NORMALIZE_WHITESPACE):
            return f"$ {command}\nwanted:\n{wanted}\nfound:\n{done.stdout}{done.stderr}"
        if done.returncode and not wanted:
            return f"$ {command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
    return None


def write_file(example: Example) -> None:
    """Writes a block whose first line names a file."""
    first, _, rest = example.parsed.partition("\n")
    if first.startswith("# ") and "." in first and " " not in first[2:]:
        path = Path(example.namespace["folder"], first[2:])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rest, encoding="utf-8")


def set_up(namespace: dict[str, object]) -> None:
    """A folder and an environment of the page's own."""
    folder = TemporaryDirectory()
    home = Path(folder.name, "home")
    home.mkdir()
    namespace["_temporary"] = folder
    namespace["_before"] = Path.cwd()
    namespace["folder"] = folder.name
    namespace["environment"] = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "PEGBOARD_BLOCK": "agents,mcp,memory,search,shell,skills,web,weather-example",  # their tools, and what they say, would be in each listing
        "PEGBOARD_CHECKOUT": str(ROOT),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_STATE_HOME": str(home / ".state"),
    }
    os.chdir(folder.name)


def tear_down(namespace: dict[str, object]) -> None:
    """Takes the folder away."""
    os.chdir(namespace["_before"])
    namespace["_temporary"].cleanup()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--first-example`: of each page only what its first example needs, and that."""
    parser.addoption("--first-example", action="store_true", help="run each page up to its first visible example")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what follows the first example that is shown and isn't skipped, with the hidden code behind it."""
    if config.getoption("first_example"):
        texts = [each.example.document.text[each.example.region.start :] for each in items]  # pyright: ignore[reportAttributeAccessIssue]
        is_shown = [text.startswith(("```python", "```console")) for text in texts]
        skipped = {number + 1 for number, text in enumerate(texts) if text.startswith("<!-- skip")}
        first = next((number for number, shown in enumerate(is_shown) if shown and number not in skipped), len(items))
        hidden = takewhile(lambda text: text.startswith("<!-- invisible"), texts[first + 1 :])
        del items[first + 1 + len([*hidden]) :]


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(),
        CodeBlockParser("console", run_console),
        CodeBlockParser("toml", write_file),
        SkipParser(),
    ],
    path=str(ROOT),
    patterns=["*.md"],
    setup=set_up,
    teardown=tear_down,
).pytest()
