"""Plugin packages that tests install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from installed import GREETER, SECONDS, install, write
from pegboard.plugins import discovery, load
from pegboard.plugins.manifest import manifest_path, write_manifest
from pegboard.testing import probe_plugins


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The only folder where plugins are found; `site(name, code)` installs one there, without a manifest."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PEGBOARD_BLOCK", raising=False)
    monkeypatch.delenv("PEGBOARD_AUTOLOAD", raising=False)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setitem(load.load.__kwdefaults__, "seconds", SECONDS)
    real = discovery.discover
    for module in (discovery, load):
        monkeypatch.setattr(module, "discover", lambda: real([str(folder)]))
    made: set[str] = set()

    def add(name: str, code: str | None = None, *, version: str = "1.0") -> None:
        module = f"{name}_made_up"
        made.add(module)
        write(folder / f"{module}.py", GREETER.format(name=f"greet_{name}") if code is None else code)
        install(folder, f"dist-{name}", version, f"[pegboard]\n{name} = {module}\n", record=f"{module}.py,,\n")

    def write_manifests() -> None:
        for found, manifest in list(probe_plugins(discovery.discover().entries, {}, seconds=SECONDS)):
            path = manifest_path(found)
            write_manifest(path, [manifest])
            record = Path(found.location) / "RECORD"
            record.write_text(f"{record.read_text()}{path.name},,\n")

    add.folder, add.write_manifests = folder, write_manifests
    yield add
    for module in made:
        sys.modules.pop(module, None)
