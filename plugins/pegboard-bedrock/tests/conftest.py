"""Bedrock's case of the contract that every model keeps."""

from __future__ import annotations

import json
from contextlib import aclosing, asynccontextmanager, closing
from functools import cache

import boto3
import pytest
from botocore.config import Config

import pegboard_bedrock
from fake_vendors import Reasoning
from fake_vendors.contract.fixtures import *  # noqa: F403  that is what they are for
from fake_vendors.contract.vendor import DEEP, PNG, Vendor
from fake_vendors.server.script import aws_message
from pegboard import ModelConfig
from pegboard_bedrock import BedrockModel

IDS = {"region_name": "eu-central-1", "aws_access_key_id": "AKID", "aws_secret_access_key": "other-secret"}


@asynccontextmanager
async def opened(url, name):
    """Clients of one session: each would read the service's model anew."""
    config = Config(retries={"total_max_attempts": 1, "mode": "standard"})
    with closing(session().client("bedrock-runtime", endpoint_url=url, config=config)) as client:
        async with aclosing(BedrockModel(name, client=client)) as model:
            yield model


@cache
def session():
    return boto3.Session(**IDS)


@asynccontextmanager
async def client(url, key):
    made = boto3.Session().client("bedrock-runtime", endpoint_url=url, aws_session_token=key, **IDS)
    made.was_closed = False
    close, made.close = made.close, lambda: setattr(made, "was_closed", True)
    yield made
    close()


def event(kind, said):
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return aws_message(headers, json.dumps(said).encode())


BEDROCK = Vendor(
    name="bedrock",
    kind=BedrockModel,
    package=pegboard_bedrock,
    path="bedrock/m",
    provider="bedrock",
    plugin="bedrock",
    sdk=("boto", "urllib3"),
    wires=("bedrock",),
    variables=("AWS_",),
    model="m",
    made=IDS,
    opened=opened,
    client=client,
    is_closed=lambda made: made.was_closed,
    asked=lambda request: request.path.split("/")[2],
    many_loops=False,
    secret="aws_session_token",
    unsendable="\n",
    odd_options=[{"no_such_option": 1}, {"config": 5}],
    results=[
        {"toolUseId": "tooluse_1_0", "content": [{"text": "It rains in Oslo."}]},
        {"toolUseId": "tooluse_1_1", "status": "error", "content": [{"text": "The clock has stopped."}]},
        {"image": {"format": "png", "source": {"bytes": PNG}}},
    ],
    thoughts=[
        (Reasoning("Hm.", "first/+=="), {"reasoningText": {"text": "Hm.", "signature": "first/+=="}}),
        (Reasoning(signature="aGlkZGVu", redacted=True), {"redactedContent": "aGlkZGVu"}),
    ],
    choice={"toolChoice": {"tool": {"name": "weather"}}},
    form={"type": "json_schema"},
    forming="eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    strict={"name": "book", "strict": True},
    configured=(
        ModelConfig(max_output_tokens=100, temperature=0.5),
        [{"system": [{"text": "Be kind."}], "inferenceConfig": {"maxTokens": 100, "temperature": 0.5}}],
    ),
    option=(
        {"bedrock": {"additionalModelRequestFields": {"top_k": 5}}},
        {"additionalModelRequestFields": {"top_k": 5}},
    ),
    refused="content_filter",
    listing={
        "/foundation-models?byOutputModality=TEXT&byInferenceType=ON_DEMAND": {
            "modelSummaries": [{"modelArn": "arn:x", "modelId": "one"}]
        },
        "/inference-profiles": {"inferenceProfileSummaries": [{"inferenceProfileId": "two"}]},
    },
    text_after=3,
    calls_after=7,
    permanent={
        400: "ValidationException",
        401: "UnrecognizedClientException",
        403: "AccessDeniedException",
        404: "ResourceNotFoundException",
    },
    temporary={
        424: "ModelErrorException",
        429: "ThrottlingException",
        500: "InternalServerException",
        503: "ServiceUnavailableException",
    },
    nonsense=[b"<h1>Hello</h1>", b"[]", b'{"output": 5}', b"{}", *DEEP],
    frames=[b"<h1>Hello</h1>" * 100],
    begun=2 * event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Half"}}),
    stream_type="application/vnd.amazon.eventstream",
    hangs_up=False,
)


@pytest.fixture(params=[BEDROCK], ids=str)
def vendor(request):
    return request.param
