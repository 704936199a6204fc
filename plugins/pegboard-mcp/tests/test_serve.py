"""`registry serve` as a child process of a real client."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager

import pytest
from mcp import Client, StdioServerParameters

TOOLS = '''
def add(a: int, b: int) -> int:
    """Adds."""
    print("this is no message of the protocol")
    return a + b


def fail() -> str:
    """Fails."""
    raise ValueError("the operator reads this")
'''


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Starts `registry serve` with some words and connects to it."""
    file = tmp_path / "tools.py"
    file.write_text(TOOLS)

    @asynccontextmanager
    async def serve(*words, mode="auto"):
        arguments = ["-m", "pegboard", "serve", "--functions", str(file), *words]
        parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=tmp_path)
        async with Client(parameters, mode=mode, read_timeout_seconds=30) as client:
            yield client

    return serve


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_lists_and_calls_over_standard_input_and_output(serve, mode):
    async with serve("-T", "add,fail", mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "fail"]
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.structured_content, result.is_error) == ({"result": 3}, False)
        failed = await client.call_tool("fail", {})
        assert failed.is_error
        assert "operator" not in failed.content[0].text
