"""llm itself, with five plugins that have tools, in both directions."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import llm
import pytest

from pegboard import ImageContent, Permissions, Rule, ToolRegistry, ToolResult, tool
from pegboard_llm import llm_tools, llm_toolset

PACKAGES = {
    "llm-tools-quickjs": {"quickjs", "QuickJS_execute_javascript", "QuickJS_reset_context"},
    "llm-tools-simpleeval": {"simple_eval"},
    "llm-tools-sqlite": {"SQLite_query", "SQLite_schema"},
    "llm-tools-todo": {f"Todo_{name}" for name in ("add", "begin", "complete", "end", "list", "write")},
    "llm-tools-trigger-error": {"trigger_error"},
}


@pytest.fixture(scope="module")
def toolset(tmp_path_factory):
    """The toolset, with all packages loaded once for the module."""
    folder = tmp_path_factory.mktemp("llm")
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute("create table stock (item, count)")
        database.execute("insert into stock values ('nails', 12)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        toolset = llm_toolset(toolboxes=[f'SQLite("{folder}/shop.db")'])
        toolset.load()
        yield toolset


async def test_five_packages_list_their_tools_and_answer(toolset):
    async with ToolRegistry(permissions=Permissions([Rule("*", "*", "allow")])) as registry:
        registry.register(toolset)
        resolved = await registry.resolve()
        assert not resolved.problems
        offered = {}
        for each in resolved:
            offered.setdefault(each.spec.tags[0], set()).add(each.name)
        assert offered == PACKAGES

        async def call(name, **arguments):
            return await registry.call(name, arguments, resolved=resolved)

        assert (await call("simple_eval", expression="6 * 7")).text == "42"
        assert (await call("quickjs", javascript="function execute() { return 6 * 7 }")).text == "42"
        await call("QuickJS_execute_javascript", javascript="var kept = 40")
        assert (await call("QuickJS_execute_javascript", javascript="kept + 2")).text == "42"
        rows = await call("SQLite_query", sql="select * from stock")
        assert json.loads(rows.text) == [{"item": "nails", "count": 12}]
        begun = re.search(r"\w{8}$", (await call("Todo_begin")).text)
        assert begun is not None or (await call("Todo_list")).text
        failed = await call("trigger_error", message="exactly this")
        assert (failed.kind, failed.text) == ("tool_failure", "exactly this")


@tool(read_only=True)
def add(a: int, b: int) -> str:
    """Adds."""
    return str(a + b)


@tool(read_only=True)
def picture() -> ToolResult:
    """A picture."""
    return ToolResult(ImageContent(b"png"))


@tool(destructive=True)
def erase(name: str) -> str:
    """Erases."""
    return name


def chain(*calls):
    registry = ToolRegistry()
    registry.register(add, picture, erase)
    tools = llm_tools(registry, asyncio.run(registry.resolve()))
    prompt = json.dumps({"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]})
    return [*llm.get_model("echo").chain(prompt, tools=tools).responses()][-1].prompt.tool_results


def test_our_tools_run_in_a_chain_of_llms_echo_model():
    added, wrong, seen = chain(("add", {"a": 1, "b": 2}), ("add", {"a": "x", "b": 2}), ("picture", {}))
    assert (added.output, added.exception) == ("3", None)
    assert "Invalid arguments" in wrong.output
    assert wrong.exception is not None
    assert [(each.type, each.content) for each in seen.attachments] == [("image/png", b"png")]
    with pytest.raises(llm.PauseChain) as raised:
        chain(("erase", {"name": "x"}))
    assert raised.value.request.call.name == "erase"


def test_llms_own_command_lists_no_tool_of_llm_twice(tmp_path, monkeypatch):
    for kind in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path))
    program = Path(sys.executable).with_name("llm")
    done = subprocess.run([program, "tools", "list", "--json"], capture_output=True, text=True, check=True)
    listed = json.loads(done.stdout)
    names = [each["name"] for each in listed["tools"]]
    assert sorted(names) == sorted(set(names))
    assert "pegboard" not in {each.get("plugin") for each in listed["tools"]}
