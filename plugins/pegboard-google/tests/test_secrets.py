"""The key never shows: not in errors, nor in what they are chained to, nor in outcomes."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import aclosing

import pytest
from google import genai
from google.genai.types import HttpOptions

from fake_vendors import Error, ModelServer, Round
from pegboard import ModelRequest
from pegboard.errors import ModelError
from pegboard_google import GoogleModel
from pegboard_google.client import KEYS, made_client

KEY = "AIza-very-secret"


@pytest.fixture(autouse=True)
def without_keys(monkeypatch):
    for name in (*KEYS, "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)


def shown(error):
    return "".join([*traceback.format_exception(error), repr(error), str(error.code), str(error.request_id)])


def key_of(client):
    return client._api_client._http_options.headers["x-goog-api-key"]


async def pieces_of(model, streamed):
    async with aclosing(model):
        if not streamed:
            return [await model.respond(ModelRequest("Hi"))]
        return [piece async for piece in model.stream(ModelRequest("Hi"))]


@pytest.mark.parametrize("name", KEYS)
def test_space_around_the_key_is_left_out(name, monkeypatch):
    assert key_of(made_client("gemini", f" {KEY}\n", None, {})) == KEY
    monkeypatch.setenv(name, f" {KEY}\n")
    assert key_of(made_client("gemini", None, None, {})) == KEY


def test_nothing_but_space_is_no_key(monkeypatch):
    monkeypatch.setenv(KEYS[0], " \n")
    with pytest.raises(ModelError, match="there is no API key"):
        GoogleModel("m", api_key=" ")
    monkeypatch.setenv(KEYS[1], KEY)
    assert key_of(made_client("gemini", None, None, {})) == KEY


@pytest.mark.parametrize("key", ["AIza-very\nsecret", "AIza-very-secret\0", "AIza-very-secrét"])
@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_cannot_be_sent_is_an_error_that_names_where_it_is_from(name, key, monkeypatch):
    cases = [({"api_key": key}, "api_key=")]
    if "\0" not in key:  # the environment can't hold it
        monkeypatch.setenv(name, key)
        cases.append(({}, name))
    for options, named in cases:
        with pytest.raises(ModelError, match=named) as caught:
            GoogleModel("m", **options)
        assert (caught.value.code, caught.value.retryable) == ("invalid_api_key", False)
        assert "AIza" not in shown(caught.value)


@pytest.mark.parametrize("error", [Error(401, f"no: Bearer {KEY}"), Error(400, body=f"<html>{KEY}")])
def test_a_server_that_echoes_the_key(streamed, error):
    with ModelServer([Round(error=error)]) as server, pytest.raises(ModelError) as caught:
        asyncio.run(pieces_of(GoogleModel("m", api_key=KEY, base_url=server.url), streamed))
    assert KEY not in shown(caught.value)


def test_a_stream_that_echoes_the_key():
    error = Error(500, f"no: Bearer {KEY}", after=2)
    with ModelServer([Round(text=("Half ", "a ", "word"), error=error)]) as server:
        pieces = asyncio.run(pieces_of(GoogleModel("m", api_key=KEY, base_url=server.url), streamed=True))
    assert "***" in pieces[-1].error_message
    assert KEY not in repr(pieces)


def test_a_transport_that_echoes_the_key(streamed):
    with ModelServer([]) as server:
        client = genai.Client(api_key=f"{KEY}\0", http_options=HttpOptions(base_url=server.url))
        with pytest.raises(ModelError) as caught:
            asyncio.run(pieces_of(GoogleModel("m", client=client), streamed))
    assert "***" in str(caught.value)
    assert KEY not in shown(caught.value)
