"""Credentials never show: not in errors, nor in what they are chained to, nor in outcomes."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import aclosing

import boto3
import pytest

from fake_vendors import Error, ModelServer, Round
from pegboard import ModelRequest
from pegboard.errors import ModelError
from pegboard_bedrock import BedrockModel
from pegboard_bedrock.client import TOKEN, made_client, secrets_of

KEY = "very-secret/key+"
IDS = {"region_name": "eu-central-1", "aws_access_key_id": "AKID", "aws_secret_access_key": "other-secret"}
VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture(autouse=True)
def without_surroundings(monkeypatch, tmp_path):
    for name in (*VARIABLES, TOKEN, "AWS_SECURITY_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def shown(error):
    return "".join([*traceback.format_exception(error), repr(error), str(error.code), str(error.request_id)])


async def pieces_of(model, streamed):
    async with aclosing(model):
        if not streamed:
            return [await model.respond(ModelRequest("Hi"))]
        return [piece async for piece in model.stream(ModelRequest("Hi"))]


def sent(**options):
    """The headers with which the model asks."""
    with ModelServer([Round(text="Hi.")]) as server:
        options = {"region_name": "eu-central-1", "base_url": server.url, **options}
        asyncio.run(pieces_of(BedrockModel("m", **options), streamed=False))
    return {name.lower(): value for name, value in server.requests[0].headers.items()}


def test_space_around_a_token_is_left_out(monkeypatch):
    monkeypatch.setenv(TOKEN, f" {KEY}\n")
    client = made_client("bedrock", None, {"region_name": "eu-central-1"})  # it is sent to HTTPS only
    assert client._request_signer._auth_token.token == KEY
    client.close()


def test_space_around_credentials_is_left_out(monkeypatch):
    given = sent(**{**IDS, "aws_access_key_id": "AKID\n", "aws_session_token": f"{KEY}\n"})
    for name, value in zip(VARIABLES, ("AKID", "other-secret", KEY), strict=True):
        monkeypatch.setenv(name, f" {value}\n")
    for headers in (given, sent()):
        assert headers["x-amz-security-token"] == KEY
        assert "Credential=AKID/" in headers["authorization"]


@pytest.mark.parametrize("key", ["very\nsecret", "very-secrét"])
def test_credentials_that_cannot_be_sent_are_an_error_that_names_where_they_are_from(key, monkeypatch):
    cases = [({name: key}, f"{name}=") for name in ("aws_secret_access_key", "aws_session_token")]
    for options, named in cases:
        with pytest.raises(ModelError, match=named) as caught:
            BedrockModel("m", **{**IDS, **options})
        assert "very" not in shown(caught.value)
    for name in (*VARIABLES, TOKEN):
        with monkeypatch.context() as patched:
            patched.setenv(name, key)
            with pytest.raises(ModelError, match=name) as caught:
                BedrockModel("m", region_name="eu-central-1")
        assert (caught.value.code, caught.value.retryable) == ("invalid_api_key", False)
        assert "very" not in shown(caught.value)


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_echoes_a_token(streamed, status):
    with ModelServer([Round(error=Error(status, f"no: {KEY}"))]) as server:
        model = BedrockModel("m", base_url=server.url, aws_session_token=KEY, **IDS)
        with pytest.raises(ModelError) as caught:
            asyncio.run(pieces_of(model, streamed))
    assert "***" in str(caught.value)
    assert KEY not in shown(caught.value)


def test_a_stream_that_echoes_a_token():
    error = Error(500, f"no: {KEY}", after=3)
    with ModelServer([Round(text=("Half ", "a ", "word"), error=error)]) as server:
        model = BedrockModel("m", base_url=server.url, aws_session_token=KEY, **IDS)
        pieces = asyncio.run(pieces_of(model, streamed=True))
    assert "***" in pieces[-1].error_message
    assert KEY not in repr(pieces)


def test_a_transport_that_echoes_a_token(streamed):
    token = f"{KEY}\n"
    with ModelServer([]) as server:
        client = boto3.Session().client("bedrock-runtime", endpoint_url=server.url, aws_session_token=token, **IDS)
        with pytest.raises(ModelError) as caught:
            asyncio.run(pieces_of(BedrockModel("m", client=client), streamed))
        client.close()
    assert KEY not in shown(caught.value)


def test_a_client_of_another_make_tells_no_secrets():
    assert secrets_of(object()) == []
