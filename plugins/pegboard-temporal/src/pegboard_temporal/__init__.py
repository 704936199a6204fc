"""pegboard-temporal: runs tools on other machines by Temporal, for durable and long calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names
from pegboard_temporal.settings import Settings

if TYPE_CHECKING:
    from pegboard_temporal.executor import TemporalExecutor

__all__ = ["Settings", "TemporalExecutor"]
__getattr__, __dir__ = lazy_names(__name__, {"TemporalExecutor": "executor"})
