"""Google's case of the contract that every model keeps."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager

import certifi
import pytest
from google import genai
from google.genai.types import HttpOptions

import pegboard_google
from fake_vendors import Reasoning
from fake_vendors.contract.fixtures import *  # noqa: F403  that is what they are for
from fake_vendors.contract.vendor import PNG, Hosted, Vendor
from pegboard import ModelConfig, Tool

SIGNATURE = base64.b64encode(b"\xfb\xffthought").decode()
OTHER = str.maketrans("+/", "-_")
"""The alphabet of base64 that the SDK writes."""

RAN = [
    {"executableCode": {"code": "print(6 * 7)", "language": "PYTHON"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42"}},
]


@asynccontextmanager
async def client(url, key):
    made = genai.Client(api_key=key, http_options=HttpOptions(base_url=url))
    try:
        yield made
    finally:
        await made.aio.aclose()
        made.close()


LISTED = {
    "models": [
        {"name": "models/one", "supportedGenerationMethods": ["generateContent", "countTokens"]},
        {"name": "models/gemini-embedding", "supportedGenerationMethods": ["embedContent"]},
        {"name": "publishers/google/models/two"},  # of Vertex AI, which doesn't say what they do
    ]
}
NONE = [b"<h1>Hello</h1>", b"[]", b"5", b'{"candidates": "none"}', b'{"candidates": ' + b"[" * 100_000]
GOOGLE = Vendor(
    name="google",
    kind=pegboard_google.GoogleModel,
    package=pegboard_google,
    path="google/gemini-3-pro",
    provider="gemini",
    plugin="google",
    sdk=("google.genai", "httpx", "pydantic"),
    wires=("gemini",),
    variables=("GOOGLE_", "GEMINI_"),
    model="gemini-3-pro",
    client=client,
    is_closed=lambda made: made._api_client._async_httpx_client.is_closed,
    asked=lambda request: request.path.rpartition("/")[2].partition(":")[0],
    many_loops=False,
    keys=[("api_key", "GOOGLE_API_KEY"), ("api_key", "GEMINI_API_KEY")],
    sent=lambda request, key: request.headers["x-goog-api-key"] == key,
    unsendable="\0",
    odd_options=[{"no_such_option": 1}, {"project": "p"}, {"http_options": {"timeout": "soon"}}, {"http_options": 5}],
    results=[
        {"name": "clock", "response": {"error": "The clock has stopped."}},
        {"name": "weather", "response": {"output": "It rains in Oslo."}},
        {"name": "photo", "response": {"output": "Look:"}},
        {"inline_data": {"mime_type": "image/png", "data": PNG.translate(OTHER)}},
    ],
    usage=("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"),
    thoughts=[(Reasoning("Hm.", SIGNATURE), {"thoughtSignature": SIGNATURE.translate(OTHER)})],
    choice={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
    form={"responseMimeType": "application/json"},
    strict={"functionCallingConfig": {"mode": "VALIDATED"}},
    hosted=Hosted(Tool.provider("search", "google.googleSearch"), {"googleSearch": {}}, RAN, ["call", "result"], RAN),
    configured=(
        ModelConfig(max_output_tokens=100, temperature=0.5, reasoning="low"),
        [
            {"maxOutputTokens": 100, "temperature": 0.5},
            {"thinkingConfig": {"thinking_level": "LOW", "include_thoughts": True}},
            {"systemInstruction": {"parts": [{"text": "Be kind."}]}},
        ],
    ),
    option=(
        {"google": {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]}},
        {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
    ),
    refused="content_filter",
    listing={"/v1/models": LISTED, "/v1beta/models": LISTED},  # by the SDK's version
    text_after=2,
    calls_after=1,
    in_pieces=False,
    as_text=False,
    permanent={400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"},
    temporary={429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"},
    ids=False,
    nonsense=NONE,
    frames=NONE,
    begun=2 * b'data: {"candidates": [{"content": {"role": "model", "parts": [{"text": "Half"}]}}]}\r\n\r\n',
)


@pytest.fixture(autouse=True)
def few_certificates(around, monkeypatch, tmp_path):
    """Each client reads all of certifi's certificates, twice, which takes half of a test's time."""
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----\n")
    (tmp_path / "one.pem").write_text(first + end, encoding="utf-8")
    monkeypatch.setattr(certifi, "where", lambda: str(tmp_path / "one.pem"))


@pytest.fixture(params=[GOOGLE], ids=str)
def vendor(request):
    return request.param
