from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import fake_vendors
from fake_vendors import Call, Error, Request, Round
from fake_vendors.server.script import CutError, Reply, split

REQUEST = Request("/", "", {}, {})


@given(st.text(), st.integers(-1, 9))
def test_pieces_make_up_the_text_and_none_is_empty(text, pieces):
    got = list(split(text, pieces))
    assert "".join(got) == text
    assert all(got)
    assert len(got) <= max(1, pieces)


@pytest.mark.parametrize(
    ("arguments", "text", "value"),
    [({"a": 1}, '{"a": 1}', {"a": 1}), ("[1]", "[1]", [1]), ("{x", "{x", "{x"), ("", "", "")],
)
def test_arguments_as_text_and_as_value(arguments, text, value):
    assert (Call("a", arguments).text, Call("a", arguments).value) == (text, value)


@pytest.mark.parametrize(
    ("played", "ending"),
    [
        (Round(), "stop"),
        (Round(calls=[Call("a")]), "tool_calls"),
        (Round(refusal="no", calls=[Call("a")]), "refusal"),
        (Round(finish="length", calls=[Call("a")]), "length"),
    ],
)
def test_the_ending_is_what_fits(played, ending):
    assert played.ending == ending


@pytest.mark.parametrize(
    "unplayable",
    [{"never_ends": 3}, {"break_after": 1, "stop_after": 1}, {"error": Error(), "break_after": 1}],
)
def test_what_cannot_be_played_is_refused(unplayable):
    with pytest.raises(ValueError, match="go"):
        Round(**unplayable)


def test_the_examples_of_the_package_are_rounds():
    lines = [line.partition("  #")[0].strip() for line in fake_vendors.__doc__.splitlines() if "  #" in line]
    assert len(lines) == 13
    assert all(isinstance(eval(line, vars(fake_vendors)), Round) for line in lines)


def test_ids_are_made_unless_they_are_given_or_left_out():
    reply = Reply(Round(calls=[Call("a"), Call("a", id="x"), Call("a", id=None)]), 3, REQUEST)
    assert [sent.id for sent in reply.calls("call_")] == ["call_3_0", "x", None]
    assert [sent.id for sent in reply.calls(None)] == [None, "x", None]


def test_only_the_last_call_never_ends():
    first, last = Call("a", {"x": 1}), Call("a")
    reply = Reply(Round(calls=[first, last], never_ends=2, pieces=1), 1, REQUEST)
    assert list(reply.argument_pieces(first)) == ['{"x": 1}']
    pieces = []
    with pytest.raises(CutError):
        pieces.extend(iter(reply.argument_pieces(last)))
    calls = []
    with pytest.raises(CutError):
        calls.extend(iter(reply.endless_calls()))
    assert (len(pieces), calls) == (3, [first, last, last, last])
