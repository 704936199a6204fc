"""Packages use what is public of the core, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import third_party
from installed import install
from pegboard.plugins.imports import private_uses
from pegboard.testing import plugin_registry

ROOT = Path(__file__).parents[2]
PACKAGES = sorted([*ROOT.glob("plugins/*/src/*/__init__.py"), *ROOT.glob("examples/*/src/*/__init__.py")])


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """A folder in which the third party's plugins are installed, and an empty home."""
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    install(tmp_path / "site", "third-party", entry_points=third_party.ENTRY_POINTS, record=None)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "site"


def test_a_third_partys_plugin_of_each_kind_needs_public_names_only() -> None:
    assert list(private_uses([third_party.__file__], ROOT)) == []


@pytest.mark.usefixtures("site")
async def test_a_third_partys_plugins_of_all_kinds_work() -> None:
    async with plugin_registry(**third_party.KINDS) as registry:
        await third_party.exercise(registry)


@pytest.mark.slow
def test_every_package_works_where_imports_of_private_modules_are_refused(site) -> None:
    """And the third party's command."""
    names = [path.parent.name for path in PACKAGES]
    path = os.pathsep.join([str(site), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "only_public.py"), *names],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout.split()) == (0, ["2", "commands"]), done.stdout + done.stderr
