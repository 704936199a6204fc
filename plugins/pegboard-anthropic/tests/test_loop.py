"""Whole turns: what the model is told, what it calls, and what it is told of it."""

from __future__ import annotations

import base64

import pytest

from fake_vendors import Call, Citation, Page, Reasoning, Round, Search, Usage
from pegboard import ModelConfig, ModelRequest, NamedTool, Tool, ToolRegistry, tool
from pegboard.messages.message import HostedPart, ReasoningPart
from pegboard.messages.response import CallDelta, ReasoningDelta, TextDelta
from pegboard.turn.events import AnswerDelta

LOOK = Round(
    text="Let me look.",
    calls=[Call("weather", {"city": "Oslo"}), Call("clock"), Call("photo")],
    usage=Usage(20, 9, cached=5),
)
DONE = Round(text="It rains.", usage=Usage(30, 4))


def told(body):
    """By call id, what the model is told of its calls."""
    return {
        block["tool_use_id"]: block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    }


def said(body, kind):
    """The blocks of one type that the model is told it has said."""
    return [
        block
        for message in body["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == kind
    ]


def test_parallel_calls_an_error_and_a_picture_go_back_to_the_model(wire, board):
    played = wire.play([LOOK, DONE], board=board)

    assert (played.outcome.ended, played.outcome.text) == ("answered", "It rains.")
    assert [id_ for id_, _ in played.results] == ["toolu_1_0", "toolu_1_1", "toolu_1_2"]
    assert played.is_complete
    assert played.server.refusals == []
    weather, clock, photo = told(played.bodies[1]).values()
    assert weather["content"] == "It rains in Oslo."
    assert (clock["is_error"], "has stopped" in str(clock["content"])) == (True, True)
    (picture,) = (block for block in photo["content"] if block["type"] == "image")
    assert base64.b64decode(picture["source"]["data"]).startswith(b"\x89PNG")


def test_the_tools_of_the_board_are_offered_and_the_model_is_named(wire, board):
    played = wire.play([DONE], board=board)
    (body,) = played.bodies
    assert body["model"] == "claude-sonnet-5"
    assert [entry["name"] for entry in body["tools"]] == ["book", "clock", "photo", "weather"]
    assert body.get("stream", False) is wire.streamed


def test_a_model_that_the_request_names_is_asked_instead(wire):
    played = wire.play([DONE], ModelRequest("Go on.", model="claude-opus-5"))
    assert played.bodies[0]["model"] == "claude-opus-5"


def test_what_all_answers_used_is_added_up(wire, board):
    played = wire.play([LOOK, DONE], board=board)
    usage = played.outcome.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (50, 13, 5)


def test_pieces_come_as_they_are_said(streaming, board):
    thoughtful = Round(text=("Let me ", "look."), reasoning=Reasoning("Hm.", "sig=="), calls=[Call("clock")])
    played = streaming.play([thoughtful, DONE], board=board)
    deltas = [event.delta for event in played.events if isinstance(event, AnswerDelta)]
    assert [each.text for each in deltas if isinstance(each, TextDelta)][:2] == ["Let me ", "look."]
    assert "".join(each.text for each in deltas if isinstance(each, ReasoningDelta)) == "Hm."
    assert {each.name for each in deltas if isinstance(each, CallDelta)} == {"clock"}


@pytest.mark.parametrize(
    ("thought", "kind"),
    [
        (Reasoning("Hm.", "sig+/="), {"type": "thinking", "thinking": "Hm.", "signature": "sig+/="}),
        (Reasoning(signature="b64+/=", redacted=True), {"type": "redacted_thinking", "data": "b64+/="}),
    ],
)
def test_reasoning_comes_back_with_its_signature_unchanged(wire, board, thought, kind):
    played = wire.play([Round(reasoning=thought, calls=[Call("clock")]), DONE], board=board)
    assert any(isinstance(part, ReasoningPart) for part in played.messages[1].parts)
    assert played.bodies[1]["messages"][1]["content"][0] == kind  # the server refuses it if it has changed
    assert played.server.refusals == []


def test_what_the_provider_has_done_itself_comes_back_and_is_not_run(wire, board):
    page = Page("https://a.example", "A", "words")
    search = Round(hosted=[Search("oslo", [page])], calls=[Call("clock")])
    cited = Round(text="It rains.", citations=[Citation("https://a.example", "A", "words", 0, 9)])
    played = wire.play([search, cited], board=board)
    hosted = [part for part in played.messages[1].parts if isinstance(part, HostedPart)]
    assert [part.role for part in hosted] == ["call", "result"]
    assert played.is_complete
    assert [block["name"] for block in said(played.bodies[1], "server_tool_use")] == ["web_search"]
    assert [each.uri for each in played.outcome.response.citations] == ["https://a.example"]


def test_a_tool_that_the_provider_brings_is_listed_in_its_words(wire):
    board = ToolRegistry()
    board.register(Tool.provider("search", "anthropic.web_search_20250305", arguments={"max_uses": 2}))
    played = wire.play([DONE], board=board)
    (entry,) = played.bodies[0]["tools"]
    assert entry == {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}


def test_a_tool_that_must_be_called_is_named(wire, board):
    request = ModelRequest("Go on.", tool_choice=NamedTool("weather"))
    played = wire.play([DONE], request, board)
    assert played.bodies[0]["tool_choice"] == {"type": "tool", "name": "weather"}


def test_a_strict_tool_is_held_to_its_schema(wire, board):
    played = wire.play([Round(calls=[Call("book", {"city": "Oslo"})]), DONE], board=board)
    strict = {entry["name"]: entry.get("strict") for entry in played.bodies[0]["tools"]}
    assert strict["book"] is True
    assert played.results == [("toolu_1_0", "1 in Oslo")]


@pytest.fixture
def deferred():
    @tool(deferred=True)
    def rarely() -> str:
        """Does what is rarely wanted."""
        return "done"

    board = ToolRegistry()
    board.register(rarely)
    return board


def test_deferred_tools_are_left_to_the_providers_own_search(wire, deferred):
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}}
    found = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "rarely"}],
    }
    result = {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found}
    played = wire.play([Round(hosted=[search, result], calls=[Call("rarely")]), DONE], board=deferred)
    by_name = {entry["name"]: entry for entry in played.bodies[0]["tools"]}
    assert by_name["rarely"]["defer_loading"] is True
    assert "tool_search_tool_bm25" in by_name
    assert played.results == [("toolu_1_0", "done")]
    assert said(played.bodies[1], "tool_search_tool_result") == [result]


@pytest.mark.parametrize("facts", [{"loads_deferred": False}, {"name": "claude-opus-4-1"}])
def test_deferred_tools_are_left_to_pegboards_search_where_the_model_has_none(wire, deferred, facts):
    played = wire.play([DONE], board=deferred, facts=facts)
    names = [entry["name"] for entry in played.bodies[0].get("tools", [])]
    assert "rarely" not in names
    assert "tool_search_tool_bm25" not in names


def test_options_of_the_providers_go_into_the_body_and_headers(wire):
    options = {"service_tier": "auto", "not_yet_known": {"a": 1}, "extra_headers": {"anthropic-beta": "new-thing"}}
    request = ModelRequest("Go on.", config=ModelConfig(provider_options={"anthropic": options}))
    played = wire.play([DONE], request)
    assert (played.bodies[0]["service_tier"], played.bodies[0]["not_yet_known"]) == ("auto", {"a": 1})
    assert played.server.requests[0].headers["anthropic-beta"] == "new-thing"


def test_an_answer_that_may_be_long_is_gathered_from_a_stream(whole, board):
    request = ModelRequest("Go on.", config=ModelConfig(max_output_tokens=64_000))
    played = whole.play([LOOK, DONE], request, board)
    assert [body["stream"] for body in played.bodies] == [True, True]
    assert (played.outcome.text, played.is_complete) == ("It rains.", True)


def test_an_answer_that_was_paused_goes_on(wire):
    played = wire.play([Round(text="Well,", finish="pause_turn"), DONE])
    assert (played.outcome.ended, len(played.bodies)) == ("answered", 2)


def test_an_answer_at_the_token_limit_runs_no_calls(wire, board):
    cut = Round(calls=[Call("weather", {"city": "Oslo"})], finish="length")
    played = wire.play([cut, DONE], board=board)
    assert played.results == [("toolu_1_0", "cut_off")]
    assert played.is_complete


def test_a_refusal_ends_the_turn_and_tells_why(wire, board):
    played = wire.play([Round(refusal="I won't.")], board=board)
    response = played.outcome.response
    assert (played.outcome.ended, response.finish_reason, response.error_message) == ("cut_off", "refusal", "I won't.")
