"""The key never shows: not in errors, nor in what they are chained to, nor in events."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import aclosing

import pytest
from openai import AsyncOpenAI

from fake_vendors import Error, ModelServer, Round
from pegboard import ModelRequest, ToolRegistry, TurnLimits
from pegboard.errors import ModelError
from pegboard_openai.client import secrets_of

KEY = "sk-very-secret"
HI = ModelRequest("Hi")


def shown(error):
    return "".join([*traceback.format_exception(error), repr(error), str(error.code), str(error.request_id)])


@pytest.mark.parametrize("given", [False, True])
def test_space_around_the_key_is_left_out(kind, given, monkeypatch):
    async def main(url):
        async with aclosing(kind("m", base_url=f"{url}/v1", api_key=f" {KEY}\n" if given else None)) as model:
            await model.respond(HI)

    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    with ModelServer([Round(text="Hi.")]) as server:
        asyncio.run(main(server.url))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", ["sk-very\nsecret", "sk-very-secrét"])
def test_a_key_that_cannot_be_sent_is_an_error_that_names_where_it_is_from(kind, key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    for options, named in [({}, "OPENAI_API_KEY"), ({"api_key": key}, "api_key="), ({"admin_api_key": key}, "admin_")]:
        with pytest.raises(ModelError, match=named) as caught:
            kind("m", **options)
        assert (caught.value.code, caught.value.retryable) == ("invalid_api_key", False)
        assert "sk-very" not in shown(caught.value)


@pytest.mark.parametrize("error", [Error(401, f"no: Bearer {KEY}"), Error(400, body=f"<html>{KEY}")])
def test_a_server_that_echoes_the_key(wire, error):
    played = wire.play([Round(error=error)], facts={"default_headers": {"Authorization": f"Bearer {KEY}"}})
    assert played.error.status in (400, 401)
    assert "Bearer" not in str(played.error) or "***" in str(played.error)
    assert KEY not in shown(played.error) + repr(played.events)


def test_a_stream_that_echoes_the_key(streaming):
    error = Error(500, f"no: Bearer {KEY}", after=3)
    facts = {"default_headers": {"Authorization": f"Bearer {KEY}"}}
    played = streaming.play(
        [Round(text=("Half ", "a ", "word"), error=error)], facts=facts, limits=TurnLimits(retries=0)
    )
    assert "no: " in repr(played)
    assert KEY not in repr(played.events) + repr(played.outcome)


def test_a_transport_that_echoes_the_key(wire):
    async def key():
        return f"{KEY}\n"

    async def main(url):
        async with aclosing(wire.kind("m", api_key=key, base_url=url)) as model:
            return await wire.turn(model, "Hi", ToolRegistry(), limits=TurnLimits(retries=0))

    with ModelServer([]) as server:
        error = asyncio.run(main(server.url)).error
    assert isinstance(error, ModelError)
    assert "***" in str(error)
    assert KEY not in shown(error)


def test_what_is_sent_to_servers_that_want_no_key_is_no_secret():
    assert secrets_of(AsyncOpenAI(api_key="none")) == []


def test_credentials_that_are_no_key_are_left_to_the_sdk(kind):
    with pytest.raises(ModelError, match=r"no client can be made: .*workload_identity"):
        kind("m", workload_identity={})
