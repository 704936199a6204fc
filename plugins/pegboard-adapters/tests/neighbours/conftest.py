"""A registry with the ten kinds of tools that every framework is tried with."""

from __future__ import annotations

import asyncio
import base64
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

import pytest
from attrs import define, field, frozen

from pegboard import ImageContent, ReadonlyContext, Tool, ToolCall, ToolContext, ToolError, ToolRegistry, tool
from pegboard_adapters.configured import toolsets_from

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "use-tools-in-other-frameworks.md"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg==")


@frozen
class Tree:
    """A tree of names."""

    name: str
    children: list[Tree] = field(factory=list)


def odd() -> Any:
    """Returns what has no JSON form."""
    return object()


def looping() -> int:
    """Runs an event loop of its own."""
    return asyncio.run(asyncio.sleep(0, 42))


KINDS = tuple(f"kind-{number:05}" for number in range(8_000))


def huge(kind: Literal[KINDS]) -> str:  # type: ignore[valid-type]
    """Has a schema of 100 kB.

    Args:
        kind: Its kind.
    """
    return kind


BAD = odd, looping, huge


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
        self.registry.register(*(Tool.from_function(each, read_only=True) for each in BAD))

    bad_calls: ClassVar[Any] = [("odd", {}), ("looping", {}), ("huge", {"kind": KINDS[7]})]

    @staticmethod
    def check_bad(results: Iterable[object]) -> None:
        """Checks what a framework's model gets of the bad calls."""
        refused, looped, kind = map(str, results)
        assert "no JSON form" in refused
        assert "42" in looped
        assert KINDS[7] in kind

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
def check_theirs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Checks the tools of the bad functions, and of one that raises a framework's control flow, named in settings.

    They ask, unless they are trusted.
    """

    def check(extra: str, tools: Callable[[Any], object], stop: BaseException, *, twice: bool = True) -> None:
        def stops() -> str:
            """Stops its framework."""
            raise stop

        def second() -> str:
            """Has the name of another."""
            return ""

        second.__name__ = "odd"
        place = ModuleType("place")
        vars(place)["tools"] = tools([*BAD, stops, *([second] if twice else [])])
        monkeypatch.setitem(sys.modules, "place", place)
        names = ["odd", "looping", "huge", "stops"]
        calls = [ToolCall(name, {"kind": KINDS[7]} if name == "huge" else {}, name) for name in names]

        async def results(trust: list[str]) -> Any:
            async with ToolRegistry() as registry:
                registry.register(*toolsets_from({extra: {"tools": ["place:tools"], "trust": trust}}))
                resolved = await registry.resolve()
                assert sorted(resolved.names) == sorted(names)
                assert [problem.tool for problem in resolved.problems] == (["odd"] if twice else [])
                return (await registry.dispatch(calls, resolved, ReadonlyContext())).results

        assert all("approval" in result.text for result in asyncio.run(results([])))
        strange, looped, kind, stopped = asyncio.run(results(names))
        assert strange.is_error or "object object" in strange.text
        assert looped.text == "42"
        assert kind.text == KINDS[7]
        assert stopped.is_error
        assert "secret" not in stopped.text

    return check


@pytest.fixture
def example(tmp_path: Path) -> Any:
    """Runs the example below a heading of the README, and gives its names."""

    def run(heading: str) -> dict[str, Any]:
        text = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
        code = text.partition(f"\n## {heading}\n")[2].partition("```python\n")[2].partition("```")[0]
        file = tmp_path / "example.py"  # smolagents reads the source of functions
        file.write_text(code, encoding="utf-8")
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(code, str(file), "exec", dont_inherit=True), names)
        return names

    return run
