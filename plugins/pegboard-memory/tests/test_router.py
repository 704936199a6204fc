"""Messages: to functions of this process, and into an outbox."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import ToolError
from pegboard_memory import LocalRouter, Message, OutboxRouter


def send(router, *messages):
    return [asyncio.run(router.send(message)) for message in messages]


def message_to(target_id, content="hello", target_type="agent"):
    return Message(target_type, target_id, content)


def test_every_function_that_receives_for_a_target_gets_its_messages():
    router, received = LocalRouter(), []

    async def later(message):
        received.append(f"later {message.content}")

    end = router.receive("agent", "a", lambda message: received.append(message.content))
    router.receive("agent", "a", later)
    router.receive("group", "a", received.append)
    assert send(router, message_to("a")) == ["delivered"]
    assert received == ["hello", "later hello"]
    end()
    send(router, message_to("a", "again"))
    assert received[2:] == ["later again"]


def test_a_message_without_receivers_names_the_reachable_targets():
    router = LocalRouter()
    with pytest.raises(ToolError, match=r"agent:a can't be reached\. Reachable: none\."):
        send(router, message_to("a"))
    router.receive("channel", "c", print)
    with pytest.raises(ToolError, match="Reachable: channel:c"):
        send(router, message_to("a"))
    with pytest.raises(ValueError, match="not for 'planet'"):
        router.receive("planet", "mars", print)


def test_an_outbox_gives_each_message_until_it_is_sent(database):
    router = OutboxRouter(database)
    messages = [Message("user", "\ud800ann", f"{number}", {"a": [number]}, "bob", "cook", "s") for number in range(3)]
    assert send(router, *messages) == ["queued for delivery"] * 3
    first = router.take(2, seconds=-1)
    assert [message.content for message in first] == ["0", "1"]
    assert (first[0].metadata, first[0].id, first[0].user) == ({"a": [0]}, messages[0].id, "bob")
    assert router.take(2, seconds=600) == first
    assert [message.content for message in router.take(2)] == ["2"]
    assert router.take() == ()
    router.sent(first)
    assert OutboxRouter(database).take() == ()
