"""What a client is made of, and who closes it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import anthropic
import pytest

from fake_vendors import ModelServer, Round
from pegboard import ModelRequest
from pegboard.errors import ModelError
from pegboard_anthropic import AnthropicModel
from pegboard_anthropic.anthropic import Anthropic


def test_without_a_key_the_error_names_the_variable():
    with pytest.raises(
        ModelError, match=r"^anthropic: there is no API key: set .* ANTHROPIC_API_KEY, or pass"
    ) as caught:
        AnthropicModel("m")
    assert (caught.value.code, caught.value.retryable) == ("missing_api_key", False)


def test_an_empty_key_in_the_environment_is_none(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    with pytest.raises(ModelError, match="there is no API key"):
        AnthropicModel("m")


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_key_and_address_come_from_the_environment(monkeypatch, name):
    async def main():
        model = AnthropicModel("m")
        answer = await model.respond(ModelRequest("Go on."))
        await model.aclose()
        return answer

    with ModelServer([Round(text="Done.")]) as server:
        monkeypatch.setenv(name, "from-the-environment")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        assert asyncio.run(main()).text == "Done."
    assert "from-the-environment" in server.requests[0].headers["authorization"]


@pytest.mark.parametrize(
    "options", [{"timeout": 3, "http_client": "no client"}, {"no_such_option": 1}, {"api_key": "x", "auth_token": "y"}]
)
def test_what_the_sdk_refuses_is_a_model_error(options):
    with pytest.raises(ModelError, match=r"^anthropic: no client can be made: ") as caught:
        AnthropicModel("m", **options)
    assert caught.value.__cause__ is not None


def test_a_profile_that_is_wrong_is_told_with_what_would_do_instead(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_PROFILE", "no_such_profile")
    with pytest.raises(ModelError, match=r"no_such_profile.* ANTHROPIC_API_KEY") as caught:
        AnthropicModel("m")
    assert caught.value.code == "missing_api_key"


def test_options_go_to_the_client_and_it_has_no_retries_of_its_own():
    async def main():
        model = AnthropicModel("m", api_key="x", timeout=7.0, default_headers={"x-mine": "1"})
        client = model._method.clients.now()
        await model.aclose()
        return client

    client = asyncio.run(main())
    assert (client.max_retries, client.timeout, client.default_headers["x-mine"]) == (0, 7.0, "1")
    assert client.is_closed()


def test_a_client_that_is_given_is_used_and_stays_open():
    async def main(url):
        async with anthropic.AsyncAnthropic(api_key="x", base_url=url, max_retries=0) as client:
            model = AnthropicModel("m", client=client)
            answer = await model.respond(ModelRequest("Go on."))
            await model.aclose()
            assert not client.is_closed()
            return answer

    with ModelServer([Round(text="Done.")]) as server:
        assert asyncio.run(main(server.url)).text == "Done."


def test_one_model_serves_one_event_loop_after_the_other():
    async def main():
        async with aclosing(model):
            return await model.respond(ModelRequest("Go on."))

    with ModelServer([Round(text=text) for text in ("One.", "Two.", "Three.")]) as server:
        model = AnthropicModel("m", api_key="x", base_url=server.url)
        assert [asyncio.run(main()).text for _ in range(3)] == ["One.", "Two.", "Three."]


def test_a_client_is_not_given_together_with_what_makes_one():
    client = anthropic.AsyncAnthropic(api_key="x")
    with pytest.raises(TypeError, match="leave out api_key, timeout"):
        AnthropicModel("m", client=client, api_key="y", timeout=3)
    asyncio.run(client.close())


def test_name_provider_and_exporter_are_told():
    exporter = Anthropic()
    model = AnthropicModel("claude-sonnet-5", api_key="x", exporter=exporter)
    asyncio.run(model.aclose())
    assert (model.name, model.provider, model.exporter) == ("claude-sonnet-5", "anthropic", exporter)
    assert repr(model) == "AnthropicModel('claude-sonnet-5', provider='anthropic')"


def test_a_request_may_name_another_model():
    async def main(url):
        async with aclosing(AnthropicModel("m", api_key="x", base_url=url)) as model:
            return await model.respond(ModelRequest("Go on.").evolve(model="n"))

    with ModelServer([Round(text="Done.")]) as server:
        assert asyncio.run(main(server.url)).text == "Done."
    assert server.requests[0].body["model"] == "n"
