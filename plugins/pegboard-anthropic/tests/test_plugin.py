"""How the board finds the model, and what that costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pegboard
import pegboard_anthropic
from pegboard.errors import ModelError
from pegboard.testing import check_plugin


def test_the_plugin_keeps_the_contract():
    """It loads whole, its manifest is true, importing it is cheap."""
    check_plugin("anthropic")


def test_the_board_makes_the_model_with_the_hosts_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = pegboard.load().model("anthropic/claude-sonnet-5", api_key="x", loads_deferred=False)
    assert isinstance(model, pegboard_anthropic.AnthropicModel)
    assert (model.name, model.provider, model.loads_deferred) == ("claude-sonnet-5", "anthropic", False)


def test_the_board_passes_on_that_a_key_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="ANTHROPIC_API_KEY"):
        pegboard.load().model("anthropic/claude-sonnet-5")


def run(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


HEAVY = ("anthropic", "httpx2", "pydantic", "asyncio", "pegboard_anthropic.anthropic")
LOADED = f"print([name for name in {HEAVY} if name in sys.modules])"


def test_importing_the_plugin_imports_no_sdk():
    assert run(f"import sys, pegboard_anthropic, pegboard_anthropic.plugin; {LOADED}") == "[]"


def test_listing_plugins_and_tools_imports_no_sdk():
    script = (
        "import sys\nfrom pegboard.__main__ import run\n"
        "for words in (['plugins'], ['list']):\n"
        "    sys.argv = ['registry', *words]\n"
        "    try:\n        run()\n    except SystemExit:\n        pass\n"
        "print('anthropic' in sys.modules)"
    )
    assert run(script).splitlines()[-1] == "False"


def test_importing_the_model_imports_no_sdk():
    assert (
        run("import sys; from pegboard_anthropic import AnthropicModel; print('anthropic' in sys.modules)") == "False"
    )


def test_every_name_is_there_and_nothing_else():
    assert set(pegboard_anthropic.__all__) <= set(dir(pegboard_anthropic))
    for name in pegboard_anthropic.__all__:
        assert getattr(pegboard_anthropic, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'AntropicModel'"):
        _ = pegboard_anthropic.AntropicModel
