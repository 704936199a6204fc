"""What Google's model does beyond the contract: Vertex, options of the transport, signatures, errors."""

from __future__ import annotations

import asyncio
import base64
import json
from types import SimpleNamespace

import pytest
from google.auth.exceptions import RefreshError
from google.genai.errors import APIError
from google.genai.types import HttpOptions, HttpRetryOptions

from fake_vendors import Call, Error, Page, Reasoning, Round, Search
from fake_vendors.contract.vendor import NOWHERE
from pegboard import ModelConfig, ModelError, ModelRequest, Tool
from pegboard_google import GoogleModel
from pegboard_google.client import make_client, model_error
from pegboard_google.gemini import GeminiSchema

DONE = Round(text="Done.")


def http(**options):
    return make_client("gemini", "x", None, options)._api_client._http_options


# --- clients ---


def test_vertex_needs_no_key(vendor, monkeypatch):
    place = {"project": "p", "location": "l"}
    assert make_client("gemini", None, NOWHERE, {"vertexai": True, **place}).vertexai
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "TRUE")
    assert make_client("gemini", None, NOWHERE, place).vertexai
    with pytest.raises(ModelError, match="GOOGLE_API_KEY"):  # an option counts before the environment
        make_client("gemini", None, None, {"vertexai": False})


def test_the_sdk_makes_one_attempt_unless_the_host_says_otherwise():
    assert http().retry_options.attempts == 1
    made = http(http_options=HttpOptions(retry_options=HttpRetryOptions(attempts=4), timeout=5))
    assert (made.retry_options.attempts, made.timeout) == (4, 5)


def test_http_options_are_kept_with_a_base_url():
    made = make_client("gemini", "x", NOWHERE, {"http_options": {"timeout": 5_000}})._api_client._http_options
    assert (made.base_url, made.timeout) == (NOWHERE, 5_000)


def test_a_client_that_was_made_is_closed(monkeypatch):
    model = GoogleModel("gemini-3-pro", api_key="x")
    closed = []
    monkeypatch.setattr(model._client, "close", lambda: closed.append(model))
    asyncio.run(model.aclose())
    assert closed == [model]
    monkeypatch.undo()
    asyncio.run(model.aclose())


def test_a_model_has_the_name_of_its_exporter():
    model = GoogleModel("gemini-3-pro", api_key="x", exporter=GeminiSchema())
    assert (model.provider, model.exporter.name) == ("gemini-schema", "gemini-schema")


# --- turns ---


def test_signatures_go_back_as_they_came(way, registry):
    def signed(raw):
        return base64.b64encode(raw).decode()

    rounds = [
        Round(calls=[Call("weather", {"city": "Oslo"})], reasoning=Reasoning("Hm.", signed(b"\xfb\xffthought"))),
        Round(calls=[Call("weather", {"city": "Rome"}, signature=signed(b"second"))]),
        Round(text="Done.", reasoning=Reasoning("", signed(b"third"))),
    ]
    played = way.play(rounds, registry=registry)
    signatures = [
        base64.urlsafe_b64decode(part["thoughtSignature"])
        for content in played.bodies[-1]["contents"]
        for part in content["parts"]
        if "thoughtSignature" in part
    ]
    assert signatures == [b"\xfb\xffthought", b"second"]


def test_ids_go_back_as_they_came(way, registry):
    calls = [Call("weather", {"city": city}, id="a") for city in ("Oslo", "Rome")]
    played = way.play([Round(calls=calls), DONE], registry=registry)
    answers = [part["functionResponse"]["id"] for part in played.bodies[1]["contents"][2]["parts"]]
    assert answers == ["a", "a"]


def test_searches_of_the_provider_are_kept_as_grounding(way, registry):
    registry.register(Tool.provider("search", "google.googleSearch"))
    found = Round(text="Rain in Oslo.", hosted=[Search("oslo weather", [Page("https://b", "B")])])
    assert way.play([found], registry=registry).outcome.response.grounding["webSearchQueries"] == ["oslo weather"]


def test_arguments_that_are_no_object_are_an_error_of_the_model(way, registry):
    """The SDK reads none of such an answer: a turn can't answer what it doesn't see."""
    played = way.play([Round(text="Look.", calls=[Call("weather", '{"city": ')])], registry=registry)
    if way.streamed:
        assert (played.outcome.ended, played.outcome.text) == ("cut_off", "Look.")
    else:
        assert (played.error.code, played.error.retryable) == ("ValidationError", False)


def test_an_option_that_the_sdk_does_not_know_is_an_error_of_the_model(way):
    config = ModelConfig(provider_options={"google": {"noSuchThing": 1}})
    error = way.play([], ModelRequest("Hi.", config=config)).error
    assert not error.retryable
    assert "noSuchThing" in str(error)


def test_a_finish_reason_that_the_sdk_does_not_know_is_passed_on(way):
    with pytest.warns(UserWarning, match="NOT_KNOWN_YET"):
        played = way.play([Round(text="Noon.", finish="NOT_KNOWN_YET")])
    assert (played.outcome.text, played.outcome.response.finish_reason) == ("Noon.", "other")


MALFORMED = {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "print(f())"}
THOUGHT = {"content": {"parts": [{"text": "Hm.", "thought": True}]}}
TEXT = {"content": {"parts": [{"text": "Well."}]}}
NOON = {"content": {"parts": [{"text": "Noon."}]}, "finishReason": "STOP"}


class Server:
    """Stands for the SDK's client; its objects have no `finishMessage`, and its raw answers have."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0
        self.aio = SimpleNamespace(models=self)
        http = SimpleNamespace(headers={})
        self._api_client = SimpleNamespace(api_key="x", _http_options=http)

    def _next(self):
        self.asked += 1
        return self.answers.pop(0)

    async def generate_content(self, config, **_):
        candidate = self._next()[-1]
        body = {"candidates": [candidate]}
        if config.get("shouldReturnHttpResponse"):
            return SimpleNamespace(sdk_http_response=SimpleNamespace(body=json.dumps(body)))
        return self._read(candidate)

    async def generate_content_stream(self, **_):
        async def chunks():
            for candidate in self._next():
                yield self._read(candidate)

        return chunks()

    def _read(self, candidate):
        known = {key: value for key, value in candidate.items() if key != "finishMessage"}
        return SimpleNamespace(model_dump=lambda **_: {"candidates": [known]})


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("answers", "asked", "text", "error"),
    [
        ([[MALFORMED], [NOON]], 2, "Noon.", None),
        ([[THOUGHT, MALFORMED], [NOON]], 2, "Noon.", None),
        ([[MALFORMED], [MALFORMED]], 2, "", "print(f())"),
    ],
)
def test_a_malformed_call_is_requested_once_more_and_its_message_is_kept(streamed, answers, asked, text, error):
    async def answer():
        if not streamed:
            return await model.respond(ModelRequest("Hi."))
        return [piece async for piece in model.stream(ModelRequest("Hi."))][-1]

    model = GoogleModel("gemini-3-pro", client=Server(*answers))
    response = asyncio.run(answer())
    assert (model._client.asked, response.text, response.error_message) == (asked, text, error)


def test_a_malformed_call_after_a_text_that_was_shown_is_an_error():
    async def pieces():
        return [piece async for piece in model.stream(ModelRequest("Hi."))]

    model = GoogleModel("gemini-3-pro", client=Server([TEXT, MALFORMED]))
    response = asyncio.run(pieces())[-1]
    assert (response.text, response.finish_reason) == ("Well.", "error")
    assert response.error_message == "the answer ended with MALFORMED_FUNCTION_CALL"


# --- errors ---


def delayed(seconds):
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": seconds}]
    return {"error": {"code": 429, "message": "slow down", "status": "X", "details": details}}


class Answer:
    """As much of an HTTP answer as is looked at."""

    headers = {"retry-after": "7"}  # noqa: RUF012  never changed


def test_the_body_says_how_long_to_wait_where_no_header_does(way):
    assert way.play([Round(error=Error(429, body=delayed("70.5s")))]).error.retry_after == 70.5
    error = model_error(APIError(429, delayed("9s"), Answer()), "gemini")
    assert (error.status, error.code, error.retryable, error.retry_after) == (429, "X", True, 7.0)
    assert model_error(error, "gemini") is error


@pytest.mark.parametrize("body", [{}, {"error": {"message": 5, "status": ["x"]}}, {"error": {}}])
def test_an_error_body_without_details_is_read(body):
    error = model_error(APIError(529, body, None), "gemini")
    assert (error.status, error.code, error.retryable, error.retry_after) == (529, "APIError", True, None)
    assert "529" in str(error)


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (TimeoutError(), True),
        (ConnectionResetError("reset"), True),
        (ValueError("no"), False),
        (RecursionError(), False),
        (RefreshError("later", retryable=True), True),  # credentials say it themselves
        (RefreshError("never"), False),
    ],
)
def test_without_status_only_a_lost_connection_may_pass(error, retryable):
    read = model_error(error, "gemini")
    assert (read.status, read.code, read.retryable) == (None, type(error).__name__, retryable)
    assert str(error) in str(read) != "gemini: "
