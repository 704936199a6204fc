"""Turns against a server that refuses what Ollama refuses, and what becomes of its errors."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import traceback
from contextlib import aclosing

import pytest
from ollama import AsyncClient

import pegboard
import pegboard_ollama
from fake_vendors import Call, Error, ModelServer, Reasoning, Round
from pegboard import ModelError, ToolError, ToolRegistry, run_turn, stream_turn, tool
from pegboard.testing import check_plugin
from pegboard_ollama import Ollama, OllamaModel


@tool
def weather(city: str, unit: str | None = None) -> str:
    """Tells the weather."""
    return f"rain in {city}"


@tool
def clock() -> str:
    """Tells the time."""
    raise ToolError("the clock is slow.")


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(weather, clock)
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Nobody waits before another attempt."""
    monkeypatch.setattr("pegboard.dispatch.run.FIRST_PAUSE", 0.0)
    for name in ("OLLAMA_HOST", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request):
    return request.param


async def _turn(url, registry, streamed, **options):
    async with aclosing(OllamaModel("m", base_url=url, **options)) as model:
        if not streamed:
            return await run_turn(model, "Go on.", registry)
        async with aclosing(stream_turn(model, "Go on.", registry)) as turn:
            return [event async for event in turn][-1].outcome


@pytest.fixture
def play(registry, streamed):
    def played(rounds, **options):
        with ModelServer(rounds) as server:
            try:
                return asyncio.run(_turn(server.url, registry, streamed, **options)), server.requests
            finally:
                assert server.refusals == []

    return played


def test_a_turn_with_calls_and_thoughts(play):
    outcome, requests = play(
        [
            Round(
                text="Let me look.",
                reasoning=Reasoning("Where?"),
                calls=[Call("weather", {"city": "Oslo"}), Call("clock", {})],
            ),
            Round(text="It rains."),
        ]
    )

    assert outcome.text == "It rains."
    assert [part.result.is_error for message in outcome.messages for part in message.results] == [False, True]
    tools = requests[0].body["tools"]
    assert tools[1]["function"]["parameters"]["properties"]["unit"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert [message["role"] for message in requests[1].body["messages"]] == ["user", "assistant", "tool", "tool"]
    assert requests[1].body["messages"][1]["thinking"] == "Where?"


@pytest.mark.parametrize(
    ("error", "retryable"), [(Error(429), True), (Error(503), True), (Error(400), False), (Error(404), False)]
)
def test_errors_have_their_status_and_may_be_tried_again(play, error, retryable):
    if retryable:
        outcome, requests = play([Round(error=error), Round(text="Well.")])
        assert (outcome.text, len(requests)) == ("Well.", 2)
    else:
        with pytest.raises(ModelError) as caught:
            play([Round(error=error)])
        assert (caught.value.status, caught.value.retryable) == (error.status, False)
        assert error.text in str(caught.value)


def test_where_nobody_listens_it_may_be_tried_again(registry, streamed):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(ModelError) as caught:
            asyncio.run(_turn(url, registry, streamed))
    assert (caught.value.status, caught.value.retryable, caught.value.provider) == (None, True, "ollama")


def test_what_is_no_json_is_an_error_that_does_not_pass(registry, streamed):
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    class Page(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>a proxy</html>\n")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ModelError) as caught:
            asyncio.run(_turn(f"http://127.0.0.1:{server.server_port}", registry, streamed))
        server.shutdown()
    assert (caught.value.code, caught.value.retryable) == ("JSONDecodeError", False)


def test_no_error_shows_the_key(play):
    key = "olk-0123456789abcdef"
    with pytest.raises(ModelError) as caught:
        play([Round(error=Error(400, message=f"the key {key} is unknown"))], api_key=f"{key}\n")
    assert key not in "".join(traceback.format_exception(caught.value))
    assert "***" in str(caught.value)


def test_a_key_is_sent_from_the_environment(play, monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", " secret-key \n")
    _, requests = play([Round(text="Well.")])
    sent = {name.lower(): value for name, value in requests[0].headers.items()}
    assert sent["authorization"] == "Bearer secret-key"


def test_a_key_that_no_header_can_hold_is_refused():
    with pytest.raises(ModelError, match="holds characters that no key has"):
        OllamaModel("m", api_key="a\x00b")


def test_a_client_that_is_given_is_used_and_not_closed(registry):
    async def turn(server):
        client = AsyncClient(server.url)
        async with aclosing(OllamaModel("m", client=client)) as model:
            await run_turn(model, "Go on.", registry)
        assert not client._client.is_closed
        await client.close()

    with ModelServer([Round(text="Well.")]) as server:
        asyncio.run(turn(server))


def test_nothing_may_stand_beside_a_client():
    with pytest.raises(TypeError, match="leave out base_url, timeout"):
        OllamaModel("m", client=AsyncClient(), base_url="http://x", timeout=3)


def test_options_that_the_sdk_refuses_are_named():
    with pytest.raises(ModelError, match="no client can be made"):
        OllamaModel("m", colour="red")


def test_the_plugin_keeps_the_contract():
    """It loads whole, its manifest is true, importing it is cheap."""
    check_plugin("ollama")


def test_a_registry_gives_model_and_exporter_by_their_names():
    registry = pegboard.load()
    assert isinstance(registry.model("ollama/qwen3:8b"), OllamaModel)
    assert isinstance(registry.exporter("ollama"), Ollama)


def test_neither_the_sdk_nor_the_wire_is_imported_before_it_is_asked_for():
    code = """
import sys, pegboard, pegboard_ollama.plugin
pegboard.load()
print(sorted(name for name in sys.modules if name.startswith(("ollama", "httpx", "pegboard_ollama.ollama"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


def test_the_package_names_what_it_has():
    assert {"Ollama", "OllamaModel"} <= set(dir(pegboard_ollama))
    with pytest.raises(AttributeError, match="'Chat'"):
        _ = pegboard_ollama.Chat
