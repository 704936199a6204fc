"""Ollama: `/api/chat`."""

from __future__ import annotations

from pegboard.request.exporters.ollama.exporter import Ollama

__all__ = ["Ollama"]
