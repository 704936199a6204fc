"""Errors, streams that break off, and invalid answers: the turn retries or ends, its history complete."""

from __future__ import annotations

import asyncio
import gc

import pytest

from fake_vendors import Call, Error, Reasoning, Round
from fake_vendors.contract.vendor import NOWHERE, needs
from pegboard import ModelError, ToolRegistry, TurnLimits

DONE = Round(text="Done.")
ONCE = TurnLimits(retries=0)
HALF = "Half a sentence that goes on for a while"


def test_permanent_errors_end_the_turn(way, registry):
    for status, code in way.vendor.permanent.items():
        played = way.play([Round(error=Error(status, "So it is."))], registry=registry)
        error = played.error
        assert isinstance(error, ModelError)
        assert (error.provider, error.status, error.code, error.retryable) == (way.vendor.provider, status, code, False)
        assert str(error) == f"{way.vendor.provider}: So it is."
        assert error.request_id == ("req_1" if way.vendor.ids else None)
        assert [message.text for message in played.messages] == ["Go on."]
        assert played.outcome.ended == "failed"


def test_temporary_errors_are_retried(way):
    for status in way.vendor.temporary:
        played = way.play([Round(error=Error(status, "later", retry_after=0)), DONE])
        assert (played.outcome.text, len(played.server.requests)) == ("Done.", 2)
        (retried,) = played.of("ModelRetried")
        assert (retried.attempt, retried.cause) == (1, f"{way.vendor.provider}: later")


def test_temporary_errors_have_their_code(way):
    for status, code in way.vendor.temporary.items():
        played = way.play([Round(error=Error(status, "later"))], limits=ONCE)
        assert (played.error.status, played.error.code, played.error.retryable) == (status, code, True)
        assert len(played.server.requests) == 1  # the SDK doesn't try again by itself


def test_the_turn_waits_as_long_as_the_provider_asks(way):
    played = way.play([Round(error=Error(429, retry_after=0.01)), DONE])
    assert [event.pause for event in played.of("ModelRetried")] == [0.01]


def test_a_repeatedly_busy_provider_ends_the_turn(way, registry):
    look = Round(calls=[Call("weather", {"city": "Oslo"}), Call("clock")])
    played = way.play(
        [look, *[Round(error=Error(429, retry_after=0))] * 2], registry=registry, limits=TurnLimits(retries=1)
    )
    assert (played.error.status, played.error.retryable) == (429, True)
    assert played.results == ["It rains in Oslo.", "tool_failure"]


def test_a_provider_that_asks_for_too_long_a_pause_is_given_up(way):
    assert way.play([Round(error=Error(429, retry_after=3600))]).error.retry_after == 3600


@pytest.mark.parametrize(
    "body", ["<html>" + "x" * 10_000, "", '"text"', "[1]", '{"error": 7}', '{"error": {"type": 7, "message": []}}']
)
def test_an_error_page_of_a_proxy_is_a_model_error(way, body):
    error = way.play([Round(error=Error(502, body=body))], limits=ONCE).error
    assert isinstance(error, ModelError)
    assert error.status in (502, None)
    assert error.retryable
    assert len(str(error)) < 2_200
    assert "object has no attribute" not in str(error)


def test_a_refused_connection_is_retryable(way):
    async def main():
        async with way.vendor.at(NOWHERE) as model:
            return await way.turn(model, "Go on.", ToolRegistry(), limits=ONCE)

    error = asyncio.run(main()).error
    assert (error.provider, error.status, error.retryable) == (way.vendor.provider, None, True)
    assert "onnect" in str(error)


# --- streams ---


@pytest.mark.parametrize("how", ["break_after", "stop_after"])
def test_a_stream_that_breaks_off_keeps_its_text(streaming, how):
    played = streaming.play([Round(text=HALF, **{how: streaming.vendor.text_after})])
    response = played.outcome.response
    assert (played.outcome.ended, response.interrupted, response.complete) == ("cut_off", True, False)
    assert response.text
    assert HALF.startswith(response.text)
    assert response.error_message
    assert not played.of("ModelRetried")


@pytest.mark.parametrize("thought", [None, Reasoning("Let me think about it.", "c2ln")])
@pytest.mark.parametrize(
    "how", [{"break_after": 0}, {"break_after": 1}, {"stop_after": 1}, {"error": 0}, {"error": 1}], ids=str
)
def test_a_stream_that_breaks_off_before_its_first_text_is_retried(streaming, how, thought):
    if streaming.vendor.text_after == 2 and thought is None:
        how = dict.fromkeys(how, 0)  # its first event has words
    spoilt = {"error": Error(503, after=how["error"])} if "error" in how else how
    played = streaming.play([Round(text=HALF, reasoning=thought, **spoilt), DONE])
    assert [message.text for message in played.messages] == ["Go on.", "Done."]
    assert len(played.of("ModelRetried")) == 1


def test_an_answer_that_is_cut_in_half_is_tried_again(whole):
    played = whole.play([Round(text=HALF, break_after=0), DONE])
    assert (played.outcome.text, len(played.of("ModelRetried"))) == ("Done.", 1)


@pytest.mark.parametrize("how", ["break_after", "stop_after"])
def test_calls_of_a_stream_that_breaks_off_do_not_run(streaming, registry, how):
    calls = [Call("weather", {"city": city}) for city in ("Oslo", "Bergen")]
    played = streaming.play([Round(calls=calls, **{how: streaming.vendor.calls_after}), DONE], registry=registry)
    assert set(played.results) == {"cut_off"}
    assert played.outcome.text == "Done."


def test_an_error_in_a_stream_after_its_first_text_ends_the_turn(streaming):
    spoilt = Round(text=HALF, error=Error(503, "It broke.", after=streaming.vendor.text_after))
    played = streaming.play([spoilt])
    assert isinstance(played.error, ModelError)
    assert "It broke." in str(played.error)
    assert str(played.error).count(f"{streaming.vendor.provider}: ") == 1
    assert played.messages[-1].text
    assert HALF.startswith(played.messages[-1].text)


@needs("permanent_in_streams")
def test_a_permanent_error_in_a_stream_is_not_retried(streaming):
    played = streaming.play([Round(text=HALF, error=Error(400, "The prompt is bad.", after=0))])
    assert "The prompt is bad." in str(played.error)
    assert not played.error.retryable
    assert not played.of("ModelRetried")


# --- invalid answers ---


@pytest.fixture
def without_collecting():
    """No garbage is collected where a parser is as deep as it can go: closing an old socket would fail there."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collecting")
def test_an_answer_of_nonsense_is_a_model_error(whole):
    for raw in whole.vendor.nonsense:
        played = whole.play([Round(raw=raw)], limits=ONCE)
        assert isinstance(played.error, ModelError), raw[:50]
        assert played.error.provider == whole.vendor.provider
        assert len(str(played.error)) < 3_000


@pytest.mark.usefixtures("without_collecting")
def test_a_stream_of_nonsense_is_a_model_error(streaming):
    for raw in streaming.vendor.frames:
        played = streaming.play([Round(raw=raw)], limits=ONCE)
        assert isinstance(played.error, ModelError), raw[:50]
        assert played.error.provider == streaming.vendor.provider
