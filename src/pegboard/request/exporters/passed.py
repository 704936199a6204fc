"""What is passed through to a provider, and what of it is a tool's that the provider hosts."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonMapping, JsonObject


def passed(options: JsonMapping, keys: Sequence[str]) -> JsonObject:
    """The options of a provider, the caller's own.

    Args:
        options: By provider.
        keys: What the provider is called there, the most general first: the later key's value stands.
    """
    found: JsonObject = {}
    for key in keys:
        given = options.get(key)
        if isinstance(given, Mapping):
            found.update(copy.deepcopy(dict(cast("Mapping[str, Any]", given))))
    return found


def hosted_type(spec: ToolSpec, families: Sequence[str]) -> str | None:
    """What the provider calls a tool that it hosts (`"web_search"` of `"openai.web_search"`).

    Args:
        spec: A provider tool.
        families: What may stand before the dot.

    Returns:
        `None` where it is another provider's.
    """
    family, _, kind = (spec.provider_id or "").partition(".")
    return kind if kind and family in families else None


__all__ = ["hosted_type", "passed"]
