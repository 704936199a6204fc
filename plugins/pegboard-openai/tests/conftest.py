"""The cases of OpenAI's two models in the contract that every model keeps."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from openai import AsyncOpenAI

import pegboard_openai
from fake_vendors import Page, Reasoning, Search
from fake_vendors.contract.fixtures import *  # noqa: F403  that is what they are for
from fake_vendors.contract.vendor import DEEP, PNG, Deferring, Hosted, Vendor
from fake_vendors.server.script import sse
from pegboard import ModelConfig, Tool
from pegboard_openai.openai_chat import OpenAIChat


@asynccontextmanager
async def client(url, key):
    async with AsyncOpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0) as made:
        yield made


BOTH = {
    "package": pegboard_openai,
    "plugin": "openai",
    "sdk": ("openai", "httpx", "pydantic"),
    "wires": ("openai_",),
    "variables": ("OPENAI_",),
    "model": "gpt-5.4",
    "base": "/v1",
    "client": client,
    "is_closed": lambda made: made.is_closed(),
    "keys": [("api_key", "OPENAI_API_KEY")],
    "odd_options": [{"wieght": 3}, {"workload_identity": {}}],
    "usage": ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"),
    "nulls": {"nights": None},
    "option": (
        {"openai": {"service_tier": "flex", "brand_new": {"a": [1]}, "extra_body": {"newer": 2}}},
        {"service_tier": "flex", "brand_new": {"a": [1]}, "newer": 2},
    ),
    "refused": "refusal",
    "listing": {
        "/v1/models": {
            "object": "list",
            "data": [{"id": name, "object": "model", "created": 0, "owned_by": "x"} for name in ("one", "two")],
        }
    },
    "nonsense": [b"{}", b'{"choices": [], "output": 3}', b"[1, 2]", b"<html>busy</html>", b"null", b"{", *DEEP],
    "frames": [
        *(b"data: [1]\n\n", b'data: "a"\n\n', b"data: 7\n\n", b'data: {"choices": 1}\n\n', b"data: {oops\n\n"),
        *(b"data: [DONE]\n\n", b"<html>"),
    ],
    "permanent": {
        **dict.fromkeys([400, 404, 422], "invalid_request_error"),
        401: "invalid_api_key",
        403: "unsupported_country_region_territory",
    },
    "temporary": {
        **dict.fromkeys([408, 409], "invalid_request_error"),
        429: "rate_limit_exceeded",
        **dict.fromkeys([500, 502, 503, 504, 529], "server_error"),
    },
}
CHAT = Vendor(
    name="chat",
    kind=pegboard_openai.OpenAIChatModel,
    path="openai-chat/gpt-5.4",
    provider="openai",
    # as for OpenAI's own API, wherever the server is
    made={"api_key": "x", "exporter": OpenAIChat(reasoning="reasoning_content")},
    results=[
        {"role": "tool", "tool_call_id": "call_1_0", "content": "It rains in Oslo."},
        {"role": "tool", "tool_call_id": "call_1_1", "content": "Error: The clock has stopped."},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ],
    thoughts=[(Reasoning("I look."), {"reasoning_content": "I look."})],
    choice={"tool_choice": {"type": "function", "function": {"name": "weather"}}},
    form={"name": "final_result", "strict": True},
    strict={"name": "book", "strict": True},
    configured=(
        ModelConfig(max_output_tokens=100, temperature=0.5),
        [{"max_completion_tokens": 100, "temperature": 0.5}],
    ),
    text_after=3,
    calls_after=8,
    begun=sse({"choices": [{"index": 0, "delta": {"content": "Half"}}]}),
    **BOTH,
)
RESPONSES = Vendor(
    name="responses",
    kind=pegboard_openai.OpenAIModel,
    path="openai/gpt-5.4",
    provider="openai-responses",
    results=[
        {"type": "function_call_output", "call_id": "call_1_0", "output": "It rains in Oslo."},
        {"type": "function_call_output", "call_id": "call_1_1", "output": "Error: The clock has stopped."},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    ],
    thoughts=[
        (
            Reasoning("I look outside.", signature="gAAAAAB/+="),
            {
                "type": "reasoning",
                "id": "rs_1",
                "encrypted_content": "gAAAAAB/+=",
                "summary": [{"type": "summary_text", "text": "I look outside."}],
            },
        )
    ],
    choice={"tool_choice": {"type": "function", "name": "weather"}},
    form={"name": "final_result", "strict": True},
    strict={"name": "book", "strict": True},
    hosted=Hosted(
        Tool.provider("web", "openai.web_search"),
        {"type": "web_search"},
        [Search("weather in Oslo", [Page("https://yr.no")])],
        ["call"],
        [{"type": "web_search_call", "id": "ws_1_0", "status": "completed"}],
    ),
    deferring=Deferring([{"type": "tool_search"}]),
    configured=(ModelConfig(max_output_tokens=100, temperature=0.5), [{"max_output_tokens": 100, "temperature": 0.5}]),
    text_after=5,
    calls_after=11,
    begun=sse({"type": "response.output_text.delta", "item_id": "m", "delta": "Half"}),
    **BOTH,
)


@pytest.fixture(params=[CHAT, RESPONSES], ids=str)
def vendor(request):
    return request.param
