"""Price of pegboard-otel: calls with the plugin, beside the same calls with span and metric set by hand, in one run.

    python benchmarks/tracing.py

prints the processor time of a call without a span, with a span and a duration set by the host around it, and with the
plugin, each the least of many rounds that alternate, and the ratio of the last two.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from pegboard import ToolRegistry, tool
from pegboard.testing import plugin_registry
from pegboard_otel import Otel

CALLS, ROUNDS = 300, 40


class Nowhere(SpanExporter):
    """Exporter that drops each span."""

    def export(self, spans: tuple[ReadableSpan, ...]) -> SpanExportResult:
        del spans
        return SpanExportResult.SUCCESS


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def set_up() -> tuple[trace.Tracer, metrics.Histogram]:
    """The providers of a host, and what it needs to set spans and durations by hand."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Nowhere()))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    return trace.get_tracer("by hand"), metrics.get_meter("by hand").create_histogram("by_hand.duration", "s")


def ways() -> dict[str, Callable[[], Awaitable[object]]]:
    """One call in each of the ways that are compared."""
    tracer, histogram = set_up()
    plain, traced = ToolRegistry(), plugin_registry(otel=Otel)
    for registry in (plain, traced):
        registry.register(add)
    metric = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"}
    facts = {**metric, "gen_ai.tool.type": "function", "gen_ai.tool.description": "Adds two numbers."}
    facts["gen_ai.tool.call.id"] = "1"
    given = {"a": 1, "b": 2}

    async def by_hand() -> object:
        began = time.perf_counter()
        with tracer.start_as_current_span(
            "execute_tool add", attributes=facts, record_exception=False, set_status_on_exception=False
        ):
            result = await plain.call("add", given, call_id="1")
        histogram.record(time.perf_counter() - began, metric)
        return result

    return {
        "without": lambda: plain.call("add", given, call_id="1"),
        "by hand": by_hand,
        "plugin": lambda: traced.call("add", given, call_id="1"),
    }


async def measure() -> dict[str, float]:
    """The least processor time of a call in each way, in microseconds."""
    compared = ways()
    least = dict.fromkeys(compared, float("inf"))
    for _ in range(ROUNDS):
        for name, call in compared.items():
            began = time.process_time()
            for _ in range(CALLS):
                await call()
            least[name] = min(least[name], (time.process_time() - began) / CALLS * 1e6)
    return least


def main() -> None:
    """Prints the times and the ratio."""
    least = asyncio.run(measure())
    for name, microseconds in least.items():
        print(f"{name:8} {microseconds:7.1f} us")
    print(f"plugin / by hand: {least['plugin'] / least['by hand']:.2f}")


if __name__ == "__main__":
    main()
