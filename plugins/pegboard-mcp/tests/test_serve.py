"""`registry serve` as a child process of a real client, and of a misbehaving one."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

TOOLS = '''
import os
import subprocess
import time


def add(a: int, b: int) -> int:
    """Adds."""
    print("this is no message of the protocol")
    os.write(1, b"neither is this")
    return a + b


def echo(text: str) -> str:
    """Echoes."""
    return text


def read_input() -> str:
    """Reads standard input, as a program that a tool starts would."""
    return subprocess.run(["cat"], capture_output=True, check=True, text=True).stdout


def wait(seconds: float, begun: str) -> str:
    """Waits."""
    open(begun, "w").close()
    time.sleep(seconds)
    return "waited"
'''


@pytest.fixture
def words(tmp_path):
    """The command, with tools from a file."""
    file = tmp_path / "tools.py"
    file.write_text(TOOLS)
    return ["-m", "pegboard", "serve", "--functions", str(file)]


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
async def test_a_client_lists_and_calls_over_standard_input_and_output(words, tmp_path, mode):
    words = [*words, "-T", "add,read_input,echo", "--where", "not name:echo or user:ann", "--user", "bob"]
    parameters = StdioServerParameters(command=sys.executable, args=words, cwd=tmp_path)
    async with Client(parameters, mode=mode, read_timeout_seconds=120) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "read_input"]
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.structured_content, result.is_error) == ({"result": 3}, False)
        assert (await client.call_tool("read_input", {})).content[0].text == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "served"),
    [
        ((), {"add"}),
        (("--all",), {"add", "plan", "poll"}),
        (("--where", "name:p* or name:add"), {"add", "plan", "poll"}),
        (("-T", "plan"), {"plan"}),
    ],
)
async def test_tools_that_need_a_turn_or_a_missing_tool_are_left_out(tmp_path, options, served):
    (tmp_path / "own.py").write_text(NEEDY)
    words = ["-m", "pegboard", "serve", "--functions", str(tmp_path / "own.py"), *options]
    with (tmp_path / "log").open("w") as log:
        parameters = StdioServerParameters(command=sys.executable, args=words, cwd=tmp_path)
        async with Client(stdio_client(parameters, log), read_timeout_seconds=120) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
    assert names & {"add", "plan", "poll"} == served
    log = (tmp_path / "log").read_text()
    assert ("plan" in log, "poll" in log) == ((False, False) if options else (True, True))


NEEDY = """
from pegboard import tool

@tool(tags=["needs-turn"])
def plan() -> str:
    "Plans."
    return ""

@tool(tags=["needs-tool:missing"])
def poll() -> str:
    "Polls."
    return ""

@tool(tags=["needs-tool:missing", "needs-tool:add"])
def add() -> str:
    "Adds."
    return ""
"""


class Raw:
    """A client that writes and reads lines itself."""

    def __init__(self, process):
        self.process = process

    def write(self, *messages):
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
            self.process.stdin.write(line + b"\n")

    async def read(self):
        line = await asyncio.wait_for(self.process.stdout.readline(), 120)
        return json.loads(line) if line else None

    def call(self, id_, name, **arguments):
        self.write({"id": id_, "method": "tools/call", "params": {"name": name, "arguments": arguments}})

    async def ended(self):
        rest = await asyncio.wait_for(self.process.stdout.read(), 120)
        return [json.loads(line) for line in rest.splitlines()], await asyncio.wait_for(self.process.wait(), 120)


INITIALIZE = {
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
INITIALIZED = {"method": "notifications/initialized"}


@pytest.fixture
def raw(words, tmp_path):
    """Starts the command and shakes hands with it."""

    @asynccontextmanager
    async def raw():
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path, limit=1 << 26
        )
        client = Raw(process)
        try:
            client.write(INITIALIZE, INITIALIZED)
            assert (await client.read())["result"]["protocolVersion"] == "2025-06-18"
            yield client
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    return raw


async def begun(path):
    for _ in range(6_000):
        if path.exists():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the call has not begun")


@pytest.mark.slow
async def test_two_calls_with_one_id_are_both_answered_also_at_the_end(raw, tmp_path):
    async with raw() as client:
        client.call(1, "wait", seconds=0.5, begun=str(tmp_path / "begun"))
        await begun(tmp_path / "begun")
        client.write({"method": "notifications/cancelled", "params": {"requestId": [1]}})
        client.call(1, "echo", text="in between")
        first = await client.read()
        client.process.stdin.close()
        (second,), code = await client.ended()
        answers = sorted((each["id"], each["result"]["content"][0]["text"]) for each in (first, second))
        assert (answers, code) == ([(1, "in between"), (1, "waited")], 0)


@pytest.mark.slow
async def test_a_process_that_is_asked_to_end_answers_running_calls(raw, tmp_path):
    async with raw() as client:
        client.call(1, "wait", seconds=0.5, begun=str(tmp_path / "begun"))
        await begun(tmp_path / "begun")
        client.process.send_signal(signal.SIGTERM)
        (answer,), code = await client.ended()
        assert (answer["id"], answer["result"]["content"][0]["text"], code) == (1, "waited", 0)


@pytest.mark.slow
async def test_invalid_and_too_long_lines_are_answered_with_an_error(raw):
    async with raw() as client:
        for garbage in (b"not json", b"[]", b"\xff\xfe", b'{"jsonrpc": "1.0"}', b"[" * 100_000):
            client.write(garbage)
            assert (await client.read())["error"]["code"] == -32700
        client.write({"id": 1, "method": "no/such"}, {"id": 2, "method": "tools/call", "params": {"name": 3}})
        answers = {answer["id"]: answer["error"]["code"] for answer in (await client.read(), await client.read())}
        assert answers == {1: -32601, 2: -32602}
        client.call(3, "echo", text="x" * 50_000_000)
        assert "longer than" in (await client.read())["error"]["message"]
        client.call(4, "echo", text="still here")
        assert (await client.read())["result"]["content"][0]["text"] == "still here"


@pytest.mark.slow
def test_messages_may_come_from_a_file_and_answers_go_to_one(words, tmp_path):
    text = "x" * 45_000  # more than goes into a pipe at once
    call = {"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": text}}}
    messages = [{"jsonrpc": "2.0", **message} for message in (INITIALIZE, INITIALIZED, call)]
    questions, answers = tmp_path / "questions", tmp_path / "answers"
    questions.write_text("\n".join(map(json.dumps, messages)))  # the last line has no end
    with questions.open() as incoming, answers.open("w") as outgoing:
        done = subprocess.run([sys.executable, *words], stdin=incoming, stdout=outgoing, check=False, timeout=300)
    answer = json.loads(answers.read_text().splitlines()[-1])
    assert (done.returncode, answer["id"], answer["result"]["content"][0]["text"]) == (0, 1, text)


@pytest.mark.slow
async def test_answers_that_fill_the_pipe_arrive_whole_once_they_are_read(raw):
    async with raw() as client:
        client.process.stdout._transport.pause_reading()
        texts = {id_: str(id_) * 45_000 for id_ in range(1, 6)}
        for id_, text in texts.items():
            client.call(id_, "echo", text=text)
        client.process.stdout._transport.resume_reading()
        answers = [await client.read() for _ in range(5)]
        assert {answer["id"]: answer["result"]["content"][0]["text"] for answer in answers} == texts


@pytest.mark.slow
async def test_a_client_that_goes_without_reading_ends_the_process(raw, tmp_path):
    async with raw() as client:
        client.call(1, "wait", seconds=0.2, begun=str(tmp_path / "begun"))
        await begun(tmp_path / "begun")
        client.process.stdout._transport.close()
        client.process.stdin.close()
        assert await asyncio.wait_for(client.process.wait(), 120) == 0


@pytest.mark.slow
async def test_cancellation_at_any_moment_leaves_other_calls_alone(raw, tmp_path):
    async with raw() as client:
        for id_, when in enumerate(("before", "while", "after"), 1):
            cancel = {"method": "notifications/cancelled", "params": {"requestId": id_}}
            if when == "before":
                client.write(cancel)
            seconds = 30 if when == "while" else 0.2
            client.call(id_, "wait", seconds=seconds, begun=str(tmp_path / when))
            if when == "while":
                await begun(tmp_path / when)
                client.write(cancel)
            else:
                assert (await client.read())["id"] == id_
                client.write(cancel)
            client.call(f"other {id_}", "echo", text="still here")
            assert (await client.read())["id"] == f"other {id_}"
        client.process.stdin.close()
        assert await client.ended() == ([], 0)


@pytest.mark.slow
async def test_a_process_serves_over_http_and_answers_running_calls_when_it_is_asked_to_end(words, tmp_path):
    (tmp_path / "pegboard.toml").write_text('[plugins.mcp.serve.tokens]\nann = "token-of-ann-0123"\n')
    words = [*words, "--config", "pegboard.toml", "--http", "127.0.0.1:0", "--where", "not name:echo or user:ann"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stderr=pipe, cwd=tmp_path)
    try:
        line = (await asyncio.wait_for(process.stderr.readline(), 300)).decode()  # covers the start
        url = re.search(r"http://127\.0\.0\.1:\d+/mcp", line)[0]
        async with (
            httpx2.AsyncClient(headers={"Authorization": "Bearer token-of-ann-0123"}, timeout=120) as http,
            httpx2.AsyncClient(headers={"Authorization": "Bearer a-guess"}, timeout=120) as other,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert (await client.call_tool("echo", {"text": "a"})).content[0].text == "a"  # lists the tools, too
            assert (await other.post(url, json={})).status_code == 401
            logged = (await asyncio.wait_for(process.stderr.readline(), 120)).decode()
            assert logged == "pegboard.mcp: POST '/mcp' from 127.0.0.1 was answered with 401\n"
            call = asyncio.create_task(client.call_tool("wait", {"seconds": 0.5, "begun": str(tmp_path / "begun")}))
            await begun(tmp_path / "begun")
            process.send_signal(signal.SIGTERM)
            assert (await call).content[0].text == "waited"
        assert await asyncio.wait_for(process.wait(), 120) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--http", "0.0.0.0:0"], "clients need a token"),
        (["--http", "8000"], "isn't HOST:PORT"),
        (["--http", "127.0.0.1:0", "--token-env", "NOT_SET"], "NOT_SET"),
        (["--token-env", "HOME"], "--token-env is for --http"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_served(capsys, options, text):
    from pegboard.cli.main import main

    assert main(["serve", *options]) != 0
    assert text in capsys.readouterr().err
