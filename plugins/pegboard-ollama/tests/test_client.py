"""What Ollama's models do beyond the contract: the server's models are listed."""

from __future__ import annotations

import httpx
import pytest
from ollama import AsyncClient

from pegboard import ModelError
from pegboard_ollama import OllamaModel


async def test_where_no_server_answers_the_error_says_where_and_what_to_do():
    def refused(request):
        raise httpx.ConnectError("All connection attempts failed")

    client = AsyncClient(host="http://me:word@ollama.example:1234", transport=httpx.MockTransport(refused))
    said = r"at http://ollama.example:1234: start it \('ollama serve'\), or set OLLAMA_HOST \(All connection"
    with pytest.raises(ModelError, match=said) as caught:
        await OllamaModel("-", client=client).models()
    assert caught.value.retryable
