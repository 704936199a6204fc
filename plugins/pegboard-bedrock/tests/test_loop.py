"""Whole turns that go well."""

from __future__ import annotations

from fake_vendors import Call, Citation, Reasoning, Round, Usage
from pegboard import ModelConfig, ModelRequest, NamedTool, Tool, ToolSpec
from pegboard.messages.response import TextDelta
from pegboard.turn.events import AnswerDelta


def test_a_loop_with_two_calls_side_by_side_an_error_and_a_picture(play, streamed):
    rounds = [
        Round(text="Let me look.", calls=[Call("clock"), Call("photo", id="p1")], reasoning=Reasoning("Two.", "sig==")),
        Round(calls=[Call("weather", {"city": "Oslo"})]),
        Round(text="It is noon, and it rains.", usage=Usage(100, 20, cached=30)),
    ]

    played = play(rounds)

    played.check()
    assert (played.outcome.ended, played.outcome.text) == ("answered", "It is noon, and it rains.")
    assert [result.is_error for result in played.results] == [True, False, False]
    _, said, given = played.requests[1]["messages"]
    assert [block["toolUse"]["name"] for block in said["content"] if "toolUse" in block] == ["clock", "photo"]
    clock, photo = (block["toolResult"] for block in given["content"])
    assert (clock["status"], clock["content"]) == ("error", [{"text": "the clock is slow."}])
    assert photo["toolUseId"] == "p1"
    assert [next(iter(block)) for block in photo["content"]] == ["text", "image"]
    usage = played.outcome.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (11 + 11 + 100, 7 + 7 + 20, 30)
    words = [event.delta.text for event in played.events if _is_text(event)]
    assert len(words) > 3 if streamed else not words


def _is_text(event):
    return isinstance(event, AnswerDelta) and isinstance(event.delta, TextDelta)


def test_signatures_go_back_as_they_came(play):
    rounds = [
        Round(calls=[Call("weather", {"city": "Oslo"})], reasoning=Reasoning("Hm.", "first/+==")),
        Round(calls=[Call("clock")], reasoning=Reasoning(signature="aGlkZGVu", redacted=True)),
        Round(text="Done."),
    ]

    played = play(rounds)

    thoughts = [
        block["reasoningContent"]
        for message in played.requests[-1]["messages"]
        for block in message["content"]
        if "reasoningContent" in block
    ]
    assert thoughts == [
        {"reasoningText": {"text": "Hm.", "signature": "first/+=="}},
        {"redactedContent": "aGlkZGVu"},
    ]


def test_a_tool_that_must_be_called(play):
    request = ModelRequest("Time?", tool_choice=NamedTool("clock"))

    played = play([Round(calls=[Call("clock")]), Round(text="It is slow.")], request)

    assert played.requests[0]["toolConfig"]["toolChoice"] == {"tool": {"name": "clock"}}
    played.check()


def test_calls_are_held_to_the_schemas(play):
    request = ModelRequest("Weather?", config=ModelConfig(strict=True))

    played = play([Round(calls=[Call("weather", {"city": "Oslo"})]), Round(text="Rain.")], request)

    tools = {each["toolSpec"]["name"]: each["toolSpec"] for each in played.requests[0]["toolConfig"]["tools"]}
    assert tools["weather"]["strict"] is True
    assert [result.text for result in played.results] == ["rain in Oslo"]


def test_citations_are_kept(play):
    played = play([Round(text="Rain in Oslo.", citations=[Citation("https://a", "A", "words", 0, 4)])])

    assert [each.uri for each in played.outcome.response.citations] == ["https://a"]


def test_deferred_tools_are_not_sent_as_the_provider_loads_none(play, registry):
    registry.register(Tool(ToolSpec("rare", "Is rarely needed.", deferred=True)))

    played = play([Round(text="Fine.")])

    assert "rare" not in {each["toolSpec"]["name"] for each in played.requests[0]["toolConfig"]["tools"]}


def test_what_is_configured_is_sent(play):
    options = {"bedrock": {"additionalModelRequestFields": {"top_k": 5}}}
    config = ModelConfig(temperature=0.5, max_output_tokens=100, provider_options=options)

    played = play([Round(text="Fine.")], ModelRequest("Hi.", instructions="Be kind.", config=config))

    (body,) = played.requests
    assert body["system"] == [{"text": "Be kind."}]
    assert body["inferenceConfig"] == {"maxTokens": 100, "temperature": 0.5}
    assert body["additionalModelRequestFields"] == {"top_k": 5}
