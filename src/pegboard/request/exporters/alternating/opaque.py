"""`opaque`: what a provider wrote, kept to be given back."""

from __future__ import annotations

from pegboard.schema.json import json_faults
from pegboard.typing import JsonMapping, JsonObject


def opaque(item: JsonMapping) -> JsonObject | None:
    """An item as it came, but for members that are null: an SDK writes those that its provider never sent.

    Returns:
        `None` where it is no JSON, or beyond every bound, so that no message could hold it.
    """
    kept = {name: value for name, value in item.items() if value is not None}
    return None if json_faults(kept) else kept


__all__ = ["opaque"]
