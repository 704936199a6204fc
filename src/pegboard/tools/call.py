"""`ToolCall`: what the model asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen


@frozen
class ToolCall:
    """One call of a tool, as a model made it.

    Attributes:
        name: The tool's name as the model wrote it.
        arguments: The arguments as JSON text or as a mapping.
        id: What the answer refers to; `""` where nobody asked.
    """

    name: str
    arguments: str | bytes | Mapping[str, Any] = field(factory=dict[str, Any])
    id: str = ""
