"""Ollama's case of the contract that every model keeps."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
from ollama import AsyncClient

import pegboard_ollama
from fake_vendors import Reasoning
from fake_vendors.contract.fixtures import *  # noqa: F403  that is what they are for
from fake_vendors.contract.vendor import DEEP, PNG, Vendor
from pegboard import ModelConfig


@asynccontextmanager
async def client(url, key):
    made = AsyncClient(url, headers={"authorization": f"Bearer {key}"})
    yield made
    await made.close()


OLLAMA = Vendor(
    name="ollama",
    kind=pegboard_ollama.OllamaModel,
    package=pegboard_ollama,
    path="ollama/qwen3:8b",
    provider="ollama",
    plugin="ollama",
    sdk=("ollama", "httpx", "pydantic"),
    wires=("ollama",),
    variables=("OLLAMA_",),
    model="qwen3:8b",
    client=client,
    is_closed=lambda made: made._client.is_closed,
    keys=[("api_key", "OLLAMA_API_KEY")],
    needs_key=False,
    results=[
        {"role": "tool", "tool_name": "weather", "content": "It rains in Oslo."},
        {"role": "tool", "tool_name": "clock", "content": "Error: The clock has stopped."},
        {"role": "tool", "tool_name": "photo", "content": "Look:", "images": [PNG]},
    ],
    usage=("input_tokens", "output_tokens"),
    thoughts=[(Reasoning("Where?"), {"role": "assistant", "thinking": "Where?"})],
    choice={"role": "system", "content": "Answer by calling the tool weather."},
    form={
        "description": "Where to.",
        "type": "object",
        "properties": {"city": {"type": "string"}, "nights": {"type": "integer", "description": "Default: 1."}},
        "required": ["city"],
    },
    strict=None,
    cites=False,
    configured=(
        ModelConfig(max_output_tokens=100, temperature=0.5, reasoning="low"),
        [{"options": {"num_predict": 100, "temperature": 0.5}, "think": "low"}],
    ),
    option=({"ollama": {"keep_alive": "5m"}}, {"keep_alive": "5m"}),
    text_after=2,
    calls_after=1,
    in_pieces=False,
    permanent=dict.fromkeys([400, 401, 404]),
    temporary=dict.fromkeys([429, 500, 503]),
    ids=False,
    permanent_in_streams=False,
    listing={"/api/tags": {"models": [{"name": "one"}, {"name": "two"}]}},
    nonsense=[b"<html>a proxy</html>\n", b"[]", b"5", b"null", b"{", *DEEP],
    frames=[b"<html>a proxy</html>\n"],
    begun=json.dumps({"model": "m", "message": {"role": "assistant", "content": "Half"}}).encode() + b"\n",
    stream_type="application/x-ndjson",
)


@pytest.fixture(params=[OLLAMA], ids=str)
def vendor(request):
    return request.param
