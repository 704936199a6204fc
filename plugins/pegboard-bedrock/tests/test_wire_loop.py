"""Whole loops through the provider's own SDK, against a server that refuses what the API refuses."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
from botocore.exceptions import ClientError, EventStreamError

from fake_vendors import Call, Citation, Error, ModelServer, Reasoning, Round
from fake_vendors.server.talk import bedrock as client_of
from pegboard import Tool
from pegboard.errors import ModelError
from pegboard.messages.message import Message
from pegboard.request.model_request import ModelRequest
from pegboard.tools.content import ImageContent, TextContent, ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard_bedrock.bedrock import Bedrock

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    Tool.from_schema("weather", CITY, strict=True, provider_options={"bedrock": {"cachePoint": {"type": "default"}}}),
    Tool.from_schema("clock", {"type": "object", "properties": {}}),
]
ROUNDS = (
    Round(
        text=("Let me ", "look."),
        reasoning=Reasoning("Hm.", "sig=="),
        calls=[Call("weather", {"city": "Oslo"}), Call("clock")],
    ),
    Round(text="It rains.", citations=[Citation("https://a", "A", "words", 0, 9)]),
)


def request_of(*messages, **facts):
    tools = asyncio.run(resolve_tools(TOOLS, ()))
    return ModelRequest(["How is it?", *messages], model="m", tools=tools, **facts)


def answer(client, request, *, streamed):
    exporter = Bedrock()
    body = exporter.request(request)
    if not streamed:
        return exporter.response(client.converse(**body), request)
    reader = exporter.reader(request)
    read_all(client.converse_stream(**body)["stream"], reader)
    return reader.response()


def read_all(stream, reader):
    with closing(stream):  # what breaks off leaves its connection open
        for event in stream:
            reader.feed(event)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_loop_with_two_calls_an_error_and_a_picture(streamed):
    with ModelServer(ROUNDS) as server, client_of(server.url) as client:
        first = answer(client, request_of(), streamed=streamed)
        picture = ToolResult([TextContent("See:"), ImageContent(b"png")])
        failed = ToolResult.error("timeout", "Too slow.")
        results = Message.tool(zip(first.calls, (picture, failed), strict=True))
        second = answer(client, request_of(first.message, results, tool_choice="none"), streamed=streamed)

    assert [call.name for call in first.calls] == ["weather", "clock"]
    assert (second.text, second.finish_reason, second.complete) == ("It rains.", "stop", True)
    assert [citation.uri for citation in second.citations] == ["https://a"]
    assert server.refusals == []
    sent = server.requests[1].body["messages"][2]["content"]
    assert [next(iter(block)) for block in sent[0]["toolResult"]["content"]] == ["text", "image"]
    assert sent[1]["toolResult"]["status"] == "error"


def test_the_next_question_goes_on_where_no_tools_are_offered():
    with ModelServer([*ROUNDS, Round(text="Bye.")]) as server, client_of(server.url) as client:
        first = answer(client, request_of(), streamed=False)
        results = Message.tool([(call, ToolResult("x")) for call in first.calls])
        second = answer(client, request_of(first.message, results), streamed=True)
        history = request_of(first.message, results, second.message, "Thanks.").evolve(tools=None)
        assert answer(client, history, streamed=False).text == "Bye."


def test_an_error_body_is_read():
    with (
        ModelServer([Round(error=Error(429, "later"))]) as server,
        client_of(server.url) as client,
        pytest.raises(ClientError) as caught,
    ):
        client.converse(**Bedrock().request(request_of()))

    with pytest.raises(ModelError, match="later") as read:
        Bedrock().response(caught.value.response)
    assert (read.value.status, read.value.code, read.value.retryable) == (429, "ThrottlingException", True)


def test_an_error_within_a_stream_keeps_what_has_come():
    with (
        ModelServer([Round(text=("It ", "rains."), error=Error(503, "later", after=3))]) as server,
        client_of(server.url) as client,
    ):
        reader = Bedrock().reader()
        stream = client.converse_stream(**Bedrock().request(request_of()))["stream"]
        with pytest.raises(EventStreamError) as caught:
            read_all(stream, reader)

    response = reader.response(broken=str(caught.value))

    assert (response.text, response.interrupted) == ("It rains.", True)
    assert "later" in response.error_message
