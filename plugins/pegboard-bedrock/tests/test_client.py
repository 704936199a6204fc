"""What Bedrock's model does beyond the contract: regions and credentials, threads that wait, errors."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from urllib3.exceptions import ProtocolError

from fake_vendors import Error, ModelServer, Round
from fake_vendors.contract.clients import HI, KEY, bare, cancelled, shown, silent_model
from fake_vendors.contract.vendor import NOWHERE
from fake_vendors.server.script import aws_message
from pegboard import ModelConfig, ModelError, ModelRequest, ToolRegistry, run_turn
from pegboard_bedrock import BedrockModel
from pegboard_bedrock.client import KEYS, TOKEN, make_client, model_error, secrets_of

REGION = {"region_name": "eu-central-1"}
VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture(autouse=True)
def without_files(vendor, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


# --- clients ---


def test_without_a_region_the_error_names_the_environment_variable():
    with pytest.raises(ModelError, match="AWS_REGION or AWS_DEFAULT_REGION") as caught:
        BedrockModel("m")
    assert (caught.value.code, caught.value.provider) == ("NoRegionError", "bedrock")


def test_without_credentials_the_error_names_the_environment_variables(vendor):
    async def main():
        async with aclosing(BedrockModel("m", base_url=NOWHERE, **REGION)) as model:
            await model.respond(HI)

    with pytest.raises(ModelError, match="AWS_BEARER_TOKEN_BEDROCK") as caught:
        asyncio.run(main())
    assert caught.value.code == "NoCredentialsError"


@pytest.mark.parametrize(
    ("config", "attempts"), [(Config(read_timeout=5), 1), (Config(retries={"total_max_attempts": 4}), 4)]
)
def test_the_sdk_makes_one_attempt_unless_the_host_says_otherwise(vendor, config, attempts):
    made = make_client("bedrock", NOWHERE, {**vendor.made, "config": config}).meta.config
    assert (made.retries["total_max_attempts"], made.read_timeout) == (attempts, config.read_timeout)


def test_a_client_that_was_made_is_closed(vendor, monkeypatch):
    model = bare(vendor, base_url=NOWHERE, **vendor.made)
    closed = []
    monkeypatch.setattr(model._client, "close", lambda: closed.append(model))
    asyncio.run(model.aclose())
    assert closed == [model]
    monkeypatch.undo()
    asyncio.run(model.aclose())


# --- credentials ---


def test_tokens_are_stripped(monkeypatch):
    monkeypatch.setenv(TOKEN, f" {KEY}\n")
    client = make_client("bedrock", None, REGION)  # it is sent to HTTPS only
    assert client._request_signer._auth_token.token == KEY
    client.close()


@pytest.mark.slow
def test_credentials_are_stripped(vendor, monkeypatch):
    def sent(**options):
        with ModelServer([Round(text="Hi.")]) as server:
            model = BedrockModel("m", base_url=server.url, **REGION, **options)

            async def main():
                async with aclosing(model):
                    await model.respond(HI)

            asyncio.run(main())
        return {name.lower(): value for name, value in server.requests[0].headers.items()}

    given = {"aws_access_key_id": "AKID\n", "aws_secret_access_key": "other-secret", "aws_session_token": f"{KEY}\n"}
    of_options = sent(**given)
    for name, value in zip(VARIABLES, ("AKID", "other-secret", KEY), strict=True):
        monkeypatch.setenv(name, f" {value}\n")
    for headers in (of_options, sent()):
        assert headers["x-amz-security-token"] == KEY
        assert "Credential=AKID/" in headers["authorization"]


@pytest.mark.parametrize("key", ["very\nsecret", "very-secrét"])
def test_credentials_that_cannot_be_sent_are_an_error_that_names_where_they_are_from(vendor, key, monkeypatch):
    def refused(named, **options):
        with pytest.raises(ModelError, match=named) as caught:
            BedrockModel("m", **options)
        assert (caught.value.code, caught.value.retryable) == ("invalid_api_key", False)
        assert "very" not in shown(caught.value)

    for name in ("aws_secret_access_key", "aws_session_token"):
        refused(f"{name}=", **{**vendor.made, name: key})
    for name in (*VARIABLES, TOKEN):
        with monkeypatch.context() as patched:
            patched.setenv(name, key)
            refused(name, **REGION)


def test_a_client_of_another_make_tells_no_secrets():
    assert secrets_of(object()) == []


# --- leaving: the SDK takes nothing back ---


async def left_before_it_begins(vendor, leave):
    async with silent_model(vendor, begins=True, held=True) as (model, silent):
        task = asyncio.ensure_future(leave(model))
        await silent.asked.wait()
        await cancelled(task)
        assert not silent.left.is_set()
        silent.begin.set()
        if leave is not next_piece:
            silent.hang_up.set()


async def next_piece(model):
    return await anext(model.stream(HI))


async def whole_turn(model):
    return await run_turn(model, "Go on.", ToolRegistry())


@pytest.mark.parametrize("leave", [next_piece, whole_turn])
def test_a_stream_left_before_it_begins_is_closed_once_it_does(vendor, leave):
    asyncio.run(left_before_it_begins(vendor, leave))


# --- errors ---


def test_an_option_that_the_sdk_does_not_know_is_an_error_of_the_model(way):
    config = ModelConfig(provider_options={"bedrock": {"guardrailConfig": 1}})
    error = way.play([], ModelRequest("Hi.", config=config)).error
    assert (error.code, error.retryable) == ("ParamValidationError", False)
    assert "guardrailConfig" in str(error)


def test_an_error_that_the_service_does_not_name_ends_the_answer(streaming):
    headers = {":message-type": "error", ":error-code": "InternalError", ":error-message": "who knows"}
    said = {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Half a"}}}
    response = streaming.play([Round(raw=[said, aws_message(headers, b"")])]).outcome.response
    assert (response.text, response.interrupted) == ("Half a", True)
    assert "who knows" in response.error_message


def test_an_error_page_is_shown(way):
    assert "Bad Gateway" in str(way.play([Round(error=Error(413, body="<h1>Bad Gateway</h1>"))]).error)


def answered(code, status, message="no", **headers):
    about = {"HTTPStatusCode": status, "RequestId": "r1", "HTTPHeaders": headers}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": about}, "Converse")


def test_the_provider_says_what_and_when():
    error = model_error(answered("ThrottlingException", 429, "slow down", **{"retry-after": "7"}), "bedrock")
    assert (str(error), error.status, error.code) == ("bedrock: slow down", 429, "ThrottlingException")
    assert (error.retryable, error.retry_after, error.request_id) == (True, 7.0, "r1")
    assert model_error(error, "bedrock") is error


@pytest.mark.parametrize(("status", "retryable"), [(502, True), (529, True), (400, False), (413, False)])
def test_a_status_that_the_service_does_not_name_tells_by_itself(status, retryable):
    assert model_error(answered("Unknown", status), "bedrock").retryable is retryable


@pytest.mark.parametrize("response", [{}, {"Error": 5}, {"Error": {}, "ResponseMetadata": "no"}])
def test_an_error_body_without_details_is_read(response):
    error = ClientError({}, "Converse")
    error.response = response
    made = model_error(error, "bedrock")
    assert (made.status, made.retryable, made.retry_after) == (None, False, None)


ADDRESS = {"endpoint_url": "http://127.0.0.1"}


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        *((each, True) for each in (ConnectTimeoutError(**ADDRESS), ReadTimeoutError(**ADDRESS))),
        *((each, True) for each in (ProtocolError("cut"), ConnectionResetError("reset"))),
        (ParamValidationError(report="no"), False),
        (RecursionError(), False),
        (NoCredentialsError(), False),
    ],
)
def test_without_an_answer_only_a_lost_connection_may_pass(error, retryable):
    made = model_error(error, "bedrock")
    assert (made.code, made.retryable) == (type(error).__name__, retryable)
    assert (KEYS in str(made)) is isinstance(error, NoCredentialsError)


def test_the_region_is_found_where_the_readme_has_it(monkeypatch):
    monkeypatch.setenv("AWS_REGION", " eu-north-1\n")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    for options, region in (({}, "eu-north-1"), ({"region_name": "eu-west-1"}, "eu-west-1")):
        model = BedrockModel("m", aws_access_key_id="x", aws_secret_access_key="x", **options)
        assert model._client.meta.region_name == region
        asyncio.run(model.aclose())
