"""pegboard, as a host uses it: functions registered on a board, called by `registry.call`, every result a text."""

from __future__ import annotations

DISTRIBUTION = "pegboard"
FLAVOUR = "attrs"
IMPORT = "from pegboard import ToolRegistry, tool"
EVEN = "name:*0 or name:*2 or name:*4 or name:*6 or name:*8"


class Board:
    def __init__(self):
        from pegboard import ToolRegistry

        self.registry = ToolRegistry()

    def add(self, functions):
        self.registry.register(*functions)

    def add_quick(self, functions):
        from pegboard import tool

        self.registry.register(*(tool(blocking=False)(function) for function in functions))

    async def half(self, keep):  # noqa: ARG002  the same question, in the words of --where
        from pegboard.cli.listing import listing_json  # what `registry list --json --where ...` prints

        return listing_json(await self.registry.resolve(where=EVEN))

    async def caller(self, function):
        registry, name = self.registry, function.__name__

        async def call(text):
            result = await registry.call(name, text)
            if result.is_error:
                raise ValueError(result.text)
            return result.text

        return call

    async def close(self):
        await self.registry.aclose()
