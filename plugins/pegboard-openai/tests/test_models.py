"""What names of models and addresses of servers tell."""

from __future__ import annotations

import pytest

from fake_vendors import Call, Round
from pegboard import ModelConfig, ModelRequest
from pegboard_openai import OpenAIChatModel, OpenAIModel
from pegboard_openai.client import chat_exporter, searches, server_exporter


@pytest.mark.parametrize(
    "name", ["gpt-5.4", "gpt-5.4-mini", "gpt-5.10", "gpt-6", "gpt-5.5-2026-01-01", "ft:gpt-5.4:me::1"]
)
def test_models_from_gpt_5_4_on_search_by_themselves(name):
    assert searches(name)
    assert OpenAIModel(name, api_key="x").loads_deferred is True
    assert OpenAIModel(name, api_key="x", loads_deferred=False).loads_deferred is False
    assert OpenAIChatModel(name, api_key="x").loads_deferred is False


@pytest.mark.parametrize("name", ["gpt-5", "gpt-5.3", "gpt-4o", "gpt-4.1", "o3", "my-gpt-5.4", "gpt-", "", "ft:"])
def test_other_models_do_not(name):
    assert not searches(name)
    assert OpenAIModel(name, api_key="x").loads_deferred is False
    assert OpenAIModel(name, api_key="x", loads_deferred=True).loads_deferred is True


@pytest.mark.parametrize(
    "url", ["https://api.openai.com/v1/", "https://eu.api.openai.com/v1", "https://a.openai.azure.com"]
)
def test_openais_own_api_gets_all_that_it_knows(url):
    assert chat_exporter(url).custom_tools


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/v1", "https://notopenai.com", "https://openai.com.evil.test", "", "x"]
)
def test_other_servers_get_what_all_know(url):
    exporter = chat_exporter(url)
    assert (exporter.name, exporter.custom_tools, exporter.most_tokens) == ("openai", False, "max_tokens")
    assert exporter is server_exporter()


def test_a_turn_at_another_server(chat, board):
    request = ModelRequest("Hi", config=ModelConfig(max_output_tokens=9))
    call = Round(calls=[Call("run", {"input": "ls"})])
    played = chat.play([call, Round(text="Hi.")], request, board, facts={"exporter": None})
    assert played.bodies[0]["max_tokens"] == 9
    assert {tool["type"] for tool in played.bodies[0]["tools"]} == {"function"}
    assert played.results == [("call_1_0", "ran ls")]
