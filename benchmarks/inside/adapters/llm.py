"""llm: Tool.function, run as a response runs a model's calls. It checks no arguments, and plain functions block."""

from __future__ import annotations

import inspect
import json

DISTRIBUTION = "llm"
FLAVOUR = "typed_dict"
IMPORT = "from llm import Tool"


class Host:
    def __init__(self):
        self.tools = {}

    def add(self, functions):
        from llm import Tool

        for function in functions:
            name = function.__name__
            self.tools[name] = Tool.function(function, name=name)

    async def half(self, keep):
        entries = [
            {"name": tool.name, "description": tool.description or None, "parameters": tool.input_schema}
            for name, tool in self.tools.items()
            if keep(name)
        ]
        return json.dumps([{"type": "function", "function": each} for each in entries])

    async def caller(self, function):
        from llm.models import ToolCall

        name, response = function.__name__, self._response(is_async=inspect.iscoroutinefunction(function))

        async def call(text):
            wanted = [ToolCall(name=name, arguments=json.loads(text), tool_call_id="1")]
            results = response.execute_tool_calls(tool_calls_list=wanted)
            if inspect.isawaitable(results):
                results = await results
            if results[0].exception:
                raise results[0].exception
            return results[0].output

        return call

    async def batcher(self, function):
        from llm.models import ToolCall

        name, response = function.__name__, self._response(is_async=True)

        async def together(texts):
            wanted = [
                ToolCall(name=name, arguments=json.loads(text), tool_call_id=f"{at}") for at, text in enumerate(texts)
            ]
            results = await response.execute_tool_calls(tool_calls_list=wanted)
            return [result.output for result in results]

        return together

    def _response(self, *, is_async):
        from llm.models import AsyncModel, AsyncResponse, Model, Prompt, Response

        kind, answer = (AsyncModel, AsyncResponse) if is_async else (Model, Response)
        members = {"model_id": "measured", "supports_tools": True, "execute": lambda *_, **__: iter(())}
        model = type("Measured", (kind,), members)()
        return answer(Prompt("", model=model, tools=list(self.tools.values())), model, stream=False)

    async def close(self):
        pass
