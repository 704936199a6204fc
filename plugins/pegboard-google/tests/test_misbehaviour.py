"""Turns in which something goes wrong: they go on, or a typed error comes, and the history is complete."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from fake_vendors import Call, Error, ModelServer, Reasoning, Round
from pegboard import ModelConfig, ModelError, ModelRequest, TurnLimits, run_turn
from pegboard.turn.events import ModelRetried
from pegboard_google import GoogleModel


def test_a_name_that_nobody_knows_gets_a_result_that_says_so(play):
    played = play([Round(calls=[Call("wind", {"city": "Oslo"}), Call("clock")]), Round(text="Sorry.")])

    played.check()
    assert played.results[0].is_error
    assert "wind" in played.results[0].text
    assert played.outcome.ended == "answered"


def test_one_id_twice_makes_two_calls(play):
    calls = [Call("weather", {"city": "Oslo"}, id="a"), Call("weather", {"city": "Rome"}, id="a")]

    played = play([Round(calls=calls), Round(text="Rain everywhere.")])

    played.check()
    assert [result.text for result in played.results] == ["rain in Oslo", "rain in Rome"]
    answers = [part["functionResponse"] for part in played.requests[1]["contents"][2]["parts"]]
    assert [answer["id"] for answer in answers] == ["a", "a"]


def test_arguments_that_the_schema_refuses_get_a_result_that_says_so(play):
    played = play([Round(calls=[Call("weather", {"town": "Oslo"})]), Round(text="Sorry.")])

    played.check()
    assert "city" in played.results[0].text


def test_arguments_that_are_no_object_are_an_error_of_the_model(play, streamed):
    """The SDK reads none of such an answer: a turn can't answer what it doesn't see."""
    played = play([Round(text="Look.", calls=[Call("weather", '{"city": ')])])

    if streamed:
        assert (played.outcome.ended, played.outcome.text) == ("cut_off", "Look.")
    else:
        assert (played.error.code, played.error.retryable) == ("ValidationError", False)
    played.check()


@pytest.mark.parametrize("streamed", [True], indirect=True)
def test_calls_that_come_on_and_on_never_run(play):
    rounds = [Round(text="Look.", calls=[Call("weather", {"city": "Oslo"})], never_ends=300), Round(text="Sorry.")]

    played = play(rounds)

    played.check()
    assert played.outcome.text == "Sorry."
    assert all(result.is_error for result in played.results)
    assert len(played.results) > 100


@pytest.mark.parametrize("streamed", [True], indirect=True)
@pytest.mark.parametrize("way", [{"break_after": 2}, {"stop_after": 2}])
def test_a_stream_that_breaks_off_keeps_what_has_come(play, way):
    played = play([Round(text="It is noon, and it rains.", **way)])

    played.check()
    response = played.outcome.response
    assert (response.interrupted, response.complete) == (True, False)
    assert response.text
    assert "It is noon, and it rains.".startswith(response.text)


@pytest.mark.parametrize("streamed", [True], indirect=True)
@pytest.mark.parametrize(
    "way", [{"break_after": 1}, {"stop_after": 1}, {"error": Error(503, after=1)}, {"break_after": 0}]
)
def test_a_stream_that_breaks_off_before_it_says_anything_is_asked_for_again(play, way):
    thought = Reasoning("Let me think about it.", "c2ln")
    rounds = [Round(text="Never said.", reasoning=thought, **way), Round(text="Noon.")]

    played = play(rounds)

    assert played.outcome.text == "Noon."
    assert [event.attempt for event in played.events if isinstance(event, ModelRetried)] == [1]


def test_an_answer_that_is_cut_in_half_is_asked_for_again(registry):
    async def main(url):
        async with aclosing(GoogleModel("gemini-3-pro", api_key="x", base_url=url)) as model:
            return await run_turn(model, "Go on.", registry)

    with ModelServer([Round(text="Cut.", break_after=0), Round(text="Noon.")]) as server:
        assert asyncio.run(main(server.url)).text == "Noon."


@pytest.mark.parametrize("streamed", [True], indirect=True)
def test_an_error_in_the_midst_of_a_stream_ends_the_answer(play):
    played = play([Round(text="Half a sentence", error=Error(503, "overloaded", after=2))])

    played.check()
    response = played.outcome.response
    assert (response.interrupted, response.error_code, response.error_message) == (
        True,
        "UNAVAILABLE",
        "gemini: overloaded",
    )
    assert response.text


@pytest.mark.parametrize(
    ("status", "word", "retryable"),
    [
        (400, "INVALID_ARGUMENT", False),
        (401, "UNAUTHENTICATED", False),
        (403, "PERMISSION_DENIED", False),
        (404, "NOT_FOUND", False),
        (500, "INTERNAL", True),
        (503, "UNAVAILABLE", True),
        (504, "DEADLINE_EXCEEDED", True),
    ],
)
def test_an_error_of_the_provider_is_one_of_the_model(play, status, word, retryable):
    played = play([Round(error=Error(status, "no such thing"))], limits=TurnLimits(retries=0))

    error = played.error
    assert (error.provider, error.status, error.code, error.retryable) == ("gemini", status, word, retryable)
    assert str(error) == "gemini: no such thing"
    played.check()


def test_an_error_after_some_calls_leaves_their_results_in_the_history(play):
    played = play([Round(calls=[Call("weather", {"city": "Oslo"}), Call("clock")]), Round(error=Error(400))])

    played.check()
    assert [result.text for result in played.results] == ["rain in Oslo", "the clock is slow."]
    assert played.error.status == 400


def test_an_error_page_that_is_no_json_is_an_error_of_the_model(play):
    played = play([Round(error=Error(502, body="<h1>Bad Gateway</h1>"))], limits=TurnLimits(retries=0))

    assert played.error.status in (502, None)  # by transport
    assert played.error.retryable


def test_too_many_requests_are_sent_again_after_as_long_as_the_provider_asks(play, streamed):
    played = play([Round(error=Error(429, retry_after=0.01)), Round(text="Noon.")])

    assert played.outcome.text == "Noon."
    assert len(played.requests) == 2
    if streamed:
        (retried,) = [event for event in played.events if isinstance(event, ModelRetried)]
        assert retried.pause == 0.01


def test_too_many_requests_are_given_up_in_the_end(play):
    rounds = [Round(calls=[Call("weather", {"city": "Oslo"})]), *[Round(error=Error(429, retry_after=0.01))] * 3]

    played = play(rounds)

    assert (played.error.status, played.error.code) == (429, "RESOURCE_EXHAUSTED")
    assert played.error.retry_after == 0.01
    assert [result.text for result in played.results] == ["rain in Oslo"]
    played.check()


def test_a_provider_that_asks_to_wait_too_long_isnt_waited_for(play):
    played = play([Round(error=Error(429, retry_after=3600))])

    assert played.error.retry_after == 3600


def test_the_body_says_how_long_to_wait_where_no_header_does(play):
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "70.5s"}]
    body = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": details}}

    played = play([Round(error=Error(429, body=body))])

    assert played.error.retry_after == 70.5


def test_a_lost_connection_is_sent_again(registry):
    async def main():
        async with aclosing(GoogleModel("gemini-3-pro", api_key="x", base_url="http://127.0.0.1:9")) as model:
            await model.respond(ModelRequest("Hi."))

    with pytest.raises(ModelError) as caught:
        asyncio.run(main())

    assert (caught.value.status, caught.value.retryable) == (None, True)


def test_an_option_that_the_sdk_doesnt_know_is_an_error_of_the_model(play):
    config = ModelConfig(provider_options={"google": {"noSuchThing": 1}})

    played = play([], ModelRequest("Hi.", config=config))

    assert not played.error.retryable
    assert "noSuchThing" in str(played.error)


@pytest.mark.parametrize(
    "raw",
    [b"<h1>Hello</h1>", b"[]", b"5", b'{"candidates": "none"}', b'{"candidates": ' + b"[" * 100_000],
    ids=["html", "array", "number", "text", "deep"],
)
def test_an_answer_that_cant_be_read_is_an_error_of_the_model(play, raw):
    played = play([Round(raw=raw)], limits=TurnLimits(retries=0))

    assert played.error.provider == "gemini"
    assert len(str(played.error)) < 3_000
    played.check()


def test_a_finish_reason_that_the_sdk_doesnt_know_is_passed_on(play):
    with pytest.warns(UserWarning, match="NOT_KNOWN_YET"):
        played = play([Round(text="Noon.", finish="NOT_KNOWN_YET")])

    assert (played.outcome.text, played.outcome.response.finish_reason) == ("Noon.", "other")
