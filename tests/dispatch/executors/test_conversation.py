# ruff: noqa: ASYNC110  (what is waited for happens in another thread)

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from dispatch.executors.isolated_tools import tool_named
from dispatch.executors.watching import PATIENCE
from pegboard.dispatch.executors import conversation as module
from pegboard.dispatch.executors.answering import raised_again
from pegboard.dispatch.executors.conversation import Conversation, Ending
from pegboard.dispatch.executors.executor import SILENCE, Talk
from pegboard.dispatch.executors.luggage import errand_for
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.tools.context import ToolContext

ERRAND = errand_for(tool_named("add"), ExecutionRequest(tool="add", arguments={"a": 1}), ToolContext())
READY, DONE = b'{"ready": 1}', b'{"done": {"output": "3"}}'
ASK = b'{"ask": %d, "what": "%s", "facts": {}}'


class Child:
    """A child that says what it is told to say, a list of messages at a time; then it is silent, or hangs up."""

    def __init__(self, *said, hangs_up=False):
        self.said = list(said)
        self.heard = []
        self.is_ready = self.has_hung_up = False
        self.hangs_up = hangs_up
        self.bell = threading.Event()

    def begin(self, errand):
        assert errand is ERRAND

    def listen(self, seconds):
        if self.said:
            return self.said.pop(0)
        if self.hangs_up:
            self.has_hung_up = True
            return []
        self.bell.wait(PATIENCE if seconds is None else seconds)
        self.bell.clear()
        return []

    def say(self, message):
        self.heard.append(message)
        if message.number == 99:
            self.said.append([DONE])

    def ring(self):
        self.bell.set()


def held_by_a_thread(conversation, child):
    try:
        return conversation.hold(child)
    finally:
        conversation.finish()


async def block(conversation):
    """Keeps the loop from doing anything else until the conversation is over."""
    await asyncio.sleep(0)  # the thread is started
    conversation.wait(PATIENCE)


def hold(child, talk=SILENCE, *, seconds=None, act=None):
    """Holds a conversation in a thread, while its loop runs; `act` gets the conversation meanwhile."""

    async def held():
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else time.monotonic() + seconds
        conversation = Conversation(ERRAND, talk, loop, deadline)
        conversation.has_begun = True
        waiting = asyncio.ensure_future(asyncio.to_thread(held_by_a_thread, conversation, child))
        if act is not None:
            await act(conversation)
        return await asyncio.wait_for(waiting, PATIENCE)

    return asyncio.run(held())


def test_it_ends_with_the_answer():
    ended = hold(Child([READY], [DONE]))
    assert (ended.ending, ended.response.output) == (Ending.ANSWERED, "3")


def test_what_nobody_listens_to_is_passed_over():
    assert hold(Child([READY], [b'{"tell": {"partial": 1}}', DONE])).ending is Ending.ANSWERED


def test_it_ends_where_the_child_hangs_up_or_has_other_code():
    assert hold(Child([READY], hangs_up=True)).ending is Ending.HUNG_UP
    stale = hold(Child([b'{"stale": "new"}']))
    assert (stale.ending, stale.reason) == (Ending.STALE, "new")


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense",
        b'{"what": "ever"}',
        b'{"done": {"output": 1}}',
        b'{"done": []}',
        b'{"tell": 1}',
        b'{"ask": "1", "what": "ask", "facts": {}}',
        b'{"ask": 1, "what": 2, "facts": {}}',
        b'{"ask": 1, "what": "ask", "facts": []}',
    ],
)
def test_what_makes_no_sense_ends_it(said):
    ended = hold(Child([READY, said]), Talk(print, {}))
    assert ended.ending is Ending.GARBLED
    assert ended.reason


def test_it_ends_when_its_time_is_over():
    assert hold(Child([READY]), seconds=0.01).ending is Ending.TIMED_OUT


def test_a_child_has_its_own_time_to_start(monkeypatch):
    monkeypatch.setattr(module, "START_SECONDS", 0.01)
    assert hold(Child()).ending is Ending.NOT_STARTED
    assert hold(Child(), seconds=PATIENCE).ending is Ending.NOT_STARTED


def test_it_ends_when_somebody_stops_it():
    async def stop(conversation):
        conversation.stop()

    assert hold(Child([READY]), act=stop).ending is Ending.STOPPED


def test_stopping_it_wakes_the_thread_that_listens():
    async def stop(conversation):
        while conversation._child is None:
            await asyncio.sleep(0)
        conversation.stop()

    assert hold(Child([READY]), act=stop).ending is Ending.STOPPED


def test_a_loop_that_is_closed_wants_no_answer_any_more():
    for said in (b'{"tell": {"partial": 1}}', ASK % (1, b"ask")):
        loop = asyncio.new_event_loop()
        loop.close()

        async def answer(facts):
            raise AssertionError("never")

        talk = Talk(print, {"ask": answer})
        assert Conversation(ERRAND, talk, loop, None).hold(Child([READY, said])).ending is Ending.STOPPED


def test_whoever_waits_for_its_end_waits_no_longer():
    conversation = Conversation(ERRAND, SILENCE, asyncio.new_event_loop(), None)
    conversation.wait(PATIENCE)  # nobody has begun it
    conversation.has_begun = True
    threading.Timer(0.01, conversation.finish).start()
    conversation.wait(PATIENCE)
    conversation.wait(PATIENCE)
    conversation.loop.close()


def test_where_the_loop_is_behind_the_thread_waits_until_time_is_over_or_it_is_stopped(monkeypatch):
    monkeypatch.setattr(module, "MOST_UNHEARD", 2)
    tell = [b'{"tell": {"partial": 1}}'] * 5

    told = []
    assert hold(Child([READY, *tell]), Talk(told.append), seconds=0.1, act=block).ending is Ending.TIMED_OUT
    assert len(told) == 2

    async def stop(conversation):
        threading.Timer(0.1, conversation.stop).start()
        await block(conversation)

    assert hold(Child([READY, *tell]), Talk(told.append), act=stop).ending is Ending.STOPPED


# Questions ------------------------------------------------------------------------------------------------------------


def test_questions_are_answered_in_the_loop_and_sent_back():
    async def answer(facts):
        await asyncio.sleep(0)
        return "yes"

    child = Child([READY, ASK % (99, b"ask")])
    assert hold(child, Talk(None, {"ask": answer})).ending is Ending.ANSWERED
    (reply,) = child.heard
    assert (reply.number, reply.value, reply.error) == (99, "yes", None)


def test_a_question_that_nobody_answers_is_a_lookup_error():
    child = Child([READY, ASK % (99, b"surprise")])
    hold(child)
    assert str(raised_again(child.heard[0].error)) == "nobody answers 'surprise' here"


def test_too_many_questions_at_once_are_refused():
    async def never(facts):
        await asyncio.Event().wait()

    asked = [ASK % (number, b"call") for number in range(1, 65)]
    child = Child([READY, *asked], [ASK % (99, b"call")])
    hold(child, Talk(None, {"call": never}))
    (reply,) = child.heard
    assert str(raised_again(reply.error)) == "too many questions at once"


def test_an_answer_that_cancels_itself_is_an_error_like_others():
    async def cancel(facts):
        raise asyncio.CancelledError

    child = Child([READY, ASK % (99, b"call")])
    assert hold(child, Talk(None, {"call": cancel})).ending is Ending.ANSWERED
    assert str(raised_again(child.heard[0].error)) == "the host failed: CancelledError"


def test_a_question_of_a_call_that_is_over_is_not_even_begun():
    begun = []

    async def answer(facts):
        begun.append(facts)

    child = Child([READY, ASK % (1, b"call"), DONE])
    assert hold(child, Talk(None, {"call": answer}), act=block).ending is Ending.ANSWERED
    assert begun == []


def test_people_who_are_asked_at_the_same_time_stop_the_time_once():
    gates = []

    async def answer(facts):
        gates.append(asyncio.Event())
        await gates[-1].wait()

    async def let_go(conversation):
        while len(gates) < 2:
            await asyncio.sleep(0)
        questions = conversation._questions
        assert conversation._until() is None
        gates[0].set()
        await asyncio.sleep(0.01)
        assert questions.time_stands_still
        gates[1].set()
        while questions.time_stands_still:
            await asyncio.sleep(0)
        assert conversation._until() == conversation.deadline + questions.stood_still

    child = Child([READY, ASK % (1, b"ask"), ASK % (99, b"request_confirmation")])
    talk = Talk(None, {"ask": answer, "request_confirmation": answer})
    assert hold(child, talk, seconds=PATIENCE, act=let_go).ending is Ending.ANSWERED
