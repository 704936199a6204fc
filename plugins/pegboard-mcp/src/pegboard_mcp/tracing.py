"""One span for a call of a server's tool: that of the call, if there is one, instead of another by the SDK."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from mcp.shared import _otel as sdk
from opentelemetry import trace

_HEADERS: Final = ("traceparent", "tracestate", "baggage")  # which MCP allows in `_meta`
_has_span: Final[ContextVar[bool]] = ContextVar("pegboard_mcp_has_span", default=False)


class _Tracer(trace.NoOpTracer):
    """The SDK's tracer, except in calls that have a span already: there it starts none.

    The SDK has no setting for this: it starts a span in the function that sends each request.
    """

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start_as_current_span(self, *args: Any, **options: Any) -> Any:
        """A span of the SDK, or the current one again."""
        tracer = super() if _has_span.get() else self._tracer
        return tracer.start_as_current_span(*args, **options)


if isinstance(getattr(sdk, "_tracer", None), trace.Tracer):
    sdk._tracer = _Tracer(sdk._tracer)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def headers_of(trace_context: Mapping[str, str]) -> dict[str, str]:
    """The part of a call's trace context that goes along with its request."""
    return {name: trace_context[name] for name in _HEADERS if name in trace_context}


@contextmanager
def one_span(trace_context: Mapping[str, str], version: str) -> Generator[None]:
    """Context in which the span of the call, if it is the current one, is also the span of the MCP request.

    Args:
        trace_context: The call's.
        version: The version of the protocol.
    """
    span = trace.get_current_span()
    if f"-{trace.format_span_id(span.get_span_context().span_id)}-" not in trace_context.get("traceparent", ""):
        yield  # nothing has started a span for the call
        return
    span.set_attributes({"mcp.method.name": "tools/call", "mcp.protocol.version": version})
    token = _has_span.set(True)
    try:
        yield
    finally:
        _has_span.reset(token)
