from __future__ import annotations

from pegboard.messages.message import Message
from pegboard.tools.call import ToolCall
from pegboard.wire.ids import called_before, sendable


def test_names_that_the_provider_refuses_are_mapped():
    assert sendable("9-a_B") == "9-a_B"
    made = [sendable(name) for name in ("", "a.b", "a/b", "x" * 65)]
    assert len(set(made)) == 4
    assert all(0 < len(name) <= 64 for name in made)


def test_a_provider_may_take_other_names():
    assert sendable("a.b", "[a-z.]+") == "a.b"
    assert sendable("a.b\n", "[a-z.]+") != "a.b\n"


def test_a_conversation_has_called_each_tool_once_and_none_that_its_provider_ran():
    calls = [ToolCall("a"), ToolCall("a"), ToolCall("b.c"), ToolCall("d", provider_executed=True)]

    assert called_before([Message.user("x"), Message.assistant("y", *calls)]) == ["a", sendable("b.c")]
