"""Whole loops through the provider's own SDK, against a server that refuses what the API refuses."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from anthropic import APIStatusError

from fake_vendors import Call, Citation, Error, ModelServer, Page, Reasoning, Round, Search
from fake_vendors.server.talk import anthropic as client_of
from pegboard import Tool
from pegboard.errors import ModelError
from pegboard.messages.message import Message
from pegboard.request.model_request import ModelConfig, ModelRequest
from pegboard.tools.content import ImageContent, TextContent, ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard_anthropic.anthropic import Anthropic

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    Tool.from_schema("weather", CITY, strict=True, examples=[{"city": "Oslo"}]),
    Tool.from_schema("clock", {"type": "object", "properties": {}}, deferred=True),
]
PAGE = Page("https://a", "A", "words")
ROUNDS = (
    Round(
        text=("Let me ", "look."),
        reasoning=Reasoning("Hm.", "sig=="),
        hosted=[Search("oslo", [PAGE])],
        calls=[Call("weather", {"city": "Oslo"}), Call("clock")],
    ),
    Round(
        text="It rains.",
        citations=[Citation("https://a", "A", "words", 0, 9)],
        reasoning=Reasoning(signature="h", redacted=True),
    ),
)


def request_of(*messages, **facts):
    tools = asyncio.run(resolve_tools(TOOLS, ()))
    config = ModelConfig(strict=True)
    return ModelRequest(["How is it?", *messages], model="m", tools=tools, loads_deferred=True, config=config, **facts)


def answer(client, request, *, streamed):
    exporter = Anthropic()
    body = exporter.request(request)
    if not streamed:
        return exporter.response(client.messages.create(**body).model_dump(), request)
    reader = exporter.reader(request)
    read_all(client.messages.create(**body, stream=True), reader)
    return reader.response()


def read_all(stream, reader):
    for event in stream:
        reader.feed(event.model_dump())


@pytest.mark.parametrize("streamed", [False, True])
def test_a_loop_with_two_calls_an_error_and_a_picture(streamed):
    with ModelServer(ROUNDS) as server, client_of(server.url) as client:
        first = answer(client, request_of(), streamed=streamed)
        assert [call.name for call in first.calls] == ["weather", "clock"]
        picture = ToolResult([TextContent("See:"), ImageContent(b"png")])
        failed = ToolResult.error("timeout", "Too slow.")
        results = Message.tool(zip(first.calls, (picture, failed), strict=True))
        second = answer(client, request_of(first.message, results), streamed=streamed)

    assert first.text == "Let me look."
    assert (second.text, second.finish_reason, second.complete) == ("It rains.", "stop", True)
    assert [citation.uri for citation in second.citations] == ["https://a"]
    assert server.refusals == []
    sent = server.requests[1].body["messages"][2]["content"]
    assert [block["type"] for block in sent] == ["tool_result", "tool_result"]
    assert [block["type"] for block in sent[0]["content"]] == ["text", "image"]
    assert sent[1]["is_error"] is True


def test_the_next_question_goes_on_where_no_tools_are_offered():
    with ModelServer([*ROUNDS, Round(text="Bye.")], undeclared_calls=True) as server, client_of(server.url) as client:
        first = answer(client, request_of(), streamed=False)
        results = Message.tool([(call, ToolResult("x")) for call in first.calls])
        second = answer(client, request_of(first.message, results), streamed=True)
        history = request_of(first.message, results, second.message, "Thanks.").evolve(tools=None)
        assert answer(client, history, streamed=False).text == "Bye."


def test_a_stream_that_breaks_off_keeps_what_has_come():
    with ModelServer([Round(text=("It ", "rains."), break_after=5)]) as server, client_of(server.url) as client:
        reader = Anthropic().reader()
        stream = client.messages.create(**Anthropic().request(request_of()), stream=True)
        with pytest.raises(httpx2.RemoteProtocolError) as caught:
            read_all(stream, reader)

    response = reader.response(broken=repr(caught.value))

    assert response.interrupted
    assert response.text


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limit_error"), (529, "overloaded_error")])
def test_an_error_body_is_read(status, code):
    with (
        ModelServer([Round(error=Error(status, "later"))]) as server,
        client_of(server.url) as client,
        pytest.raises(APIStatusError) as caught,
    ):
        client.messages.create(**Anthropic().request(request_of()))

    with pytest.raises(ModelError, match="later") as read:
        Anthropic().response(caught.value.body)
    assert (read.value.status, read.value.code, read.value.retryable) == (status, code, True)
