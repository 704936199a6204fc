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


async def test_where_no_server_answers_the_error_says_where_and_what_to_do():
    def refused(request):
        raise httpx.ConnectError("All connection attempts failed")

    client = AsyncClient(host="http://me:word@ollama.example:1234", transport=httpx.MockTransport(refused))
    said = r"at http://ollama.example:1234: start it \('ollama serve'\), or set OLLAMA_HOST \(All connection"
    with pytest.raises(ModelError, match=said) as caught:
        await OllamaModel("-", client=client).models()
    assert caught.value.retryable
