"""The spans of turns and of their requests to models."""

from __future__ import annotations

import asyncio
import json

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from pegboard import ModelConfig, ModelError, ModelRequest, ModelResponse, ReadonlyContext, ToolCall, run_turn, tool
from pegboard.approval import Once, ask_later
from pegboard.messages import Usage
from pegboard.testing import ScriptedModel

USAGE = Usage(input_tokens=10, output_tokens=3, cached_tokens=4)


@tool(read_only=True)
def stock_of(item: str) -> str:
    """How many of an item there are."""
    return f"12 {item}"


@pytest.fixture
def filled(registry):
    registry.register(stock_of)
    return registry


def answer(*parts, **facts):
    return ModelResponse(list(parts), model="gpt-9-mini", id="r1", usage=USAGE, **facts)


def test_requests_and_calls_are_children_of_their_turn(filled, telemetry):
    model = ScriptedModel([answer(ToolCall("stock_of", {"item": "nails"}, "1")), answer("There are 12.")])
    context = ReadonlyContext(agent="clerk", session="s1", model="gpt-9", provider="openai")
    request = ModelRequest("How many nails?", config=ModelConfig(temperature=0.5, stop=["END"]))

    async def run():
        with telemetry.span("request"):
            await run_turn(model, request, filled, context)
            with telemetry.span("afterwards"):
                pass

    asyncio.run(run())
    assert telemetry.tree == [
        ("chat gpt-9", "invoke_agent clerk"),
        ("execute_tool stock_of", "invoke_agent clerk"),
        ("chat gpt-9", "invoke_agent clerk"),
        ("invoke_agent clerk", "request"),
        ("afterwards", "request"),
        ("request", None),
    ]
    span = telemetry.spans[0]
    assert span.kind is SpanKind.CLIENT
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-9",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.conversation.id": "s1",
        "gen_ai.response.id": "r1",
        "gen_ai.response.model": "gpt-9-mini",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 4,
    }
    assert dict(telemetry.named("invoke_agent clerk").attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "clerk",
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 6,
        "gen_ai.usage.cache_read.input_tokens": 8,
    }


def test_a_turn_that_is_resumed_has_a_span_each_time(filled, telemetry):
    filled.register(tool(stock_of, name="take", requires_confirmation=True))
    context = ReadonlyContext(agent="clerk")

    async def run():
        model = ScriptedModel([answer(ToolCall("take", {"item": "nails"}, "1")), answer("Gone.")])
        first = await run_turn(model, "Take the nails.", filled, context, approver=ask_later)
        telemetry.exporter.clear()
        answers = {each.id: Once() for each in first.pending}
        with telemetry.span("request"):
            return await run_turn(model, ModelRequest(), filled, context, resume=first, answers=answers)

    assert asyncio.run(run()).text == "Gone."
    assert [(name.split()[0], parent) for name, parent in telemetry.tree] == [
        ("execute_tool", "invoke_agent clerk"),
        ("chat", "invoke_agent clerk"),
        ("invoke_agent", "request"),
        ("request", None),
    ]


def test_requests_have_a_duration_and_tokens(filled, telemetry):
    keys = "gen_ai.response.model", "gen_ai.token.type"
    before = telemetry.counts("gen_ai.client.token.usage", *keys)
    asked = telemetry.counts("gen_ai.client.operation.duration", keys[0])
    asyncio.run(run_turn(ScriptedModel([answer("Hello.")]), "Hello", filled))
    after = telemetry.counts("gen_ai.client.token.usage", *keys)
    assert {key[1]: after[key] - before.get(key, 0) for key in after} == {"input": 1, "output": 1}
    key = ("gpt-9-mini",)
    assert telemetry.counts("gen_ai.client.operation.duration", keys[0])[key] == 1 + asked.get(key, 0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelError("the secret", code="rate_limit_exceeded"), "rate_limit_exceeded"),
        (ModelError("the secret", status=429), "429"),
        (ModelError("the secret", code="the secret!"), "ModelError"),
        (ValueError("the secret"), "ValueError"),
    ],
)
def test_a_failed_request_fails_its_turn_without_its_text(filled, telemetry, error, kind):
    with pytest.raises(ModelError):
        asyncio.run(run_turn(ScriptedModel([error]), "Hello", filled))
    assert [span.attributes["error.type"] for span in telemetry.spans] == [kind, kind]
    assert {span.status.status_code for span in telemetry.spans} == {StatusCode.ERROR}
    assert "secret" not in "".join(span.to_json() for span in telemetry.spans)


def test_no_text_of_a_host_or_provider_keeps_a_span_from_being_exported(filled, telemetry):
    """A lone surrogate can't be encoded."""
    context = ReadonlyContext(agent="a\ud800", session="s\ud800", model="m\ud800", provider="p\ud800")
    request = ModelRequest("Hello", config=ModelConfig(stop=["\ud800"]))
    model = ScriptedModel([ModelResponse("Hello.", id="r\ud800", model="m\ud800")])
    asyncio.run(run_turn(model, request, filled, context))
    assert [span.name for span in telemetry.spans] == ["chat m?", "invoke_agent a?"]
    assert json.dumps([dict(span.attributes) for span in telemetry.spans], ensure_ascii=False).encode()


def test_an_answer_that_is_an_error_is_one(filled, telemetry):
    response = ModelResponse("", finish_reason="error", complete=False, error_code="overloaded", error_message="secret")
    with pytest.raises(ModelError):
        asyncio.run(run_turn(ScriptedModel([response]), "Hello", filled))
    assert telemetry.spans[0].attributes["error.type"] == "overloaded"
    assert "secret" not in telemetry.spans[0].to_json()


def test_a_turn_inside_a_call_is_its_child_and_the_outer_goes_on(filled, telemetry):
    @tool
    async def ask_other(question: str) -> str:
        """Asks another agent."""
        model = ScriptedModel([answer("12")])
        return (await run_turn(model, question, filled, ReadonlyContext(agent="inner"))).text

    filled.register(ask_other)
    model = ScriptedModel([answer(ToolCall("ask_other", {"question": "?"}, "1")), answer("12.")])
    asyncio.run(run_turn(model, "Ask.", filled, ReadonlyContext(agent="outer")))
    tree = [(name.split()[0], parent) for name, parent in telemetry.tree]
    assert tree == [
        ("chat", "invoke_agent outer"),
        ("chat", "invoke_agent inner"),
        ("invoke_agent", "execute_tool ask_other"),
        ("execute_tool", "invoke_agent outer"),
        ("chat", "invoke_agent outer"),
        ("invoke_agent", None),
    ]
