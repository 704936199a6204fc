"""`registry llm`, and the listing from the cache, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

CODE = """
@llm.hookimpl
def register_tools(register):
    register(lambda: 1, name="one")
    register(Box)

class Box(llm.Toolbox):
    def __init__(self, path: str): ...
"""


@pytest.fixture
def registry(install, tmp_path):
    """Runs the command with two plugins of llm, one broken."""
    install("llm-tools-good", CODE)
    install("llm-tools-bad", "raise OSError('no disk')")
    (tmp_path / "home" / "pegboard").mkdir(parents=True)
    (tmp_path / "home" / "pegboard" / "pegboard.toml").write_text('enable = ["llm"]\n')
    paths = {"PYTHONPATH": str(tmp_path / "site"), "XDG_CONFIG_HOME": str(tmp_path / "home")}

    def registry(*words, python=()):
        command = [sys.executable, *python, "-m", "pegboard", *words]
        return subprocess.run(
            command, env=os.environ | paths, capture_output=True, text=True, cwd=tmp_path, check=False
        )

    return registry


@pytest.mark.slow
def test_the_command_loads_and_lists_packages_and_a_warm_listing_imports_nothing_of_llm(registry):
    done = registry("llm", "--json")
    assert done.returncode == 1
    bad, good = sorted((json.loads(done.stdout)["packages"]), key=lambda each: each["package"])
    assert bad["problems"] == ["OSError: no disk"]
    assert (good["tools"], good["needArguments"], good["problems"]) == (["one"], ["Box"], [])
    assert "0 tools  OSError: no disk" in registry("llm").stdout
    registry("list")
    warm = registry("list", python=("-X", "importtime"))
    assert warm.stdout.startswith("one")
    assert "llm-tools-bad: it can't be loaded: OSError: no disk" in warm.stderr
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in warm.stderr.splitlines() if "|" in line}
    assert "pegboard" in modules
    assert not modules & {"llm", "pegboard_llm", "pluggy", "attrs", "asyncio"}


@pytest.mark.slow
def test_wrong_settings_are_an_error_of_the_command(registry):
    done = registry("llm", "--set", "llm.toolboxes=3")
    assert done.returncode == 2
    assert "plugins.llm.toolboxes has to be a list of texts" in done.stderr
