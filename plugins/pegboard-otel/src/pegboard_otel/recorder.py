"""Spans and metrics of calls, model requests and turns, by OpenTelemetry's API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar, Token
from functools import cache, lru_cache
from importlib.metadata import version
from time import perf_counter
from typing import Any, Final

from attrs import frozen
from opentelemetry import context as contexts, metrics, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pegboard import ModelRequest, ModelResponse, ReadonlyContext, ToolResult, TurnOutcome
from pegboard.errors import log_failure
from pegboard.events import WrappedCall
from pegboard.text import visible
from pegboard_otel import attributes, conventions as names

_SCOPE: Final = "pegboard_otel"
_FAILED: Final = Status(StatusCode.ERROR)  # without a description, which would be a text of the tool or of a crash
_PROPAGATOR: Final = TraceContextTextMapPropagator()  # a call's trace context is the W3C's, whatever the host's is
_BAGGAGE: Final = W3CBaggagePropagator()
_MOST_NAME: Final = 128  # characters of a name or an id that a model has made up


@frozen(eq=False)
class _Turn:
    """A running turn: its id, its span, the token of its context, and the turn around it."""

    invocation: str | None
    span: Span
    token: Token[Context]
    outer: _Turn | None


_running_turn: Final[ContextVar[_Turn | None]] = ContextVar("pegboard_otel_turn", default=None)


class Recorder:
    """Recorder of spans and metrics, for the providers of the process, also if they are set up later.

    Args:
        with_content: Whether spans get arguments, results and messages.
    """

    def __init__(self, *, with_content: bool) -> None:
        release = version("pegboard-otel")
        self._with_content = with_content
        self._tracer = trace.get_tracer(_SCOPE, release)
        meter = metrics.get_meter(_SCOPE, release)

        def histogram(name: str, unit: str, what: str, limits: tuple[float, ...]) -> metrics.Histogram:
            return meter.create_histogram(name, unit, what, explicit_bucket_boundaries_advisory=limits)

        self._calls = histogram(names.TOOL_DURATION, "s", "Duration of tool calls.", names.SECONDS)
        self._requests = histogram(names.MODEL_DURATION, "s", "Duration of requests to models.", names.SECONDS)
        self._tokens = histogram(names.TOKEN_USAGE, "{token}", "Tokens of requests to models.", names.TOKENS)

    async def call(self, call: WrappedCall, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Runs a call in its span, which its trace context gets. Returns and raises as `call_next`."""
        outer, tool, carrier = contexts.get_current(), call.tool, call.trace
        if carrier and not trace.get_current_span(outer).get_span_context().is_valid:
            outer = _PROPAGATOR.extract(carrier, outer)  # of another process
        name = visible(str(call.name))[:_MOST_NAME] if tool is None else call.name
        facts = _facts_of(name, None if tool is None else tool.spec.description)
        if id_ := call.id:
            facts = {**facts, names.TOOL_CALL_ID: visible(id_[:_MOST_NAME])}
        span = self._start(f"{names.EXECUTE_TOOL} {name}", SpanKind.INTERNAL, facts, outer)
        inner = trace.set_span_in_context(span, outer)
        _inject(carrier, span.get_span_context())
        if outer:  # else there is no baggage
            _BAGGAGE.inject(carrier, inner)
        token, began = contexts.attach(inner), perf_counter()
        result, is_closed = None, False
        try:
            result = await call_next()
        except GeneratorExit:  # perhaps in another context, whose current span stays
            is_closed = True
            raise
        else:
            return result
        finally:
            seconds = perf_counter() - began
            if not is_closed:
                contexts.detach(token)
            if call.name != name and (tool := call.tool) is not None:  # it was repaired
                name = tool.name
                span.update_name(f"{names.EXECUTE_TOOL} {name}")
                span.set_attributes(_facts_of(name, tool.spec.description))
            if self._with_content and span.is_recording():
                from pegboard_otel import content

                span.set_attributes(content.of_call(call, result))
            kind = "aborted" if result is None else result.kind  # without a result, the caller was cancelled
            _finish(span, kind, is_failure=result is None or (result.is_error and result.pending is None))
            # There may be any number of unknown names, too many for a metric.
            measured = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: names.OTHER if tool is None else name}
            _record(self._calls, seconds, measured if kind is None else {**measured, names.ERROR_TYPE: kind}, inner)

    async def request(
        self, context: ReadonlyContext, request: ModelRequest, call_next: Callable[[], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Asks a model in a span. Returns and raises as `call_next`."""
        facts = attributes.of_model(context, request)
        model = facts.get(names.REQUEST_MODEL)
        details = {**facts, **attributes.of_request(context, request)}
        span = self._start(f"{names.CHAT} {model}" if model else names.CHAT, SpanKind.CLIENT, details)
        began, response, kind = perf_counter(), None, None
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                response = await call_next()
        except BaseException as error:
            kind = attributes.kind_of(error)
            raise
        else:
            kind = attributes.error_of(response)
            return response
        finally:
            seconds = perf_counter() - began
            if response is not None:
                span.set_attributes(answer := attributes.of_response(response))
                facts |= {name: value for name, value in answer.items() if name == names.RESPONSE_MODEL}
                for token_type, number in attributes.tokens_of(response):
                    _record(self._tokens, number, {**facts, names.TOKEN_TYPE: token_type})
            if self._with_content and span.is_recording():
                from pegboard_otel import content

                span.set_attributes(content.of_request(request, response))
            _record(self._requests, seconds, facts if kind is None else {**facts, names.ERROR_TYPE: kind})
            _finish(span, kind)

    def begin_turn(self, context: ReadonlyContext) -> None:
        """Starts the span of a turn, and makes it the current one of the turn's task."""
        facts = attributes.of_turn(context)
        agent = facts.get(names.AGENT_NAME)
        name = f"{names.INVOKE_AGENT} {agent}" if agent else names.INVOKE_AGENT
        span = self._start(name, SpanKind.INTERNAL, facts)
        token = contexts.attach(trace.set_span_in_context(span))
        _running_turn.set(_Turn(context.invocation, span, token, _running_turn.get()))

    def end_turn(self, context: ReadonlyContext, outcome: TurnOutcome) -> None:
        """Ends the span of a turn, if it has begun here."""
        turn = _running_turn.get()
        if turn is None or turn.invocation != context.invocation:
            return
        _running_turn.set(turn.outer)
        contexts.detach(turn.token)
        turn.span.set_attributes(attributes.of_usage(outcome.usage))
        _finish(turn.span, attributes.failure_of(outcome))

    def _start(self, name: str, kind: SpanKind, facts: Mapping[str, Any], outer: Context | None = None) -> Span:
        """A new span; where the host's sampler or processor raises, one that isn't recorded."""
        try:
            return self._tracer.start_span(name, outer, kind, facts)
        except Exception as error:  # noqa: BLE001  the host's own
            log_failure(f"the span {name!r}", error)
            return trace.NonRecordingSpan(trace.get_current_span(outer).get_span_context())


@cache
def recorder(*, with_content: bool) -> Recorder:
    """The recorder that all registries of the process share."""
    return Recorder(with_content=with_content)


def _inject(carrier: dict[str, str], context: SpanContext) -> None:
    """Writes a span's context as the W3C defines it, in a third of the time of its propagator."""
    if context.is_valid:
        carrier["traceparent"] = "00-%032x-%016x-%02x" % (  # noqa: UP031  a format costs half as much again
            context.trace_id,
            context.span_id,
            context.trace_flags,
        )
        if context.trace_state:
            carrier["tracestate"] = context.trace_state.to_header()


@lru_cache
def _facts_of(name: str, description: str | None) -> dict[str, str]:
    facts = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: name, names.TOOL_TYPE: "function"}
    return {**facts, names.TOOL_DESCRIPTION: description} if description else facts


def _record(histogram: metrics.Histogram, amount: float, facts: dict[str, Any], context: Context | None = None) -> None:
    try:
        histogram.record(amount, facts, context)
    except Exception as error:  # noqa: BLE001  of the host's filter or meter
        log_failure("a metric", error)


def _finish(span: Span, kind: str | None, *, is_failure: bool = True) -> None:
    """Ends a span, with the kind of its error, if there is one."""
    if kind is not None:
        span.set_attribute(names.ERROR_TYPE, kind)
        if is_failure:
            span.set_status(_FAILED)
    try:
        span.end()
    except Exception as error:  # noqa: BLE001  of the host's processor
        log_failure("the end of a span", error)
