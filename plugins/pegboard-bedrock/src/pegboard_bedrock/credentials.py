"""Credentials as they can be sent: those that are given, and those that the SDK takes from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from pegboard.request.client import usable_key

_OPTIONS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
TOKEN: Final = "AWS_BEARER_TOKEN_BEDROCK"  # noqa: S105  a name
"""The environment variable of a key that stands for credentials."""

_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", TOKEN)


def usable_options(options: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """The options of a client, with credentials as they can be sent.

    Args:
        options: What `boto3.Session().client` takes.
        provider: For errors.

    Raises:
        ModelError: Credentials that are given, or that the environment holds, can't be sent.
    """
    for variable in _VARIABLES:
        usable_key(os.environ.get(variable, ""), f"the environment variable {variable}", provider)
    given = {name: options[name] for name in _OPTIONS if isinstance(options.get(name), str)}
    return {**options, **{name: usable_key(key, f"{name}=...", provider) for name, key in given.items()}}


def strip_session(session: Any) -> None:
    """Has a session send what the environment holds without the space around it.

    Args:
        session: One of botocore's, of which no client has been made.
    """
    session.register_component("token_provider", _Stripped(session.get_component("token_provider")))
    held = session.get_credentials()
    if getattr(held, "method", None) == "env" and "_expiry_time" not in vars(held):
        for name in ("access_key", "secret_key", "token"):
            setattr(held, name, (getattr(held, name) or "").strip() or None)


def secrets_of(client: Any) -> list[str]:
    """What a client signs with or sends that nobody else may read. Nothing is renewed for it."""
    signer: Any = getattr(client, "_request_signer", None)
    held: Any = getattr(signer, "_credentials", None)
    facts: Any = getattr(held, "__dict__", {})
    secrets: list[Any] = [facts.get(name) for name in ("secret_key", "token", "_secret_key", "_token")]
    secrets += [getattr(getattr(signer, "_auth_token", None), "token", None), os.environ.get(TOKEN)]
    return [secret for secret in secrets if isinstance(secret, str)]


class _Stripped:
    """The SDK's finder of tokens; what the environment holds comes without the space around it."""

    def __init__(self, chain: Any) -> None:
        self._chain = chain

    def load_token(self, **about: Any) -> Any:
        """The token, or `None`; called by the SDK."""
        token: Any = self._chain.load_token(**about)
        replaced: Any = getattr(token, "_replace", None)  # tokens that are renewed have none
        return token if replaced is None else replaced(token=token.token.strip())


__all__ = ["TOKEN", "secrets_of", "strip_session", "usable_options"]
