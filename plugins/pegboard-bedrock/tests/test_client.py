"""Which client is made, and whose it is."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from botocore.config import Config

from fake_vendors import ModelServer, Round
from fake_vendors.server.talk import bedrock as client_of
from pegboard import ModelError, ModelRequest
from pegboard_bedrock import BedrockModel
from pegboard_bedrock.bedrock import Bedrock
from pegboard_bedrock.client import made_client

NOWHERE = "http://127.0.0.1:9"
SIGNED = {"region_name": "eu-central-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}


@pytest.fixture(autouse=True)
def without_surroundings(monkeypatch, tmp_path):
    """Nothing of the machine's counts; nothing is asked for credentials."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_without_a_region_the_error_names_the_environment_variable():
    with pytest.raises(ModelError, match="AWS_REGION or AWS_DEFAULT_REGION") as caught:
        BedrockModel("m")

    assert (caught.value.code, caught.value.provider) == ("NoRegionError", "bedrock")


def test_without_credentials_the_error_names_the_environment_variables():
    async def main():
        async with aclosing(BedrockModel("m", base_url=NOWHERE, region_name="eu-central-1")) as model:
            await model.respond(ModelRequest("Hi."))

    with pytest.raises(ModelError, match="AWS_BEARER_TOKEN_BEDROCK") as caught:
        asyncio.run(main())

    assert caught.value.code == "NoCredentialsError"


@pytest.mark.parametrize("options", [{"no_such_option": 1}, {"config": 5}])
def test_options_that_the_sdk_refuses_are_an_error_of_the_model(options):
    with pytest.raises(ModelError, match="no client can be made"):
        made_client("bedrock", None, {**SIGNED, **options})


def test_the_sdk_makes_one_attempt_unless_the_host_says_otherwise():
    config = Config(read_timeout=5)
    patient = Config(retries={"total_max_attempts": 4})

    made = made_client("bedrock", NOWHERE, {**SIGNED, "config": config}).meta.config

    assert (made.retries["total_max_attempts"], made.read_timeout) == (1, 5)
    made = made_client("bedrock", NOWHERE, {**SIGNED, "config": patient}).meta.config
    assert made.retries["total_max_attempts"] == 4


def test_a_client_that_is_given_stays_open(monkeypatch):
    async def main(client):
        async with aclosing(BedrockModel("m", client=client)) as model:
            return (await model.respond(ModelRequest("Hi."))).text

    with ModelServer([Round(text="One."), Round(text="Two.")]) as server, client_of(server.url) as client:
        closed = []
        monkeypatch.setattr(client, "close", lambda: closed.append(client))
        assert [asyncio.run(main(client)) for _ in range(2)] == ["One.", "Two."]
        assert not closed
        monkeypatch.undo()


def test_a_client_that_was_made_is_closed(monkeypatch):
    model = BedrockModel("m", base_url=NOWHERE, **SIGNED)
    closed = []
    monkeypatch.setattr(model._client, "close", lambda: closed.append(model))

    asyncio.run(model.aclose())

    assert closed == [model]
    monkeypatch.undo()
    asyncio.run(model.aclose())


def test_a_client_isnt_given_beside_what_makes_one():
    with pytest.raises(TypeError, match=r"leave out base_url, region_name"):
        BedrockModel("m", client=object(), base_url=NOWHERE, region_name="eu-central-1")


def test_a_model_says_who_it_is():
    exporter = Bedrock()
    model = BedrockModel("m", client=object(), exporter=exporter)

    assert (model.name, model.provider, model.loads_deferred) == ("m", "bedrock", False)
    assert model.exporter is exporter
    assert repr(model) == "BedrockModel('m', provider='bedrock')"


def test_the_requests_model_counts_before_the_clients():
    async def main(url):
        async with aclosing(BedrockModel("eu.amazon.nova-pro-v1:0", base_url=url, **SIGNED)) as model:
            for request in (ModelRequest("Hi."), ModelRequest("Hi.", model="other")):
                await model.respond(request)

    with ModelServer([Round(text="One."), Round(text="Two.")]) as server:
        asyncio.run(main(server.url))
        paths = [request.path for request in server.requests]

    assert paths == ["/model/eu.amazon.nova-pro-v1:0/converse", "/model/other/converse"]
