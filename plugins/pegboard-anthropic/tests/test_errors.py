"""Errors of the provider and of the way there: what kind, and whether and when the turn tries again."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import anthropic
import httpx2
import pytest

from fake_vendors import Error, Round
from pegboard import ToolRegistry
from pegboard.errors import ModelError
from pegboard.turn.events import ModelRetried
from pegboard.turn.options import TurnLimits
from pegboard_anthropic import AnthropicModel
from pegboard_anthropic.client import model_error

DONE = Round(text="Done.")
ONCE = TurnLimits(retries=0)
REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/messages")


def answered(status, body=None, **headers):
    """As the SDK makes it of an answer."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx2.Response(status, headers=names, request=REQUEST)
    return anthropic.APIStatusError("said by the SDK", response=response, body=body)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
    ],
)
def test_what_will_not_pass_is_not_tried_again(wire, board, status, code):
    played = wire.play([Round(error=Error(status, "no"))], board=board)
    error = played.error
    assert isinstance(error, ModelError)
    assert (error.status, error.code, error.retryable) == (status, code, False)
    assert (str(error), error.request_id) == ("anthropic: no", "req_1")
    assert isinstance(error.__cause__, anthropic.APIStatusError)
    assert [message.text for message in played.messages] == ["Go on."]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(wire, no_pauses, status):
    played = wire.play([Round(error=Error(status, "later", retry_after=0)), DONE])
    assert played.outcome.text == "Done."
    (retried,) = (event for event in played.events if isinstance(event, ModelRetried))
    assert (retried.attempt, retried.pause, retried.cause) == (1, 0.0, "anthropic: later")


def test_the_turn_waits_as_long_as_the_provider_asks(wire, no_pauses):
    played = wire.play([Round(error=Error(429, "later", retry_after=0.05)), DONE])
    assert [event.pause for event in played.events if isinstance(event, ModelRetried)] == [0.05]


def test_a_provider_that_is_busy_again_and_again_is_given_up(wire, no_pauses):
    played = wire.play([Round(error=Error(429, "later", retry_after=0))] * 2, limits=TurnLimits(retries=1))
    assert (played.error.status, played.error.code, played.error.retryable) == (429, "rate_limit_error", True)
    assert len(played.server.requests) == 2


def test_a_provider_that_asks_for_too_long_a_pause_is_given_up(wire):
    played = wire.play([Round(error=Error(429, "later", retry_after=3600))])
    assert (played.error.retry_after, len(played.server.requests)) == (3600.0, 1)


def test_the_sdk_does_not_try_again_by_itself(wire):
    played = wire.play([Round(error=Error(503))], limits=ONCE)
    assert played.error.status == 503
    assert len(played.server.requests) == 1


@pytest.mark.parametrize("body", ["<html>busy</html>", "", '"text"', "[1]", '{"error": 7}', '{"error": {"type": 7}}'])
def test_an_error_of_something_on_the_way_is_read_all_the_same(wire, body):
    error = wire.play([Round(error=Error(502, body=body))], limits=ONCE).error
    assert isinstance(error, ModelError)
    assert (error.status, error.code, error.retryable) == (502, None, True)


def test_a_page_instead_of_a_message_is_cut():
    assert len(str(model_error(answered(502, {"error": {"message": "x" * 9000}}), "anthropic"))) < 2100


def test_nobody_at_the_other_end_is_an_error_that_may_pass(wire):
    async def main():
        async with aclosing(AnthropicModel("m", api_key="x", base_url="http://127.0.0.1:1")) as model:
            return await wire.turn(model, "Go on.", ToolRegistry(), limits=ONCE)

    error = asyncio.run(main()).error
    assert (error.status, error.code, error.retryable) == (None, "APIConnectionError", True)
    assert "ConnectError" in str(error)  # what the SDK itself says is "Connection error."


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (anthropic.APITimeoutError(REQUEST), True),
        (anthropic.APIConnectionError(request=REQUEST), True),
        (httpx2.RemoteProtocolError("cut"), True),
        (httpx2.ReadTimeout("slow"), True),
        (ConnectionResetError("reset"), True),
        (anthropic.CredentialsError("no profile"), False),
        (ValueError("no json"), False),
        (RecursionError(), False),
    ],
)
def test_errors_without_an_answer_pass_where_the_way_was_at_fault(error, retryable):
    read = model_error(error, "anthropic")
    assert (read.provider, read.status, read.code) == ("anthropic", None, type(error).__name__)
    assert read.retryable is retryable
    assert str(read) != "anthropic: "


def test_a_model_error_stays_as_it_is():
    error = ModelError("no")
    assert model_error(error, "anthropic") is error


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (answered(500, x_should_retry="false"), False),
        (answered(400, x_should_retry="true"), True),
        (answered(429, {"error": {"type": "rate_limit_error"}}), True),
        (answered(429, {"error": {"details": {"error_code": "ramp_limit_exceeded"}}}), True),
        (answered(429, {"error": {"details": {"error_code": "enforced_spend_limit_reached"}}}), False),
        (answered(429, {"error": {"details": {"error_code": "contract_spend_limit_reached"}}}), False),
        (answered(200, {"error": {"type": "overloaded_error"}}), True),
        (answered(200, {"error": {"type": "not_known"}}), False),
    ],
)
def test_the_providers_own_word_goes_before_the_status(error, retryable):
    assert model_error(error, "anthropic").retryable is retryable


def test_the_pause_that_is_asked_for_is_read():
    error = model_error(answered(429, None, retry_after_ms="1500", retry_after="7", request_id="req_1"), "anthropic")
    assert (error.retry_after, error.request_id, str(error)) == (1.5, "req_1", "anthropic: said by the SDK")


def test_a_request_id_in_the_body_counts_where_no_header_has_one():
    assert model_error(answered(400, {"error": {}, "request_id": "req_7"}), "anthropic").request_id == "req_7"


def test_an_error_within_a_stream_has_the_status_that_goes_with_its_word():
    error = model_error(answered(200, {"error": {"type": "overloaded_error", "message": "Overloaded"}}), "anthropic")
    assert (error.status, error.code, str(error)) == (529, "overloaded_error", "anthropic: Overloaded")
