"""pegboard, as a host uses it: functions in a registry, called by `registry.call`, every result a text."""

from __future__ import annotations

import json

DISTRIBUTION = "pegboard"
FLAVOUR = "attrs"
IMPORT = "from pegboard import ToolRegistry, tool"
FORMATS = (
    "openai",
    "openai-responses",
    "anthropic",
    "gemini",
    "gemini-schema",
    "bedrock",
    "ollama",
)
EVEN = "name:*0 or name:*2 or name:*4 or name:*6 or name:*8"


async def before(context, tool, arguments):  # noqa: ARG001  a callback that changes nothing
    return None


async def after(context, tool, arguments, result):  # noqa: ARG001  the same
    return None


async def observe(event):  # noqa: ARG001  the same
    return None


def laden(parts):
    """A host with additions to each call: `rules`, two, one of which checks an argument; `declared`, the same with
    an argument that the tool declares as a text; `path`, as a path; `callbacks`, one before and one after; `events`,
    received by an observer."""
    from pegboard import Permissions, Rule

    limits = {
        "rules": Rule("find_orders_*", "*secret*", "deny", field="text"),
        "declared": Rule("find_orders_*", "*secret*", "deny"),
        "path": Rule("find_orders_*", "/etc/*", "deny"),
    }
    rules = [limits[part] for part in parts if part in limits]
    host = Host(permissions=Permissions([Rule("*", "*", "allow"), *rules]) if rules else None)
    host.declared = {"declared": "text", "path": "path"}.get(parts[0] if parts else "")
    if "callbacks" in parts:
        host.registry.add_callback("before_tool", before)
        host.registry.add_callback("after_tool", after)
    if "events" in parts:
        host.registry.add_callback("observe", observe)
    return host


async def left_out(host, name):
    """Part -> where it is looked up, its name there, and what gives at once what it gave before.

    With all left out, the way through the call remains.
    """
    from workload import ARGUMENTS, ARGUMENTS_TEXT

    from pegboard.dispatch import stages

    values, shape = [], stages.quick_result
    stages.quick_result = lambda tool, value, limits: values.append(value) or shape(tool, value, limits)
    result = await host.registry.call(name, ARGUMENTS_TEXT)
    stages.quick_result = shape

    def start(state, *_, **__):
        state.runtime.locks.leave(state)
        return values[0], None

    return {
        "parsing": (stages, "parse_arguments", lambda *_, **__: ARGUMENTS),
        "validation": (host.registry.get(name).validator, "accepts", lambda _: True),
        "structuring and the function": (stages, "start", start),
        "the result": (stages, "quick_result", lambda *_: result),
    }


def other_parts(work):
    """What is done -> a coroutine function that does it, and its parts as `left_out` has them."""
    from itertools import count

    from workload import MISTAKES

    from pegboard import Tool, ToolRegistry
    from pegboard.schema import References, messages
    from pegboard.tools import tool
    from pegboard_clients.dialects import Dialect
    from pegboard_google.gemini import Gemini, GeminiSchema

    numbers, function = count(10_000), work.function(7)
    known, mistake = Tool.from_function(function), MISTAKES["wrong type inside"]
    registry, text = ToolRegistry(), json.dumps(mistake)
    registry.register(known)
    signature, docstring = tool.signature_of(function, tool="_"), tool.docstring_of(function)
    found = messages.explain(known.spec.input_schema_text, mistake)
    problems = messages.SchemaSearch(References(known.spec.input_schema)).problems(known.spec.input_schema, mistake)
    output = tool.output_of(signature.returns, tool="_")

    async def define():
        Tool.from_function(work.function(next(numbers)))

    async def refuse():
        assert (await registry.call(known.name, text)).is_error

    def exported(exporter):
        changing, schema = [], known.spec.input_schema
        for step in exporter.dialect.steps:
            before, schema = schema, step(schema).schema
            changing += [step] if schema != before else []

        async def export():
            assert exporter().tools([known.spec]).entries

        return export, {
            "steps that change nothing": (exporter, "dialect", Dialect("gemini", tuple(changing))),
            "all steps": (exporter, "dialect", Dialect("gemini")),
        }

    return {
        "defining a tool": (
            define,
            {
                "the signature and a new type in it": (tool, "signature_of", lambda *_, **__: signature),
                "the docstring": (tool, "docstring_of", lambda *_: docstring),
                "the input schema": (tool, "input_schema_of", lambda *_, **__: known.spec.input_schema_text),
                "the output schema": (tool, "output_of", lambda *_, **__: output),
            },
        ),
        "refusing a wrong type inside": (
            refuse,
            {
                "finding the problems": (messages.SchemaSearch, "problems", lambda *_: problems),
                "finding and wording the problems": (messages, "explain", lambda *_: found),
            },
        ),
        "a first export to Gemini": exported(Gemini),
        "a first export to gemini-schema": exported(GeminiSchema),
    }


def left_out_of_many():
    """The same for calls that wait, many at once: without a limit, no timer has to be set."""
    from pegboard.dispatch import running

    return {
        "the time limit": (running, "seconds_left", lambda *_, **__: None),
        "the watchdog of later steps": (running, "Deadline", _unwatched(running.Deadline)),
    }


def _unwatched(deadline):
    return lambda seconds, grace, _watchdog, name, context: deadline(seconds, grace, None, name, context)


def left_out_of_path():
    """The same for calls that a rule judges by a path."""
    from pegboard.dispatch.permissions import permissions, places

    return {
        "readlink": (places, "_target", lambda _: None),
        "resolving": (places, "resolve", lambda path, _known="": path),
        "matching": (permissions, "passes", lambda *_, **__: True),
    }


class Host:
    def __init__(self, **settings):
        from pegboard import ToolRegistry

        self.registry = ToolRegistry(**settings)
        self.exporters = {}
        self.declared = None  # how rules read the argument `text` of each tool

    def add(self, functions):
        if self.declared is not None:
            from pegboard import tool

            functions = [tool(permission_arguments={"text": self.declared})(each) for each in functions]
        self.registry.register(*functions)

    def add_quick(self, functions):
        from pegboard import tool

        self.registry.register(*(tool(blocking=False)(function) for function in functions))

    async def half(self, keep):  # noqa: ARG002  the same question, in the words of --where
        from pegboard.cli.tool_texts import listing_json  # what `registry list --json --where ...` prints

        return listing_json(await self.registry.resolve(where=EVEN))

    async def exported(self, name):
        exporter = self.exporters.get(name)
        if exporter is None:
            exporter = self.exporters[name] = self.registry.exporter(name)
        return exporter.tools([tool.spec for tool in self.registry.tools()]).entries

    async def request_of(self, rounds):
        from pegboard import Message, ModelRequest, ToolCall, ToolResult

        messages = [Message.user("Find some.")]
        for number in range(rounds):
            call = ToolCall("find_orders_7", '{"text": "x"}', f"call_{number}")
            messages += [Message.assistant(call), Message.tool([(call, ToolResult("found " * 20))])]
        request = ModelRequest(messages, tools=await self.registry.resolve())
        return (lambda: self.registry.process(request)), request.messages, request.tools

    def index_of(self):
        from pegboard import ToolIndex

        index = ToolIndex()
        index.update([tool.spec for tool in self.registry.tools()])
        return index

    async def caller(self, function):
        registry, name = self.registry, function.__name__

        async def call(text):
            result = await registry.call(name, text)
            if result.is_error:
                raise ValueError(result.text)
            return result.text

        return call

    async def checker(self, function):
        from pegboard import ToolContext

        tool, context = self.registry.get(function.__name__), ToolContext()

        def check(arguments):
            assert tool.validator.accepts(arguments)
            return tool.bind(context, arguments)

        return check

    async def batcher(self, function):
        from pegboard import ToolCall

        registry, name = self.registry, function.__name__

        async def dispatch(texts):
            outcome = await registry.dispatch([ToolCall(name, text, f"{at}") for at, text in enumerate(texts)])
            for result in outcome.results:
                if result.is_error:
                    raise ValueError(result.text)
            return [result.text for result in outcome.results]

        return dispatch

    async def keyed_batcher(self, function, argument):
        from pegboard import Concurrency, tool

        self.registry.register(tool(concurrency=Concurrency("key", key=(argument,)))(function))
        return await self.batcher(function)

    async def far_caller(self, function):
        from pegboard import Tool
        from pegboard_processes import ChildProcesses

        self.registry.add("executors", "process", ChildProcesses())
        self.registry.register(Tool.from_function(function, executor="process"))
        return await self.caller(function)

    async def close(self):
        await self.registry.aclose()
