"""Which client is made, and whose it is."""

from __future__ import annotations

import asyncio

import pytest
from google import genai
from google.genai.types import HttpOptions, HttpRetryOptions

from fake_vendors import ModelServer, Round
from pegboard import ModelError, ModelRequest
from pegboard_google import GoogleModel
from pegboard_google.client import KEYS, made_client
from pegboard_google.gemini import GeminiSchema


@pytest.fixture(autouse=True)
def without_keys(monkeypatch):
    for name in (*KEYS, "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)


def options_of(client):
    return client._api_client._http_options


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_the_error_names_the_environment_variables(key):
    with pytest.raises(ModelError, match=r"GOOGLE_API_KEY or GEMINI_API_KEY") as caught:
        GoogleModel("gemini-3-pro", api_key=key)

    assert (caught.value.code, caught.value.provider) == ("missing_api_key", "gemini")


@pytest.mark.parametrize("name", KEYS)
def test_the_key_may_stand_in_the_environment(monkeypatch, name):
    monkeypatch.setenv(name, "from-there")

    assert options_of(made_client("gemini", None, None, {})).headers["x-goog-api-key"] == "from-there"


def test_vertex_needs_no_key(monkeypatch):
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "TRUE")
    from_environment = made_client("gemini", None, "http://127.0.0.1:9", {"project": "p", "location": "l"})
    monkeypatch.delenv("GOOGLE_GENAI_USE_VERTEXAI")

    by_option = made_client("gemini", None, "http://127.0.0.1:9", {"vertexai": True, "project": "p", "location": "l"})

    assert from_environment.vertexai
    assert by_option.vertexai


def test_an_option_against_vertex_counts_before_the_environment(monkeypatch):
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")

    with pytest.raises(ModelError, match="GOOGLE_API_KEY"):
        made_client("gemini", None, None, {"vertexai": False})


@pytest.mark.parametrize(
    "options", [{"no_such_option": 1}, {"project": "p"}, {"http_options": {"timeout": "soon"}}, {"http_options": 5}]
)
def test_options_that_the_sdk_refuses_are_an_error_of_the_model(options):
    with pytest.raises(ModelError, match="no client can be made"):
        made_client("gemini", "x", None, options)


def test_the_sdk_makes_one_attempt_unless_the_host_says_otherwise():
    asked = HttpRetryOptions(attempts=4)

    assert options_of(made_client("gemini", "x", None, {})).retry_options.attempts == 1
    made = made_client("gemini", "x", None, {"http_options": HttpOptions(retry_options=asked, timeout=5)})
    assert (options_of(made).retry_options.attempts, options_of(made).timeout) == (4, 5)


def test_the_hosts_http_options_stay_beside_the_address():
    made = made_client("gemini", "x", "http://127.0.0.1:9", {"http_options": {"timeout": 5_000}})

    assert (options_of(made).base_url, options_of(made).timeout) == ("http://127.0.0.1:9", 5_000)


def test_a_client_that_is_given_stays_open():
    async def main(url):
        client = genai.Client(api_key="x", http_options=HttpOptions(base_url=url))
        first, second = (GoogleModel("gemini-3-pro", client=client) for _ in range(2))
        answers = [(await first.respond(ModelRequest("Hi."))).text]
        await first.aclose()
        answers.append((await second.respond(ModelRequest("Hi."))).text)
        await client.aio.aclose()
        return answers

    with ModelServer([Round(text="One."), Round(text="Two.")]) as server:
        assert asyncio.run(main(server.url)) == ["One.", "Two."]


def test_a_client_that_was_made_is_closed(monkeypatch):
    model = GoogleModel("gemini-3-pro", api_key="x")
    closed = []
    monkeypatch.setattr(model._client, "close", lambda: closed.append(model))

    asyncio.run(model.aclose())

    assert closed == [model]
    monkeypatch.undo()
    asyncio.run(model.aclose())


def test_a_client_isnt_given_beside_what_makes_one():
    client = made_client("gemini", "x", None, {})

    with pytest.raises(TypeError, match=r"leave out api_key, vertexai"):
        GoogleModel("gemini-3-pro", client=client, api_key="x", vertexai=True)


def test_a_model_says_who_it_is():
    model = GoogleModel("gemini-3-pro", api_key="x", exporter=GeminiSchema())

    assert (model.name, model.provider, model.loads_deferred) == ("gemini-3-pro", "gemini-schema", False)
    assert model.exporter.name == "gemini-schema"
    assert repr(model) == "GoogleModel('gemini-3-pro', provider='gemini-schema')"


def test_the_requests_model_counts_before_the_clients():
    async def main(url):
        model = GoogleModel("gemini-3-pro", api_key="x", base_url=url)
        for request in (ModelRequest("Hi."), ModelRequest("Hi.", model="gemini-3-flash")):
            await model.respond(request)
        await model.aclose()

    with ModelServer([Round(text="One."), Round(text="Two.")]) as server:
        asyncio.run(main(server.url))
        paths = [request.path for request in server.requests]

    assert [path.rpartition("/")[2] for path in paths] == [
        "gemini-3-pro:generateContent",
        "gemini-3-flash:generateContent",
    ]
