"""toolregistry: functions in a ToolRegistry, called by its `ainvoke`."""

from __future__ import annotations

import json

DISTRIBUTION = "toolregistry"
FLAVOUR = "typed_dict"
IMPORT = "from toolregistry import ToolRegistry"


class Board:
    def __init__(self):
        from toolregistry import ToolRegistry

        self.registry = ToolRegistry()

    def add(self, functions):
        for function in functions:
            self.registry.register(function)

    async def half(self, keep):
        return json.dumps([said for said in self.registry.get_schemas() if keep(said["function"]["name"])])

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

    async def close(self):
        pass
