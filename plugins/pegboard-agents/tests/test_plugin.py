"""The plugin, by its settings; and installed, as a wheel."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pegboard_agents.plugin
from pegboard import Once, PendingCalls, ToolCall, ToolRegistry, register_plugin, tool
from pegboard.testing import ScriptedModel


@tool(read_only=True)
def look() -> str:
    """Looks."""
    return "a fig tree"


@tool(destructive=True)
def fell() -> str:
    """Fells."""
    return "felled"


def make_registry(settings, model=None):
    """A registry with the plugin and a provider of this model, and the plugin's record."""
    registry = ToolRegistry()
    registry.register(look, fell)
    registry.add("models", "scripted", lambda _name: model)
    return registry, register_plugin(registry, pegboard_agents.plugin, "agents", settings=settings)


SCOUT = {"description": "Looks round.", "instructions": "Be brief.", "model": "scripted/small", "where": "read_only"}


def asked(settings, *script):
    """The result of a call of the agent with these settings, and the request to its model."""
    model = ScriptedModel(script)
    registry, record = make_registry({"agents": {"scout": settings}}, model)
    assert (record.status, record.cause) == ("loaded", None)
    call = ToolCall("scout", {"request": "Look round"}, "1")
    outcome = asyncio.run(registry.dispatch([call], asyncio.run(registry.resolve())))
    return outcome.results[0].text, model.requests[0]


def test_an_agent_of_the_settings_runs_with_its_model_and_its_tools():
    text, request = asked(SCOUT, ToolCall("look", {}), "It is a fig tree.")
    assert (text, request.system) == ("It is a fig tree.", "Be brief.")
    assert "look" in {tool.name for tool in request.tools}
    assert "fell" not in {tool.name for tool in request.tools}


def test_without_a_predicate_it_has_no_tools_of_this_plugin():
    _, request = asked({"model": "scripted/small"}, "Nothing.")
    assert {tool.name for tool in request.tools} == {"fell", "look"}


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"agnts": {}}, "plugins.agents.agnts: unknown key"),
        ({"agents": {"scout": "x"}}, "agents.scout: must be a table"),
        ({"agents": {"scout": {"instruction": "x"}}}, "agents.scout.instruction: unknown key. Did you mean"),
        ({"agents": {"scout": {"depth": 0}}}, "agents.scout: depth must be at least 1"),
        ({"agents": {"scout": {"timeout": -1}}}, "agents.scout: tool 'scout': timeout must be"),
        ({"agents": {"a b": {}}}, "a b"),
        ({"workflows": {"all": {}}}, "workflows.all: needs one of sequence, parallel and loop"),
        ({"workflows": {"all": {"sequence": ["a"], "loop": ["a"]}}}, "needs one of sequence, parallel and loop"),
        ({"agents": {"a": {}}, "workflows": {"a": {"loop": ["a"]}}}, "needs another name: an agent has this one"),
        (
            {"agents": {"a": {}}, "workflows": {"all": {"loop": ["a"]}}},
            "workflows.all: max_rounds is required for a loop",
        ),
        ({"agents": {"a": {}}, "workflows": {"b": {"sequence": ["a"], "max_rounds": 1}}}, "max_rounds is required"),
        ({"agents": {"abc": {}}, "workflows": {"b": {"sequence": ["abd"]}}}, "no agent 'abd' in the settings. Did you"),
        ({"background": {"agents": ["a"]}}, "background: there is no agent 'a'"),
        ({"background": {}}, "plugins.agents.background: there are no agents or workflows"),
        ({"agents": 7}, "plugins.agents.agents: must be an object"),
        ({"workflows": {"a": {"sequence": ["a"]}}}, "workflows: these would run themselves: a"),
        ({"workflows": {"a": {"loop": ["b"]}, "b": {"sequence": ["a"]}}}, "would run themselves: a, b"),
    ],
)
def test_what_is_wrong_with_the_settings_is_named_and_the_tools_are_there(settings, wrong):
    registry, record = make_registry(settings)
    assert (record.status, wrong in record.cause) == ("partial", True)
    assert registry.get("ask_user").name == "ask_user"


@pytest.mark.parametrize("kind", ["sequence", "parallel", "loop"])
def test_workflows_of_the_settings_run_also_in_the_background(kind):
    loops = kind == "loop"
    model = ScriptedModel([["It is a fig tree.", ToolCall("exit_loop", {})] if loops else "It is a fig tree."])
    workflow = {kind: ["scout"], **({"max_rounds": 3} if loops else {})}
    agents = {"scout": {"model": "scripted/small"}}
    settings = {"agents": agents, "workflows": {"trip": workflow}, "background": {"keep": True}}
    registry, record = make_registry(settings, model)
    assert (record.status, record.cause) == ("loaded", None)

    async def main():
        names = {tool.name for tool in await registry.resolve()}
        started = await registry.call("spawn_agent", {"agent": "trip", "request": "Look round"})
        ids = [started.structured_content["agents"][0]["id"]]
        return names, await registry.call("wait_agents", {"ids": ids})

    names, result = asyncio.run(main())
    assert ("exit_loop" in names, "trip" in names) == (loops, True)
    assert result.text.endswith("It is a fig tree.")
    assert len(model.requests) == 1


def test_workflows_of_the_settings_may_be_in_any_order():
    agents, workflows = {"scout": {}}, {"outer": {"sequence": ["inner"]}, "inner": {"sequence": ["scout"]}}
    registry, record = make_registry({"agents": agents, "workflows": workflows})
    assert (record.status, record.cause) == ("loaded", None)
    assert registry.get("outer").name == "outer"


WAITING = """
import os, signal, sys
from pathlib import Path
from pegboard import ToolCall, ToolRegistry, tool
from pegboard.approval import ask_later
from pegboard.testing import ScriptedModel
from pegboard_agents import Agent, agent_tool

@tool(destructive=True)
def fell() -> str:
    "Fells."
    return "felled"

def start(*script):
    registry = ToolRegistry()
    registry.register(fell, agent_tool(Agent(name="clerk", model=ScriptedModel(script))))
    return registry

async def wait(file):
    calls = [ToolCall("clerk", {"request": "Fell it"}, "1")]
    outcome = await start(ToolCall("fell", {})).dispatch(calls, approver=ask_later)
    file.write_text(outcome.pending.dumps())
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_pending_call_of_a_killed_process_is_resumed_in_another(tmp_path):
    file, names = tmp_path / "pending.json", {}
    code = f"{WAITING}\nimport asyncio\nasyncio.run(wait(Path({str(file)!r})))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    exec(WAITING, names)
    pending = PendingCalls.loads(file.read_text())
    resumed = asyncio.run(names["start"]("It is down.").resume(pending, {each.id: Once() for each in pending}))
    assert resumed.results[0].text == "It is down."


@pytest.mark.slow
def test_it_works_installed_as_a_wheel(tmp_path):
    """As an installer leaves it, without the checkout; `nox -s wheels` builds the wheel itself."""
    source, site = Path(__file__).parents[1], tmp_path / "site"
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    shutil.copytree(source / "src" / "pegboard_agents", site / "pegboard_agents")
    info = site / f"pegboard_agents-{project['version']}.dist-info"
    info.mkdir()
    (name, thing), *_ = project["entry-points"]["pegboard"].items()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[pegboard]\n{name} = {thing}\n")
    (info / "RECORD").write_text("".join(f"{path.relative_to(site)},,\n" for path in site.rglob("*") if path.is_file()))
    code = (
        "import pegboard, pegboard_agents, sys; assert pegboard_agents.__file__.startswith(sys.argv[1]);"
        "r = pegboard.load(block=['mcp']); print(r.call_sync('write_todos', {'todos': [{'content': 'read'}]}).text)"
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "PEGBOARD_", "PYTHON"))}
    env = {**kept, "HOME": str(tmp_path), "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", code, str(site)], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "Task list updated: 1 pending.\n", done.stderr
