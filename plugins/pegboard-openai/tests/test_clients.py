"""The SDK's clients: keys, event loops, connections that are closed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest
from openai import AsyncOpenAI, Timeout

from fake_vendors import Error, ModelServer, Round
from pegboard import ModelRequest, TurnLimits
from pegboard.errors import ExportError, ModelError
from pegboard_openai import OpenAIChatModel, OpenAIModel

HI = ModelRequest("Hi")


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_the_error_names_the_variable(kind, key, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        kind("gpt-5.4")
    assert (caught.value.code, caught.value.retryable) == ("missing_api_key", False)


def test_the_key_is_taken_from_the_environment(kind, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    with ModelServer([Round(text="Hi.")]) as server:
        asyncio.run(_asked(kind("m", base_url=f"{server.url}/v1")))
    assert server.requests[0].headers["authorization"] == "Bearer sk-1"


def test_options_that_the_sdk_refuses_are_named(kind):
    with pytest.raises(ModelError, match="wieght"):
        kind("m", api_key="x", wieght=3)


def test_other_credentials_stand_for_a_key(kind, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = kind("m", admin_api_key="sk-admin")
    asyncio.run(model.aclose())
    assert model.name == "m"


def test_the_sdk_does_not_try_again_by_itself(kind):
    with ModelServer([Round(error=Error(500))]) as server:
        model = kind("m", api_key="x", base_url=f"{server.url}/v1")
        with pytest.raises(ModelError):
            asyncio.run(_asked(model))
    assert len(server.requests) == 1


def test_one_model_serves_one_event_loop_after_the_other(kind):
    with ModelServer([Round(text="Hi.")] * 4) as server:
        model = kind("m", api_key="x", base_url=f"{server.url}/v1")
        assert [asyncio.run(_asked(model, times=2)).text for _ in range(2)] == ["Hi.", "Hi."]


def test_a_model_that_was_closed_may_be_asked_again(kind):
    async def main(model):
        await model.aclose()
        await _asked(model)
        await model.aclose()
        return await _asked(model)

    with ModelServer([Round(text="Hi.")] * 2) as server:
        assert asyncio.run(main(kind("m", api_key="x", base_url=f"{server.url}/v1"))).text == "Hi."


def test_a_client_that_is_given_is_used_as_it_is_and_stays_open(kind):
    async def main(url):
        async with AsyncOpenAI(api_key="mine", base_url=f"{url}/v1", max_retries=0) as client:
            model = kind("m", client=client)
            await model.respond(HI)
            await model.aclose()
            return client.is_closed()

    with ModelServer([Round(text="Hi.")]) as server:
        assert asyncio.run(main(server.url)) is False
    assert server.requests[0].headers["authorization"] == "Bearer mine"


def test_nothing_may_be_said_beside_a_client(kind):
    client = AsyncOpenAI(api_key="x")
    with pytest.raises(TypeError, match=r"leave out api_key, timeout"):
        kind("m", client=client, api_key="y", timeout=3)
    asyncio.run(client.close())


def test_what_cannot_be_said_is_an_export_error(kind):
    from pegboard import NamedTool

    async def main():
        async with aclosing(kind("m", api_key="x")) as model:
            await model.respond(HI.evolve(tool_choice=NamedTool("nothing")))

    with pytest.raises(ExportError, match="nothing"):
        asyncio.run(main())


def test_it_names_itself(kind):
    model = kind("gpt-5.4", api_key="x")
    asyncio.run(model.aclose())
    assert (model.name, repr(model)) == (
        "gpt-5.4",
        f"{kind.__name__}('gpt-5.4', provider='{model.provider}')",
    )
    assert model.provider == {OpenAIModel: "openai-responses", OpenAIChatModel: "openai"}[kind]
    assert model.exporter.name == model.provider


async def _asked(model, times=1):
    async with aclosing(model):
        for _ in range(times):
            response = await model.respond(HI)
        return response


# Connections --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(answer=b""):
    """A server that says something and then nothing; tells when it was asked, and when the client has gone."""
    asked, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        asked.set()
        while await reader.read(65_536):
            pass
        gone.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked, gone


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
PIECE = {
    OpenAIChatModel: b'data: {"choices": [{"index": 0, "delta": {"content": "Half"}}]}\n\n',
    OpenAIModel: b'data: {"type": "response.output_text.delta", "item_id": "m", "delta": "Half"}\n\n',
}


def test_a_turn_that_is_cancelled_closes_the_connection(wire, board):
    async def main():
        async with listening() as (url, asked, gone):
            model = wire.model(type("At", (), {"url": url}))
            turn = asyncio.ensure_future(wire.turn(model, "Hi", board))
            await asked.wait()
            turn.cancel()
            await asyncio.wait_for(gone.wait(), 10)
            await model.aclose()
            return (await asyncio.wait([turn]))[0].pop().cancelled()

    assert asyncio.run(main())


def test_a_stream_that_is_left_closes_the_connection(streaming):
    async def main():
        async with listening(STREAM + PIECE[streaming.kind]) as (url, _, gone):
            async with aclosing(streaming.model(type("At", (), {"url": url}))) as model:
                async with aclosing(model.stream(HI)) as pieces:
                    piece = await anext(pieces)
                await asyncio.wait_for(gone.wait(), 10)
            return piece.text

    assert asyncio.run(main()) == "Half"


def test_a_turn_that_runs_out_of_time_keeps_what_was_said(streaming, board):
    async def main():
        async with listening(STREAM + PIECE[streaming.kind]) as (url, _, gone):
            async with aclosing(streaming.model(type("At", (), {"url": url}))) as model:
                played = await streaming.turn(model, "Hi", board, limits=TurnLimits(seconds=2))
                await asyncio.wait_for(gone.wait(), 10)
            return played

    played = asyncio.run(main())
    assert (played.outcome.ended, played.messages[-1].text) == ("limit", "Half")


def test_a_provider_that_says_nothing_is_a_lost_connection(kind):
    async def main():
        async with listening() as (url, _, gone):
            model = kind("m", api_key="x", base_url=url, timeout=Timeout(10, read=0.05))
            async with aclosing(model):
                with pytest.raises(ModelError, match="timed out") as caught:
                    await model.respond(HI)
            await asyncio.wait_for(gone.wait(), 10)
            return caught.value

    error = asyncio.run(main())
    assert (error.retryable, error.status, error.code) == (True, None, "APITimeoutError")
