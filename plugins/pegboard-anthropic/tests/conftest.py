"""Anthropic's case of the contract that every model keeps."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anthropic
import pytest

import pegboard_anthropic
from fake_vendors import Page, Reasoning, Search
from fake_vendors.contract.fixtures import *  # noqa: F403  that is what they are for
from fake_vendors.contract.vendor import DEEP, PNG, Deferring, Hosted, Vendor
from fake_vendors.server.script import sse
from pegboard import ModelConfig, Tool

PAGE = Page("https://a.example", "A", "words")
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {}}
FOUND = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "rarely"}],
    },
}


@asynccontextmanager
async def client(url, key):
    async with anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0) as made:
        yield made


def frame(kind, **facts):
    return sse({"type": kind, **facts}, kind)


ANTHROPIC = Vendor(
    name="anthropic",
    kind=pegboard_anthropic.AnthropicModel,
    package=pegboard_anthropic,
    path="anthropic/claude-sonnet-5",
    provider="anthropic",
    plugin="anthropic",
    sdk=("anthropic", "httpx2", "pydantic"),
    wires=("anthropic",),
    variables=("ANTHROPIC_",),
    model="claude-sonnet-5",
    client=client,
    is_closed=lambda made: made.is_closed(),
    keys=[("api_key", "ANTHROPIC_API_KEY"), ("auth_token", "ANTHROPIC_AUTH_TOKEN")],
    odd_options=[{"no_such_option": 1}, {"timeout": 3, "http_client": "no client"}, {"auth_token": "y"}],
    results=[
        {"type": "tool_result", "tool_use_id": "toolu_1_0", "content": "It rains in Oslo."},
        {"type": "tool_result", "tool_use_id": "toolu_1_1", "content": "The clock has stopped.", "is_error": True},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ],
    thoughts=[
        (Reasoning("Hm.", "sig+/="), {"type": "thinking", "thinking": "Hm.", "signature": "sig+/="}),
        (Reasoning(signature="b64+/=", redacted=True), {"type": "redacted_thinking", "data": "b64+/="}),
    ],
    choice={"tool_choice": {"type": "tool", "name": "weather"}},
    form={"type": "json_schema"},
    strict={"name": "book", "strict": True},
    hosted=Hosted(
        Tool.provider("search", "anthropic.web_search_20250305", arguments={"max_uses": 2}),
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
        [Search("oslo", [PAGE])],
        ["call", "result"],
        [{"type": "server_tool_use", "name": "web_search", "input": {"query": "oslo"}}],
    ),
    deferring=Deferring(
        [{"name": "tool_search_tool_bm25"}], [SEARCHED, FOUND], [{"loads_deferred": False}, {"name": "claude-opus-4-1"}]
    ),
    configured=(
        ModelConfig(max_output_tokens=100, stop=("END",), reasoning="low"),
        [{"max_tokens": 100, "stop_sequences": ["END"], "thinking": {"type": "adaptive"}}],
    ),
    option=(
        {"anthropic": {"service_tier": "auto", "not_yet_known": {"a": 1}}},
        {"service_tier": "auto", "not_yet_known": {"a": 1}},
    ),
    refused="refusal",
    listing={
        "/v1/models": {
            "data": [
                {"id": name, "type": "model", "display_name": name, "created_at": "2030-01-01T00:00:00Z"}
                for name in ("one", "two")
            ],
            "has_more": False,
            "first_id": "one",
            "last_id": "two",
        }
    },
    text_after=4,
    calls_after=9,
    permanent={
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
    },
    temporary={429: "rate_limit_error", **dict.fromkeys([500, 502, 503, 504], "api_error"), 529: "overloaded_error"},
    nonsense=[b"[]", b"7", b'"text"', b"{}", b'{"content": 7}', b"no json", b'{"no": "end"', b"<html>", *DEEP],
    frames=[
        b'event: message_start\ndata: {"type": "message_start", "message": 7}\n\n',
        b"event: message_start\ndata: [1, 2]\n\n",
        b'event: no_such_event\ndata: {"type": "no_such_event"}\n\n',
        b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": "x", "delta": []}\n\n',
        b"event: message_start\ndata: {no json\n\n",
        b'event: message_start\ndata: {"type": "message_start", "message": ' + b"[" * 9000 + b"]" * 9000 + b"}\n\n",
    ],
    begun=frame("message_start", message={"id": "m", "content": []})
    + frame("content_block_start", index=0, content_block={"type": "text", "text": ""})
    + frame("content_block_delta", index=0, delta={"type": "text_delta", "text": "Half"}),
)


@pytest.fixture(params=[ANTHROPIC], ids=str)
def vendor(request):
    return request.param
