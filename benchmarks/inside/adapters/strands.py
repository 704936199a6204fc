"""strands-agents: decorated tools in its ToolRegistry, called by their `stream`. It refuses bounds in Annotated."""

from __future__ import annotations

import json

DISTRIBUTION = "strands-agents"
FLAVOUR = "typed_dict"
BOUNDED = False
TYPED_ANSWER = False
IMPORT = "from strands import tool; from strands.tools.registry import ToolRegistry"


class Host:
    def __init__(self):
        from strands.tools.registry import ToolRegistry

        self.registry = ToolRegistry()

    def add(self, functions):
        from strands import tool

        for function in functions:
            self.registry.register_tool(tool(function))

    async def half(self, keep):
        entries = self.registry.get_all_tool_specs()
        return json.dumps([{"toolSpec": each} for each in entries if keep(each["name"])])

    async def caller(self, function):
        name, tools = function.__name__, self.registry.registry

        async def call(text):
            wanted = {"toolUseId": "1", "name": name, "input": json.loads(text)}
            event = None
            async for event in tools[name].stream(wanted, {}):  # noqa: B007  the last is the result
                pass
            outcome = event["tool_result"]
            content = outcome["content"][0]
            if outcome["status"] != "success":
                raise ValueError(content)
            return json.dumps(content["json"]) if "json" in content else content["text"]

        return call

    async def checker(self, function):
        return self.registry.registry[function.__name__]._metadata.validate_input  # noqa: SLF001  its `stream` asks

    async def close(self):
        pass
