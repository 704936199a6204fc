"""Toolsets by settings, with a fake module in place of a framework's adapter."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pegboard import ReadonlyContext, Tool, ToolRegistry, ToolsetBase
from pegboard_adapters import configured
from pegboard_adapters.configured import ConfiguredToolset, toolsets_from
from pegboard_adapters.incoming import ForeignToolset
from pegboard_adapters.plugin import pegboard_register_toolsets

CONTEXT = ReadonlyContext()


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the fake adapter of LangChain was asked to convert; `my_tools` has tools for it: names of tools."""
    calls: list[object] = []

    def from_langchain(tools: Any, *, name: str, trust: Any) -> Any:
        calls.append(tools)
        if tools == "exit":
            raise SystemExit(3)
        if isinstance(tools, ToolsetBase):
            return tools
        return ForeignToolset(name, tools, _tool_of, trust=trust)

    adapter, places = ModuleType("pegboard_adapters.langchain"), ModuleType("my_tools")
    vars(adapter)["from_langchain"] = from_langchain
    vars(places).update(both=["add", "find"], bad=["add", "not a name"], number=3, quits="exit", broken=Broken())
    monkeypatch.setitem(sys.modules, "pegboard_adapters.langchain", adapter)
    monkeypatch.setitem(sys.modules, "my_tools", places)
    monkeypatch.setattr(configured, "check_peer", lambda extra: None)
    return calls


class Broken(ToolsetBase):
    """A toolset that can't list its tools, nor be left without closing."""

    name = "broken"
    is_closed = False

    async def tools(self, context: ReadonlyContext) -> list[Tool]:
        raise OSError("no network")

    async def close(self) -> None:
        self.is_closed = True


def _tool_of(name: Any) -> Tool:
    return Tool.from_schema(name, {}, lambda arguments: f"ran {name}")


def result_of(*places: str, **settings: Any) -> Any:
    (toolset,) = toolsets_from({"langchain": {"tools": [*places], **settings}})
    return asyncio.run(toolset.tools(CONTEXT))


def test_the_tools_of_all_places_are_offered(loads: list[object]) -> None:
    toolset = ConfiguredToolset("langchain", {"tools": ["my_tools:both"]})
    for _ in range(2):
        result = asyncio.run(toolset.tools(CONTEXT))
        assert [tool.name for tool in result] == ["add", "find"]
        assert result.problems == ()
    assert loads == [["add", "find"]]  # each place once


def test_only_trusted_ones_run_unasked(loads: list[object]) -> None:
    async def main() -> tuple[str, str]:
        async with ToolRegistry() as registry:
            registry.register(ConfiguredToolset("langchain", {"tools": ["my_tools:both"], "trust": ["add"]}))
            return (await registry.call("add")).text, (await registry.call("find")).text

    added, found = asyncio.run(main())
    assert added == "ran add"
    assert "approval" in found


@pytest.mark.parametrize(
    ("place", "cause"),
    [
        ("no_such_module:tools", "No module named 'no_such_module': install its package, or put its folder on "),
        ("my_tools:missing", "has no attribute 'missing'"),
        ("not a place", "not a place"),
        ("json.decoder.missing", "'json.decoder' is not a package"),
        ("needs_more:tools", "ModuleNotFoundError: needs_more imports no_such_dependency, which isn't installed"),
        ("in_package.needs_more", "in_package.needs_more imports no_such_dependency, which isn't installed"),
        ("my_tools:number", "not iterable"),
        ("my_tools:quits", "3"),
        ("my_tools:broken", "no network"),
    ],
)
def test_a_place_that_does_not_work_affects_only_itself(
    loads: list[object], place: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in_package").mkdir()
    for file in ("needs_more.py", "in_package/needs_more.py"):
        (tmp_path / file).write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = result_of(place, "my_tools:both")
    assert [tool.name for tool in result] == ["add", "find"]
    (problem,) = result.problems
    assert problem.cause.startswith(f"{place}: ")
    assert cause in problem.cause


def test_a_tool_that_does_not_work_affects_only_itself(loads: list[object]) -> None:
    result = result_of("my_tools:bad")
    assert [tool.name for tool in result] == ["add"]
    assert [problem.tool for problem in result.problems] == ["not a name"]


def test_closing_it_closes_the_toolsets_of_its_places(loads: list[object]) -> None:
    async def main() -> None:
        toolset = ConfiguredToolset("langchain", {"tools": ["my_tools:broken", "my_tools:both", "my_tools:missing"]})
        await toolset.tools(CONTEXT)
        await toolset.close()

    asyncio.run(main())
    assert sys.modules["my_tools"].broken.is_closed


@pytest.mark.parametrize(
    ("name", "table", "text"),
    [
        ("langchian", {"tools": []}, "plugins.adapters.langchian: there is no adapter of this name"),
        ("langchian", {"tools": []}, "'langchain'"),
        ("langchain", {"tool": []}, "plugins.adapters.langchain.tool"),
        ("langchain", {}, "plugins.adapters.langchain.tools"),
        ("langchain", {"tools": "my_tools:both"}, "plugins.adapters.langchain.tools"),
        ("langchain", ["my_tools:both"], "plugins.adapters.langchain: must be a table"),
    ],
)
def test_wrong_settings_are_named(loads: list[object], name: str, table: Any, text: str) -> None:
    (toolset,) = toolsets_from({name: table})
    with pytest.raises(ValueError, match=r"^plugins\.adapters\.") as raised:
        asyncio.run(toolset.tools(CONTEXT))
    assert text in str(raised.value)
    assert loads == []


def test_wrong_settings_are_a_problem_of_one_toolset(loads: list[object]) -> None:
    registered: list[Any] = []
    pegboard_register_toolsets(registered.append, {"langchain": {"tools": ["my_tools:both"]}, "langchian": {}})
    pegboard_register_toolsets(registered.append, {})

    async def main() -> Any:
        async with ToolRegistry() as registry:
            registry.register(*registered)
            return await registry.resolve()

    resolved = asyncio.run(main())
    assert [tool.name for tool in resolved] == ["add", "find"]
    (problem,) = resolved.problems
    assert "did you mean 'langchain'" in str(problem).lower()


# The command line -----------------------------------------------------------------------------------------------------

FINDER = """
import importlib.util, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "pegboard_adapters.langchain":
            return importlib.util.spec_from_file_location(name, __file__.replace("sitecustomize", "adapter"))

sys.meta_path.insert(0, Finder())
"""
ADAPTER = """
from pegboard import Tool
from pegboard_adapters.incoming import ForeignToolset

with open("imports.txt", "a") as file:
    print("adapter", file=file)

def from_langchain(tools, *, name, trust):
    def convert(each):
        return Tool.from_schema(each, {}, lambda arguments: "ran")

    return ForeignToolset(name, tools, convert, trust=trust)
"""


@pytest.fixture
def registry(tmp_path: Path) -> Callable[..., str]:
    """Runs `registry` where LangChain seems to be installed, with tools of it in the settings."""
    path = tmp_path / "path"
    (path / "langchain_core-1.2.0.dist-info").mkdir(parents=True)
    (path / "langchain_core-1.2.0.dist-info" / "METADATA").write_text("Name: langchain-core\nVersion: 1.2.0\n")
    (path / "sitecustomize.py").write_text(FINDER)
    (path / "adapter.py").write_text(ADAPTER)
    (path / "my_tools.py").write_text('both = ["lc_add", "lc_find"]\n')
    file = tmp_path / "config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[plugins.adapters.langchain]\ntools = ["my_tools:both"]\ntrust = ["lc_add"]\n')
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CONFIG", "CACHE", "STATE")}
    environment = {**os.environ, **folders, "PYTHONPATH": str(path)}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "pegboard", *words]
        done = subprocess.run(
            command, capture_output=True, check=False, cwd=tmp_path, env=environment, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.slow
def test_they_are_listed_from_the_cache_and_run(registry: Callable[..., str], tmp_path: Path) -> None:
    imports = tmp_path / "imports.txt"
    listed = registry("list", "--names").split()
    assert {"lc_add", "lc_find"} <= {*listed}
    assert imports.read_text().split() == ["adapter"]
    assert registry("list", "--names").split() == listed
    assert imports.read_text().split() == ["adapter"]
    assert "ran" in registry("call", "lc_add")
