from __future__ import annotations

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pegboard.testing import plugin_registry
from pegboard_otel import Otel


class Telemetry:
    """What a host sets up: providers of traces and metrics; and what they have recorded."""

    def __init__(self):
        self.exporter, self.reader, self.provider = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        trace.set_tracer_provider(self.provider)
        metrics.set_meter_provider(MeterProvider([self.reader]))
        self.tracer = trace.get_tracer("host")

    def span(self, name):
        return self.tracer.start_as_current_span(name)

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def named(self, name):
        (span,) = (span for span in self.spans if span.name == name)
        return span

    @property
    def tree(self):
        """Each finished span with its parent, by name."""
        names = {span.context.span_id: span.name for span in self.spans}
        return [(span.name, span.parent and names[span.parent.span_id]) for span in self.spans]

    def counts(self, metric, *attributes):
        """How often a histogram of the whole process was recorded, by the values of some attributes."""
        data = self.reader.get_metrics_data()
        found = {}
        if data is None:  # nothing was recorded yet
            return found
        for each in (m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == metric):
            for point in each.data.data_points:
                key = tuple(point.attributes.get(name) for name in attributes)
                found[key] = found.get(key, 0) + point.count
        return found


@pytest.fixture(scope="session")
def of_process():
    """A process has one, which can't be replaced."""
    return Telemetry()


@pytest.fixture
def telemetry(of_process):
    of_process.exporter.clear()
    return of_process


@pytest.fixture
def registry(telemetry):
    return plugin_registry(otel=Otel)
