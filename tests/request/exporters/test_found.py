"""Exporters are found by name: registered ones, built-in ones, those of plugins that sleep."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pegboard import ToolRegistry
from pegboard.errors import ExportError
from pegboard.request.exporter import Exporter
from pegboard.request.exporters.builtin import EXPORTERS
from pegboard.request.exporters.mcp import MCP
from pegboard.sleeper import Sleeper


@pytest.mark.parametrize("name", sorted(EXPORTERS))
def test_each_built_in_exporter_is_one_and_knows_its_name(name):
    exporter = ToolRegistry().exporter(name)

    assert isinstance(exporter, Exporter)
    assert exporter.name == name
    assert ToolRegistry().exporter(name) is exporter


def test_a_registered_one_stands_before_a_built_in_one():
    registry, mine = ToolRegistry(), MCP()
    registry.add("exporters", "openai", mine)

    assert registry.exporter("openai") is mine


def test_an_unknown_name_is_refused_with_near_misses():
    with pytest.raises(ExportError, match="Did you mean 'gemini'") as caught:
        ToolRegistry().exporter("gemnii")

    assert all(name in str(caught.value) for name in EXPORTERS)


def test_what_is_registered_has_to_be_one():
    registry = ToolRegistry()
    registry.add("exporters", "mine", object())

    with pytest.raises(ExportError, match="what is registered is no exporter"):
        registry.exporter("mine")


class TestSleepers:
    def sleeping(self, hooks):
        registry, mine, woken = ToolRegistry(), MCP(), []

        def wake():
            woken.append("mine")
            registry.add("exporters", "mine", mine)

        registry.expect("plugin", Sleeper(frozenset(hooks), wake))
        return registry, mine, woken

    def test_one_that_brings_exporters_is_woken_once(self):
        registry, mine, woken = self.sleeping(["register_exporters"])

        assert registry.exporter("mine") is mine
        assert registry.exporter("mine") is mine
        assert woken == ["mine"]

    def test_none_is_woken_for_a_built_in_name(self):
        registry, _, woken = self.sleeping(["register_exporters"])

        registry.exporter("mcp")

        assert woken == []

    def test_one_that_brings_none_sleeps_on(self):
        registry, _, woken = self.sleeping(["register_tools"])

        with pytest.raises(ExportError):
            registry.exporter("mine")
        assert woken == []


def test_only_the_exporter_that_is_used_is_imported():
    code = (
        "import sys; from pegboard.request.exporters.builtin import EXPORTERS; EXPORTERS['mcp'](); "
        "print(*[name for name in sys.modules if name.startswith('pegboard.request.exporters.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    packages = {name.split(".")[3] for name in done.stdout.split()}

    assert "mcp" in packages
    assert not packages & {"gemini", "ollama", "anthropic", "bedrock", "openai_chat", "openai_responses", "llm_listing"}
