"""What the plugin brings, and when it imports what."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pegboard
import pegboard_google
from pegboard.testing import check_plugin
from pegboard_google import GoogleModel


def test_the_plugin_keeps_the_contract():
    """It loads whole, its manifest is true, importing it is cheap."""
    check_plugin("google")


def test_a_registry_gives_the_model_by_its_name():
    registry = pegboard.load()

    model = registry.model("google/gemini-3-pro", api_key="x")

    assert isinstance(model, GoogleModel)
    assert model.name == "gemini-3-pro"


def test_neither_the_sdk_nor_an_exporter_is_imported_before_a_model_is_asked_for():
    code = """
import sys
import pegboard
import pegboard_google.plugin
registry = pegboard.load()
assert "pegboard_google.plugin" in sys.modules
print(sorted(name for name in sys.modules if name.startswith(("google.genai", "pegboard_google.gemini", "httpx"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout == "[]\n"


def test_the_package_has_a_model_and_a_wire():
    assert {"GoogleModel", "Gemini", "GeminiSchema"} <= set(dir(pegboard_google))
    with pytest.raises(AttributeError, match="'GoogleClient'"):
        _ = pegboard_google.GoogleClient
