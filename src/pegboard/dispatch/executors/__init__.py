"""Executors, which run tool handlers elsewhere."""

from __future__ import annotations
