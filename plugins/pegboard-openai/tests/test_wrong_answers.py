"""Answers that aren't as they should be: the turn goes on, and every call has its one result."""

from __future__ import annotations

import json

import pytest

from fake_vendors import Call, Round
from pegboard import TurnLimits

DONE = Round(text="I see.")


def test_arguments_that_are_no_json(wire, board):
    played = wire.play([Round(calls=[Call("weather", '{"city": '), Call("weather", '["Oslo"]')]), DONE], board=board)
    assert [kind for _, kind in played.results] == ["invalid_arguments", "invalid_arguments"]
    assert played.is_complete
    assert played.outcome.ended == "answered"


def test_a_name_that_nobody_has(wire, board):
    played = wire.play([Round(calls=[Call("telescope", {"city": "Oslo"})]), DONE], board=board)
    assert [kind for _, kind in played.results] == ["unknown_tool"]
    assert "weather" in json.dumps(played.bodies[1])


def test_the_same_id_twice(wire, board):
    calls = [Call("weather", {"city": "Oslo"}, id="a"), Call("weather", {"city": "Rome"}, id="a")]
    played = wire.play([Round(calls=calls), DONE], board=board)
    assert [text for _, text in played.results] == ["It rains in Oslo.", "It rains in Rome."]
    assert len({id_ for id_, _ in played.results}) == 2
    assert played.is_complete


def test_no_id_at_all(wire, board):
    played = wire.play([Round(calls=[Call("weather", {"city": "Oslo"}, id=None)]), DONE], board=board)
    assert [text for _, text in played.results] == ["It rains in Oslo."]
    assert played.is_complete


def test_another_call_under_an_old_index(streaming, board):
    calls = [Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"}, same_index=True)]
    played = streaming.play([Round(calls=calls), DONE], board=board)
    assert [text for _, text in played.results] == ["It rains in Oslo.", "It rains in Rome."]


def test_arguments_that_never_end(streaming, board):
    played = streaming.play([Round(text="So.", calls=[Call("weather")], never_ends=50), DONE], board=board)
    assert len(played.results) == 1
    assert played.results[0][1] != "It rains in Oslo."
    assert played.is_complete


def test_calls_of_an_answer_that_was_cut_off_do_not_run(chat, board):
    cut = Round(calls=[Call("weather", {"city": "Oslo"})], finish="length")
    played = chat.play([cut, DONE], board=board)
    assert [kind for _, kind in played.results] == ["cut_off"]
    assert played.is_complete


def test_a_refusal_ends_the_turn(wire, board):
    played = wire.play([Round(refusal="I won't.")], board=board)
    assert (played.outcome.response.finish_reason, played.outcome.text) == ("refusal", "I won't.")


@pytest.mark.parametrize("raw", [{}, {"choices": [], "output": 3}, [1, 2], b"<html>busy</html>", b"null", b"{"])
def test_answers_that_are_none(asked, raw, board):
    played = asked.play([Round(raw=raw)], board=board)
    assert type(played.error).__name__ == "ModelError"
    assert played.is_complete


def test_an_answer_nested_without_end(asked, board):
    deep = b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    played = asked.play([Round(raw=deep)], board=board)
    assert type(played.error).__name__ == "ModelError"


@pytest.mark.parametrize("event", [b"data: [1]\n\n", b'data: "a"\n\n', b"data: 7\n\n", b'data: {"choices": 1}\n\n'])
def test_events_that_are_none_are_passed_over(streaming, board, event):
    played = streaming.play([Round(raw=event)], board=board, limits=TurnLimits(retries=0))
    assert type(played.error).__name__ == "ModelError"
    assert "without its end mark" in str(played.error)


def test_an_event_that_is_no_json(streaming, board):
    played = streaming.play([Round(raw=b"data: {oops\n\n")], board=board)
    assert played.error.code == "JSONDecodeError"
    assert not played.error.retryable
