"""What the plugin brings, and what it costs before a model is asked for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import aclosing

import pytest

import pegboard
import pegboard_openai
from fake_vendors import ModelServer, Round
from pegboard import ModelRequest, ToolRegistry, register_plugin
from pegboard.errors import ModelError
from pegboard.testing import check_plugin
from pegboard_openai import OpenAIChatModel, OpenAIModel, plugin


def board(**servers):
    registry = ToolRegistry()
    register_plugin(registry, plugin, "openai", settings={"servers": servers} if servers else {})
    return registry


def test_the_plugin_keeps_the_contract():
    """It loads whole, its manifest is true, importing it is cheap."""
    check_plugin("openai")


def test_the_installed_plugin_is_found_by_its_models():
    registry = pegboard.load(config=pegboard.Config())
    assert isinstance(registry.model("openai/gpt-5.4", api_key="x"), OpenAIModel)
    assert isinstance(registry.model("openai-chat/gpt-5.4", api_key="x"), OpenAIChatModel)


def test_a_name_with_slashes_stays_whole():
    assert board().model("openai-chat/meta/llama", api_key="x").name == "meta/llama"


def test_a_server_of_ones_own(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")

    async def main(registry):
        async with aclosing(registry.model("local/qwen3")) as model:
            return model, await model.respond(ModelRequest("Hi"))

    with ModelServer([Round(text="Hi.")]) as server:
        model, response = asyncio.run(main(board(local={"base_url": f"{server.url}/v1", "reasoning": "thought"})))
    assert (response.text, server.requests[0].body["model"], model.provider) == ("Hi.", "qwen3", "local")
    assert model.exporter.reasoning == "thought"
    assert "sk-mine" not in server.requests[0].headers["authorization"]


def test_a_servers_key_stands_in_its_own_variable(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.delenv("LOCAL_KEY", raising=False)
    registry = board(local={"base_url": "http://127.0.0.1:9/v1", "api_key_env": "LOCAL_KEY"})
    with pytest.raises(ModelError, match="LOCAL_KEY"):
        registry.model("local/qwen3")
    monkeypatch.setenv("LOCAL_KEY", "sk-local")
    assert registry.model("local/qwen3").name == "qwen3"
    assert registry.model("local/qwen3", api_key="other").name == "qwen3"


def test_wrong_settings_are_named():
    registry = ToolRegistry()
    record = register_plugin(registry, plugin, "openai", settings={"servers": {"local": {"base_url": "x"}}})
    assert "plugins.openai.servers.local.base_url: an address is wanted" in str(record)


def test_every_name_is_there_and_nothing_else():
    assert set(pegboard_openai.__all__) <= set(dir(pegboard_openai))
    for name in pegboard_openai.__all__:
        assert getattr(pegboard_openai, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'OpenAI'"):
        _ = pegboard_openai.OpenAI


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_sdk_is_not_imported_before_a_model_is_asked_for():
    script = (
        "import sys, pegboard, pegboard_openai, pegboard_openai.plugin\n"
        "registry = pegboard.load(config=pegboard.Config())\n"
        "try: registry.model('nobody/x')\n"
        "except pegboard.ModelError as error: print('openai-chat' in str(error))\n"
        "heavy = ('openai', 'httpx', 'httpx2', 'pydantic')\n"
        "print([name for name in heavy if name in sys.modules])\n"
        "print([name for name in sys.modules if name.startswith('pegboard_openai.openai_')])\n"
    )
    assert run(script) == "True\n[]\n[]\n"


def test_importing_the_classes_does_not_import_the_sdk():
    script = "import sys, pegboard_openai; pegboard_openai.OpenAIModel, pegboard_openai.OpenAIChatModel; "
    assert run(script + "print('openai' in sys.modules)") == "False\n"
