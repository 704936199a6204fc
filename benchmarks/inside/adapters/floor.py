"""No peer: the least that Python can do. It reads each signature, checks nothing, and calls."""

from __future__ import annotations

import asyncio
import inspect
import json

DISTRIBUTION = None
FLAVOUR = "typed_dict"
IMPORT = "import asyncio, inspect, json"
FORMATS = ("openai",)

_CONDITION = {
    "type": "object",
    "properties": {
        "column": {"type": "string"},
        "test": {"enum": ["is", "above", "below"]},
        "value": {"type": "number"},
    },
    "required": ["column", "test", "value"],
}


def _schema(function):
    ready = {
        "text": {"type": "string"},
        "most": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        "match": {"enum": ["any", "all", "exact"], "default": "any"},
        "conditions": {"anyOf": [{"type": "array", "items": dict(_CONDITION)}, {"type": "null"}]},
    }
    ready["a"] = ready["b"] = {"type": "integer"}
    properties = {name: ready[name] for name in inspect.signature(function).parameters}
    return {
        "type": "object",
        "properties": properties,
        "required": [each for each in properties if each in ("text", "a", "b")],
    }


class Host:
    def __init__(self):
        self.tools = {}
        self.quick = False

    def add(self, functions):
        for function in functions:
            name = function.__name__
            entry = {"name": name, "description": function.__doc__, "parameters": _schema(function)}
            self.tools[name] = (function, {"type": "function", "function": entry})

    def add_quick(self, functions):
        self.add(functions)
        self.quick = True

    async def half(self, keep):
        return json.dumps([entry for name, (_, entry) in self.tools.items() if keep(name)])

    async def exported(self, name):  # noqa: ARG002  there is one
        return [
            {
                "type": "function",
                "function": {
                    "name": each,
                    "description": entry["function"]["description"],
                    "parameters": entry["function"]["parameters"],
                },
            }
            for each, (_, entry) in self.tools.items()
        ]

    async def caller(self, function):
        name, tools = function.__name__, self.tools

        async def call(text):
            return json.dumps(await tools[name][0](**json.loads(text)))

        async def call_off_the_loop(text):
            arguments = json.loads(text)
            return json.dumps(await asyncio.to_thread(tools[name][0], **arguments))

        async def call_at_once(text):
            return json.dumps(tools[name][0](**json.loads(text)))

        if inspect.iscoroutinefunction(function):
            return call
        return call_at_once if self.quick else call_off_the_loop

    async def batcher(self, function):
        async def call(text):
            return json.dumps(await function(**json.loads(text)))

        async def together(texts):
            return await asyncio.gather(*map(call, texts))

        return together

    async def keyed_batcher(self, function, argument):
        async def call(text, locks):
            arguments = json.loads(text)
            async with locks.setdefault(arguments[argument], asyncio.Lock()):
                return json.dumps(await function(**arguments))

        async def together(texts):
            locks = {}
            return await asyncio.gather(*(call(text, locks) for text in texts))

        return together

    async def close(self):
        pass
