"""Makes folders of plugin distributions, to be put on `PYTHONPATH`: what the listings are measured with."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
from pathlib import Path

from attrs import frozen

_MODULE = '''"""Plugin number {number}."""

from typing import Annotated, Literal

import attrs

from pegboard import hookimpl, tool


@attrs.frozen
class Condition:
    """What every order has to meet.

    Attributes:
        column: The column that is looked at.
        test: How it is compared.
        value: With what.
    """

    column: str
    test: Literal["is", "above", "below"]
    value: float


@attrs.frozen
class Orders:
    """What was found."""

    text: str
    count: int
    rows: list[str]

{functions}

@hookimpl
def pegboard_register_tools(register):
    for name, thing in list(globals().items()):
        if name.startswith("find_"):
            register(thing)
'''
_FUNCTION = '''
@tool(read_only=True, tags=["orders"])
def find_{number:03d}_{index:03d}(
    text: str,
    most: int = 10,
    match: Literal["any", "all", "exact"] = "any",
    conditions: list[Condition] | None = None,
) -> Orders:
    """Find the orders that a text speaks of, in book {index} of house {number}.

    Args:
        text: What to look for, in plain words.
        most: How many orders to give at most.
        match: How the words of the text are matched.
        conditions: What every order has to meet.
    """
    return Orders(text, most, [])
'''
_WRITE_MANIFESTS = """
import sys
from pegboard.testing import discover
from pegboard.testing import load_plugin
from pegboard.plugins.manifest import manifest_path, write_manifest
from pegboard.testing import manifest_of

for found in discover().entries:
    if found.name.startswith("measured"):
        loaded = load_plugin(found.origin, found.load(), {})
        assert not loaded.faults, loaded.faults
        write_manifest(manifest_path(found), [manifest_of(loaded)])
"""


@frozen
class Site:
    """A folder of plugin distributions.

    Attributes:
        folder: For `PYTHONPATH`.
        plugins: How many there are.
        tools: How many tools they bring together.
        manifests: Whether their packages carry manifests.
    """

    folder: Path
    plugins: int
    tools: int
    manifests: bool


def make_site(folder: Path, python: Path, *, plugins: int, tools: int, manifests: bool) -> Site:
    """Writes the packages, their metadata and manifests, as an installer leaves them: compiled, with RECORD.

    Args:
        folder: Made anew.
        python: pegboard's; it writes the manifests, as `registry manifest write` does.
        plugins: How many distributions.
        tools: How many tools each brings.
        manifests: Whether the packages carry manifests.
    """
    folder.mkdir(parents=True)
    for number in range(plugins):
        functions = "".join(_FUNCTION.format(number=number, index=index) for index in range(tools))
        package = folder / f"measured_{number:03d}"
        package.mkdir()
        package.joinpath("__init__.py").write_text(_MODULE.format(number=number, functions=functions))
        _write_metadata(folder, number)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    if manifests:
        subprocess.run([python, "-c", _WRITE_MANIFESTS], env=environment, check=True)
    subprocess.run([python, "-m", "compileall", "-q", folder], check=True)
    for number in range(plugins):
        _write_record(folder, number)
    return Site(folder, plugins, plugins * tools, manifests)


def _metadata_folder(folder: Path, number: int) -> Path:
    return folder / f"measured_{number:03d}-1.0.dist-info"


def _write_metadata(folder: Path, number: int) -> None:
    metadata = _metadata_folder(folder, number)
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: measured-{number:03d}\nVersion: 1.0\nRequires-Dist: pegboard\n"
    )
    metadata.joinpath("INSTALLER").write_text("benchmarks\n")
    metadata.joinpath("entry_points.txt").write_text(f"[pegboard]\nmeasured_{number:03d} = measured_{number:03d}\n")


def _write_record(folder: Path, number: int) -> None:
    metadata = _metadata_folder(folder, number)
    record = metadata / "RECORD"
    files = [*folder.glob(f"measured_{number:03d}/**/*"), *metadata.iterdir()]
    lines = [_record_line(folder, file) for file in sorted(files) if file.is_file() and file != record]
    record.write_text("".join([*lines, f"{record.relative_to(folder)},,\n"]))


def _record_line(folder: Path, file: Path) -> str:
    if "__pycache__" in file.parts:
        return f"{file.relative_to(folder)},,\n"
    content = file.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{file.relative_to(folder)},sha256={digest},{len(content)}\n"
