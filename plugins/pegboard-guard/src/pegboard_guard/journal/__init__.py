"""The audit journal: append-only JSON lines, each holding the SHA-256 of the one before."""

from __future__ import annotations
