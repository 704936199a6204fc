"""The plugin's hook, and how its executor is found."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import pytest
from isolated_tools import tool_named
from running import PATIENCE

import pegboard
from pegboard import Limits, Permissions, Policy, Rule, ToolCall, ToolRegistry, register_plugin
from pegboard.execution import ExecutionRequest, ExecutionResponse, LocalExecutor
from pegboard.testing import check_executor, check_plugin
from pegboard_processes import ChildProcesses, plugin

ADD = tool_named("add").evolve(policy=Policy(executor="process"))


@pytest.mark.slow
def test_the_plugin_fulfils_the_contract():
    check_plugin("processes")


def called(registry):
    async def main():
        async with registry:
            registry.register(ADD)
            return await registry.call("add", {"a": 1})

    return asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("load", [lambda: pegboard.load(config=pegboard.Config()), ToolRegistry])
def test_the_installed_plugin_is_found_by_the_name_of_its_executor(load):
    """Also by a registry that has loaded no plugins."""
    assert called(load()).structured_content == {"result": 3}


@pytest.mark.slow
def test_settings_reach_the_pool():
    registry = ToolRegistry()
    register_plugin(registry, plugin, "processes", settings={"most": 1, "grace": 0.1})
    pool = registry.contributions.executor("process")
    assert (pool.most, pool.grace) == (1, 0.1)
    assert called(registry).structured_content == {"result": 3}


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"mots": 1}, "plugins.processes.mots: unknown key. Did you mean 'most'?"),
        ({"most": 0}, "most must be a number of at least 1, got 0"),
        ({"memory": 1000}, "memory must be a number of at least 67,108,864"),
    ],
)
def test_wrong_settings_are_named(settings, cause):
    assert cause in str(register_plugin(ToolRegistry(), plugin, "processes", settings=settings))


@pytest.mark.slow
async def test_a_local_executor_runs_tools_in_a_pool():
    local = LocalExecutor([ADD], executors={"process": ChildProcesses()})
    response = await local.execute(ExecutionRequest(tool="add", arguments={"a": 1}))
    await local.aclose()
    assert response.structured_content == {"result": 3}


@pytest.mark.slow
def test_nested_calls_run_even_if_all_children_are_busy():
    """Otherwise a tool that calls a tool could wait for itself."""
    outer = tool_named("call_one").evolve(policy=Policy(executor="process"))

    async def main():
        async with ToolRegistry(limits=Limits(timeout=PATIENCE)) as registry:
            registry.register(outer, ADD)
            registry.add("executors", "process", ChildProcesses(most=1))
            return await registry.call("call_one", {"name": "add"})

    assert asyncio.run(main()).text == '{"result": 3}'


@pytest.mark.slow
def test_a_queued_call_is_decided_again_before_it_is_sent(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("harmless")
    turn = f"os.remove({str(link)!r}); os.symlink('secret', {str(link)!r})"
    rules = [Rule("edit", "*", "allow"), Rule("edit", f"{tmp_path}/secret/*", "deny", forbid=True)]

    async def main():
        async with ToolRegistry(permissions=Permissions(rules)) as registry:
            registry.register(
                *(tool_named(name).evolve(policy=Policy(executor="process")) for name in ("do", "resolved"))
            )
            registry.add("executors", "process", ChildProcesses(most=1))
            calls = [ToolCall("do", {"code": turn}, "1"), ToolCall("resolved", {"path": str(link / "a")}, "2")]
            batch = await registry.dispatch(calls)
            return [each.kind for each in batch.results], await registry.call("resolved", {"path": str(tmp_path)})

    kinds, after = asyncio.run(main())
    assert kinds == [None, "denied"]
    assert after.text == str(tmp_path)  # the child that wasn't used serves the next call


@asynccontextmanager
async def started(kind=ChildProcesses):
    pool = kind()
    try:
        yield pool
    finally:
        await pool.aclose()


@pytest.mark.slow
async def test_the_executor_passes_the_checks_of_executors():
    reason = "a child gets the caller's own definition"
    report = await check_executor(started, remote=True, skip={"another_definition_is_refused": reason})
    lacking = {why for why in report.skipped.values() if why.startswith("there is no ")}
    assert {*report.skipped.values()} - lacking == {reason, "for durable executors"}


@pytest.mark.slow
async def test_an_executor_that_hides_a_crash_fails_them():
    class Hiding(ChildProcesses):
        async def execute_tool(self, call):
            response = await super().execute_tool(call)
            return ExecutionResponse(output="done") if response.kind == "crashed" else response

    with pytest.raises(AssertionError, match="a_dying_worker_is_reported: kind: expected one of"):
        await check_executor(partial(started, Hiding), remote=True, only=["a_dying_worker_is_reported"])
