"""Through the real SDK, against a server that refuses what the provider would."""

from __future__ import annotations

import pytest

from fake_vendors import Call, Error, ModelServer, Reasoning, Round
from fake_vendors.rules.loops import play
from fake_vendors.rules.samples import PNG, asked
from pegboard.tools.content import TextContent, ToolResult
from pegboard_openai.openai_chat import OpenAIChat

ROUNDS = [
    Round(
        text="Let me look.",
        reasoning=Reasoning("hm"),
        calls=[Call("weather", {"city": "Oslo"}), Call("note", "x", freeform=True)],
    ),
    Round(calls=[Call("weather", '{"city": '), Call("weather", {"city": "Rome"}, same_index=True)]),
    Round(text="It rains."),
]


def answer(call):
    if call.name == "note":
        return ToolResult([TextContent("drawn"), PNG])
    return ToolResult.error("invalid_arguments", "no JSON") if "Rome" in str(call.arguments) else ToolResult("rain")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_whole_loop(streamed):
    with ModelServer(ROUNDS) as server:
        responses = play(server, OpenAIChat(), asked("go", model="m"), answer, streamed=streamed)

    assert [len(response.calls) for response in responses] == [2, 2, 0]
    assert [response.finish_reason for response in responses] == ["tool_calls", "tool_calls", "stop"]
    assert responses[-1].text == "It rains."
    assert all(response.complete for response in responses)


@pytest.mark.parametrize(
    "round_",
    [Round(text="Half a sentence", break_after=3), Round(text="Half a sentence", stop_after=3)],
    ids=["broken", "stopped"],
)
def test_a_stream_that_breaks_off_is_interrupted(round_):
    with ModelServer([round_]) as server:
        (response,) = play(server, OpenAIChat(), asked("go", model="m"), answer, streamed=True)
    assert (response.interrupted, response.complete) == (True, False)
    assert response.text


def test_an_error_in_the_stream_keeps_what_came():
    with ModelServer([Round(text="Half a sentence", error=Error(529, after=3))]) as server:
        (response,) = play(server, OpenAIChat(), asked("go", model="m"), answer, streamed=True)
    assert response.text
    assert not response.complete
