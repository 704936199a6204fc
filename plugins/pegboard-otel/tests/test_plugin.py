"""The plugin: its settings, its content, and what it does where OpenTelemetry isn't set up or fails."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap

import pytest
from opentelemetry.sdk.trace import SpanProcessor

from pegboard import ImageContent, ModelRequest, ToolCall, ToolResult, run_turn, tool
from pegboard.errors import PluginError
from pegboard.testing import ScriptedModel, check_plugin, plugin_registry
from pegboard_otel import Otel


@tool(read_only=True)
def echo(text: str) -> ToolResult:
    """Echoes."""
    if text == "crash":
        raise ValueError("the secret of a crash")
    return ToolResult([text, ImageContent(b"...", "image/png")])


def with_content(*tools):
    registry = plugin_registry(otel=Otel, settings={"otel": {"content": True}})
    registry.register(*tools)
    return registry


@pytest.mark.slow
def test_it_is_a_correct_plugin():
    check_plugin("otel")


@pytest.mark.parametrize(("settings", "words"), [({"contents": True}, "Did you mean"), ({"content": 1}, "true or fal")])
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(PluginError, match=words):
        plugin_registry(otel=Otel, settings={"otel": settings})


def test_content_has_arguments_and_what_the_model_gets(telemetry):
    registry = with_content(echo)
    asyncio.run(registry.call("echo", {"text": "hällo"}))
    asyncio.run(registry.call("echo", {"text": "crash"}))
    asyncio.run(registry.call("echo", "no json \ud800"))
    asyncio.run(registry.call("echo", {"text": {"a": [1, None]}, "list": 200_000 * "x"}))
    facts = [
        (span.attributes["gen_ai.tool.call.arguments"], span.attributes["gen_ai.tool.call.result"])
        for span in telemetry.spans
    ]
    assert facts[0] == ('{"text": "hällo"}', "hällo")
    assert facts[1] == ('{"text": "crash"}', "echo failed: ValueError.")
    assert facts[2][0] == "no json ?"
    assert facts[3][0].startswith('{"text": {"a": [1, null]}, "list": "xxx')
    assert len(facts[3][0]) == 100_000
    assert "secret" not in telemetry.spans[1].to_json()


def test_content_that_cant_be_written_is_left_out(telemetry):
    cycle = {}
    cycle["self"] = cycle
    asyncio.run(with_content(echo).call("echo", cycle))
    asyncio.run(with_content(echo).call("echo", {"text": object()}))
    written = [span.attributes["gen_ai.tool.call.arguments"] for span in telemetry.spans]
    assert written == ["", '{"text": "<object>"}']


def test_content_of_requests_follows_the_schemas_of_messages(telemetry):
    model = ScriptedModel([ToolCall("echo", {"text": "a"}, "1"), "Done."])
    request = ModelRequest(["Echo a", ImageContent(b"...", "image/png")], instructions=["Be brief."])
    asyncio.run(run_turn(model, request, with_content(echo)))
    first, _, second, _ = telemetry.spans
    read = {name: json.loads(value) for name, value in second.attributes.items() if "message" in name or "inst" in name}
    call = {"type": "tool_call", "id": "1", "name": "echo", "arguments": {"text": "a"}}
    assert read["gen_ai.system_instructions"] == [{"type": "text", "content": "Be brief."}]
    assert [message["role"] for message in read["gen_ai.input.messages"]][-2:] == ["assistant", "tool"]
    assert [message["parts"] for message in read["gen_ai.input.messages"]][-2:] == [
        [call],
        [{"type": "tool_call_response", "id": "1", "response": "a"}],
    ]
    assert {"type": "media"} in [part for message in read["gen_ai.input.messages"] for part in message["parts"]]
    done = {"role": "assistant", "parts": [{"type": "text", "content": "Done."}], "finish_reason": "stop"}
    assert read["gen_ai.output.messages"] == [done]
    assert json.loads(first.attributes["gen_ai.output.messages"])[0]["parts"] == [call]


@pytest.mark.parametrize("moment", ["on_start", "on_end"])
def test_a_processor_that_fails_leaves_calls_and_turns_alone(of_process, registry, caplog, moment):
    class Broken(SpanProcessor):
        broken = True

    def fail(self, span, parent_context=None):
        if self.broken:
            raise OSError("the disk is full")

    setattr(Broken, moment, fail)
    processor = Broken()
    of_process.provider.add_span_processor(processor)
    registry.register(echo)
    try:
        assert asyncio.run(registry.call("echo", {"text": "a"})).text == "a"
        model = ScriptedModel([ToolCall("echo", {"text": "a"}, "1"), "Done."])
        assert asyncio.run(run_turn(model, "Echo a", registry)).text == "Done."
    finally:
        Broken.broken = False
    assert {str(record.exc_info[1]) for record in caplog.records} == {"the disk is full"}
    assert len(caplog.records) == 5


def test_a_made_up_name_is_bounded_and_visible(registry, telemetry):
    asyncio.run(registry.call("nosuch\u202e" + 1_000 * "x", {}, call_id=1_000 * "c"))
    (span,) = telemetry.spans
    assert span.name.startswith("execute_tool nosuch\\u{202e}xx")
    assert (len(span.attributes["gen_ai.tool.name"]), len(span.attributes["gen_ai.tool.call.id"])) == (128, 128)


def run_python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


SET_UP = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
"""
PRINT = "print(*[span.name.replace(' ', '-') for span in exporter.get_finished_spans()])"
CALL = """
import asyncio, sys
import pegboard
from pegboard.testing import ScriptedModel


@pegboard.tool
def add(a: int, b: int) -> str:
    "Adds."
    return str(a + b)


async def main():
    async with pegboard.load(config=pegboard.Config()) as registry:
        registry.register(add)
        print((await registry.call("add", {"a": 1, "b": 2})).text)
        outcome = await pegboard.run_turn(ScriptedModel(["Hello."]), "Hello", registry)
        assert "otel" in [each.name for each in registry.plugins() if each.status == "loaded"], registry.plugins()
        assert not registry.problems(), registry.problems()


asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [True, False])
def test_without_opentelemetry_nothing_of_it_is_imported(hidden):
    hide = """
    import sys


    class Hidden:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "opentelemetry":
                raise ModuleNotFoundError(f"hidden: {name}", name=name)


    sys.meta_path.insert(0, Hidden())
    """
    end = (
        "\nprint(*[name for name in sys.modules if name.startswith('opentelemetry') or name.endswith('otel.recorder')])"
    )
    assert run_python((textwrap.dedent(hide) if hidden else "") + CALL + end) == ["3"]


@pytest.mark.slow
def test_with_the_api_alone_it_is_quick_and_silent():
    code = "from opentelemetry import trace\n" + CALL + "\nprint(trace.get_current_span().get_span_context().is_valid)"
    assert run_python(code) == ["3", "False"]


@pytest.mark.slow
def test_a_host_may_set_it_up_later():
    code = f"{CALL}{SET_UP}asyncio.run(main())\n{PRINT}"
    assert run_python(code) == ["3", "3", "execute_tool-add", "chat-scripted", "invoke_agent"]


@pytest.mark.slow
def test_a_metric_that_fails_leaves_calls_and_spans_alone():
    broken = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader


class Broken:
    def should_sample(self, *facts):
        raise OSError("no memory")


metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()], exemplar_filter=Broken()))
"""
    check = "        assert not trace.get_current_span().get_span_context().is_valid\n        outcome"
    code = broken + SET_UP + CALL.replace("        outcome", check, 1) + PRINT
    assert run_python(code) == ["3", "execute_tool-add", "chat-scripted", "invoke_agent"]
