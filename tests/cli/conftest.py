"""A temporary home, a function that runs commands in this process, and plugins to run them with."""

from __future__ import annotations

import io
import logging
import os
import sys
from pathlib import Path

import pytest

from cli_demo import DEMO
from installed import OLD, SECONDS, install, write
from pegboard import ToolRegistry, load
from pegboard.cli import session
from pegboard.cli.main import main
from pegboard.plugins.manifest import FILE_NAME, manifest_text
from pegboard.testing import FoundPlugin, discover, probe_plugins

_VARIABLES = (
    "_REGISTRY_COMPLETE",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "PEGBOARD_AUTOLOAD",
)


@pytest.fixture(scope="session")
def others() -> str:
    """The plugins installed in this environment, for `PEGBOARD_BLOCK`."""
    return ",".join(found.name for found in discover().entries)


@pytest.fixture
def home(tmp_path, monkeypatch, others):
    """An empty home with a current folder outside of any project; only the test's own plugins are loaded."""
    folder = tmp_path / "home"
    for name in ("here", "cache", "config", "state"):
        (folder / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    for name in ("cache", "config", "state"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(folder / name))
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PEGBOARD_BLOCK", others)
    monkeypatch.setitem(load.__kwdefaults__, "seconds", SECONDS)
    monkeypatch.chdir(folder / "here")
    return folder


@pytest.fixture
def registry(home, monkeypatch) -> ToolRegistry:
    """An empty registry, used by every command of the test."""
    bare = ToolRegistry()
    monkeypatch.setattr(session, "load_registry", lambda *_: bare)
    return bare


@pytest.fixture
def run(home, capsys):
    """Runs a command line in this process; returns the exit code, standard output and standard error."""

    def run(*argv: str) -> tuple[int, str, str]:
        known = dict(sys.modules)
        path = list(sys.path)
        log, root = logging.getLogger("pegboard"), logging.getLogger()
        logs = list(log.handlers), log.level, list(root.handlers)
        try:
            code = main(list(argv))
        finally:
            sys.path[:] = path
            log.handlers[:] = logs[0]
            log.setLevel(logs[1])
            root.handlers[:] = logs[2]
            for name in sys.modules.keys() - known:
                if name.startswith("pegboard_functions_"):
                    del sys.modules[name]
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def stdin(monkeypatch):
    """Sets what standard input has; `None` closes it."""

    def give(data: bytes | None) -> None:
        monkeypatch.setattr(sys, "stdin", None if data is None else io.TextIOWrapper(io.BytesIO(data)))

    return give


class Site:
    """A folder on `sys.path` with distributions in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add_listed(self, name: str, source: str) -> None:
        """Installs a plugin with a manifest."""
        self.add(name, source, manifest=manifest_of(self.root.with_name(f"{name}-probed"), name, source))

    def add(self, name: str, source: str, *, editable: bool = False, manifest: str | None = None) -> Path:
        """Installs `pegboard-NAME` with the plugin `NAME`, which is the package `NAME_tools`."""
        file = write(self.root / f"{name}_tools" / "__init__.py", source)
        os.utime(file, (OLD, OLD))
        record = None if editable else ""
        if manifest is not None:
            write(file.with_name(FILE_NAME), manifest)
            record = f"{name}_tools/{FILE_NAME},,\n"
        entry_points = f"[pegboard]\n{name} = {name}_tools\n"
        install(self.root, f"pegboard-{name}", "1.0", entry_points, editable=editable, record=record)
        return file


def manifest_of(folder: Path, name: str, source: str) -> str:
    """The manifest of the plugin `NAME`, made by loading its code from another folder."""
    write(folder / f"{name}_tools.py", source)
    sys.path.insert(0, str(folder))
    try:
        found = FoundPlugin(name, f"{name}_tools", None, f"pegboard-{name}", "1.0", str(folder / "x"))
        ((_, manifest),) = probe_plugins([found], {}, seconds=SECONDS)
    finally:
        sys.path.remove(str(folder))
    return manifest_text([manifest])


@pytest.fixture(scope="session")
def demo_manifest(tmp_path_factory) -> str:
    """The manifest of the demo plugin, made once for all tests."""
    return manifest_of(tmp_path_factory.mktemp("demo"), "demo", DEMO)


@pytest.fixture
def empty_site(home, tmp_path, monkeypatch):
    """A folder on `sys.path`."""
    root = tmp_path / "site"
    root.mkdir()
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(root))
    yield Site(root)
    for name in sys.modules.keys() - before:
        if name.endswith("_tools"):
            del sys.modules[name]


EXPORTING = """
from pegboard import hookimpl, tool
from pegboard_clients.listing import MCP

@tool
def count(text: str) -> int:
    "Counts."
    return len(text)

@hookimpl
def pegboard_register_tools(register):
    register(count)

@hookimpl
def pegboard_register_exporters(register):
    print("noise")
    register("mine", MCP())
"""


@pytest.fixture
def bringing(empty_site):
    """A plugin with the exporter `mine`, and a manifest that says so."""
    empty_site.add_listed("mine", EXPORTING)


@pytest.fixture
def site(empty_site, demo_manifest):
    """A folder on `sys.path`, with the distribution `pegboard-demo` in it, which has a manifest."""
    empty_site.add("demo", DEMO, manifest=demo_manifest)
    return empty_site
