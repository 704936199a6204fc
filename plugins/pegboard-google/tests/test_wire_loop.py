"""A whole loop through Google's own client, against a server that refuses what Gemini refuses."""

from __future__ import annotations

import asyncio
import struct
import zlib
from contextlib import asynccontextmanager

import pytest
from google import genai
from google.genai.errors import APIError
from google.genai.types import HttpOptions

from fake_vendors.server.script import Call, Citation, Error, Reasoning, Round
from fake_vendors.server.server import ModelServer
from pegboard import Tool, ToolSpec
from pegboard.messages.message import Message
from pegboard.request.client import streamed
from pegboard.request.model_request import ModelConfig, ModelRequest
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ImageContent, ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard_google._gemini import error_of
from pegboard_google.gemini import Gemini, GeminiSchema, sdk_arguments

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [Tool(ToolSpec("weather", "Tells the weather.", CITY)), Tool(ToolSpec("clock", "Tells the time."))]
ROUNDS = [
    Round(
        text="Let me look.",
        calls=[Call("weather", {"city": "Oslo"}), Call("clock", id="c1")],
        reasoning=Reasoning("Two things.", "c2lnbmF0dXJl"),
    ),
    Round(
        text="It is noon, and it rains.",
        reasoning=Reasoning("", "ZW5k"),
        citations=[Citation("https://a", "A", "", 0, 10)],
    ),
    Round(text="Goodbye."),
]


def _png() -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = part(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + part(b"IDAT", zlib.compress(b"\0\0")) + part(b"IEND", b"")


async def started():
    tools = await resolve_tools(TOOLS, ())
    config = ModelConfig(temperature=0.5, stop=("END",), reasoning="low")
    return ModelRequest("Weather and time?", model="gemini-3-pro", instructions="Be kind.", tools=tools, config=config)


def dumped(response):
    return response.model_dump(mode="json", by_alias=True, exclude_none=True)


async def asked(client, exporter, request):
    response = await client.aio.models.generate_content(**sdk_arguments(exporter.request(request)))
    return exporter.response(dumped(response), request)


async def asked_in_a_stream(client, exporter, request):
    stream = await client.aio.models.generate_content_stream(**sdk_arguments(exporter.request(request)))
    chunks = (dumped(chunk) async for chunk in stream)
    return [piece async for piece in streamed(chunks, exporter.reader(request))][-1]


@asynccontextmanager
async def client_of(server):
    client = genai.Client(api_key="x", http_options=HttpOptions(base_url=server.url))
    try:
        yield client
    finally:
        await client.aio.aclose()
        client.close()


async def loop(server, exporter, ask):
    """Calls, their results (an error and a picture), the answer, and one more turn."""
    request, answers = await started(), []
    async with client_of(server) as client:
        for _ in range(3):
            response = await ask(client, exporter, request)
            answers.append(response)
            results = [ToolResult(["Look:", ImageContent(_png())]), ToolResult.error("timeout", "the clock is slow")]
            given = Message.tool(zip(response.calls, results, strict=True)) if response.calls else Message.user("And?")
            request = request.with_messages(response.message, given)
    return answers


@pytest.mark.parametrize("exporter", [Gemini(), GeminiSchema()], ids=["json", "schema"])
@pytest.mark.parametrize("ask", [asked, asked_in_a_stream])
def test_a_loop_with_two_calls_an_error_and_a_picture(exporter, ask):
    with ModelServer(ROUNDS) as server:
        first, second, third = asyncio.run(loop(server, exporter, ask))

        assert [(call.name, call.arguments, call.id) for call in first.calls] == [
            ("weather", {"city": "Oslo"}, "call_0"),
            ("clock", {}, "c1"),
        ]
        assert (first.finish_reason, first.complete, first.usage.total_tokens) == ("tool_calls", True, 18)
        assert second.text == "It is noon, and it rains."
        assert [(each.uri, each.start, each.end) for each in second.citations] == [("https://a", 0, 10)]
        assert third == third.evolve(finish_reason="stop", complete=True)
        assert server.refusals == []
        body = server.requests[-1].body
        assert body["systemInstruction"]["parts"] == [{"text": "Be kind."}]
        answers = [part["functionResponse"] for part in body["contents"][2]["parts"]]
        assert [answer["response"] for answer in answers] == [{"output": "Look:"}, {"error": "the clock is slow"}]
        (picture,) = answers[0]["parts"]
        assert picture["inline_data"]["mime_type"] == "image/png"  # as the client writes it


def test_calls_of_another_model_go_on_with_this_one():
    call = ToolCall("weather", '{"city": "Oslo"}', "call_of_another", provider_metadata={"openai": {"id": "fc_1"}})

    async def go_on(server):
        request = await started()
        async with client_of(server) as client:
            said = Message.assistant(call), Message.tool([(call, ToolResult("rain"))])
            return await asked(client, Gemini(), request.with_messages(*said))

    with ModelServer([Round(text="Fine.")]) as server:
        assert asyncio.run(go_on(server)).text == "Fine."


def test_an_error_of_the_client_is_read():
    async def fail(server):
        async with client_of(server) as client:
            with pytest.raises(APIError) as caught:
                await asked(client, Gemini(), await started())
            return caught.value.details

    with ModelServer([Round(error=Error(429, "slow down", retry_after=2))]) as server:
        error = error_of(asyncio.run(fail(server)))

    assert (error.status, error.code, error.retryable, error.retry_after) == (429, "RESOURCE_EXHAUSTED", True, 2.0)
