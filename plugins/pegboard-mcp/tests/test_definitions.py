"""The file of accepted definitions."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import ToolRegistry
from pegboard_mcp import mcp_toolset
from pegboard_mcp.definitions import Accepted, Definitions


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text("{"),
        lambda path: path.write_text('{"format": 0}'),
        lambda path: path.chmod(0o666),
        lambda path: path.symlink_to(path.rename(path.with_name("elsewhere.json"))),
    ],
)
def test_a_damaged_file_accepts_no_tool(tmp_path, damage):
    """It doesn't count as a first use, where all that the server lists now would be accepted."""
    path = tmp_path / "accepted.json"
    accepted = Accepted(str(path))
    assert accepted.read() is None
    accepted.write("notes", Definitions.of([{"name": "get", "inputSchema": {"type": "object"}}], 10))
    assert [*accepted.read().tools] == ["get"]
    damage(path)
    registry = ToolRegistry()
    registry.register(mcp_toolset("notes", command="/nowhere", accepted=str(path)))
    resolved = asyncio.run(registry.resolve())
    assert resolved.names == ()
    assert ["accept it anew" in problem.cause for problem in resolved.problems] == [True]


async def test_a_server_is_not_started_for_a_tool_with_another_prefix(tmp_path):
    """With accepted definitions, its tools' names are known, and there is no prefix."""
    toolset = mcp_toolset("never", command="/no/such/program", accepted=str(tmp_path / "accepted.json"))
    async with ToolRegistry() as registry:
        registry.register(toolset)
        result = await registry.call("other__echo")
        assert (result.kind, toolset.names_begin) == ("unknown_tool", "never__")
    Accepted(str(tmp_path / "accepted.json")).write("never", Definitions())
    assert toolset.names_begin == ""
