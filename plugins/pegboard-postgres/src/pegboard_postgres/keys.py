"""Keys of rows, and texts that PostgreSQL can store."""

from __future__ import annotations

import json
from hashlib import sha256

from pegboard.tools import encodable_text


def key_of(*parts: str | None) -> bytes:
    """The digest of some texts, such as a user and a session: of any length, and with any characters.

    `None` and each text have keys of their own.
    """
    return sha256(json.dumps(parts).encode()).digest()


def plain(text: str) -> str:
    """A text that PostgreSQL can store: lone surrogates and zero characters are replaced."""
    return encodable_text(text).replace("\0", "\N{REPLACEMENT CHARACTER}")
