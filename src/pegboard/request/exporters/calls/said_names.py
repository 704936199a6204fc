"""The names of tools that a conversation has called, as they are sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pegboard.messages.message import CallPart, Message
from pegboard.tools.name import mapped_name

TAKEN: Final = "[A-Za-z0-9_-]{1,64}"
"""What OpenAI, Anthropic and Bedrock take as a name, as a regular expression."""


def sendable(name: str, taken: str = TAKEN) -> str:
    """A tool's name as a provider takes it: what a model has called needn't be one.

    Args:
        name: As the model wrote it.
        taken: What the provider takes as it is; anything else becomes a name that all take.
    """
    return name if re.fullmatch(taken, name, re.ASCII) else mapped_name(name)


def called_before(messages: Iterable[Message], taken: str = TAKEN) -> list[str]:
    """The names of the tools that a conversation has called, each once, as they are sent."""
    parts = (part for message in messages for part in message.parts if isinstance(part, CallPart))
    names = dict.fromkeys(part.call.name for part in parts if not part.call.provider_executed)
    return [sendable(name, taken) for name in names]


__all__ = ["TAKEN", "called_before", "sendable"]
