"""`made_client`: Google's own client, with a key, and without retries of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard import ModelError
from pegboard.request.client import secrets_in, usable_key

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import HttpOptions

KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""The environment variables that the key is taken from, the earlier before the later, as the SDK has it."""

_VERTEX: Final = ("enterprise", "vertexai")
"""Options that have the SDK ask Vertex AI, which takes a project's credentials instead of a key."""

_VERTEX_IN: Final = ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")
"""Environment variables that do the same."""


def made_client(provider: str, api_key: str | None, base_url: str | None, options: Mapping[str, Any]) -> Client:
    """A client. The SDK is imported here.

    Args:
        provider: For errors.
        api_key: The key; by default what stands in the environment.
        base_url: Where the server is; by default Google's.
        options: What else `google.genai.Client` takes.

    Raises:
        ModelError: There is no key, or none that can be sent; or the SDK refuses the options.
    """
    from google.genai import Client

    key = usable_key(api_key or "", "api_key=...", provider) or None
    around = _key_around(provider)
    if not (key or around or _on_vertex(options)):
        raise ModelError(
            f"there is no API key: set the environment variable {' or '.join(KEYS)}, or pass api_key=...",
            provider=provider,
            code="missing_api_key",
        )
    try:
        facts: dict[str, Any] = {**options, "http_options": _http_options(options.get("http_options"), base_url)}
        return Client(api_key=key or _instead_of_space(around), **facts)
    except Exception as error:
        raise ModelError(f"no client can be made: {error}", provider=provider, code=type(error).__name__) from error


def check_alone(client: object, others: Mapping[str, Any]) -> None:
    """Checks that a client which is given has all that it needs.

    Raises:
        TypeError: Something is given beside it that it would not use.
    """
    beside = [name for name, value in others.items() if value is not None]
    if client is not None and beside:
        raise TypeError(f"client=... is used as it is; leave out {', '.join(beside)}")


def secrets_of(client: Client) -> list[str]:
    """What a client sends that nobody else may read."""
    api: Any = client._api_client  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  nothing public tells it
    headers: Any = api._http_options.headers  # noqa: SLF001
    return [*([api.api_key] if api.api_key else []), *secrets_in(headers or {})]


def _key_around(provider: str) -> str:
    """The key that the environment holds, or `""`."""
    for name in KEYS:
        if key := usable_key(os.environ.get(name, ""), f"the environment variable {name}", provider):
            return key
    return ""


def _instead_of_space(around: str) -> str | None:
    """The key from the environment where the SDK would not find it behind a variable that holds nothing but space."""
    found = next(filter(None, (os.environ.get(name) for name in KEYS)), "")
    return around if around and not found.strip() else None


def _on_vertex(options: Mapping[str, Any]) -> bool:
    asked = [options[name] for name in _VERTEX if options.get(name) is not None]
    if asked:
        return any(asked)
    return any(os.environ.get(name, "").lower() in ("true", "1") for name in _VERTEX_IN)


def _http_options(given: Any, base_url: str | None) -> HttpOptions:
    """What the host asks of the transport. The one attempt has to be said: some transports make two otherwise."""
    from google.genai.types import HttpOptions, HttpRetryOptions

    asked = HttpOptions.model_validate({} if given is None else given)
    facts: dict[str, Any] = {} if base_url is None else {"base_url": base_url}
    if asked.retry_options is None:
        facts["retry_options"] = HttpRetryOptions(attempts=1)
    return asked.model_copy(update=facts)


__all__ = ["KEYS", "check_alone", "made_client", "secrets_of"]
