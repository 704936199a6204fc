"""`clients_of`: OpenAI's own client, with a key, and without retries of its own; or the one that is given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pegboard import ModelError
from pegboard.request.client import Clients, check_alone, secrets_in, usable_key

if TYPE_CHECKING:
    from openai import AsyncOpenAI

KEY: Final = "OPENAI_API_KEY"
"""The environment variable that the key is taken from."""

NO_KEY: Final = "none"
"""What is sent to servers that want no key: the SDK insists on one."""

_OTHER_CREDENTIALS: Final = frozenset({"admin_api_key", "provider", "workload_identity"})
"""Options of the client's that stand for a key."""


def clients_of(
    client: AsyncOpenAI | None, provider: str, options: Mapping[str, Any], key_in: str = KEY
) -> Clients[AsyncOpenAI]:
    """The client that is given, or one that is made, for each event loop another. The SDK is imported here.

    Args:
        client: The one that is given, or `None`.
        provider: For errors.
        options: What `AsyncOpenAI` takes; `None` leaves one to it.
        key_in: The environment variable that holds the key, where `api_key` isn't among them.

    Raises:
        ModelError: There is no key, or none that can be sent; or the SDK refuses the options.
        TypeError: A client is given together with what makes one.
    """
    check_alone(client, options)
    given = {name: value for name, value in options.items() if value is not None}
    return Clients.of(client, partial(_made, provider, given, key_in), lambda made: made.close())


def _made(provider: str, given: Mapping[str, Any], key_in: str) -> AsyncOpenAI:
    from openai import AsyncOpenAI, OpenAIError

    facts: dict[str, Any] = {"max_retries": 0, **given}
    if not facts.keys() & _OTHER_CREDENTIALS:
        facts["api_key"] = _key(facts.get("api_key"), key_in, provider)
        if not facts["api_key"]:
            raise ModelError(
                f"there is no API key: set the environment variable {key_in}, or pass api_key=...",
                provider=provider,
                code="missing_api_key",
            )
    elif isinstance(admin := facts.get("admin_api_key"), str):
        facts["admin_api_key"] = usable_key(admin, "admin_api_key=...", provider)
    try:
        return AsyncOpenAI(**facts)
    except (OpenAIError, TypeError, ValueError) as error:
        raise ModelError(f"no client can be made: {error}", provider=provider) from error


def _key(given: Any, key_in: str, provider: str) -> Any:
    """What is given, which may also be a function that the SDK asks for keys; or what the environment holds."""
    if given and not isinstance(given, str):
        return given
    if given:
        return usable_key(given, "api_key=...", provider)
    return usable_key(os.environ.get(key_in, ""), f"the environment variable {key_in}", provider)


def secrets_of(client: AsyncOpenAI) -> list[str]:
    """What a client sends that nobody else may read."""
    keys = [key for key in (client.api_key, client.admin_api_key) if key and key != NO_KEY]
    return [*keys, *(said for said in secrets_in(client.default_headers) if not said.endswith(NO_KEY))]
