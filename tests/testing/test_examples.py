"""Declared examples of read-only tools, run on a watched loop."""

from __future__ import annotations

import asyncio
import threading
from time import monotonic

import pytest

from pegboard import FatalToolError, Tool, ToolAnnotations, ToolError, ToolSpec, hookimpl
from pegboard.testing import check_plugin, examples
from pegboard.testing.heartbeat import Heartbeat
from pegboard.testing.notebook import Notebook
from pegboard.testing.subject import Subject


def ran(*things: object, **more) -> Notebook:
    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            for thing in things:
                register(thing)

    notebook = Notebook("demo")
    examples.check_examples(Subject("demo", Plugin()), {}, notebook)
    return notebook


def reader(function, **options) -> Tool:
    options = {"read_only": True, "examples": [{}], "name": "demo", "description": "Does.", **options}
    return Tool.from_function(function, **options)


def test_a_good_example_passes() -> None:
    notebook = ran(reader(lambda: "fine"))
    assert (notebook.ran, notebook.findings, notebook.notes) == (1, [], [])


def test_a_reader_that_would_ask_for_a_permission_is_run_all_the_same() -> None:
    """The example is the author's own, and nobody is there to be asked."""
    notebook = ran(reader(lambda: "fine", permission="fetch", requires_confirmation=True))
    assert (notebook.ran, notebook.findings, notebook.notes) == (1, [], [])


def test_examples_run_unless_they_are_asked_not_to() -> None:
    called = []

    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(reader(lambda: called.append(1)))

    assert check_plugin(Plugin(), run_examples=False).ran == 0
    assert called == []
    assert check_plugin(Plugin()).ran == 1
    assert called == [1]


def test_only_tools_marked_read_only_are_run() -> None:
    notebook = ran(reader(lambda: 1 / 0, read_only=None), reader(lambda: "", examples=None, name="other"))
    assert notebook.ran == 0
    assert "isn't marked read-only" in notebook.notes[0]
    assert "declares no examples" in notebook.notes[1]


def test_a_tool_without_a_handler_isnt_run() -> None:
    annotations = ToolAnnotations(read_only_hint=True)
    notebook = ran(Tool(ToolSpec("late", "Does.", annotations=annotations)), Tool(ToolSpec("other", "Does.")))
    assert (notebook.ran, notebook.notes) == (0, [])


def test_a_crash_is_found_with_its_cause() -> None:
    (finding,) = ran(reader(lambda: 1 / 0)).findings
    assert "tool 'demo', example 1: its result is an error of kind tool_failure" in finding
    assert "ZeroDivisionError: division by zero" in finding


def test_an_error_that_is_meant_for_the_model_is_noted() -> None:
    def fail() -> str:
        raise ToolError("there is no such city")

    notebook = ran(reader(fail))
    assert notebook.findings == []
    assert "there is no such city" in notebook.notes[0]


def test_output_that_its_schema_forbids_is_found() -> None:
    def lie() -> int:
        return "three"

    assert "of kind invalid_output" in ran(reader(lie)).findings[0]


def test_a_call_past_its_time_limit_is_found() -> None:
    async def wait() -> str:
        await asyncio.Event().wait()
        return ""

    assert "of kind timeout" in ran(reader(wait, timeout=0.01)).findings[0]


def test_an_example_that_ends_the_turn_is_found() -> None:
    def end() -> str:
        raise FatalToolError("over")

    assert "it ends the turn: over" in ran(reader(end)).findings[0]


def test_an_async_tool_that_blocks_the_loop_is_found_with_its_place() -> None:
    blocker = threading.Event()

    async def block() -> str:
        blocker.wait(0.4)
        return ""

    (finding,) = ran(reader(block)).findings
    assert "it blocks the event loop for 0." in finding
    assert "test_examples.py:" in finding
    assert "in block" in finding


def test_a_plain_tool_may_block_its_thread() -> None:
    blocker = threading.Event()
    assert ran(reader(lambda: str(blocker.wait(0.4)))).findings == []


def test_what_blocks_at_the_first_call_only_is_forgiven() -> None:
    """The first call may load what later ones have."""
    waits = iter([0.4])
    blocker = threading.Event()

    async def warm_up() -> str:
        blocker.wait(next(waits, 0))
        return ""

    assert ran(reader(warm_up)).findings == []


def test_a_plugin_that_cant_be_hung_is_found() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no disk")

    notebook = Notebook("demo")
    examples.check_examples(Subject("demo", Broken), {}, notebook)
    assert "can't be hung on a registry for its examples: OSError: no disk" in notebook.findings[0]


def test_a_loop_that_goes_on_isnt_blocked() -> None:
    async def watch() -> Heartbeat:
        async with Heartbeat() as heartbeat:
            for _ in range(5):
                await asyncio.sleep(0)
        return heartbeat

    heartbeat = asyncio.run(watch())
    assert heartbeat.blocked < 0.1


@pytest.mark.parametrize("pause", [0.0, 0.01], ids=["computing", "waiting"])
def test_a_loop_that_stands_still_is_measured(pause) -> None:
    """Whether its thread computes or waits; time that a busy machine takes away isn't counted."""

    async def watch() -> Heartbeat:
        async with Heartbeat() as heartbeat:
            waiter = threading.Event()
            while monotonic() - heartbeat._last - heartbeat._lost < 0.2:
                waiter.wait(pause)
        return heartbeat

    heartbeat = asyncio.run(watch())
    assert heartbeat.blocked > 0.1
    assert "test_examples.py" in heartbeat.place or "threading.py" in heartbeat.place
