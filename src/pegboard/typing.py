"""Type aliases for JSON and JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
"""Any JSON value."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object; its values are `JsonValue`, typed `Any` so that reading them needs no casts."""

JsonSchema: TypeAlias = dict[str, Any]
"""A JSON Schema (draft 2020-12) as an object."""

JsonMapping: TypeAlias = Mapping[str, Any]
"""A read-only JSON object."""

__all__ = ["JsonMapping", "JsonObject", "JsonSchema", "JsonValue"]
