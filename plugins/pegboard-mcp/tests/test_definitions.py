"""What a server's tools are declared as, and which of that was accepted."""

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
def test_of_a_file_that_cant_be_believed_no_tool_is_accepted(tmp_path, damage):
    """It is no first use, after which whatever the server lists now would be accepted."""
    path = tmp_path / "accepted.json"
    kept = Accepted(str(path))
    assert kept.read() is None
    kept.write("notes", Definitions.of([{"name": "get", "inputSchema": {"type": "object"}}], 10))
    assert [*kept.read().tools] == ["get"]
    damage(path)
    registry = ToolRegistry()
    registry.register(mcp_toolset("notes", command="/nowhere", accepted=str(path)))
    resolved = asyncio.run(registry.resolve())
    assert resolved.names == ()
    assert ["accept it anew" in problem.cause for problem in resolved.problems] == [True]
