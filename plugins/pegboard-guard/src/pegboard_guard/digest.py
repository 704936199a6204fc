"""What makes two calls the same: a digest of the canonical JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard.schema.json import digest_of


def call_digest(name: str, arguments: Mapping[str, Any]) -> str | None:
    """`"sha256:..."` over a tool's name and its arguments; `None` where they aren't JSON."""
    return _digest([name, dict(arguments)])


def arguments_digest(arguments: Mapping[str, Any]) -> str | None:
    """`"sha256:..."` over the arguments alone; `None` where they aren't JSON."""
    return _digest(dict(arguments))


def _digest(value: Any) -> str | None:
    try:
        return digest_of(value)
    except (TypeError, ValueError, RecursionError):
        return None
