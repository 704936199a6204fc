"""Signatures over JSON data (HMAC-SHA256), so that what a client hands back can be told from what it made up."""

from __future__ import annotations

from typing import Any, Final

from pegboard.schema.json import canonical_json
from pegboard.typing import JsonMapping

SHORTEST_KEY: Final = 16
_PURPOSE: Final = b"pegboard pending calls\n"
"""The same key signs nothing else that could be taken for these."""


def signature_of(data: JsonMapping, key: str | bytes) -> str:
    """`"hmac-sha256:"` and the signature in hexadecimal; the data's own `"signature"` doesn't count.

    Raises:
        ValueError: The key has fewer than 16 bytes.
    """
    import hashlib
    import hmac

    secret = key.encode() if isinstance(key, str) else key
    if len(secret) < SHORTEST_KEY:
        raise ValueError(f"a key must have at least {SHORTEST_KEY} bytes; take 32 random ones")
    signed = {name: value for name, value in data.items() if name != "signature"}
    text = canonical_json(signed).encode("utf-8", "surrogatepass")
    return f"hmac-sha256:{hmac.new(secret, _PURPOSE + text, hashlib.sha256).hexdigest()}"


def signed_by(data: Any, key: str | bytes) -> bool:
    """Whether the data carries the signature of this key.

    Raises:
        ValueError: The key has fewer than 16 bytes.
    """
    import hmac

    given = data.get("signature") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    wanted = signature_of(data if isinstance(data, dict) else {}, key)  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())
