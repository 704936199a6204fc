"""Aliases for JSON and JSON Schema, and the text form in which specs keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
"""What JSON can say."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object; its values are `JsonValue`, written `Any` so that reading it needs no casts."""

JsonSchema: TypeAlias = dict[str, Any]
"""A JSON Schema (draft 2020-12) as an object."""

JsonMapping: TypeAlias = Mapping[str, Any]
"""A JSON object that is only read."""

__all__ = ["JsonMapping", "JsonObject", "JsonSchema", "JsonValue"]
