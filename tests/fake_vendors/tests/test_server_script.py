from __future__ import annotations

import pytest

import fake_vendors
from fake_vendors import Call, Error, Request, Round
from fake_vendors.server.script import CutError, Reply

REQUEST = Request("/", "", {}, {})


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
