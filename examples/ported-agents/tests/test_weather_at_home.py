from __future__ import annotations

import asyncio

import pytest

from pegboard import ToolCall
from pegboard.testing import ScriptedModel
from ported_agents.weather_at_home import Chat

SCRIPT = [
    ToolCall("ask_yes_or_no", {"message": "May I know where you are?"}, "c1"),
    ToolCall("where_is_the_user", {}, "c2"),
    ToolCall("weather_in", {"city": "Oslo"}, "c3"),
    "Take an umbrella.",
]


def test_the_client_runs_its_tools_and_the_server_its_own():
    with ScriptedModel(SCRIPT) as model:
        chat = Chat(model)
        shown = asyncio.run(chat.send("Do I need an umbrella?"))
        assert shown == {
            "state": "pending",
            "text": "",
            "calls": [{"id": "c1", "name": "ask_yes_or_no", "input": {"message": "May I know where you are?"}}],
        }
        shown = asyncio.run(chat.add_results({"c1": "Yes"}))
        assert [call["name"] for call in shown["calls"]] == ["where_is_the_user"]
        chat = Chat(model, chat.stored)  # the server was restarted
        shown = asyncio.run(chat.add_results({"c2": "Oslo"}))
        assert shown == {"state": "answered", "text": "Take an umbrella.", "calls": []}
    assert "rain" in model.requests[-1].messages[-1].results[0].result.text


def test_results_may_come_one_by_one():
    script = [[SCRIPT[0], SCRIPT[1]], "Thanks."]
    with ScriptedModel(script) as model:
        chat = Chat(model)
        asyncio.run(chat.send("Hi."))
        shown = asyncio.run(chat.add_results({"c2": "Oslo"}))
        assert (shown["state"], [call["id"] for call in shown["calls"]]) == ("pending", ["c1"])
        assert asyncio.run(chat.add_results({"c1": "No"}))["text"] == "Thanks."


def test_the_next_turn_has_the_history_of_the_previous_one():
    with ScriptedModel(["Hello.", "You said hi."]) as model:
        chat = Chat(model)
        asyncio.run(chat.send("Hi."))
        assert asyncio.run(chat.send("What did I say?"))["text"] == "You said hi."
    assert [message.text for message in model.requests[1].messages] == ["Hi.", "Hello.", "What did I say?"]


def test_results_without_a_turn_are_an_error():
    with pytest.raises(AssertionError, match="there is no turn yet"):
        asyncio.run(Chat(ScriptedModel([])).add_results({"c1": "Yes"}))
