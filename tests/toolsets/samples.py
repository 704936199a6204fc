"""Sample tools and toolsets."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from pegboard import Origin, Tool, ToolAnnotations, ToolContext, ToolSpec
from pegboard.tools import EMPTY_CONTEXT, Handler

BOMB = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/d0"}},
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(9)} | {"d9": {"type": "string"}},
}
"""A schema that expands to 10**9 schemas once its references are followed."""


def echo(**arguments):
    """Handler of the sample tools."""
    return arguments


def as_keywords():
    return lambda context, arguments: ((), dict(arguments))


def make_tool(
    name="tool", *, plugin=None, distribution=None, toolset=None, trusted=True, source=None, hints=None, **facts
):
    """A tool whose handler returns its arguments."""
    if facts.get("kind") == "provider":
        facts.setdefault("provider_id", "demo.tool")
    spec = ToolSpec(
        name, annotations=ToolAnnotations(**{f"{hint}_hint": value for hint, value in (hints or {}).items()}), **facts
    )
    origin = Origin(plugin=plugin, distribution=distribution, toolset=toolset, trusted=trusted, source=source)
    return Tool(spec, Handler(echo, make_binder=as_keywords), origin=origin)


def object_schema(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


class PlainToolset:
    """A toolset without any base class, as a user writes it."""

    def __init__(self, name="plain", tools=(), error=None):
        self.name = name
        self.answer = tools
        self.error = error
        self.contexts = []
        self.closed = 0

    async def tools(self, context):
        self.contexts.append(context)
        if self.error is not None:
            raise self.error
        return self.answer

    async def close(self):
        self.closed += 1


class CallingToolset(PlainToolset):
    """Toolset that runs its tools itself."""

    def __init__(self, name="calling", tools=()):
        super().__init__(name, tools)
        self.calls = []

    async def call(self, name, arguments, context):
        self.calls.append((name, dict(arguments), context.user))
        return {"ran": name}


class Closing(PlainToolset):
    """Toolset with a plain `close`, which may fail."""

    def __init__(self, error=None):
        super().__init__()
        self.fault = error

    def close(self):
        self.closed += 1
        if self.fault:
            raise self.fault


class Hanging(PlainToolset):
    """Toolset that never answers, and counts its cancellations."""

    def __init__(self, name="hanging", *, stubborn=False):
        super().__init__(name)
        self.stubborn = stubborn
        self.cancelled = 0
        self.asked = asyncio.Event()
        self.release = asyncio.Event()

    async def tools(self, context):
        self.asked.set()
        while True:
            try:
                await self.release.wait()
                return [make_tool("too_late")]
            except asyncio.CancelledError:
                self.cancelled += 1
                if not self.stubborn:
                    raise


def offered(toolset, context=EMPTY_CONTEXT):
    """What a toolset offers now."""
    return asyncio.run(_tools(toolset, context))


async def _tools(toolset, context):
    return await toolset.tools(context)


def names(tools):
    return [tool.name for tool in tools]


def called(tool, arguments, context=None):
    """Validates and runs a call as dispatch does: schema, own check, binder, function."""
    assert tool.validator.accepts(arguments), tool.validator.problems(arguments)
    problems = tuple(tool.checks(arguments) or ()) if tool.checks else ()
    assert not problems, problems
    args, kwargs = tool.bind(context or ToolContext(), arguments)
    answer = tool.handler.function(*args, **kwargs)
    return asyncio.run(_awaited(answer)) if asyncio.iscoroutine(answer) else answer


async def _awaited(answer):
    return await answer


def late_tool(tool):
    """The same tool, its handler loaded at the first call."""
    from pegboard.tools.handler import LazyHandler

    loads = SimpleNamespace(count=0)

    def load():
        loads.count += 1
        return tool

    return tool.evolve(handler=LazyHandler(load)), loads
