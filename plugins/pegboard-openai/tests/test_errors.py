"""What the provider's errors become, and what turns make of them."""

from __future__ import annotations

import json
import sys

import pytest

from fake_vendors import Error, Round
from pegboard import TurnLimits
from pegboard.errors import ModelError
from pegboard_openai.client import model_error

DONE = Round(text="It rains.")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_errors_that_stay_end_the_turn(wire, board, status):
    played = wire.play([Round(error=Error(status, "So it is."))], board=board)
    assert isinstance(played.error, ModelError)
    assert (played.error.status, played.error.retryable) == (status, False)
    assert "So it is." in str(played.error)
    assert played.error.outcome.ended == "failed"
    assert played.error.__cause__ is not None


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_errors_that_pass_are_tried_again(wire, board, status):
    played = wire.play([Round(error=Error(status)), DONE], board=board)
    assert played.outcome.text == "It rains."
    assert len(played.server.requests) == 2


@pytest.mark.usefixtures("no_pauses")
def test_it_waits_as_long_as_the_provider_asks(streaming, board):
    played = streaming.play([Round(error=Error(429, retry_after=0.01)), DONE], board=board)
    [pause] = [event.pause for event in played.events if type(event).__name__ == "ModelRetried"]
    assert pause == 0.01


def test_what_asks_for_too_long_a_pause_is_given_up(wire, board):
    played = wire.play([Round(error=Error(429, retry_after=900))], board=board)
    assert (played.error.status, played.error.retry_after, played.error.retryable) == (429, 900, True)
    assert played.error.code


@pytest.mark.usefixtures("no_pauses")
def test_it_gives_up_after_so_many(wire, board):
    played = wire.play([Round(error=Error(503))] * 2, board=board, limits=TurnLimits(retries=1))
    assert played.error.status == 503
    assert len(played.server.requests) == 2


def test_credit_that_is_used_up_is_not_asked_for_again(wire, board):
    body = {"error": {"message": "You have no credit.", "type": "insufficient_quota", "code": "insufficient_quota"}}
    played = wire.play([Round(error=Error(429, body=body))], board=board)
    assert (played.error.code, played.error.retryable) == ("insufficient_quota", False)


@pytest.mark.usefixtures("no_pauses")
def test_nobody_listens(wire, board):
    class Nowhere:
        url = "http://127.0.0.1:9"  # the port of "discard", which nobody has open

    import asyncio
    from contextlib import aclosing

    async def main():
        async with aclosing(wire.model(Nowhere)) as model:
            return await wire.turn(model, "Hi", board, limits=TurnLimits(retries=1))

    played = asyncio.run(main())
    assert played.error.retryable
    assert "onnect" in str(played.error)
    assert played.error.status is None


def test_an_error_in_html_is_shown_short(wire, board):
    played = wire.play([Round(error=Error(404, body="<html>" + "x" * 10_000))], board=board)
    assert played.error.status == 404
    assert len(str(played.error)) < 2_100


def _status_error(status, headers=None, body=None):
    """As the SDK makes it, whichever transport its version has."""
    import openai

    transport = sys.modules.get("httpx2") or sys.modules["httpx"]
    request = transport.Request("POST", "http://127.0.0.1/v1/responses")
    content = json.dumps({"error": body or {}})
    response = transport.Response(status, headers=headers or {}, request=request, content=content)
    return openai.APIStatusError("It failed.", response=response, body=body)


def test_all_facts_of_an_error():
    headers = {"x-request-id": "req_1", "Retry-After-Ms": "1500"}
    error = model_error(_status_error(429, headers, {"message": "Slow down.", "code": "rate_limit_exceeded"}), "p")
    assert str(error) == "p: Slow down."
    assert (error.provider, error.status, error.code) == ("p", 429, "rate_limit_exceeded")
    assert (error.retryable, error.retry_after, error.request_id) == (True, 1.5, "req_1")


@pytest.mark.parametrize(("status", "said", "retryable"), [(500, "false", False), (400, "true", True), (500, "", True)])
def test_the_provider_may_say_whether_to_try_again(status, said, retryable):
    assert model_error(_status_error(status, {"x-should-retry": said}), "p").retryable is retryable


@pytest.mark.parametrize("body", [{"message": 7, "type": ["x"]}, {"message": ""}, [1], "text", None])
def test_odd_bodies_are_read_all_the_same(body):
    error = model_error(_status_error(400, body=body), "p")
    assert str(error) == "p: It failed."
    assert error.code == "APIStatusError"


def test_an_error_of_ours_stays_what_it_is():
    error = ModelError("mine")
    assert model_error(error, "p") is error


def test_other_errors_are_named():
    error = model_error(KeyError(), "p")
    assert (str(error), error.code, error.retryable) == ("p: KeyError", "KeyError", False)
    assert model_error(ConnectionResetError("gone"), "p").retryable
