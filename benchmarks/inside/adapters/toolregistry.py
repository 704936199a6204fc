"""toolregistry: functions in a ToolRegistry, called by its `ainvoke`."""

from __future__ import annotations

import json

DISTRIBUTION = "toolregistry"
FLAVOUR = "typed_dict"
IMPORT = "from toolregistry import ToolRegistry"
FORMATS = {
    "openai": "openai-chat",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


class Host:
    def __init__(self):
        from toolregistry import ToolRegistry

        self.registry = ToolRegistry()

    def add(self, functions):
        for function in functions:
            self.registry.register(function)

    async def half(self, keep):
        return json.dumps([entry for entry in self.registry.get_schemas() if keep(entry["function"]["name"])])

    async def exported(self, name):
        return self.registry.get_schemas(api_format=FORMATS[name])

    async def caller(self, function):
        registry, name = self.registry, function.__name__
        if name not in registry:
            name = name.replace("_", "-")

        async def call(text):
            outcome = await registry.ainvoke(name, json.loads(text))
            if type(outcome).__name__ == "ErrorResult":
                raise ValueError(outcome.message)
            answer = outcome.result
            return answer if isinstance(answer, str) else json.dumps(answer)

        return call

    async def checker(self, function):
        return self._tool(function).validate_parameters

    async def far_caller(self, function):
        self.registry.register(function)
        registry, name = self.registry, self._tool(function).name

        async def call(text):
            outcome = await registry.ainvoke(name, json.loads(text), execution_mode="process")
            if type(outcome).__name__ == "ErrorResult":
                raise ValueError(outcome.message)
            return outcome.result if isinstance(outcome.result, str) else json.dumps(outcome.result)

        return call

    def _tool(self, function):
        name = function.__name__
        return self.registry.get_tool(name) or self.registry.get_tool(name.replace("_", "-"))

    async def close(self):
        pass
