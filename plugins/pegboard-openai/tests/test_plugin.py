"""Servers of the host's own, by the plugin's settings."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from fake_vendors import ModelServer, Round
from pegboard import ModelRequest, ToolRegistry, register_plugin
from pegboard.errors import ModelError
from pegboard_openai import plugin
from pegboard_openai.settings import Server


def registry_with(**servers):
    registry = ToolRegistry()
    register_plugin(registry, plugin, "openai", settings={"servers": servers} if servers else {})
    return registry


def test_a_name_with_slashes_stays_whole():
    assert registry_with().model("openai-chat/meta/llama", api_key="x").name == "meta/llama"


def test_a_configured_server_is_asked(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")

    async def main(registry):
        async with aclosing(registry.model("local/qwen3")) as model:
            return model, await model.respond(ModelRequest("Hi"))

    with ModelServer([Round(text="Hi.")]) as server:
        model, response = asyncio.run(
            main(registry_with(local={"base_url": f"{server.url}/v1", "reasoning": "thought"}))
        )
    assert (response.text, server.requests[0].body["model"], model.provider) == ("Hi.", "qwen3", "local")
    assert model.exporter.reasoning == "thought"
    assert "sk-mine" not in server.requests[0].headers["authorization"]


def test_a_servers_key_is_in_its_own_variable(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.delenv("LOCAL_KEY", raising=False)
    registry = registry_with(local={"base_url": "http://127.0.0.1:9/v1", "api_key_env": "LOCAL_KEY"})
    with pytest.raises(ModelError, match="LOCAL_KEY"):
        registry.model("local/qwen3")
    monkeypatch.setenv("LOCAL_KEY", "sk-local")
    assert registry.model("local/qwen3").name == "qwen3"
    assert registry.model("local/qwen3", api_key="other").name == "qwen3"


def test_a_servers_key_is_one_that_its_settings_refer_to(monkeypatch):
    monkeypatch.setenv("LOCAL_KEY", "sk-local")

    async def main(registry):
        async with aclosing(registry.model("local/qwen3")) as model:
            await model.respond(ModelRequest("Hi"))

    with ModelServer([Round(text="Hi.")]) as server:
        asyncio.run(main(registry_with(local={"base_url": f"{server.url}/v1", "api_key": {"env": "LOCAL_KEY"}})))
    assert server.requests[0].headers["authorization"] == "Bearer sk-local"
    assert "sk-local" not in repr(Server(base_url="http://x", api_key="sk-local"))


def test_wrong_settings_are_named():
    registry = ToolRegistry()
    record = register_plugin(registry, plugin, "openai", settings={"servers": {"local": {"base_url": "x"}}})
    assert "plugins.openai.servers.local.base_url: must be an address" in str(record)
