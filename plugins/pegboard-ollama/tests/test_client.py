"""What Ollama's models do beyond the contract: the server's models are listed."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from ollama import AsyncClient

from pegboard import ModelError
from pegboard_ollama import OllamaModel


def listed(answer):
    client = AsyncClient(host="http://ollama.example", transport=httpx.MockTransport(lambda request: answer))
    return asyncio.run(OllamaModel("-", client=client).models())


def test_the_models_of_the_server_are_listed():
    assert listed(httpx.Response(200, json={"models": [{"name": "qwen3:8b"}, {"name": "gemma3"}]})) == [
        "qwen3:8b",
        "gemma3",
    ]


@pytest.mark.parametrize("answer", [httpx.Response(500, json={"error": "busy"}), httpx.Response(200, text="<html>")])
def test_a_server_that_can_not_list_them_is_an_error(answer):
    with pytest.raises(ModelError):
        listed(answer)
