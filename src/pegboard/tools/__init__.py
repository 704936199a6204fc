"""DEFINE: a function, a typed class or a raw schema becomes a `Tool`."""

from __future__ import annotations
