"""Tools that run in a child process, whose own OpenTelemetry is set up; they answer the parent of their spans."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from pegboard import tool

tracer = TracerProvider().get_tracer("child")


@tool(executor="process")
def in_child() -> str:
    """The parent of a span."""
    with tracer.start_as_current_span("own") as span:
        return f"{span.parent.trace_id:032x} {span.parent.span_id:016x}"


@tool(executor="process")
async def in_child_async() -> str:
    """The parent of a span."""
    return in_child_plain()


def in_child_plain() -> str:
    with tracer.start_as_current_span("own") as span:
        assert span is trace.get_current_span()
        return f"{span.parent.trace_id:032x} {span.parent.span_id:016x}"
