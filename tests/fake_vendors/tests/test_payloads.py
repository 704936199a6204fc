"""Payloads that the SDKs' own types take, and such with planted faults that pydantic and type checkers let pass."""

from __future__ import annotations

import pytest

from fake_vendors.rules import payloads
from fake_vendors.rules.exporters import EXPORTERS
from pegboard import FileContent, ImageContent, ModelRequest, ToolCall, ToolResult, ToolSpec
from pegboard.messages import Message

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

SPEC = ToolSpec("f", "Finds.", SCHEMA)
TOOLS = {name: list(make().tools([SPEC]).entries) for name, make in EXPORTERS.items()}


def test_every_exporter_with_types_has_a_check():
    assert set(payloads.TOOLS) == set(TOOLS)
    assert set(payloads.MESSAGES) == set(TOOLS) - {"mcp"}


@pytest.mark.parametrize("exporter", TOOLS)
def test_a_sound_list_of_tools_has_no_faults(exporter):
    assert payloads.TOOLS[exporter](TOOLS[exporter]) == []


@pytest.mark.parametrize("exporter", TOOLS)
@pytest.mark.parametrize("other", TOOLS)
def test_a_list_for_one_provider_does_not_fit_another(exporter, other):
    same = {frozenset({"openai", "ollama"}), frozenset({"gemini", "gemini-schema"})}
    fits = exporter == other or frozenset({exporter, other}) in same

    assert (payloads.TOOLS[exporter](TOOLS[other]) == []) is fits


@pytest.mark.parametrize("exporter", TOOLS)
def test_a_key_that_no_type_knows_is_found(exporter):
    tools = [{**TOOLS[exporter][0], "bogus": 1}]

    assert any("bogus" in fault for fault in payloads.TOOLS[exporter](tools))


def test_the_input_schema_of_anthropic_is_looked_at():
    assert payloads.TOOLS["anthropic"]([{"name": "f", "input_schema": {"type": "array"}}]) == [
        "[0].input_schema.type: Input should be 'object', found 'array'"
    ]
    assert payloads.TOOLS["anthropic"]([{"name": "f", "input_schema": {"type": "object", "required": "q"}}])


CALL = ToolCall("f", {"q": "x"}, "1")
ASKED = [
    Message.user("What?", ImageContent(b"x"), FileContent("file:///a.pdf", b"%PDF", "application/pdf")),
    Message.assistant("I look.", CALL),
    Message.tool([(CALL, ToolResult(["one", ImageContent(b"x")]))]),
]
CONVERSATIONS = {
    name: EXPORTERS[name]().request(ModelRequest(ASKED, model="m"))[key] for name, (key, _) in payloads.MESSAGES.items()
}
FREE = {"input", "args", "arguments", "response", "function"}
"""Keys whose values are anybody's."""


def planted(value):
    """The same JSON with a key that nobody knows in one object after the other."""
    if isinstance(value, dict):
        yield {**value, "bogus": 1}
        for key, inner in value.items():
            for other in planted(inner) if key not in FREE else ():
                yield {**value, key: other}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for other in planted(inner):
                yield [*value[:place], other, *value[place + 1 :]]


@pytest.mark.parametrize("exporter", CONVERSATIONS)
def test_a_sound_conversation_has_no_faults_and_one_with_an_unknown_key_has(exporter):
    judge = payloads.MESSAGES[exporter][1]
    assert judge(CONVERSATIONS[exporter]) == []
    spoilt = list(planted(CONVERSATIONS[exporter]))
    assert [each for each in spoilt if not judge(each)] == []
    assert len(spoilt) >= 4


@pytest.mark.parametrize("exporter", CONVERSATIONS)
def test_a_conversation_without_its_results_lacks_them(exporter):
    cut = [turn for turn in CONVERSATIONS[exporter][:-1] if turn.get("role") != "tool" and "output" not in turn]
    assert payloads.MESSAGES[exporter][1](cut)


def user(*content, key="content"):
    return [{"role": "user", key: list(content)}]


@pytest.mark.parametrize(
    ("exporter", "conversation"),
    [
        ("openai", user({"type": "input_audio", "input_audio": {"data": "x", "format": "ogg"}})),
        ("openai-responses", user({"type": "text", "text": "x"})),
        ("anthropic", user({"type": "audio", "source": {}})),
        ("anthropic", [{"role": "tool", "content": "x"}]),
        ("gemini", user({"inlineData": {"mimeType": "image/png", "data": "?"}}, key="parts")),
        ("bedrock", user({"image": {"format": "bmp", "source": {"bytes": b"x"}}})),
        ("bedrock", user({"image": {"format": "png", "source": {"bytes": "eA=="}}})),
        ("bedrock", [*user({"text": "x"}), {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a b"}}]}]),
    ],
)
def test_planted_faults_in_messages_are_found_by_the_types(exporter, conversation):
    assert payloads.MESSAGES[exporter][1](conversation) != []


OF_USER = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
CLAUDE = {**OF_USER, "max_tokens": 1}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
CONVERSE = {"messages": [{"role": "user", "content": [{"text": "x"}]}]}


def chosen(tool):
    return {"toolConfig": {"tools": TOOLS["bedrock"], "toolChoice": tool}}


@pytest.mark.parametrize(
    ("exporter", "sound", "fitting", "unfit"),
    [
        ("openai", OF_USER, {"tool_choice": "required"}, {"tool_choice": "any"}),
        (
            "openai",
            OF_USER,
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"tool_choice": {"type": "function", "name": "f"}},
        ),
        ("openai", OF_USER, {"max_completion_tokens": 1}, {"max_output_tokens": 1}),
        (
            "openai-responses",
            {"input": "x"},
            {"tool_choice": {"type": "function", "name": "f"}},
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        ),
        ("openai-responses", {"input": "x"}, {"max_output_tokens": 1}, {"messages": []}),
        ("anthropic", CLAUDE, {"tool_choice": {"type": "tool", "name": "f"}}, {"tool_choice": {"type": "required"}}),
        ("anthropic", CLAUDE, {"tool_choice": {"type": "any"}}, {"tool_choice": "any"}),
        ("anthropic", CLAUDE, {"system": [{"type": "text", "text": "x"}]}, {"system": [{"text": "x"}]}),
        ("anthropic", OF_USER, {"max_tokens": 1}, {}),
        (
            "gemini",
            CONTENTS,
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}},
            {"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}},
        ),
        ("gemini", CONTENTS, {"generationConfig": {"maxOutputTokens": 5}}, {"generationConfig": {"maxTokens": 5}}),
        ("gemini", CONTENTS, {"tools": TOOLS["gemini"]}, {"config": {}}),
        ("bedrock", CONVERSE, chosen({"tool": {"name": "f"}}), chosen({"none": {}})),
        ("bedrock", CONVERSE, {"system": [{"text": "Be brief."}]}, {"system": "Be brief."}),
    ],
)
def test_other_parts_of_a_request_are_checked_too(exporter, sound, fitting, unfit):
    assert payloads.request_faults(exporter, {**sound, **fitting}) == []
    assert payloads.request_faults(exporter, {**sound, **unfit}) != []
