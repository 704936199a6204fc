"""The key never shows: not in errors, nor in what they are chained to, nor in events."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import aclosing

import anthropic
import pytest

from fake_vendors import Error, ModelServer, Round
from pegboard import ModelRequest, ToolRegistry, TurnLimits
from pegboard.errors import ModelError
from pegboard_anthropic import AnthropicModel

KEY = "sk-very-secret"
HI = ModelRequest("Hi")


def shown(error):
    return "".join([*traceback.format_exception(error), repr(error), str(error.code), str(error.request_id)])


def sent(**options):
    """The header with which the model asks."""

    async def main(url):
        async with aclosing(AnthropicModel("m", base_url=url, **options)) as model:
            await model.respond(HI)

    with ModelServer([Round(text="Hi.")]) as server:
        asyncio.run(main(server.url))
    return server.requests[0].headers["authorization"]


@pytest.mark.parametrize("name", ["api_key", "auth_token"])
def test_space_around_the_key_is_left_out(name, monkeypatch):
    assert sent(**{name: f" {KEY}\n"}) == f"Bearer {KEY}"
    monkeypatch.setenv(f"ANTHROPIC_{name.upper()}", f" {KEY}\n")
    assert sent() == f"Bearer {KEY}"


def test_nothing_but_space_is_no_key(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", " \n")
    with pytest.raises(ModelError, match="there is no API key"):
        AnthropicModel("m")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    assert sent() == f"Bearer {KEY}"


@pytest.mark.parametrize("key", ["sk-very\nsecret", "sk-very-secret\0", "sk-very-secrét"])
@pytest.mark.parametrize("name", ["api_key", "auth_token"])
def test_a_key_that_cannot_be_sent_is_an_error_that_names_where_it_is_from(name, key, monkeypatch):
    cases = [({name: key}, f"{name}=")]
    if "\0" not in key:  # the environment can't hold it
        monkeypatch.setenv(f"ANTHROPIC_{name.upper()}", key)
        cases.append(({}, f"ANTHROPIC_{name.upper()}"))
    for options, named in cases:
        with pytest.raises(ModelError, match=named) as caught:
            AnthropicModel("m", **options)
        assert (caught.value.code, caught.value.retryable) == ("invalid_api_key", False)
        assert "sk-very" not in shown(caught.value)


@pytest.mark.parametrize("error", [Error(401, f"no: Bearer {KEY}"), Error(400, body=f"<html>{KEY}")])
def test_a_server_that_echoes_the_key(wire, error):
    played = wire.play([Round(error=error)], facts={"default_headers": {"Authorization": f"Bearer {KEY}"}})
    assert played.error.status in (400, 401)
    assert "***" in str(played.error)
    assert KEY not in shown(played.error) + repr(played.events)


def test_a_stream_that_echoes_the_key(streaming):
    error = Error(500, f"no: Bearer {KEY}", after=4)
    facts = {"default_headers": {"Authorization": f"Bearer {KEY}"}}
    played = streaming.play(
        [Round(text=("Half ", "a ", "word"), error=error)], facts=facts, limits=TurnLimits(retries=0)
    )
    assert "no: " in repr(played)
    assert KEY not in repr(played.events) + repr(played.outcome)


@pytest.mark.parametrize("end", ["\n", "\0"])
def test_a_transport_that_echoes_the_key(wire, end):
    async def main(url):
        async with anthropic.AsyncAnthropic(api_key=KEY + end, base_url=url, max_retries=0) as client:
            model = AnthropicModel("m", client=client)
            return await wire.turn(model, "Hi", ToolRegistry(), limits=TurnLimits(retries=0))

    with ModelServer([]) as server:
        error = asyncio.run(main(server.url)).error
    assert isinstance(error, ModelError)
    assert "Illegal header" in str(error)
    assert KEY not in shown(error)
