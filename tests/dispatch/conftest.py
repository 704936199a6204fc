"""Tools made by hand, independent of how tools are defined; and one way to run a call."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import Limits, Tool, ToolContext, ToolSpec
from pegboard.callbacks import Callback
from pegboard.dispatch.stages import run_call
from pegboard.dispatch.state import CallSnapshot, CallState, Runtime, Settings
from pegboard.threads import WorkerPool
from pegboard.tools import Handler

DEFAULT_LIMITS = Limits()

ANY_OBJECT = {"type": "object"}


def by_keyword(context, arguments):
    return (), arguments


@pytest.fixture
def make():
    """A tool of a function that takes the arguments by keyword."""

    def make(function=None, *, name="probe", schema=ANY_OBJECT, output=None, binder=by_keyword, blocking=True, **facts):
        handler = None
        if function is not None:
            handler = Handler(function, lambda: binder, blocking=blocking)
        return Tool(ToolSpec(name, input_schema=schema, output_schema=output), handler, **facts)

    return make


@pytest.fixture
def logged(caplog):
    """The logged failures: what failed, and the exception."""
    return lambda: [(each.args[0], each.exc_info[1]) for each in caplog.records if each.exc_info]


@pytest.fixture
def threads():
    pool = WorkerPool()
    yield pool
    pool.close()


@pytest.fixture
def prepare(threads):
    """The state of one call of `tool`, with callbacks (functions of what their stage offers)."""

    def prepare(tool, arguments=None, *, before=(), on_error=(), after=(), limits=DEFAULT_LIMITS, context=None):
        def links(functions):
            return tuple(Callback(function, f"plugin {place}") for place, function in enumerate(functions))

        def find(name):
            if isinstance(tool, BaseException):
                raise tool
            return tool

        given = {"before_tool": before, "after_tool": after, "on_tool_error": on_error}
        callbacks = {hook: links(functions) for hook, functions in given.items() if functions}
        snapshot = CallSnapshot(Runtime(), find, callbacks=callbacks)
        vars(snapshot.runtime).update(threads=threads, tool_threads=threads)
        name = getattr(tool, "name", "missing")
        arguments = {} if arguments is None else arguments
        return CallState(name, arguments, "", context or ToolContext(), snapshot, Settings(limits))

    return prepare


@pytest.fixture
def send(prepare):
    """Runs all stages of a call and returns its state."""

    def send(tool, arguments=None, **options):
        state = prepare(tool, arguments, **options)
        asyncio.run(run_call(state))
        return state

    return send
