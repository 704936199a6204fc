"""Whoever puts a request before a person: an object or a function, plain or async."""

from __future__ import annotations

import asyncio

import pytest

from dispatch.approval.samples import a_request
from pegboard.dispatch.approval.queue import (
    Approver,
    approver_function,
    ask_later,
    asks_one_at_a_time,
    checked_answer,
    is_plain,
)
from pegboard.dispatch.approval.request import Always, Later, Once, Reject
from pegboard.tools.context import ToolContext


class Plain:
    def approve(self, request, context):
        return Once()


class Async:
    async def approve(self, request, context):
        return Once()


class Terminal(Async):
    one_at_a_time = True


async def function(request, context):
    return Once()


@pytest.mark.parametrize(
    ("approver", "plain", "one_at_a_time"),
    [
        (Plain(), True, True),
        (Async(), False, False),
        (Terminal(), False, True),
        (function, False, False),
        (lambda request, context: Once(), True, True),
    ],
)
def test_how_it_is_asked(approver, plain, one_at_a_time):
    """What may block is asked in a thread, and one thing after the other."""
    assert is_plain(approver_function(approver)) is plain
    assert asks_one_at_a_time(approver) is one_at_a_time


def test_the_protocol_is_the_method():
    assert isinstance(Plain(), Approver)
    assert not isinstance(function, Approver)


def test_something_else_cant_be_asked():
    with pytest.raises(TypeError, match="an approver has approve"):
        approver_function(7)


@pytest.mark.parametrize("answer", [None, Once(), Always(), Reject(), Later()])
def test_answers_are_answers(answer):
    assert checked_answer(answer) is answer


@pytest.mark.parametrize("nonsense", [True, "yes", 1, {"answer": "once"}, Once])
def test_nonsense_is_none(nonsense):
    """A truthy value least of all."""
    with pytest.raises(TypeError, match="an approver may answer"):
        checked_answer(nonsense)


def test_every_answer_can_come_later():
    assert asyncio.run(ask_later(a_request(), ToolContext())) == Later()
