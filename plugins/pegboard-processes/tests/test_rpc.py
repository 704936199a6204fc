from __future__ import annotations

import asyncio
import json
import pickle
import socket

import pytest
from hypothesis import given, strategies as st

from pegboard_processes.caller import ParentCaller
from pegboard_processes.rpc import Connection, Frames, MessageTooLongError, ProtocolError, Reply, Shutdown, frame

MOST = 100_000


@given(st.lists(st.binary(max_size=50)), st.data())
def test_messages_are_decoded_from_any_pieces_of_the_stream(messages, data):
    stream, frames, found = b"".join(map(frame, messages)), Frames(most=50), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += frames.feed(stream[:size])
        stream = stream[size:]
    assert found == messages


def test_a_message_that_is_too_long_is_refused_before_it_has_arrived():
    with pytest.raises(ProtocolError, match="a message of 11 bytes was announced; at most 10 are taken"):
        list(Frames(most=10).feed(frame(b"x" * 11)[:5]))


# The child's end ------------------------------------------------------------------------------------------------------


class Parent:
    """The other end of a connection."""

    def __init__(self):
        self.link, other = socket.socketpair()
        self.connection = Connection(other, MOST)

    def send(self, *messages):
        for message in messages:
            self.link.sendall(frame(pickle.dumps(message)))

    def hang_up(self):
        self.link.shutdown(socket.SHUT_WR)

    def received(self):
        self.connection.link.close()
        sent = b""
        while piece := self.link.recv(65_536):
            sent += piece
        return [json.loads(body) for body in Frames(MOST).feed(sent)]


@pytest.fixture
def parent():
    made = Parent()
    yield made
    made.link.close()
    made.connection.link.close()


def test_several_messages_at_once_are_received_one_by_one(parent):
    parent.send(1, 2, 3)
    assert [parent.connection.receive() for _ in range(3)] == [1, 2, 3]


def test_receive_now_does_not_wait(parent):
    assert parent.connection.receive_now() == []
    parent.send(1, 2)
    assert parent.connection.receive_now() == [1, 2]
    parent.hang_up()
    assert parent.connection.receive_now() == [None]


def test_a_message_that_is_too_long_is_not_sent(parent):
    with pytest.raises(MessageTooLongError, match="bytes"):
        parent.connection.send({"text": "x" * MOST})
    assert parent.received() == []


def test_lone_surrogates_become_question_marks(parent):
    parent.connection.send({"text": "\ud800"})
    assert parent.received() == [{"text": "?"}]


# The caller ----------------------------------------------------------------------------------------------------------


def test_a_question_ends_the_process_if_the_parent_has_disconnected(parent):
    parent.hang_up()
    with pytest.raises(Shutdown):
        asyncio.run(ParentCaller(parent.connection).answer("ask", {}))


def test_the_answer_to_a_cancelled_question_is_ignored(parent):
    caller = ParentCaller(parent.connection)

    async def ask_twice():
        first = asyncio.ensure_future(caller.answer("call", {}))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(caller.answer("call", {}))
        await asyncio.sleep(0)
        first.cancel()
        parent.send(Reply(1, "one"), Reply(2, "two"))
        return await second

    assert asyncio.run(ask_twice()) == "two"


def test_an_answer_and_a_cancellation_may_coincide(parent):
    caller = ParentCaller(parent.connection)

    async def both():
        task = asyncio.ensure_future(caller.answer("call", {}))
        await asyncio.sleep(0)
        future = caller._waiting[1]
        parent.send(Reply(1, "one"))
        caller._deliver()
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(both())
