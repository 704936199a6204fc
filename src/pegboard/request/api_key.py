"""`usable_key`: a key as it can stand in the header of a request."""

from __future__ import annotations

from pegboard.errors import ModelError


def usable_key(key: str, named: str, provider: str) -> str:
    r"""A key without the space around it: files and shells leave a line's end behind it.

    Args:
        key: As it was given.
        named: Where it comes from, for the error, such as `"the environment variable OPENAI_API_KEY"`.
        provider: For the error.

    Returns:
        The key; `""` where nothing but space was given.

    Raises:
        ModelError: No header can hold it: what is left has control characters, or others than ASCII. The error doesn't
            show the key, and it doesn't pass.
    """
    stripped = key.strip()
    if stripped.isascii() and stripped.isprintable():
        return stripped
    raise ModelError(
        f"{named} holds characters that no key has: control characters, or others than ASCII",
        provider=provider,
        code="invalid_api_key",
    )


__all__ = ["usable_key"]
