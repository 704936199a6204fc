"""The wire format, both ways, and the plugin that brings it."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import Message, ModelError, ModelRequest, NamedTool, ToolRegistry, tool
from pegboard.errors import ExportError
from pegboard.testing import check_plugin
from pegboard_parrot import Parrot

ANSWER = {
    "says": "Let me look.",
    "calls": [{"ref": "a", "tool": "weather", "with": {"city": "Oslo"}}],
    "stopped": "calls",
    "tokens": {"in": 20, "out": 9},
}


@tool
def weather(city: str) -> str:
    """Get the weather."""
    return f"It rains in {city}."


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(weather)
    return made


@pytest.fixture
def request_of(registry):
    def made(*messages, **facts):
        return ModelRequest(messages or (Message.user("Rain?"),), tools=asyncio.run(registry.resolve()), **facts)

    return made


def test_it_is_found_by_its_name():
    assert isinstance(ToolRegistry().exporter("parrot"), Parrot)


def test_the_plugin_keeps_the_contract():
    check_plugin("parrot")


def test_a_request(request_of):
    body = Parrot().request(request_of(instructions="Be brief.", model="grey"))
    assert body["turns"] == [{"who": "keeper", "says": "Be brief."}, {"who": "human", "says": "Rain?"}]
    (entry,) = body["tools"]
    assert (entry["tool"], entry["takes"]["required"]) == ("weather", ["city"])


def test_a_tool_that_must_be_called_has_to_be_there(request_of):
    assert Parrot().request(request_of(tool_choice=NamedTool("weather")))["must_call"] == "weather"
    with pytest.raises(ExportError, match="it isn't exported"):
        Parrot().request(request_of(tool_choice=NamedTool("wether")))


def test_a_whole_loop(registry, request_of):
    asked = request_of()
    response = Parrot().response(ANSWER, asked)
    outcome = asyncio.run(registry.dispatch(response.calls, asked.tools))
    body = Parrot().request(asked.with_messages(response.message, Message.tool(outcome)))
    assert body["turns"][1:] == [
        {"who": "bird", "says": "Let me look."},
        {"who": "bird", "call": {"ref": "a", "tool": "weather", "with": {"city": "Oslo"}}},
        {"who": "tool", "ref": "a", "says": "It rains in Oslo."},
    ]


def test_a_stream_gives_what_the_whole_gives(request_of):
    reader = Parrot().reader(request_of())
    lines = [{"says": "Let me "}, {"says": "look."}, {"call": ANSWER["calls"][0]}, {**ANSWER, "calls": [], "says": ""}]
    deltas = [delta for line in lines for delta in reader.feed(line)]
    assert len(deltas) == 3
    assert reader.response() == Parrot().response(ANSWER)


def test_a_stream_that_breaks_off_keeps_what_has_come():
    reader = Parrot().reader()
    reader.feed({"says": "Half a sen"})
    response = reader.response(broken="the line went dead")
    assert (response.text, response.interrupted, response.complete) == ("Half a sen", True, False)


@pytest.mark.parametrize("raw", [{"problem": "too many seeds"}, {}, None, []], ids=str)
def test_what_is_no_answer_is_an_error(raw):
    with pytest.raises(ModelError):
        Parrot().response(raw)
