"""pydantic-ai-slim: a FunctionToolset behind a ToolManager, as one step of its agent uses them."""

from __future__ import annotations

import json

DISTRIBUTION = "pydantic-ai-slim"
FLAVOUR = "pydantic"
IMPORT = "from pydantic_ai.toolsets import FunctionToolset; from pydantic_ai.tool_manager import ToolManager"


def _context():
    from pydantic_ai import RunContext
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage

    return RunContext(deps=None, model=TestModel(), usage=RunUsage(), run_step=1)


class Host:
    def __init__(self):
        from pydantic_ai.toolsets import FunctionToolset

        self.toolset = FunctionToolset()
        self.manager = None

    def add(self, functions):
        self.manager = None
        for function in functions:
            self.toolset.add_function(function)

    async def half(self, keep):
        kept = await self.toolset.filtered(lambda _, spec: keep(spec.name)).get_tools(_context())
        entries = [
            {
                "name": tool.tool_def.name,
                "description": tool.tool_def.description or "",
                "parameters": tool.tool_def.parameters_json_schema,
            }
            for tool in kept.values()
        ]
        return json.dumps([{"type": "function", "function": each} for each in entries])

    async def caller(self, function):
        from pydantic_ai.messages import ToolCallPart, ToolReturnPart
        from pydantic_ai.tool_manager import ToolManager

        if self.manager is None:
            self.manager = await ToolManager(toolset=self.toolset, default_max_retries=10**9).for_run_step(_context())
        name, manager = function.__name__, self.manager

        async def call(text):
            answer = await manager.handle_call(ToolCallPart(tool_name=name, args=text, tool_call_id="1"))
            return ToolReturnPart(tool_name=name, content=answer, tool_call_id="1").model_response_str()

        return call

    async def checker(self, function):
        return self.toolset.tools[function.__name__].function_schema.validator.validate_python

    async def close(self):
        pass
