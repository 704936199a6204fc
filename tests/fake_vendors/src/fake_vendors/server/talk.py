"""How the tests of the server talk to it: real clients, and tools that the providers take."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fake_vendors.server.script import Call, Round

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}

LOOP = (
    Round(text="Let me look.", calls=[Call("weather", {"city": "Oslo"}), Call("clock")]),
    Round(text="It is noon, and it rains."),
)
"""Two calls side by side, then the answer."""


@contextmanager
def openai(url: str) -> Iterator[Any]:
    """The OpenAI client."""
    from openai import OpenAI

    with OpenAI(api_key="x", base_url=url + "/v1", max_retries=0) as client:
        yield client


@contextmanager
def anthropic(url: str) -> Iterator[Any]:
    """The Anthropic client."""
    from anthropic import Anthropic

    with Anthropic(api_key="x", base_url=url, max_retries=0) as client:
        yield client


@contextmanager
def gemini(url: str) -> Iterator[Any]:
    """The Gemini client."""
    from google import genai
    from google.genai.types import HttpOptions

    with genai.Client(api_key="x", http_options=HttpOptions(base_url=url)) as client:
        yield client


@contextmanager
def bedrock(url: str) -> Iterator[Any]:
    """The Bedrock client."""
    from botocore.config import Config

    config = Config(retries={"total_max_attempts": 1, "mode": "standard"})
    client = _boto_session().client("bedrock-runtime", endpoint_url=url, config=config)
    try:
        yield client
    finally:
        client.close()


@functools.cache
def _boto_session() -> Any:
    """One for all: each would read the service's model anew."""
    import boto3

    return boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1")
