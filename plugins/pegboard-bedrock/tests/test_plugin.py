"""What the plugin brings, and when it imports what."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pegboard
import pegboard_bedrock
from pegboard.testing import check_plugin
from pegboard_bedrock import BedrockModel


def test_the_plugin_keeps_the_contract():
    """It loads whole, its manifest is true, importing it is cheap."""
    check_plugin("bedrock")


def test_a_registry_gives_the_model_by_its_name():
    registry = pegboard.load()

    model = registry.model("bedrock/m", region_name="eu-central-1")

    assert isinstance(model, BedrockModel)
    assert model.name == "m"


def test_neither_the_sdk_nor_an_exporter_is_imported_before_a_model_is_asked_for():
    code = """
import sys
import pegboard
import pegboard_bedrock.plugin
registry = pegboard.load()
assert "pegboard_bedrock.plugin" in sys.modules
print(sorted(name for name in sys.modules if name.startswith(("boto", "urllib3", "pegboard_bedrock.bedrock"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout == "[]\n"


def test_the_package_has_one_name():
    assert "BedrockModel" in dir(pegboard_bedrock)
    with pytest.raises(AttributeError, match="'Converse'"):
        _ = pegboard_bedrock.Converse
