"""The official inspector's command line, with `registry serve`."""

from __future__ import annotations

import json
import subprocess

import pytest


@pytest.fixture(params=["legacy", "modern"])
def inspect(request, node, npm_bin, target):
    """Runs the inspector on the server, with and without a handshake; gives its exit code and what it prints."""

    def run(*words, server=target):
        argv = [node, npm_bin / "mcp-inspector", "--cli", *server, "--format", "json"]
        argv += ["--protocol-era", request.param, *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=180)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    return run


def test_it_lists_every_tool_and_finds_no_fault_in_their_schemas(inspect):
    code, listed = inspect("--method", "tools/list", "--strict")
    assert code == 0
    tools = {tool["name"]: tool for tool in listed["result"]["tools"]}
    assert tools["add"]["inputSchema"]["required"] == ["a", "b"]
    assert tools["add"]["annotations"] == {"readOnlyHint": True}


def test_it_calls_a_tool(inspect):
    code, told = inspect("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=1", "b=2")
    assert (code, told["result"]["structuredContent"], told["result"]["isError"]) == (0, {"result": 3}, False)


@pytest.mark.parametrize("target", ["stdio"], indirect=True)
def test_it_asks_for_progress_and_takes_it(inspect, target, tmp_path):
    said = tmp_path / "said.jsonl"
    recorded = ["sh", "-c", 'file=$1; shift; "$@" | tee "$file"', "-", str(said), *target]
    words = ("--tool-name", "test_tool_with_progress", "--tool-metadata", "progressToken=p1")
    code, told = inspect("--method", "tools/call", *words, server=recorded)
    assert (code, told["result"]["content"]) == (0, [{"type": "text", "text": "done"}])
    messages = [json.loads(line) for line in said.read_text().splitlines()]
    progress = [message["params"] for message in messages if message.get("method") == "notifications/progress"]
    assert progress == [{"progressToken": "p1", "progress": float(done), "total": 100.0} for done in (0, 50, 100)]


def test_it_tells_a_tools_error_from_a_call_that_went_well(inspect):
    code, told = inspect("--method", "tools/call", "--tool-name", "test_error_handling")
    assert (code, told["result"]["isError"]) == (5, True)
    code, _ = inspect("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=one")
    assert code == 5


def test_it_tells_of_a_tool_that_there_is_not(inspect):
    code, told = inspect("--method", "tools/call", "--tool-name", "nosuch")
    assert code == 5
    assert "nosuch" in told
