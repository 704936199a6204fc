"""Whole turns: what the model is told, what it calls, and what it is told of it."""

from __future__ import annotations

import base64
import json

from fake_vendors import Call, Citation, Page, Reasoning, Round, Search, Usage
from pegboard import ModelConfig, ModelRequest, NamedTool, Tool, ToolRegistry, tool
from pegboard.messages.message import HostedPart, ReasoningPart

LOOK = Round(
    text="Let me look.",
    calls=[Call("weather", {"city": "Oslo"}), Call("clock"), Call("photo")],
    usage=Usage(20, 9, cached=5, reasoning=2),
)
DONE = Round(text="It rains.", usage=Usage(30, 4))


def told(wire, body):
    """By call id, what the model is told of its calls."""
    if wire.is_chat:
        return {each["tool_call_id"]: each["content"] for each in body["messages"] if each["role"] == "tool"}
    return {each["call_id"]: each["output"] for each in body["input"] if each.get("type", "").endswith("_output")}


def test_parallel_calls_an_error_and_a_picture_go_back_to_the_model(wire, board):
    played = wire.play([LOOK, DONE], board=board)
    assert (played.outcome.ended, played.outcome.text) == ("answered", "It rains.")
    assert played.results == [
        ("call_1_0", "It rains in Oslo."),
        ("call_1_1", "tool_failure"),
        ("call_1_2", played.results[2][1]),
    ]
    assert played.is_complete
    back = told(wire, played.bodies[1])
    assert "It rains in Oslo." in json.dumps(back["call_1_0"])
    assert "The clock has stopped." in json.dumps(back["call_1_1"])
    assert "data:image/png;base64,iVBOR" in json.dumps(played.bodies[1])
    assert set(back) == {"call_1_0", "call_1_1", "call_1_2"}


def test_usage_is_summed_over_the_rounds(wire, board):
    usage = wire.play([LOOK, DONE], board=board).outcome.usage
    assert (usage.input_tokens, usage.output_tokens) == (50, 13)
    assert (usage.cached_tokens, usage.reasoning_tokens) == (5, 2)


def test_words_come_piece_by_piece(streaming, board):
    played = streaming.play([Round(text=["It ", "is ", "noon."])], board=board)
    pieces = [event.delta.text for event in played.events if type(event).__name__ == "AnswerDelta"]
    assert pieces == ["It ", "is ", "noon."]


def test_pieces_of_calls_come_before_the_call(streaming, board):
    played = streaming.play([Round(calls=[Call("weather", {"city": "Oslo"})]), DONE], board=board)
    pieces = [event.delta for event in played.events if type(event).__name__ == "AnswerDelta"]
    assert "".join(piece.arguments for piece in pieces if hasattr(piece, "arguments")) == '{"city": "Oslo"}'


def test_reasoning_goes_back_unchanged_with_its_signature(responses, board):
    thought = Reasoning("I look outside.", signature="gAAAAAB/+=")
    played = responses.play([Round(reasoning=thought, calls=[Call("clock")]), DONE], board=board)
    item = next(each for each in played.bodies[1]["input"] if each.get("type") == "reasoning")
    assert (item["id"], item["encrypted_content"]) == ("rs_1", "gAAAAAB/+=")
    assert item["summary"] == [{"type": "summary_text", "text": "I look outside."}]


def test_reasoning_goes_back_to_servers_that_want_it(chat, board):
    played = chat.play([Round(reasoning=Reasoning("I look."), calls=[Call("clock")]), DONE], board=board)
    assert played.bodies[1]["messages"][1]["reasoning_content"] == "I look."
    assert any(isinstance(part, ReasoningPart) for part in played.messages[1].parts)


def test_a_named_tool_choice_is_said(wire, board):
    request = ModelRequest("Go on.", tool_choice=NamedTool("weather"))
    played = wire.play([Round(text="No.")], request, board)
    choice = played.bodies[0]["tool_choice"]
    assert (choice["type"], choice.get("name") or choice["function"]["name"]) == ("function", "weather")


def test_a_strict_tool_is_said_and_its_nulls_are_left_out(wire, board):
    played = wire.play([Round(calls=[Call("book", {"city": "Oslo", "nights": None})]), DONE], board=board)
    said = {tool.get("name") or tool[tool["type"]]["name"]: tool for tool in played.bodies[0]["tools"]}
    entry = said["book"] if "name" in said["book"] else said["book"]["function"]
    assert entry["strict"] is True
    assert sorted(entry["parameters"]["required"]) == ["city", "nights"]
    assert played.results == [("call_1_0", "1 in Oslo")]


def test_free_text_runs_a_freeform_tool(wire, board):
    played = wire.play([Round(calls=[Call("run", "ls -l", freeform=True)]), DONE], board=board)
    assert played.results == [("call_1_0", "ran ls -l")]
    assert "ran ls -l" in json.dumps(told(wire, played.bodies[1]))


def test_the_request_may_name_another_model(wire, board):
    assert wire.play([DONE], ModelRequest("Hi", model="gpt-4o"), board).bodies[0]["model"] == "gpt-4o"
    assert wire.play([DONE], "Hi", board).bodies[0]["model"] == "gpt-5.4"


def test_options_go_into_the_body_also_those_that_the_sdk_does_not_know(wire, board):
    options = {"openai": {"service_tier": "flex", "brand_new": {"a": [1]}, "extra_body": {"newer": 2}}}
    request = ModelRequest("Hi", config=ModelConfig(temperature=0.5, provider_options=options))
    body = wire.play([DONE], request, board).bodies[0]
    assert (body["service_tier"], body["brand_new"], body["newer"]) == ("flex", {"a": [1]}, 2)
    assert body["temperature"] == 0.5


def test_streaming_is_not_an_option(wire, board):
    config = ModelConfig(provider_options={"openai": {"stream": not wire.streamed}})
    played = wire.play([DONE], ModelRequest("Hi", config=config), board)
    assert played.server.requests[0].streamed == wire.streamed


def test_usage_of_a_stream_may_be_left_out(chat, board):
    options = {"openai": {"stream_options": {"include_usage": False}}}
    played = chat.play([DONE], ModelRequest("Hi", config=ModelConfig(provider_options=options)), board)
    assert played.bodies[0].get("stream_options") == ({"include_usage": False} if chat.streamed else None)
    assert played.outcome.usage.input_tokens == (0 if chat.streamed else 30)


def test_hosted_tools_run_at_the_provider_and_go_back_as_they_were(responses):
    board = ToolRegistry()
    board.register(Tool.provider("web", "openai.web_search"), *_clock())
    search = Round(
        hosted=[Search("weather in Oslo", [Page("https://yr.no")])],
        text="Rain.",
        citations=[Citation("https://yr.no", "Yr", "Rain", 0, 4)],
        calls=[Call("now")],
    )
    played = responses.play([search, DONE], board=board)
    assert {"type": "web_search"} in played.bodies[0]["tools"]
    hosted = [part for part in played.messages[1].parts if isinstance(part, HostedPart)]
    assert [part.data["id"] for part in hosted] == ["ws_1_0"]
    back = next(each for each in played.bodies[1]["input"] if each.get("type") == "web_search_call")
    assert back["action"]["query"] == "weather in Oslo"
    assert played.outcome.ended == "answered"
    assert played.is_complete
    [answer] = [message for message in played.messages if message.calls]
    assert [each.uri for part in answer.parts for each in getattr(part, "citations", ())] == ["https://yr.no"]


def _clock():
    @tool
    def now() -> str:
        """Tells the time."""
        return "noon"

    return (now,)


def _deferred():
    @tool(deferred=True)
    def translate(text: str) -> str:
        """Translates a text."""
        return text[::-1]

    board = ToolRegistry()
    board.register(translate, *_clock())
    return board


def test_deferred_tools_are_left_to_the_search_of_models_that_have_one(responses):
    played = responses.play([Round(calls=[Call("translate", {"text": "abc"})]), DONE], board=_deferred())
    tools = {each.get("name", each["type"]): each for each in played.bodies[0]["tools"]}
    assert tools["translate"]["defer_loading"] is True
    assert "defer_loading" not in tools["now"]
    assert "tool_search" in tools
    assert played.results == [("call_1_0", "cba")]


def test_deferred_tools_stay_with_us_for_other_models(wire):
    facts = {"name": "gpt-4o"} if wire.is_chat else {"name": "gpt-5.4", "loads_deferred": False}
    body = wire.play([DONE], board=_deferred(), facts=facts).bodies[0]
    assert "defer_loading" not in json.dumps(body)
    assert '"tool_search"' not in json.dumps([each.get("type") for each in body["tools"]])


def test_pictures_of_the_user_go_out(wire, board):
    from pegboard import ImageContent, MediaPart, Message

    request = ModelRequest([Message("user", [MediaPart(ImageContent(b"\x89PNG"))])])
    body = wire.play([DONE], request, board).bodies[0]
    assert base64.b64encode(b"\x89PNG").decode() in json.dumps(body)
