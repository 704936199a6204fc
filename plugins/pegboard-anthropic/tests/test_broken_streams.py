"""Streams that go wrong: what was said is kept, what hadn't begun is tried again, and the history is complete."""

from __future__ import annotations

import pytest

from fake_vendors import Call, Error, Reasoning, Round
from pegboard import ModelConfig, ModelRequest
from pegboard.errors import ModelError
from pegboard.turn.events import ModelRetried
from pegboard.turn.options import TurnLimits

DONE = Round(text="Done.")


def test_arguments_that_never_end_never_run(streaming, board):
    endless = Round(text="Well,", calls=[Call("weather")], never_ends=300)
    played = streaming.play([endless, DONE], board=board)
    assert played.results == [("toolu_1_0", "cut_off")]
    assert (played.outcome.ended, played.outcome.text) == ("answered", "Done.")


@pytest.mark.parametrize("way", ["break_after", "stop_after"])
def test_a_stream_that_breaks_off_keeps_what_it_said(streaming, way):
    played = streaming.play([Round(text=("Half ", "a ", "sentence"), **{way: 4})])
    assert played.outcome.ended == "cut_off"
    assert played.messages[-1].text == "Half "
    assert played.outcome.response.error_message


@pytest.mark.parametrize("way", ["break_after", "stop_after"])
def test_calls_of_a_stream_that_breaks_off_do_not_run(streaming, board, way):
    # message_start; each call: start, an empty delta, three pieces, stop; and the beginning of the second call.
    calls = [Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Bergen"})]
    played = streaming.play([Round(calls=calls, **{way: 9}), DONE], board=board)
    assert [result for _, result in played.results] == ["cut_off", "cut_off"]
    assert played.is_complete
    assert (played.outcome.text, played.server.refusals) == ("Done.", [])


@pytest.mark.parametrize(
    "silent",
    [
        Round(text="Half", break_after=1),
        Round(text="Half", stop_after=1),
        Round(text="Half", break_after=2),
        Round(text="Half", error=Error(529, after=0)),
        Round(text="Half", error=Error(529, after=1)),
        Round(reasoning=Reasoning("Hm, hm, hm.", "sig"), text="Half", break_after=4),
    ],
)
def test_a_stream_that_breaks_off_before_it_says_anything_is_tried_again(streaming, no_pauses, silent):
    played = streaming.play([silent, DONE])
    assert [message.text for message in played.messages] == ["Go on.", "Done."]
    assert len([event for event in played.events if isinstance(event, ModelRetried)]) == 1


def test_an_answer_that_is_cut_is_tried_again(whole, no_pauses):
    played = whole.play([Round(text="Half a sentence", break_after=1), DONE])
    assert played.outcome.text == "Done."
    assert "peer closed connection" in next(e.cause for e in played.events if isinstance(e, ModelRetried))


def test_a_long_answer_that_breaks_off_is_tried_again_where_it_has_said_nothing(whole, no_pauses):
    request = ModelRequest("Go on.", config=ModelConfig(max_output_tokens=64_000))
    assert whole.play([Round(text="Half", break_after=1), DONE], request).outcome.text == "Done."


def test_an_error_within_a_stream_that_has_said_something_ends_the_turn(streaming):
    played = streaming.play([Round(text=("Half ", "a sentence"), error=Error(529, "Overloaded", after=4))])
    error = played.error
    assert isinstance(error, ModelError)
    assert (error.code, "Overloaded" in str(error)) == ("overloaded_error", True)
    assert played.messages[-1].text.startswith("Half")


def test_an_error_within_a_stream_that_is_none_that_passes_is_not_tried_again(streaming):
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    error = streaming.play([Round(error=Error(400, body=body, after=1))]).error
    assert (error.status, error.code, error.retryable) == (400, "invalid_request_error", False)


NONSENSE = [
    b'event: message_start\ndata: {"type": "message_start", "message": 7}\n\n',
    b"event: message_start\ndata: [1, 2]\n\n",
    b'event: no_such_event\ndata: {"type": "no_such_event"}\n\n',
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": "x", "delta": []}\n\n',
    b"event: message_start\ndata: {no json\n\n",
    b'event: message_start\ndata: {"type": "message_start", "message": ' + b"[" * 9000 + b"]" * 9000 + b"}\n\n",
]


@pytest.mark.parametrize("frames", NONSENSE)
def test_a_stream_of_nonsense_is_a_model_error(streaming, frames):
    played = streaming.play([Round(raw=frames)], limits=TurnLimits(retries=0))
    assert isinstance(played.error, ModelError)
    assert played.is_complete
