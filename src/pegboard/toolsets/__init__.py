"""RESOLVE: toolsets, predicates, and the tools that one request offers."""

from __future__ import annotations
