"""Whole turns that go well."""

from __future__ import annotations

import base64

from fake_vendors import Call, Citation, Page, Reasoning, Round, Search, Usage
from pegboard import ModelConfig, ModelRequest, NamedTool, Tool, ToolSpec
from pegboard.messages.message import HostedPart, ReasoningPart
from pegboard.messages.response import TextDelta
from pegboard.turn.events import AnswerDelta

SIGNATURE = base64.b64encode(b"\xfb\xffthought").decode()


def test_a_loop_with_two_calls_side_by_side_an_error_and_a_picture(play, streamed):
    rounds = [
        Round(
            text="Let me look.",
            calls=[Call("clock"), Call("photo", id="p1")],
            reasoning=Reasoning("Two things.", SIGNATURE),
        ),
        Round(calls=[Call("weather", {"city": "Oslo"})]),
        Round(text="It is noon, and it rains.", usage=Usage(100, 20, cached=30, reasoning=5)),
    ]

    played = play(rounds)

    played.check()
    assert (played.outcome.ended, played.outcome.text) == ("answered", "It is noon, and it rains.")
    assert [result.is_error for result in played.results] == [True, False, False]
    _, said, given = played.requests[1]["contents"]
    assert said["role"] == "model"
    assert [part["functionCall"] for part in said["parts"] if "functionCall" in part] == [
        {"name": "clock", "args": {}},
        {"name": "photo", "args": {}, "id": "p1"},
    ]
    clock, photo = (part["functionResponse"] for part in given["parts"])
    assert clock == {"name": "clock", "response": {"error": "the clock is slow."}}
    assert photo["response"] == {"output": "Look:"}
    assert len(photo["parts"]) == 1
    usage = played.outcome.usage
    assert (usage.input_tokens, usage.output_tokens) == (11 + 11 + 100, 7 + 7 + 20)
    assert (usage.cached_tokens, usage.reasoning_tokens) == (30, 5)
    words = [event.delta.text for event in played.events if _is_text(event)]
    assert len(words) > 3 if streamed else not words


def _is_text(event):
    return isinstance(event, AnswerDelta) and isinstance(event.delta, TextDelta)


def test_signatures_go_back_as_they_came(play):
    rounds = [
        Round(calls=[Call("weather", {"city": "Oslo"})], reasoning=Reasoning("Hm.", SIGNATURE)),
        Round(calls=[Call("weather", {"city": "Rome"}, signature=base64.b64encode(b"second").decode())]),
        Round(text="Done.", reasoning=Reasoning("", base64.b64encode(b"third").decode())),
    ]

    played = play(rounds)

    signatures = [
        base64.urlsafe_b64decode(part["thoughtSignature"])
        for content in played.requests[-1]["contents"]
        for part in content["parts"]
        if "thoughtSignature" in part
    ]
    assert signatures == [b"\xfb\xffthought", b"second"]
    thoughts = [part for message in played.outcome.messages for part in message.parts if _is_thought(part)]
    assert thoughts[0].text == "Hm."


def _is_thought(part):
    return isinstance(part, ReasoningPart)


def test_a_tool_that_must_be_called(play):
    request = ModelRequest("Time?", tool_choice=NamedTool("clock"))

    played = play([Round(calls=[Call("clock")]), Round(text="It is slow.")], request)

    assert played.requests[0]["toolConfig"]["functionCallingConfig"] == {
        "mode": "ANY",
        "allowedFunctionNames": ["clock"],
    }
    played.check()


def test_calls_are_held_to_the_schemas(play):
    request = ModelRequest("Weather?", config=ModelConfig(strict=True))

    played = play([Round(calls=[Call("weather", {"city": "Oslo", "unit": None})]), Round(text="Rain.")], request)

    assert played.requests[0]["toolConfig"]["functionCallingConfig"]["mode"] == "VALIDATED"
    assert [result.text for result in played.results] == ["rain in Oslo"]
    (called,) = [call for message in played.outcome.messages for call in message.calls]
    assert called.arguments == {"city": "Oslo", "unit": None}


def test_searches_of_the_provider_are_kept_as_grounding(play, registry):
    registry.register(Tool(ToolSpec("search", "Searches.", kind="provider", provider_id="google.googleSearch")))
    rounds = [
        Round(
            text="Rain in Oslo.",
            hosted=[Search("oslo weather", [Page("https://b", "B")])],
            citations=[Citation("https://a", "A", "", 0, 4)],
        )
    ]

    played = play(rounds)

    assert {"googleSearch": {}} in played.requests[0]["tools"]
    response = played.outcome.response
    assert response.grounding["webSearchQueries"] == ["oslo weather"]
    assert [(each.uri, each.start, each.end) for each in response.citations] == [("https://a", 0, 4)]


def test_what_the_provider_has_run_itself_goes_back_as_it_came(play):
    ran = [
        {"executableCode": {"code": "print(6 * 7)", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42"}},
    ]
    rounds = [Round(text="I reckon.", hosted=ran, calls=[Call("weather", {"city": "Oslo"})]), Round(text="42.")]

    played = play(rounds)

    hosted = [part for message in played.outcome.messages for part in message.parts if isinstance(part, HostedPart)]
    assert [(part.role, part.name) for part in hosted] == [("call", "code_execution"), ("result", "code_execution")]
    sent = played.requests[1]["contents"][1]["parts"]
    assert [part for part in sent if "text" not in part and "functionCall" not in part] == ran


def test_deferred_tools_are_not_sent_as_the_provider_loads_none(play, registry):
    registry.register(Tool(ToolSpec("rare", "Is rarely needed.", deferred=True)))

    played = play([Round(text="Fine.")])

    (functions,) = played.requests[0]["tools"]
    assert "rare" not in {each["name"] for each in functions["functionDeclarations"]}


def test_what_is_configured_is_sent(play):
    options = {"google": {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]}}
    config = ModelConfig(temperature=0.5, max_output_tokens=100, reasoning="low", provider_options=options)

    played = play([Round(text="Fine.")], ModelRequest("Hi.", instructions="Be kind.", config=config))

    (body,) = played.requests
    assert body["systemInstruction"]["parts"] == [{"text": "Be kind."}]
    assert body["generationConfig"]["temperature"] == 0.5
    assert body["generationConfig"]["thinkingConfig"] == {"thinking_level": "LOW", "include_thoughts": True}
    assert body["safetySettings"] == options["google"]["safetySettings"]
