"""What a lock of pegboard-lock decides on a server's tools."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import evolve

from pegboard import Config, Limits, ModelRequest, Permissions, ToolRegistry, ToolSpec, register_plugin
from pegboard.cli.main import main
from pegboard.testing import discover
from pegboard.tools import EMPTY_CONTEXT
from pegboard_lock import Lock, LockPlugin, read_lock, write_lock
from pegboard_mcp.definitions import Accepted
from pegboard_mcp.lock import write_to_lock
from pegboard_mcp.settings import read_server
from pegboard_mcp.toolset import McpToolset

SERVER = str(Path(__file__).with_name("bad_server.py"))
pytestmark = pytest.mark.slow


class Machine:
    """A user's machine: a server, the file of what was accepted, and a lock in effect."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.lock, self.more, self.accepted = folder / "pegboard.lock", folder / "more.json", folder / "accepted.json"
        self.config = Config(lock={"file": str(self.lock), **dict.fromkeys(("added", "reach", "wording"), "warn")})
        args = ["-I", SERVER, "more", str(self.more)]
        self.settings = read_server("real", {"command": sys.executable, "args": args, **settings})

    def list_more(self, *names: str) -> None:
        """Has the server list more tools."""
        self.more.write_text(json.dumps([{"name": name, "inputSchema": {"type": "object"}} for name in names]))

    @asynccontextmanager
    async def registry(self):
        """A registry with the server's tools, and the toolset."""
        toolset = McpToolset("real", self.settings, Accepted(str(self.accepted)), self.config)
        async with ToolRegistry(permissions=Permissions(mode="bypass"), limits=Limits(toolset_timeout=300)) as made:
            made.contributions.config = self.config
            register_plugin(made, LockPlugin, "lock")
            made.register(toolset)
            yield made, toolset

    async def lock_all(self) -> None:
        """Accepts what the server lists, as `registry mcp accept` does."""
        toolset = McpToolset("real", self.settings, Accepted(str(self.accepted)))
        _, now = await toolset.pending()
        toolset.accept(now)
        await toolset.close()
        assert write_to_lock(self.config, toolset, toolset.accepted_tools()) == self.lock


async def test_exactly_the_locked_definitions_are_accepted_on_a_first_list(tmp_path):
    made = Machine(tmp_path, accept="always")
    write_lock(made.lock, Lock(), whole=True)
    await made.lock_all()
    made.list_more("evil")
    made.accepted.unlink()
    async with made.registry() as (registry, _):
        resolved = await registry.resolve()
        assert resolved.names == ("real__echo", "real__env")
        assert "'evil' is held back" in str(resolved.problems)
    assert "evil" not in made.accepted.read_text()


async def test_nothing_is_accepted_of_another_server_of_its_name_with_the_same_tools(tmp_path):
    made = Machine(tmp_path, accept="always")
    write_lock(made.lock, Lock(), whole=True)
    await made.lock_all()
    made.accepted.unlink()
    made.settings = evolve(made.settings, args=(*made.settings.args, "other"))
    async with made.registry() as (registry, _):
        resolved = await registry.resolve()
        assert resolved.names == ()
        assert "'echo' is held back" in str(resolved.problems)
        assert "comes from another server" in str(resolved.problems)


async def test_instructions_arent_in_a_lock_and_are_held_back_until_they_are_accepted(tmp_path):
    made = Machine(tmp_path, instructions=True)
    write_lock(made.lock, Lock(), whole=True)
    await made.lock_all()
    async with made.registry() as (registry, _):
        request = await registry.process(ModelRequest("hi", tools=await registry.resolve()))
        assert "Echo first." in request.system
    made.accepted.unlink()  # another user's machine
    async with made.registry() as (registry, _):
        resolved = await registry.resolve()
        assert resolved.names == ("real__echo", "real__env")
        assert "its instructions are held back" in str(resolved.problems)
        assert "Echo first." not in (await registry.process(ModelRequest("hi", tools=resolved))).system


async def test_what_another_has_locked_is_asked_for_and_accepted_and_nothing_more(tmp_path):
    made = Machine(tmp_path)
    write_lock(made.lock, Lock(), whole=True)
    await made.lock_all()
    two_tools = read_lock(made.lock)[0]
    made.list_more("added")
    await made.lock_all()
    four = read_lock(made.lock)[0]
    write_lock(made.lock, two_tools, whole=True)
    async with made.registry() as (registry, _):
        assert (await registry.resolve()).names == ("real__echo", "real__env")
        assert (await registry.call("real__echo", {"text": "hi"})).text == "hi"
        write_lock(made.lock, four, whole=True)
        assert "real__added" in (await registry.resolve()).names
        made.lock.unlink()
        assert "real__added" in (await registry.resolve()).names, "it is what was accepted last"


async def test_locked_tools_are_offered_also_if_what_is_accepted_cannot_be_stored(tmp_path, caplog):
    made = Machine(tmp_path)
    write_lock(made.lock, Lock(), whole=True)
    await made.lock_all()
    made.accepted = made.accepted / "below a file"
    async with made.registry() as (registry, _):
        assert (await registry.resolve()).names == ("real__echo", "real__env")
    assert "the accepted tools can't be stored" in caplog.text


async def test_a_definition_that_changes_before_its_call_is_not_run(tmp_path):
    made = Machine(tmp_path)
    write_lock(made.lock, Lock(), whole=True)
    await made.lock_all()
    async with made.registry() as (registry, _):
        resolved = await registry.resolve()  # from the file; the server isn't started yet
        made.more.write_text(json.dumps([{"name": "env", "description": "Other.", "inputSchema": {"type": "object"}}]))
        result = await registry.call("real__env", {}, resolved=resolved)
        assert "env was not run" in result.text
        assert "real__env" not in (await registry.resolve()).names


async def test_a_server_that_doesnt_start_loses_nothing_that_is_known(tmp_path):
    made = Machine(tmp_path)
    write_lock(made.lock, Lock(), whole=True)
    await made.lock_all()
    lock = read_lock(made.lock)[0]
    entry = lock.tools["real__echo"]
    more = {**lock.tools, "real__gone": {**entry, "spec": {**entry["spec"], "name": "real__gone"}}}
    more["real__gone"]["digest"] = ToolSpec.from_json(more["real__gone"]["spec"]).digest
    write_lock(made.lock, Lock(more, lock.distributions, lock.toolsets), whole=True)
    made.more.write_text("[")  # the server fails as it lists its tools
    async with made.registry() as (registry, _):
        assert (await registry.resolve()).names == ("real__echo", "real__env")


async def test_all_its_tools_are_listed_for_a_comparison_also_those_that_are_held_back(tmp_path):
    made = Machine(tmp_path)
    write_lock(made.lock, Lock(), whole=True)
    await made.lock_all()
    made.more.write_text(json.dumps([{"name": "env", "description": "Other.", "inputSchema": {"type": "object"}}]))
    async with made.registry() as (registry, toolset):
        everything = {tool.name: tool.spec.description for tool in await toolset.all_tools(EMPTY_CONTEXT)}
        assert everything == {"real__echo": "Echoes.", "real__env": "Other."}
        assert "real__env" not in (await registry.resolve()).names


def test_verify_shows_how_a_server_has_changed_though_its_toolset_holds_it_back(tmp_path, monkeypatch, capsys):
    others = (found.name for found in discover().entries if found.name not in ("lock", "mcp"))
    monkeypatch.setenv("PEGBOARD_BLOCK", ",".join(others))
    for kind in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    made = Machine(project)
    server = {"command": sys.executable, "args": ["-I", SERVER, "more", "./more.json"]}
    settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
    Path("pegboard.toml").write_text(f"[plugins.mcp.servers.real]\n{settings}")
    main(["config", "trust"])
    assert main(["lock", "--live"]) == 0
    assert main(["verify", "--live"]) == 0
    made.more.write_text(
        json.dumps([{"name": "env", "description": "Other.", "inputSchema": {"type": "object"}}, {"name": "new"}])
    )
    capsys.readouterr()
    assert main(["verify", "--live", "--json"]) == 1
    drifts = [(each["class"], each["tool"]) for each in json.loads(capsys.readouterr().out)["drift"]]
    assert drifts == [("wording", "real__env"), ("added", "real__new")]
    assert main(["lock", "real__env", "real__new", "--live", "--yes"]) == 0
    assert main(["verify", "--live"]) == 0
    project = project.rename(tmp_path / "clone")
    monkeypatch.chdir(project)
    for file in ("pegboard.toml", "pegboard.lock"):
        main(["config", "trust", file])
    assert main(["verify", "--live"]) == 0, "paths within the project don't count"
    Path("pegboard.toml").write_text(f"[plugins.mcp.servers.real]\n{settings.replace('-I', '-E')}")
    main(["config", "trust"])
    capsys.readouterr()
    assert main(["verify", "--live", "--json"]) == 1
    assert [each["class"] for each in json.loads(capsys.readouterr().out)["drift"]] == ["reach"]
    Path("more.json").write_text("[")  # the server fails as it lists its tools
    assert main(["verify", "--live"]) == 3
