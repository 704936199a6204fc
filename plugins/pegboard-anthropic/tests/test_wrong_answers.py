"""Models that call what they shouldn't, and answers that are none: the turn goes on, or a typed error comes."""

from __future__ import annotations

import pytest

from fake_vendors import Call, Round
from pegboard.errors import ModelError

DONE = Round(text="Done.")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (Call("weather", '{"city": '), "invalid_arguments"),
        (Call("weather", "[1, 2]"), "invalid_arguments"),
        (Call("weather", '{"city": 7}'), "invalid_arguments"),
        (Call("no_such_tool", {"a": 1}), "unknown_tool"),
        (Call("no such tool!", {}), "unknown_tool"),
    ],
)
def test_a_call_that_can_not_run_is_answered_and_the_turn_goes_on(wire, board, call, kind):
    script = [Round(calls=[call, Call("weather", {"city": "Oslo"})]), DONE]
    played = wire.play(script, board=board, server={"undeclared_calls": True})  # the name goes back in one that fits
    assert [result for _, result in played.results] == [kind, "It rains in Oslo."]
    assert played.outcome.ended == "answered"
    assert played.server.refusals == []


def test_a_call_without_an_id_gets_one(wire, board):
    played = wire.play([Round(calls=[Call("weather", {"city": "Oslo"}, id=None)]), DONE], board=board)
    assert [result for _, result in played.results] == ["It rains in Oslo."]
    assert played.is_complete
    assert played.server.refusals == []


def test_the_same_id_twice_is_two_calls(wire, board):
    twice = [Call("weather", {"city": city}, id="toolu_a") for city in ("Oslo", "Bergen")]
    played = wire.play([Round(calls=twice), DONE], board=board)
    assert [result for _, result in played.results] == ["It rains in Oslo.", "It rains in Bergen."]
    assert len({id_ for id_, _ in played.results}) == 2
    assert played.server.refusals == []


def test_a_new_call_under_an_old_index_is_a_call_of_its_own(streaming, board):
    calls = [Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Bergen"}, same_index=True)]
    played = streaming.play([Round(calls=calls), DONE], board=board)
    assert [result for _, result in played.results] == ["It rains in Oslo.", "It rains in Bergen."]


def deep(levels):
    return b'{"type": "message", "content": [{"type": "tool_use", "id": "a", "name": "clock", "input": ' + (
        b'{"a": ' * levels + b"1" + b"}" * levels + b'}], "stop_reason": "tool_use"}'
    )


@pytest.mark.parametrize(
    "body",
    [b"[]", b"7", b'"text"', b"{}", b'{"content": 7}', b"no json", b'{"no": "end"', deep(300), deep(90_000)],
    ids=lambda body: body[:12].decode() + str(len(body)),
)
def test_an_answer_of_nonsense_is_a_model_error(whole, body):
    played = whole.play([Round(raw=body)])
    assert isinstance(played.error, ModelError)
    assert (played.error.provider, played.error.retryable) == ("anthropic", False)


def test_blocks_of_nonsense_are_passed_over(whole):
    blocks = [7, None, {"type": 3}, {"no": "type"}, {"type": "text", "text": "Done."}]
    played = whole.play([Round(raw={"type": "message", "content": blocks, "stop_reason": "end_turn", "usage": []})])
    assert played.outcome.text == "Done."


def test_nothing_at_all_is_an_answer(wire):
    assert wire.play([Round()]).outcome.text == ""
