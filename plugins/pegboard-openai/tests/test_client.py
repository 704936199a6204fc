"""What OpenAI's models do beyond the contract: credentials, servers, free text, errors, streams' options."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import openai
import pytest
from openai import AsyncOpenAI, Timeout

from fake_vendors import Call, Error, ModelServer, Page, Reasoning, Round, Search
from fake_vendors.contract.clients import HI, KEY, shown, silent_model
from pegboard import ModelConfig, ModelError, ModelRequest, Tool, TurnLimits
from pegboard_openai import OpenAIChatModel, OpenAIModel
from pegboard_openai.client import chat_exporter, model_error, searches, secrets_of, server_exporter

DONE = Round(text="It rains.")


@pytest.fixture
def registry(registry):
    registry.register(Tool.freeform("run", lambda text: f"ran {text}", description="Runs."))
    return registry


def chat(vendor):
    return vendor.kind is OpenAIChatModel


def with_options(**options):
    return ModelRequest("Hi", config=ModelConfig(provider_options={"openai": options}))


# --- clients ---


def test_other_credentials_stand_for_a_key(vendor):
    model = vendor.kind("m", admin_api_key="sk-admin")
    asyncio.run(model.aclose())
    assert model.name == "m"
    with pytest.raises(ModelError, match="admin_") as caught:
        vendor.kind("m", admin_api_key="sk-very\nsecret")
    assert "sk-very" not in str(caught.value)


def test_a_key_may_be_asked_for_and_is_not_shown(way, registry):
    async def key():
        return f"{KEY}\n"

    async def main(url):
        async with way.vendor.at(url, api_key=key) as model:
            return await way.turn(model, "Hi", registry, limits=TurnLimits(retries=0))

    with ModelServer([]) as server:
        error = asyncio.run(main(server.url)).error
    assert isinstance(error, ModelError)
    assert "***" in str(error)
    assert KEY not in shown(error)


def test_what_is_sent_to_servers_that_want_no_key_is_no_secret():
    assert secrets_of(AsyncOpenAI(api_key="none")) == []


@pytest.mark.slow
def test_a_turn_at_its_time_limit_keeps_the_text_so_far(streaming, registry, monkeypatch):
    clock = time.monotonic

    def listener(event):
        if event.type == "delta":
            monkeypatch.setattr(time, "monotonic", lambda: clock() + 30)  # the time is up

    async def main():
        async with silent_model(streaming.vendor, begins=True) as (model, _):
            return await streaming.turn(model, "Hi", registry, limits=TurnLimits(seconds=30), listener=listener)

    played = asyncio.run(main())
    assert (played.outcome.ended, played.messages[-1].text) == ("limit", "Half")


def test_a_provider_that_says_nothing_is_a_lost_connection(vendor):
    async def main():
        async with silent_model(vendor, begins=False, timeout=Timeout(10, read=0.05)) as (model, _):
            with pytest.raises(ModelError, match="timed out") as caught:
                await model.respond(HI)
            return caught.value

    error = asyncio.run(main())
    assert (error.retryable, error.status, error.code) == (True, None, "APITimeoutError")


# --- turns ---


def test_free_text_runs_a_freeform_tool(way, registry):
    played = way.play([Round(calls=[Call("run", "ls -l", freeform=True)]), DONE], registry=registry)
    assert played.results == ["ran ls -l"]
    assert "ran ls -l" in json.dumps(played.bodies[1])


def test_streaming_is_not_an_option(way):
    played = way.play([DONE], with_options(stream=not way.streamed))
    assert played.server.requests[0].streamed == way.streamed


def test_usage_of_a_stream_may_be_left_out(way):
    if chat(way.vendor):
        played = way.play([DONE], with_options(stream_options={"include_usage": False}))
        assert played.bodies[0].get("stream_options") == ({"include_usage": False} if way.streamed else None)
        assert played.outcome.usage.input_tokens == (0 if way.streamed else 11)


def test_what_a_provider_that_keeps_nothing_wants_back_goes_back(way, registry):
    if chat(way.vendor):
        return
    registry.register(Tool.provider("web", "openai.web_search"))
    look = Round(
        text="Let me look.",
        reasoning=Reasoning("hm", "c2ln"),
        hosted=[Search("x", [Page("http://a", "A")])],
        calls=[Call("weather", {"city": "Oslo"})],
    )
    played = way.play([look, DONE], with_options(store=False), registry)
    assert played.holds(1, {"store": False}, {"type": "reasoning", "encrypted_content": "c2ln"})
    assert played.messages[1].parts
    assert played.outcome.text == "It rains."


def test_a_response_that_failed_says_why(streaming):
    failed = {"error": {"message": "No more.", "code": "server_error"}}
    event = {"type": "response.failed", "response": {"status": "failed", **failed, "output": []}}
    played = streaming.play([Round(raw=[failed if chat(streaming.vendor) else event]), DONE])
    assert played.outcome.text == "It rains."
    assert ["No more." in event.cause for event in played.of("ModelRetried")] == [True]


def test_a_stream_without_its_end_says_so_and_one_that_is_no_json_does_not_pass(streaming):
    played = streaming.play([Round(raw=b"data: 7\n\n")], limits=TurnLimits(retries=0))
    assert "without its end mark" in str(played.error)
    played = streaming.play([Round(raw=b"data: {oops\n\n")])
    assert (played.error.code, played.error.retryable) == ("JSONDecodeError", False)


# --- errors ---


def test_credit_that_is_used_up_is_not_asked_for_again(way):
    body = {"error": {"message": "You have no credit.", "type": "insufficient_quota", "code": "insufficient_quota"}}
    error = way.play([Round(error=Error(429, body=body))]).error
    assert (error.code, error.retryable) == ("insufficient_quota", False)


def answered(status, headers=None, body=None):
    """As the SDK makes it, whichever transport its version has."""
    transport = sys.modules.get("httpx2") or sys.modules["httpx"]
    request = transport.Request("POST", "http://127.0.0.1/v1/responses")
    content = json.dumps({"error": body or {}})
    response = transport.Response(status, headers=headers or {}, request=request, content=content)
    return openai.APIStatusError("It failed.", response=response, body=body)


def test_all_facts_of_an_error():
    headers = {"x-request-id": "req_1", "Retry-After-Ms": "1500"}
    error = model_error(answered(429, headers, {"message": "Slow down.", "code": "rate_limit_exceeded"}), "p")
    assert str(error) == "p: Slow down."
    assert (error.provider, error.status, error.code) == ("p", 429, "rate_limit_exceeded")
    assert (error.retryable, error.retry_after, error.request_id) == (True, 1.5, "req_1")
    assert model_error(error, "p") is error


@pytest.mark.parametrize("body", [{"message": 7, "type": ["x"]}, {"message": ""}, [1], "text", None])
def test_odd_error_bodies_are_read(body):
    error = model_error(answered(400, body=body), "p")
    assert (str(error), error.code) == ("p: It failed.", "APIStatusError")


def test_other_errors_are_named():
    error = model_error(KeyError(), "p")
    assert (str(error), error.code, error.retryable) == ("p: KeyError", "KeyError", False)
    assert model_error(ConnectionResetError("gone"), "p").retryable


# --- models and servers ---


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (["gpt-5.4", "gpt-5.4-mini", "gpt-5.10", "gpt-6", "gpt-5.5-2026-01-01", "ft:gpt-5.4:me::1"], True),
        (["gpt-5", "gpt-5.3", "gpt-4o", "gpt-4.1", "o3", "my-gpt-5.4", "gpt-", "", "ft:"], False),
    ],
)
def test_models_from_gpt_5_4_on_search_by_themselves(names, known):
    for name in names:
        assert searches(name) is OpenAIModel(name, api_key="x").loads_deferred is known
        assert OpenAIModel(name, api_key="x", loads_deferred=not known).loads_deferred is not known
        assert OpenAIChatModel(name, api_key="x").loads_deferred is False


def test_openais_own_api_gets_all_that_it_knows_and_other_servers_what_all_know():
    for url in ("https://api.openai.com/v1/", "https://eu.api.openai.com/v1", "https://a.openai.azure.com"):
        assert chat_exporter(url).custom_tools
    for url in ("http://127.0.0.1:8000/v1", "https://notopenai.com", "https://openai.com.evil.test", "", "x"):
        exporter = chat_exporter(url)
        assert (exporter.name, exporter.custom_tools, exporter.most_tokens) == ("openai", False, "max_tokens")
        assert exporter is server_exporter()


def test_a_turn_at_another_server(way, registry):
    if chat(way.vendor):
        request = ModelRequest("Hi", config=ModelConfig(max_output_tokens=9))
        called = Round(calls=[Call("run", {"input": "ls"})])
        played = way.play([called, DONE], request, registry, facts={"api_key": "x", "exporter": None})
        assert played.bodies[0]["max_tokens"] == 9
        assert {tool["type"] for tool in played.bodies[0]["tools"]} == {"function"}
        assert played.results == ["ran ls"]
