"""Names that every provider takes, and an injective way to make one from a foreign name."""

from __future__ import annotations

from pegboard.errors import InvalidNameError

MAX_LENGTH = 64
_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_HEX = frozenset("0123456789abcdef")
_DIGITS = 10
_REST = _FIRST | frozenset("0123456789-")


def is_valid_name(name: str) -> bool:
    """Whether `name` is 1-64 of `[A-Za-z0-9_-]`, a letter or `_` first.

    The narrowest of the rules of OpenAI, Anthropic, Bedrock (`[A-Za-z0-9_-]{1,64}`) and Gemini (first character).
    """
    return 0 < len(name) <= MAX_LENGTH and name[0] in _FIRST and _REST.issuperset(name)


def check_name(name: str) -> str:
    """`name` as it is.

    Raises:
        InvalidNameError: It isn't a valid name.
    """
    if not is_valid_name(name):
        raise InvalidNameError(name)
    return name


def mapped_name(foreign: str) -> str:
    """A valid name for a foreign one: itself where it is valid, else a readable part and a digest of the whole.

    Two foreign names get two names: those that were mapped end with a digest of the foreign name (40 bits of
    SHA-256), and a valid name that ends as if it had been mapped is mapped too.
    """
    if is_valid_name(foreign) and not _looks_mapped(foreign):
        return foreign
    import hashlib

    digest = hashlib.sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    readable = "".join(c if c in _REST else "_" for c in foreign)
    if not readable or readable[0] not in _FIRST:
        readable = "_" + readable
    return f"{readable[: MAX_LENGTH - 1 - _DIGITS]}_{digest}"


def _looks_mapped(name: str) -> bool:
    return len(name) > _DIGITS + 1 and name[-_DIGITS - 1] == "_" and _HEX.issuperset(name[-_DIGITS:])
