"""`chat_exporter`: what writes for OpenAI's chat completions, and for other servers that speak them."""

from __future__ import annotations

from functools import cache
from typing import Final
from urllib.parse import urlsplit

from pegboard import Exporter
from pegboard_openai.openai_chat import OpenAIChat, exporter

_OWN: Final = ("openai.com", "openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com")
"""Hosts, and those below them, that run OpenAI's own API."""


def chat_exporter(base_url: str) -> Exporter:
    """The exporter for a server.

    Args:
        base_url: Where it is.

    Returns:
        The built-in `"openai"` for OpenAI's own API; for any other server one that keeps to what they all take.
    """
    host = urlsplit(base_url).hostname or ""
    if any(host == own or host.endswith(f".{own}") for own in _OWN):
        return exporter()
    return server_exporter()


@cache
def server_exporter(
    name: str = "openai", *, most_tokens: str = "max_tokens", reasoning: str | None = None
) -> OpenAIChat:
    """The exporter for a server that speaks as OpenAI does, but has no tools that take free text.

    Args:
        name: Under which the server's own facts are kept.
        most_tokens: The member that limits an answer's length.
        reasoning: The member in which the server wants the model's reasoning back, or `None`.
    """
    return OpenAIChat(name=name, custom_tools=False, most_tokens=most_tokens, reasoning=reasoning)
