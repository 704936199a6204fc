"""DISPATCH: one call, from the model's words to its result."""

from __future__ import annotations
