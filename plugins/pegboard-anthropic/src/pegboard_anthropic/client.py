"""`clients_of`: Anthropic's own client, with a key, and without retries of its own; one for each event loop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pegboard import ModelError
from pegboard.request.client import Clients, check_alone, secrets_in, usable_key

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

KEY: Final = "ANTHROPIC_API_KEY"
"""The environment variable that the key is taken from."""

_VARIABLES: Final = {"api_key": KEY, "auth_token": "ANTHROPIC_AUTH_TOKEN"}
"""Options that are keys, and the variables that the SDK takes them from, the earlier before the later."""

_CREDENTIALS: Final = (*_VARIABLES, "credentials", "config", "profile")
"""Options of which one is enough: with it, the SDK doesn't look for keys in the environment."""


def clients_of(
    given: AsyncAnthropic | None, provider: str, api_key: str | None, base_url: str | None, options: Mapping[str, Any]
) -> Clients[AsyncAnthropic]:
    """The client that was given, or those that are made.

    Args:
        given: A client, or `None`.
        provider: As for `made_client`, and so are the others.
        api_key: The key.
        base_url: Where the server is.
        options: What else `AsyncAnthropic` takes.

    Raises:
        ModelError: There is no key, or none that can be sent; or the SDK refuses the options.
        TypeError: A client is given together with what makes one.
    """
    check_alone(given, {"api_key": api_key, "base_url": base_url, **options})
    make = partial(made_client, provider, api_key, base_url, options)
    return Clients.of(given, make, lambda made: made.close())


def made_client(provider: str, api_key: str | None, base_url: str | None, options: Mapping[str, Any]) -> AsyncAnthropic:
    """A client. The SDK is imported here.

    What stands for a key, the SDK finds by itself: `ANTHROPIC_AUTH_TOKEN`, a profile, an identity of the machine's.

    Args:
        provider: For errors.
        api_key: The key; by default what the environment holds.
        base_url: Where the server is; by default Anthropic's, or what `ANTHROPIC_BASE_URL` says.
        options: What else `AsyncAnthropic` takes.

    Raises:
        ModelError: There is no key, or none that can be sent; or the SDK refuses the options.
    """
    from anthropic import AnthropicError, AsyncAnthropic, CredentialsError

    given = {"max_retries": 0, **options, "api_key": api_key, "base_url": base_url}
    facts: dict[str, Any] = {**given, **_keys(given, provider)}
    try:
        client = AsyncAnthropic(**facts)
    except CredentialsError as error:
        raise _no_key(provider, str(error)) from error
    except (AnthropicError, TypeError, ValueError) as error:
        raise ModelError(f"no client can be made: {error}", provider=provider) from error
    if not (client.api_key or client.auth_token or client.credentials):
        raise _no_key(provider, "there is no API key")
    return client


def secrets_of(client: AsyncAnthropic) -> list[str]:
    """What a client sends that nobody else may read."""
    keys = [key for key in (client.api_key, client.auth_token) if key]
    return [*keys, *secrets_in(client.default_headers)]


def _keys(given: Mapping[str, Any], provider: str) -> dict[str, str]:
    """The keys that are given, as they can be sent; where nothing is, those that the environment holds."""
    if any(given.get(name) is not None for name in _CREDENTIALS):
        keys = {name: given[name] for name in _VARIABLES if isinstance(given.get(name), str)}
        return {name: usable_key(key, f"{name}=...", provider) for name, key in keys.items()}
    held = {name: os.environ.get(variable, "") for name, variable in _VARIABLES.items()}
    for name, raw in held.items():
        if key := usable_key(raw, f"the environment variable {_VARIABLES[name]}", provider):
            return {name: key}
    return {"api_key": ""} if any(held.values()) else {}  # the SDK would take nothing but space for a key


def _no_key(provider: str, why: str) -> ModelError:
    text = f"{why}: set the environment variable {KEY}, or pass api_key=..."
    return ModelError(text, provider=provider, code="missing_api_key")


__all__ = ["KEY", "clients_of", "made_client", "secrets_of"]
