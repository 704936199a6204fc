"""A registry with the ten kinds of tools that every framework is tried with."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from attrs import define, field, frozen

from pegboard import ImageContent, ToolContext, ToolError, ToolRegistry, tool

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "use-tools-in-other-frameworks.md"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg==")


@frozen
class Tree:
    """A tree of names."""

    name: str
    children: list[Tree] = field(factory=list)


@define
class Kinds:
    """The registry, and what its tools have done."""

    png: ClassVar = PNG
    registry: ToolRegistry = field(factory=ToolRegistry)
    ran: list[Any] = field(factory=list)
    begun: asyncio.Event = field(factory=asyncio.Event)
    cancelled: asyncio.Event = field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        ran = self.ran

        @tool(read_only=True)
        def add(a: int, b: int) -> int:
            """Adds two numbers."""
            ran.append(("add", a, b))
            return a + b

        @tool(read_only=True)
        def draw() -> ImageContent:
            """Draws a picture."""
            return ImageContent(PNG)

        @tool(read_only=True)
        def find(name: str) -> str:
            """Finds a customer."""
            raise ToolError(f"There is no customer {name!r}; try 'ann'.")

        @tool(read_only=True)
        def crash() -> str:
            """Crashes."""
            raise RuntimeError("secret-path /etc/passwd")

        @tool(read_only=True)
        async def count(to: int, context: ToolContext) -> str:
            """Counts."""
            for step in range(to):
                context.report(step + 1, to, f"step {step + 1}")
            return f"counted to {to}"

        @tool(read_only=True)
        def depth(tree: Tree) -> int:
            """Measures a tree."""
            return _depth(tree)

        @tool(destructive=True, requires_confirmation=True)
        def delete(name: str) -> str:
            """Deletes a file."""
            ran.append(("delete", name))
            return f"deleted {name}"

        @tool(read_only=True)
        async def wait() -> str:
            """Waits until it is cancelled."""
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
            return "never"

        @tool(read_only=True)
        async def whoami(context: ToolContext) -> str:
            """Says who calls."""
            await asyncio.sleep(0)
            return f"{context.user} in {context.session}"

        self.registry.register(add, draw, find, crash, count, depth, delete, wait, whoami)

    @staticmethod
    def recipe(heading: str) -> ModuleType:
        """A module with the only block of Python below a heading of the docs' page."""
        sections = re.split("^## (.*)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
        section = sections[sections.index(heading) + 1]
        (block,) = re.findall(r"^```python$(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        module = ModuleType(f"recipe_{heading}")
        exec(compile(block, f"{PAGE} ({heading})", "exec", dont_inherit=True), vars(module))
        return module


def _depth(tree: Tree) -> int:
    return 1 + max(map(_depth, tree.children), default=0)


@pytest.fixture
def kinds() -> Kinds:
    return Kinds()


@pytest.fixture
def example() -> Any:
    """Runs the example below a heading of the README, and gives its names."""

    def run(heading: str) -> dict[str, Any]:
        text = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
        code = text.partition(f"\n## {heading}\n")[2].partition("```python\n")[2].partition("```")[0]
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(code, "README.md", "exec", dont_inherit=True), names)
        return names

    return run
