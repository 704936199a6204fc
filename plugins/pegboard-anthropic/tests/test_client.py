"""What Anthropic's model does beyond the contract: credentials, errors, long answers, versions of models."""

from __future__ import annotations

import asyncio

import anthropic
import httpx2
import pytest

from fake_vendors import Call, ModelServer, Round
from pegboard import ModelConfig, ModelError, ModelRequest
from pegboard_anthropic import AnthropicModel
from pegboard_anthropic.client import earlier_exporter, exporter_of, model_error, searches

DONE = Round(text="Done.")
LONG = ModelRequest("Go on.", config=ModelConfig(max_output_tokens=64_000))
REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/messages")


def test_key_and_address_come_from_the_environment(monkeypatch):
    async def main():
        model = AnthropicModel("m")
        answer = await model.respond(ModelRequest("Go on."))
        await model.aclose()
        return answer

    with ModelServer([DONE]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        assert asyncio.run(main()).text == "Done."


def test_an_error_of_a_wrong_profile_names_the_alternative(vendor, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_PROFILE", "no_such_profile")
    with pytest.raises(ModelError, match=r"no_such_profile.* ANTHROPIC_API_KEY") as caught:
        AnthropicModel("m")
    assert caught.value.code == "missing_api_key"


def test_options_go_to_the_client_which_is_closed_with_the_model():
    async def main():
        model = AnthropicModel("m", api_key="x", timeout=7.0, default_headers={"x-mine": "1"})
        client = model._method.clients.now()
        await model.aclose()
        return client

    client = asyncio.run(main())
    assert (client.max_retries, client.timeout, client.default_headers["x-mine"]) == (0, 7.0, "1")
    assert client.is_closed()


def test_headers_of_the_providers_options_are_sent(way):
    options = {"anthropic": {"extra_headers": {"anthropic-beta": "new-thing"}}}
    played = way.play([DONE], ModelRequest("Go on.", config=ModelConfig(provider_options=options)))
    assert played.server.requests[0].headers["anthropic-beta"] == "new-thing"


def test_an_answer_that_may_be_long_is_gathered_from_a_stream(whole, registry):
    look = Round(calls=[Call("weather", {"city": "Oslo"})])
    played = whole.play([look, Round(text="Half", break_after=1), DONE], LONG, registry)
    assert [body["stream"] for body in played.bodies] == [True] * 3
    assert (played.outcome.text, played.results) == ("Done.", ["It rains in Oslo."])


def test_an_answer_that_was_paused_goes_on(way):
    played = way.play([Round(text="Well,", finish="pause_turn"), DONE])
    assert (played.outcome.ended, len(played.bodies)) == ("answered", 2)


def test_blocks_of_nonsense_are_passed_over(whole):
    blocks = [7, None, {"type": 3}, {"no": "type"}, {"type": "text", "text": "Done."}]
    played = whole.play([Round(raw={"type": "message", "content": blocks, "stop_reason": "end_turn", "usage": []})])
    assert played.outcome.text == "Done."


# --- errors ---


def answered(status, body=None, **headers):
    """As the SDK makes it of an answer."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx2.Response(status, headers=names, request=REQUEST)
    return anthropic.APIStatusError("said by the SDK", response=response, body=body)


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (anthropic.APITimeoutError(REQUEST), True),
        (anthropic.APIConnectionError(request=REQUEST), True),
        (httpx2.ReadTimeout("slow"), True),
        (anthropic.CredentialsError("no profile"), False),
    ],
)
def test_errors_without_an_answer_pass_where_the_way_was_at_fault(error, retryable):
    read = model_error(error, "anthropic")
    assert (read.code, read.retryable) == (type(error).__name__, retryable)


def details(code):
    return {"error": {"details": {"error_code": code}}}


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (answered(500, x_should_retry="false"), False),
        (answered(400, x_should_retry="true"), True),
        (answered(429, {"error": {"type": "rate_limit_error"}}), True),
        (answered(429, details("ramp_limit_exceeded")), True),
        (answered(429, details("enforced_spend_limit_reached")), False),
        (answered(429, details("contract_spend_limit_reached")), False),
        (answered(200, {"error": {"type": "overloaded_error"}}), True),
        (answered(200, {"error": {"type": "not_known"}}), False),
    ],
)
def test_the_providers_own_word_goes_before_the_status(error, retryable):
    assert model_error(error, "anthropic").retryable is retryable


def test_pause_request_id_and_status_are_read_wherever_they_stand():
    error = model_error(answered(429, None, retry_after_ms="1500", retry_after="7", request_id="req_1"), "anthropic")
    assert (error.retry_after, error.request_id, str(error)) == (1.5, "req_1", "anthropic: said by the SDK")
    assert model_error(answered(400, {"error": {}, "request_id": "req_7"}), "anthropic").request_id == "req_7"
    within = answered(200, {"error": {"type": "overloaded_error", "message": "Overloaded"}})
    error = model_error(within, "anthropic")
    assert (error.status, error.code, str(error)) == (529, "overloaded_error", "anthropic: Overloaded")
    assert model_error(error, "anthropic") is error


# --- versions ---

NEW = ["claude-sonnet-5", "claude-opus-5-5", "claude-opus-4-6", "claude-sonnet-4-8-20260801", "claude-opus-10"]
EARLIER = [
    *("claude-opus-4-1", "claude-opus-4-1-20250805", "claude-opus-4-20250514", "claude-sonnet-4-0", "claude-4-opus"),
    *("claude-3-5-haiku-latest", "claude-3-opus-20240229", "claude-2.1", "claude-v2", "claude-instant-1.2"),
]
SEARCHING = [
    *("claude-mythos-preview", "claude-haiku-4-5", "claude-opus-4-5-20251101", "claude-opus-4-5@20251101"),
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
]


def test_from_version_4_5_on_models_search():
    assert [name for name in [*NEW, *SEARCHING] if not searches(name)] == []
    assert [name for name in [*EARLIER, "kimi-k2", "", "gpt-5.4"] if searches(name)] == []


def test_from_version_4_6_on_the_built_in_exporter_writes_and_one_that_keeps_what_it_has_written_for_others():
    assert {exporter_of(name) is earlier_exporter() for name in [*NEW, "claude-mythos-preview"]} == {False}
    assert {exporter_of(name) is earlier_exporter() for name in [*EARLIER, "claude-haiku-4-5", "kimi-k2"]} == {True}


@pytest.mark.parametrize(
    ("name", "thinking", "temperature"),
    [
        ("claude-sonnet-5", {"type": "adaptive"}, None),
        ("claude-haiku-4-5", {"type": "enabled", "budget_tokens": 1_024}, 0.5),
    ],
)
def test_reasoning_and_chance_are_asked_for_as_the_model_knows_them(way, name, thinking, temperature):
    bodies = [
        way.play([DONE], ModelRequest("Go on.", config=config), facts={"name": name}).bodies[0]
        for config in (ModelConfig(reasoning="low"), ModelConfig(temperature=0.5))
    ]
    assert (bodies[0]["thinking"], bodies[1].get("temperature")) == (thinking, temperature)
