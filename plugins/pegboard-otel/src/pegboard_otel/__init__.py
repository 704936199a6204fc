"""pegboard-otel: spans and metrics of OpenTelemetry for tool calls, model requests and turns."""

from __future__ import annotations

from pegboard_otel.plugin import Otel

__all__ = ["Otel"]
