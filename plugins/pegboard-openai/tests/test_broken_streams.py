"""Streams that end too early, break off, or bring an error."""

from __future__ import annotations

import pytest

from fake_vendors import Call, Error, Round

pytestmark = pytest.mark.usefixtures("no_pauses")

DONE = Round(text="It rains.")
HALF = "Half a sentence that goes on for a while"


def retried(played):
    return [type(event).__name__ for event in played.events].count("ModelRetried")


def words_end(streaming):
    """After how many events there are some words, and not all."""
    return 3 if streaming.is_chat else 5


def test_what_was_said_before_the_connection_broke_is_kept(streaming, board):
    played = streaming.play([Round(text=HALF, break_after=words_end(streaming))], board=board)
    assert played.outcome.ended == "cut_off"
    assert HALF.startswith(played.outcome.text)
    assert played.outcome.text
    assert "peer closed connection" in played.outcome.detail
    assert not retried(played)


def test_a_stream_that_ends_in_good_order_but_too_early_is_no_answer(streaming, board):
    played = streaming.play([Round(text=HALF, stop_after=words_end(streaming))], board=board)
    assert played.outcome.ended == "cut_off"
    assert "without its end mark" in played.outcome.detail


@pytest.mark.parametrize("way", ["break_after", "stop_after"])
def test_what_broke_before_a_word_was_said_is_asked_again(streaming, board, way):
    played = streaming.play([Round(text=HALF, **{way: 1}), DONE], board=board)
    assert (played.outcome.text, retried(played)) == ("It rains.", 1)


def test_an_error_before_a_word_was_said_is_asked_again_if_it_passes(streaming, board):
    played = streaming.play([Round(text=HALF, error=Error(500, after=1)), DONE], board=board)
    assert (played.outcome.text, retried(played)) == ("It rains.", 1)


def test_an_error_before_a_word_was_said_ends_the_turn_if_it_stays(streaming, board):
    played = streaming.play([Round(text=HALF, error=Error(400, "The prompt is bad.", after=1))], board=board)
    assert "The prompt is bad." in str(played.error)
    assert (played.error.retryable, retried(played)) == (False, 0)


def test_an_error_behind_words_ends_the_turn_with_them(streaming, board):
    spoilt = Round(text=HALF, error=Error(500, "It broke.", after=words_end(streaming)))
    played = streaming.play([spoilt], board=board)
    assert "It broke." in str(played.error)
    assert HALF.startswith(played.messages[-1].text)
    assert played.messages[-1].text


def test_calls_of_a_stream_that_broke_off_do_not_run(streaming, board):
    calls = [Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"})]
    played = streaming.play([Round(calls=calls, break_after=8 if streaming.is_chat else 11), DONE], board=board)
    assert played.results
    assert all(text not in {"It rains in Oslo.", "It rains in Rome."} for _, text in played.results)
    assert played.is_complete


def test_an_answer_in_one_piece_that_is_cut_is_asked_again(wire, board):
    played = wire.play([Round(text=HALF, break_after=0), DONE], board=board)
    assert played.outcome.text == "It rains."


def test_a_response_that_failed_says_why(streaming, board):
    if streaming.is_chat:
        raw = [{"error": {"message": "No more.", "code": "server_error"}}]
    else:
        failed = {"status": "failed", "error": {"message": "No more.", "code": "server_error"}, "output": []}
        raw = [{"type": "response.failed", "response": failed}]
    played = streaming.play([Round(raw=raw), DONE], board=board)
    assert (played.outcome.text, retried(played)) == ("It rains.", 1)
