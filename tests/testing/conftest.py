"""Plugin packages that are installed by a test."""

from __future__ import annotations

import sys

import pytest

from installed import install, write
from pegboard.testing import probe_plugins


@pytest.fixture
def site(tmp_path, monkeypatch):
    """`site(name, code)` installs a package with one plugin ahead of all others, and returns its module's name."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    made: list[str] = []

    def add(name: str, code: str, *, more: str = "") -> str:
        module = f"{name}_installed"
        made.append(module)
        write(folder / f"{module}.py", code)
        record = f"{module}.py,,\n{module}.pegboard-manifest.json,,\n" if more else f"{module}.py,,\n"
        if more:
            write(folder / f"{module}.pegboard-manifest.json", more)
        install(folder, f"dist-{name}", "1.0", f"[pegboard]\n{name} = {module}\n", record=record)
        return module

    add.folder = folder
    yield add
    for module in made:
        sys.modules.pop(module, None)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Lets a plugin take longer to load than a user would wait: the machine may be busy."""
    for module in ("check", "calls"):
        monkeypatch.setattr(f"pegboard.testing.{module}.LOAD_SECONDS", 120.0)
    monkeypatch.setitem(probe_plugins.__kwdefaults__, "seconds", 120.0)
