"""The `registry` command."""

from __future__ import annotations
