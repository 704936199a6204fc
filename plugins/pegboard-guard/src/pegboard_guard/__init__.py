"""pegboard-guard: logs each call of a tool, and stops a model that makes the same call over and over."""

from __future__ import annotations

from pegboard_guard.guard import Guard

__all__ = ["Guard"]
