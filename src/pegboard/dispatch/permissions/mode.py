"""`Mode`: how much is asked in all."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Mode: TypeAlias = Literal["default", "plan", "accept_edits", "bypass", "never_ask"]
"""How much is asked.

- `default`: what asks, asks.
- `plan`: only tools run that an origin that is trusted calls read-only; the others aren't offered.
- `accept_edits`: tools that an origin that is trusted says to edit files don't ask.
- `bypass`: nothing asks and ordinary rules step back; forbid rules hold.
- `never_ask`: what would ask is denied.
"""

MODES: Final = ("default", "plan", "accept_edits", "bypass", "never_ask")

__all__ = ["MODES", "Mode"]
