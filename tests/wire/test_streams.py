from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard.messages.response import ModelResponse
from pegboard.wire.bodies import EARLY, NO_WORDS, Gathered, Room, StreamEnd


@given(st.lists(st.text(max_size=5)), st.integers(0, 20), st.integers(0, 20))
def test_gathered_text_is_as_much_as_there_is_room_for(pieces, room, most):
    gathered = Gathered(Room(room), most)
    taken = [gathered.add(piece) for piece in pieces]

    assert gathered.text == "".join(taken) == "".join(pieces)[: min(room, most)]
    assert (gathered.text, len(gathered)) == (gathered.text, len(gathered.text))
    assert gathered.room.spent == (len("".join(pieces)[:most]) > room)
    assert gathered.over == (gathered.text != "".join(pieces))


def test_what_is_no_text_is_no_piece():
    gathered = Gathered(Room())

    assert [gathered.add(piece) for piece in (None, 3, {}, b"x")] == [""] * 4
    assert not gathered.over


def test_a_stream_that_ended_well_leaves_the_answer_as_it_is():
    response = ModelResponse("x")
    assert StreamEnd(reached=True).of(response, None, spent=False) is response


@pytest.mark.parametrize("broken", [None, "it broke"])
def test_a_stream_without_its_end_is_interrupted(broken):
    response = StreamEnd().of(ModelResponse("x"), broken, spent=False)
    assert (response.interrupted, response.complete, response.finish_reason) == (True, False, "other")
    assert response.error_message == (broken or EARLY)


def test_a_stream_that_broke_behind_its_end_mark_is_interrupted_too():
    assert StreamEnd(reached=True).of(ModelResponse("x"), "late", spent=False).interrupted


def test_too_long_an_answer_isnt_complete():
    response = StreamEnd(reached=True).of(ModelResponse("x"), None, spent=True)
    assert (response.complete, response.finish_reason) == (False, "length")


def test_the_first_error_counts():
    end = StreamEnd()
    end.failed("overloaded", "Too much.")
    end.failed(None, None)
    response = end.of(ModelResponse("x"), "broken", spent=False)
    assert (response.error_code, response.error_message, response.finish_reason) == ("overloaded", "Too much.", "error")
    assert (response.complete, response.interrupted) == (False, True)


def test_an_error_without_words_has_some():
    end = StreamEnd(reached=True)
    end.failed(None, None)
    assert end.of(ModelResponse(), None, spent=False).error_message == NO_WORDS


@pytest.mark.parametrize(("said", "kept"), [("length", "length"), ("tool_calls", "other"), ("stop", "other")])
def test_what_cut_an_answer_off_stays_where_its_end_is_lost_too(said, kept):
    assert StreamEnd().of(ModelResponse("x", said), None, spent=False).finish_reason == kept
