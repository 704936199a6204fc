"""JSON as text: the frozen form in which specs keep it, and the canonical form behind digests."""

from __future__ import annotations

import json
from typing import Any, Final


class JsonText(str):
    """JSON kept as its text: immutable, small, and ready to be joined into an export."""

    __slots__ = ()


_compact: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_sorted: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True).encode

EMPTY_OBJECT: Final = JsonText("{}")
NULL: Final = JsonText("null")


def json_text(value: Any) -> JsonText:
    """`value` as compact JSON text in its own key order; a `JsonText` is taken as it is.

    Raises:
        ValueError: NaN, an infinity or a cycle.
        TypeError: A value that JSON can't say.
    """
    return value if type(value) is JsonText else JsonText(_compact(value))


def canonical_json(value: Any) -> str:
    """The one text of a JSON value: keys sorted, no spaces, `1.0` written as `1`.

    Equal JSON values (as JSON Schema compares them) have equal texts, in every process.

    Raises:
        ValueError: NaN, an infinity or a cycle.
        TypeError: A value that JSON can't say.
    """
    text = _sorted(value)
    # Only a whole number that was a float is written with ".0" or "e+"; few texts hold either.
    return text if ".0" not in text and "e+" not in text else _sorted(_exact(value))


def digest_of(value: Any) -> str:
    """`"sha256:"` and the hexadecimal SHA-256 of the canonical JSON of `value`."""
    import hashlib

    return "sha256:" + hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [_exact(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
