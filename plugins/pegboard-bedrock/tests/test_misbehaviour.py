"""Turns in which something goes wrong: they go on, or a typed error comes, and the history is complete."""

from __future__ import annotations

import asyncio

import pytest

from fake_vendors import Call, Error, Reasoning, Round
from fake_vendors.server.script import aws_message
from fake_vendors.server.talk import bedrock as client_of
from pegboard import ModelConfig, ModelError, ModelRequest, TurnLimits
from pegboard.turn.events import ModelRetried
from pegboard_bedrock import BedrockModel


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
    answers = [block["toolResult"]["toolUseId"] for block in played.requests[1]["messages"][2]["content"]]
    assert len(set(answers)) == 2


def test_arguments_that_the_schema_refuses_get_a_result_that_says_so(play):
    played = play([Round(calls=[Call("weather", {"town": "Oslo"})]), Round(text="Sorry.")])

    played.check()
    assert "city" in played.results[0].text


def test_arguments_that_are_no_object_get_a_result_that_says_so(play):
    played = play([Round(text="Look.", calls=[Call("weather", '{"city": ')]), Round(text="Sorry.")])

    played.check()
    assert [result.is_error for result in played.results] == [True]
    assert played.outcome.text == "Sorry."


@pytest.mark.parametrize("streamed", [True], indirect=True)
def test_arguments_that_never_end_never_run(play):
    rounds = [Round(text="Look.", calls=[Call("weather", {"city": "Oslo"})], never_ends=300), Round(text="Sorry.")]

    played = play(rounds)

    played.check()
    assert [result.is_error for result in played.results] == [True]
    assert played.outcome.text == "Sorry."


@pytest.mark.parametrize("streamed", [True], indirect=True)
@pytest.mark.parametrize("way", [{"break_after": 3}, {"stop_after": 3}])
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


@pytest.mark.parametrize("streamed", [False], indirect=True)
def test_an_answer_that_is_cut_in_half_is_asked_for_again(play):
    assert play([Round(text="Cut.", break_after=0), Round(text="Noon.")]).outcome.text == "Noon."


@pytest.mark.parametrize("streamed", [True], indirect=True)
def test_an_error_in_the_midst_of_a_stream_ends_the_answer(play):
    played = play([Round(text="Half a sentence", error=Error(503, "overloaded", after=3))])

    played.check()
    response = played.outcome.response
    assert (response.interrupted, response.error_code, response.error_message) == (
        True,
        "serviceUnavailableException",
        "bedrock: overloaded",
    )
    assert response.text


@pytest.mark.parametrize(
    ("status", "word", "retryable"),
    [
        (400, "ValidationException", False),
        (401, "UnrecognizedClientException", False),
        (403, "AccessDeniedException", False),
        (404, "ResourceNotFoundException", False),
        (424, "ModelErrorException", True),
        (500, "InternalServerException", True),
        (503, "ServiceUnavailableException", True),
    ],
)
def test_an_error_of_the_provider_is_one_of_the_model(play, status, word, retryable):
    played = play([Round(error=Error(status, "no such thing"))], limits=TurnLimits(retries=0))

    error = played.error
    assert error.request_id == "req_1"
    assert (error.provider, error.status, error.code, error.retryable) == ("bedrock", status, word, retryable)
    assert str(error) == "bedrock: no such thing"
    played.check()


def test_an_error_after_some_calls_leaves_their_results_in_the_history(play):
    played = play([Round(calls=[Call("weather", {"city": "Oslo"}), Call("clock")]), Round(error=Error(400))])

    played.check()
    assert [result.text for result in played.results] == ["rain in Oslo", "the clock is slow."]
    assert played.error.status == 400


def test_an_error_page_that_is_no_json_is_an_error_of_the_model(play):
    played = play([Round(error=Error(502, body="<h1>Bad Gateway</h1>"))], limits=TurnLimits(retries=0))

    assert (played.error.status, played.error.retryable) == (502, True)
    assert "Bad Gateway" in str(played.error)


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

    assert (played.error.status, played.error.code) == (429, "ThrottlingException")
    assert played.error.retry_after == 0.01
    assert [result.text for result in played.results] == ["rain in Oslo"]
    played.check()


def test_a_provider_that_asks_to_wait_too_long_isnt_waited_for(play):
    played = play([Round(error=Error(429, retry_after=3600))])

    assert played.error.retry_after == 3600


def test_a_lost_connection_may_pass():
    async def main():
        with client_of("http://127.0.0.1:9") as client:
            await BedrockModel("m", client=client).respond(ModelRequest("Hi."))

    with pytest.raises(ModelError) as caught:
        asyncio.run(main())

    assert (caught.value.status, caught.value.code, caught.value.retryable) == (None, "EndpointConnectionError", True)


def test_an_option_that_the_sdk_doesnt_know_is_an_error_of_the_model(play):
    played = play([], ModelRequest("Hi.", config=ModelConfig(provider_options={"bedrock": {"guardrailConfig": 1}})))

    assert (played.error.code, played.error.retryable) == ("ParamValidationError", False)
    assert "guardrailConfig" in str(played.error)


@pytest.mark.parametrize("raw", [b"<h1>Hello</h1>", b"[]", b'{"output": 5}', b"{}"], ids=["html", "list", "5", "none"])
@pytest.mark.parametrize("streamed", [False], indirect=True)
def test_an_answer_that_cant_be_read_is_an_error_of_the_model(play, raw):
    played = play([Round(raw=raw)], limits=TurnLimits(retries=0))

    assert played.error.provider == "bedrock"
    played.check()


@pytest.mark.parametrize("streamed", [True], indirect=True)
def test_a_stream_that_cant_be_read_is_an_error_of_the_model(play):
    played = play([Round(raw=b"<h1>Hello</h1>" * 100)], limits=TurnLimits(retries=0))

    assert (played.error.provider, played.error.retryable) == ("bedrock", False)
    played.check()


@pytest.mark.parametrize("streamed", [True], indirect=True)
def test_an_error_that_the_service_doesnt_name_ends_the_answer(play):
    headers = {":message-type": "error", ":error-code": "InternalError", ":error-message": "who knows"}
    said = {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Half a"}}}

    played = play([Round(raw=[said, aws_message(headers, b"")])])

    response = played.outcome.response
    assert (response.text, response.interrupted) == ("Half a", True)
    assert "who knows" in response.error_message
