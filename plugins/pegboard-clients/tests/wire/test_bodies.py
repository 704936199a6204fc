from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from pegboard import ModelConfig, ToolCall
from pegboard.messages import ModelResponse
from pegboard_clients.wire.bodies import (
    EARLY,
    NO_WORDS,
    TOO_LONG,
    SizeBudget,
    StreamEnd,
    TextBuffer,
    arguments_text,
    config_facts,
    decoded,
    input_text,
)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"a": "ß"}, '{"a":"ß"}'),
        ('{"a" : 1}', '{"a" : 1}'),
        ('{"a', '{"INVALID_JSON":"{\\"a"}'),
        ("[1]", '{"INVALID_JSON":"[1]"}'),
        (" \n", "{}"),
        (b"\xff", '{"INVALID_JSON":"\\\\xff"}'),
        ({"a": "\ud800"}, '{"a":"\ufffd"}'),
    ],
)
def test_arguments_are_the_text_of_an_object_whatever_the_model_wrote(given, text):
    written = arguments_text(ToolCall("t", given))
    assert (written, type(written)) == (text, str)
    assert type(json.loads(written)) is dict


@pytest.mark.parametrize(
    ("given", "text"),
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
def test_free_text_is_the_input_argument(given, text):
    assert input_text(ToolCall("t", given)) == text


def test_what_a_configuration_gives_goes_under_the_names_of_the_provider():
    names = {"temperature": "temp", "stop": "ends", "seed": "seed", "top_p": "p"}
    assert config_facts(ModelConfig(), names) == {}
    assert config_facts(ModelConfig(temperature=0.0, stop=("a",), seed=3), names) == {
        "temp": 0.0,
        "ends": ["a"],
        "seed": 3,
    }


@pytest.mark.parametrize(("data", "content"), [("YQ==", b"a"), ("", b""), ("YQ", None), ("Y Q==", None), (7, None)])
def test_base64_that_is_invalid_is_none(data, content):
    assert decoded(data) == content


@given(st.lists(st.text(max_size=5)), st.integers(0, 20), st.integers(0, 20))
def test_buffered_text_is_limited_by_both_limits(pieces, budget, most):
    gathered = TextBuffer(SizeBudget(budget), most)
    taken = [gathered.add(piece) for piece in pieces]

    assert gathered.text == "".join(taken) == "".join(pieces)[: min(budget, most)]
    assert (gathered.text, len(gathered)) == (gathered.text, len(gathered.text))
    assert gathered.budget.spent == (len("".join(pieces)[:most]) > budget)
    assert gathered.over == (gathered.text != "".join(pieces))


def test_other_types_than_text_are_ignored():
    gathered = TextBuffer(SizeBudget())

    assert [gathered.add(piece) for piece in (None, 3, {}, b"x")] == [""] * 4
    assert not gathered.over


def test_a_stream_that_ended_well_leaves_the_answer_as_it_is():
    response = ModelResponse("x")
    assert StreamEnd(reached=True).of(response, None, spent=False) is response


@pytest.mark.parametrize(
    ("reason_before", "reached", "broken", "spent", "reason", "message"),
    [
        ("stop", False, None, False, "other", EARLY),
        ("stop", False, "it broke", False, "other", "it broke"),
        ("stop", True, "late", False, "other", "late"),  # behind its end mark
        ("stop", True, None, True, "length", TOO_LONG),
        # what cut an answer off stays where its end is lost, too
        ("length", False, None, False, "length", EARLY),
        ("tool_calls", False, None, False, "other", EARLY),
    ],
)
def test_an_answer_that_isnt_whole_is_marked(reason_before, reached, broken, spent, reason, message):  # noqa: PLR0913, PLR0917
    response = StreamEnd(reached).of(ModelResponse("x", reason_before), broken, spent=spent)
    assert (response.complete, response.interrupted) == (False, not spent)
    assert (response.finish_reason, response.error_message) == (reason, message)


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
