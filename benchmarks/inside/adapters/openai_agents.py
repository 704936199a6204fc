"""openai-agents: function tools, called as its runner calls them, each with a context of its own."""

from __future__ import annotations

import json

DISTRIBUTION = "openai-agents"
FLAVOUR = "pydantic"
IMPORT = "from agents import function_tool"
FORMATS = ("openai",)


class Host:
    def __init__(self):
        self.tools = {}

    def add(self, functions):
        from agents import function_tool

        for function in functions:
            self.tools[function.__name__] = function_tool(function, failure_error_function=None)

    async def half(self, keep):
        from agents.models.chatcmpl_converter import Converter

        return json.dumps([Converter.tool_to_openai(tool) for name, tool in self.tools.items() if keep(name)])

    async def exported(self, name):  # noqa: ARG002  there is one
        from agents.models.chatcmpl_converter import Converter

        return [Converter.tool_to_openai(tool) for tool in self.tools.values()]

    async def caller(self, function):
        from agents.tool_context import ToolContext

        name, tools = function.__name__, self.tools

        async def call(text):
            context = ToolContext(context=None, tool_name=name, tool_call_id="1", tool_arguments=text)
            answer = await tools[name].on_invoke_tool(context, text)
            return answer.model_dump_json() if hasattr(answer, "model_dump_json") else str(answer)

        return call

    async def checker(self, function):
        from agents.function_schema import function_schema

        schema = function_schema(function)  # what `function_tool` makes, and keeps to itself

        def check(arguments):
            return schema.to_call_args(schema.params_pydantic_model(**arguments))

        return check

    async def close(self):
        pass
