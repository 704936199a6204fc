from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from pegboard.messages import ModelResponse
from pegboard.tools.call import ToolCall
from pegboard.wire.bodies import (
    EARLY,
    INVALID,
    MOST_INVALID,
    NO_WORDS,
    SizeBudget,
    StreamEnd,
    TextBuffer,
    arguments_object,
    arguments_text,
    input_text,
    parsed_object,
)


class Odd(Mapping):
    """Breaks whenever it is looked at."""

    def __getitem__(self, key):
        raise ValueError

    def __iter__(self):
        return iter(("a",))

    def __len__(self):
        return 1

    def __repr__(self):
        raise RuntimeError


CASES = {
    "an object": ({"a": 1}, {"a": 1}),
    "its text": ('{"a": [1]}', {"a": [1]}),
    "its bytes": (b'{"a": 1}', {"a": 1}),
    "blank": (" \n", {}),
    "no JSON": ('{"a": ', {INVALID: '{"a": '}),
    "each key once": ('{"a": 1, "a": 2}', {INVALID: '{"a": 1, "a": 2}'}),
    "no object": ("[1]", {INVALID: "[1]"}),
    "no number of JSON": ('{"a": NaN}', {INVALID: '{"a": NaN}'}),
    "no Unicode": ("\ud83d", {INVALID: "\ufffd"}),
    "too deep": ("[" * 100_000, {INVALID: "[" * MOST_INVALID + " … (100,000 characters)"}),
    "an object that is no JSON": ({"a": object()}, {INVALID: "arguments that are no JSON"}),
}


@pytest.mark.parametrize("what", CASES)
def test_arguments_are_an_object_whatever_they_were(what):
    arguments, wanted = CASES[what]

    assert arguments_object(ToolCall("t", arguments)) == wanted


def test_a_mapping_that_holds_itself_is_no_json():
    arguments: dict[str, object] = {}
    arguments["a"] = arguments

    assert arguments_object(ToolCall("t", arguments)) == {INVALID: "arguments that are no JSON"}


def test_a_mapping_that_breaks_is_no_json():
    assert arguments_object(ToolCall("t", Odd())) == {INVALID: "arguments that are no JSON"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"a": "ß"}, '{"a":"ß"}'),
        ('{"a" : 1}', '{"a" : 1}'),
        ('{"a', '{"INVALID_JSON":"{\\"a"}'),
        ("[1]", '{"INVALID_JSON":"[1]"}'),
        ('{"a":1,"a":2}', '{"INVALID_JSON":"{\\"a\\":1,\\"a\\":2}"}'),
        ("", "{}"),
        (" \n", "{}"),
        (b'{"a":1}', '{"a":1}'),
        (b"\xff", '{"INVALID_JSON":"\\\\xff"}'),
        ("\ud800", '{"INVALID_JSON":"\ufffd"}'),
        ({"a": "\ud800"}, '{"a":"\ufffd"}'),
    ],
)
def test_arguments_are_the_text_of_an_object_whatever_the_model_wrote(given, text):
    written = arguments_text(ToolCall("t", given))
    assert (written, type(written)) == (text, str)
    assert type(json.loads(written)) is dict


def test_arguments_that_json_cant_say_are_an_object_that_says_so():
    for odd in ({"a": {1}}, Odd()):
        assert json.loads(arguments_text(ToolCall("t", odd))) == {"INVALID_JSON": "arguments that are no JSON"}
    cyclic = {}
    cyclic["a"] = cyclic
    assert "INVALID_JSON" in arguments_text(ToolCall("t", cyclic))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"input": "x\n"}, "x\n"),
        ('{"input": "x"}', "x"),
        (b'{"input": "x"}', "x"),
        ("free", "free"),
        ({"input": 1}, '{"input":1}'),
        ({"input": "x", "b": 1}, '{"input":"x","b":1}'),
        ({"input": "\ud800"}, "\ufffd"),
    ],
)
def test_free_text_is_what_stands_under_input(given, said):
    assert input_text(ToolCall("t", given)) == said


@pytest.mark.parametrize("text", ["[]", "1", "{", '{"a":1,"a":2}', '{"a":NaN}', "[" * 100_000, '{"a":"\ud800"}'])
def test_what_is_no_object_is_none(text):
    assert parsed_object(text) is None


def test_an_object_is_parsed():
    assert parsed_object('{"a": [null]}') == {"a": [None]}


def test_blank_text_is_an_object_without_members():
    assert parsed_object(" \n") == {}


@given(st.lists(st.text(max_size=5)), st.integers(0, 20), st.integers(0, 20))
def test_gathered_text_is_as_much_as_there_is_room_for(pieces, budget, most):
    gathered = TextBuffer(SizeBudget(budget), most)
    taken = [gathered.add(piece) for piece in pieces]

    assert gathered.text == "".join(taken) == "".join(pieces)[: min(budget, most)]
    assert (gathered.text, len(gathered)) == (gathered.text, len(gathered.text))
    assert gathered.budget.spent == (len("".join(pieces)[:most]) > budget)
    assert gathered.over == (gathered.text != "".join(pieces))


def test_what_is_no_text_is_no_piece():
    gathered = TextBuffer(SizeBudget())

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
