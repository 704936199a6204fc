"""Servers that violate the protocol: only their own calls fail, with a clear error in result and log."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pegboard import Limits, Permissions, ReadonlyContext, Rule, ToolRegistry
from pegboard_mcp import mcp_toolset
from pegboard_mcp.inbox import Inbox, parse_message
from pegboard_mcp.settings import ServerError, ServerSettings
from pegboard_mcp.transport import child_process

SERVER = str(Path(__file__).with_name("bad_server.py"))
pytestmark = pytest.mark.slow
ALL = Permissions([Rule("*", "*", "allow")])
PATIENT = Limits(toolset_timeout=300)  # loading the SDK and starting a process may take long


@asynccontextmanager
async def served(fault, **settings):
    """A registry with a server that has a fault, and a good one."""
    async with ToolRegistry(permissions=ALL, limits=PATIENT) as registry:
        for name, kind in (("bad", fault), ("good", "none")):
            given = {"command": sys.executable, "args": ("-I", SERVER, kind)} | (settings if name == "bad" else {})
            registry.register(mcp_toolset(name, **given))
        yield registry


async def called(registry, name="bad__echo", text="hi"):
    return await registry.call(name, {"text": text}, resolved=await registry.resolve())


async def good_works(registry):
    assert (await called(registry, "good__echo")).text == "hi"


@pytest.mark.parametrize("fault", ["garbage", "twice", "asks"])
async def test_harmless_faults_are_ignored(fault, caplog):
    async with served(fault) as registry:
        assert (await called(registry)).text == "hi"
        assert (await called(registry, text="on")).text == "on"
        await good_works(registry)
    assert ("not a message: b'Welcome!" in caplog.text) is (fault == "garbage")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("garbage_for_ever", "1,000 lines to standard output that aren't messages"),
        ("flood", "1,000 messages, and more than 1 a second"),
        ("progress", "1,000 messages, and more than 1 a second"),
        ("long_line", "a line of more than"),
        ("large_result", "a line of more than"),
    ],
)
async def test_exceeding_a_limit_ends_the_connection(fault, words, caplog, monkeypatch):
    monkeypatch.setattr("pegboard_mcp.inbox.MOST_AT_ONCE", 1_000)
    monkeypatch.setattr("pegboard_mcp.inbox.A_SECOND", 1)  # a busy machine may read no more than 500
    async with served(fault, most_bytes=1_000_000) as registry:
        result = await called(registry)
        assert result.kind == "unknown_outcome"
        assert words in result.text
        await good_works(registry)
    assert words in caplog.text


async def test_a_call_that_could_not_be_written_to_the_server_is_sent_to_a_new_one(tmp_path):
    async with served("deaf", args=("-I", SERVER, "deaf", str(tmp_path / "first"))) as registry:
        assert (await called(registry)).text == "hi"


async def test_answers_out_of_order_reach_their_calls():
    async with served("out_of_order") as registry:
        results = await asyncio.gather(called(registry, text="a"), called(registry, text="b"))
        assert [result.text for result in results] == ["a", "b"]


async def test_a_call_that_is_never_answered_ends_at_its_limit():
    async with served("never", timeout=0.2) as registry:
        assert (await called(registry)).kind == "timeout"
        await good_works(registry)


@pytest.mark.parametrize(
    ("fault", "reports", "limits", "kind", "words"),
    [
        ("works", "60", {"timeout": 2, "most_timeout": 120}, None, "60"),
        ("works", "10_000", {"timeout": 2, "most_timeout": 2.5}, "timeout", "within 2.5 s"),
        ("works", "10_000", {"timeout": 0.5}, "timeout", "within 0.5 s"),
        ("never", "0", {"timeout": 0.2, "most_timeout": 120}, "timeout", "reported no progress within 0.2 s"),
    ],
)
async def test_progress_extends_a_limit_up_to_a_maximum_if_the_settings_allow_it(fault, reports, limits, kind, words):
    async with served(fault, **limits) as registry:
        result = await called(registry, text=reports)
        assert (result.kind, words in result.text) == (kind, True), result.text


@pytest.mark.parametrize(
    ("fault", "settings", "words"),
    [
        ("silent", {"start_timeout": 0.5}, "it didn't start within 0.5 s"),
        ("version", {}, "Unsupported protocol version"),
        ("no_such_file", {"cwd": "/nowhere"}, "no folder '/nowhere'"),
        ("none", {"command": "python x.py"}, 'put arguments into args: command = "python", args = ["x.py"]'),
    ],
)
async def test_a_server_that_does_not_start_is_named_with_the_cause(fault, settings, words):
    async with served(fault, **settings) as registry:
        problems = " ".join(map(str, (await registry.resolve()).problems))
        assert "toolset 'bad'" in problems
        assert words in problems
        await good_works(registry)


async def test_tools_that_come_late_are_announced(tmp_path):
    file, changed, loop = tmp_path / "now", asyncio.Event(), asyncio.get_running_loop()
    begun = tmp_path / "now.begun"
    toolset = mcp_toolset("bad", command=sys.executable, args=("-I", SERVER, "late", str(file)))
    toolset.on_change(lambda: loop.call_soon_threadsafe(changed.set))
    asking = asyncio.create_task(toolset.tools(ReadonlyContext()))
    while not begun.exists():  # noqa: ASYNC110  the server has no other way to signal
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    with pytest.raises(ServerError, match="is still starting"):  # the others' tools wait for it once only
        await toolset.tools(ReadonlyContext())
    file.touch()
    await asyncio.wait_for(changed.wait(), 60)
    assert [tool.name for tool in await toolset.tools(ReadonlyContext())] == ["bad__echo", "bad__reverse"]
    await toolset.close()


async def test_concurrent_resolutions_wait_for_a_slow_server(tmp_path):
    file = tmp_path / "now"
    async with ToolRegistry(permissions=ALL, limits=PATIENT) as registry:
        registry.register(mcp_toolset("late", command=sys.executable, args=("-I", SERVER, "late", str(file))))
        asking = [asyncio.create_task(registry.resolve()) for _ in range(2)]
        assert await asyncio.wait(asking, timeout=1) == (set(), {*asking})
        file.touch()
        assert [len(await each) for each in asking] == [2, 2]


async def test_a_server_that_starts_slowly_is_named_with_the_command_that_waits_for_it(tmp_path):
    settings = {"command": sys.executable, "args": ("-I", SERVER, "late", str(tmp_path / "never"))}
    async with ToolRegistry(limits=Limits(toolset_timeout=1)) as registry:
        registry.register(mcp_toolset("bad", accepted=str(tmp_path / "accepted.json"), **settings))
        (problem,) = (await registry.resolve()).problems
    assert "no answer within 1 s (toolset_timeout); 'registry mcp accept bad' waits" in str(problem)


@pytest.mark.parametrize(("name", "words"), [("client", "begin with 'client_'"), ("a__b", "single '_'")])
def test_a_server_name_that_could_be_a_tools_prefix_is_refused(name, words):
    with pytest.raises(ValueError, match=words):
        mcp_toolset(name, command="x")


async def test_a_server_that_gives_itself_another_name_is_held_back(tmp_path):
    file = str(tmp_path / "accepted.json")
    for name, kind, words in (("bad", None, "hi"), ("evil", "tool_failure", "isn't the one that was accepted")):
        async with served("none", accepted=file, env={"NAME": name}) as registry:
            result = await called(registry)
            assert (result.kind, words in result.text) == (kind, True), result.text
            resolved = await registry.resolve(where="toolset:bad")
    assert resolved.names == ()
    assert "it was the server 'bad' when it was accepted, and is 'evil' now" in str(resolved.problems[0])


async def test_a_command_may_be_given_with_its_arguments():
    async with served("none", command=[sys.executable, "-I", SERVER, "none"], args=None) as registry:
        assert (await called(registry)).text == "hi"


@pytest.mark.parametrize("args", ["-v", 3])
def test_arguments_beside_a_command_list_must_be_a_list(args):
    with pytest.raises(ValueError, match="args: must be"):
        mcp_toolset("bad", command=["server"], args=args)


@pytest.mark.parametrize("name", ["start_timeout", "timeout", "most_timeout", "most_bytes", "most_tools"])
def test_a_limit_of_0_or_less_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}: must be above 0"):
        mcp_toolset("bad", command="server", **{"timeout": 1, name: -1})


async def test_of_too_many_tools_the_first_are_offered():
    async with served("many_tools") as registry:
        offered = await registry.resolve()
        assert sum(name.startswith("bad__") for name in offered.names) == 5_000
        assert "it lists more than 5,000 tools (most_tools)" in str(offered.problems[0])


async def test_a_list_without_an_end_ends():
    async with served("endless_pages") as registry:
        assert (await registry.resolve()).names == ("good__echo", "good__reverse")


async def test_one_bad_tool_costs_one_tool():
    async with served("bad_tools") as registry:
        offered = await registry.resolve(where="toolset:bad")
        names = {tool.spec.original_name: tool.name for tool in offered}
        assert set(names) == {"echo", "twice", "es\x1b[31mcape\u202e", "a b/c", "x" * 200}
        assert offered.get("bad__twice").spec.description == "the first"
        assert all(name.startswith("bad__") and name.isascii() and len(name) <= 64 for name in names.values())
        assert "\x1b" not in offered.get(names["es\x1b[31mcape\u202e"]).spec.description
        problems = " ".join(str(problem) for problem in offered.problems)
        bad = ("remote", "deep", "hidden", "any_text", "list_schema", "header", "wrong_type", "number_text", "hints")
        bad += ("list_properties", "null_property")
        for name in bad:
            assert f"tool {name!r}" in problems or f"tool 'bad__{name}'" in problems
        assert "tool 15 of its list has no name" in problems
        assert "tool 'twice': listed twice with different definitions; the first is used" in problems
        assert "tool 'a b/c'" not in problems  # listed twice with one definition
        assert (await called(registry, names["a b/c"])).text == "hi"


@pytest.mark.parametrize("fault", ["no_list", "wrong_item", "broken_base64", "number"])
async def test_an_invalid_result_is_an_error_result(fault):
    async with served(fault) as registry:
        result = await called(registry)
        assert (result.kind, "echo" in result.text) == ("invalid_output", True)
        await good_works(registry)


CONTENT = '{"jsonrpc":"2.0","id":ID,"result":{"content":[%s]}}'
TEXT = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"%s"}]}}'
IMAGE = CONTENT.replace(
    "[%s]", '[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}],"structuredContent":%s'
)


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (TEXT % "a \\ud83d b", None, "a \ufffd b"),
        (TEXT % "a \\ud83d\\ude00 \t b", None, "a \U0001f600 \t b"),
        (TEXT % "caf\xe9", None, "caf\ufffd"),
        ("\xef\xbb\xbf" + TEXT % "a", None, "a"),
        (TEXT % 'say "hi"', "invalid_output", "its answer can't be read"),
        ('{"result":{"content":[,]},"jsonrpc":"2.0","id":ID}', "invalid_output", "its answer can't be read"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"content":', "invalid_output", "its answer can't be read"),
        ('{"jsonrpc":"2.0","id":ID,"result":{"n":' + "9" * 5_000 + "}}", "invalid_output", "its answer can't be read"),
        ('[{"jsonrpc":"2.0","id":ID,"result":{}}]', "invalid_output", "its answer can't be read"),
        ('{"jsonrpc":"2.0","id":true,"result":{}}\n' + TEXT % "a", None, "a"),
        ('{"id":ID,"jsonrpc":"2.0","result":{"content":[],"structuredContent":{"a":[1]}}}', None, '{"a":[1]}'),
        ('{"id":ID,"jsonrpc":"2.0","result":{"structuredContent":{"a":NaN}}}', None, '{"a":null}'),
        ('{"id":ID,"jsonrpc":"2.0","result":{"isError":true}}', "tool_failure", "failed; the server gave no reason."),
        ('{"id":ID,"jsonrpc":"2.0","result":{"content":[]}}', None, ""),
        ('{"id":ID,"jsonrpc":"2.0","error":"no such note"}', "tool_failure", "failed at the server: no such note"),
        ('{"jsonrpc":"2.0","error":{"message":"no note"},"id":ID}', "tool_failure", "failed at the server: no note"),
        ('{"id":ID,"jsonrpc":"2.0","error":{"code":1}}', "invalid_output", "its answer can't be read"),
        (CONTENT % '{"type":"hologram","data":"?"},{"type":"text","text":"b"}', None, "unknown type 'hologram')\nb"),
        (CONTENT % '{"type":"error","text":"no such note"}', None, "no such note"),
        ("\x1b[32m> " + TEXT % "a", None, "a"),
        ('{"level":30,"id":ID,"msg":"done"}\n' + TEXT % "a", None, "a"),
        (
            '{"id":ID,"jsonrpc":"2.0","result":{"content":null,"isError":null,"structuredContent":{"a":1}}}',
            None,
            '{"a":1}',
        ),
        (IMAGE % '{"a":[1]}', None, '{"a":[1]}'),
    ],
)
async def test_an_odd_answer_is_read_or_refused_at_once(answer, kind, text):
    async with served("raw") as registry:
        result = await called(registry, text=answer)
        assert (result.kind, text in result.text) == (kind, True), result.text


@given(
    id_=st.integers(0, 2**31) | st.text("abc1-", max_size=5),
    broken=st.binary().filter(lambda text: b'"id"' not in text),
    comes_first=st.booleans(),
)
def test_an_answer_with_any_bytes_in_it_reaches_its_call(id_, broken, comes_first):
    members = [b'"jsonrpc": "2.0"', b'"id": ' + json.dumps(id_).encode(), b'"result": {"a": ' + broken + b"}"]
    message = parse_message(b"{" + b", ".join(members if comes_first else members[::-1]) + b"}")
    assert message is not None
    assert message.id == id_


async def test_an_error_of_the_protocol_is_shown_with_nothing_hidden():
    async with served("error") as registry:
        result = await called(registry)
        assert (result.kind, "inside\\u{1b}[31m" in result.text) == ("tool_failure", True)


async def test_nothing_is_left_behind_by_servers_that_flood_or_ignore_their_input():
    before = set(children())
    for fault in ("long_line", "silent"):
        async with served(fault, most_bytes=10_000, start_timeout=0.5) as registry:
            await called(registry)
    until(lambda: set(children()) <= before)


@pytest.mark.parametrize("steps", range(8))
async def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing_behind(tmp_path, steps):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def run():
        settings = ServerSettings(command="sh", args=("-c", f"exec 9>{path}; sleep 600 & wait"))
        async with child_process("bad", settings, Inbox()):
            await asyncio.Event().wait()

    starting = asyncio.create_task(run())
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])
    for _ in range(6_000):
        if not is_held(reading):
            break
        await asyncio.sleep(0.01)
    else:
        raise AssertionError("a process is still running")
    os.close(reading)


def is_held(pipe):
    """Whether some process may still write to a pipe."""
    try:
        return os.read(pipe, 1) != b""
    except BlockingIOError:
        return True


async def test_a_call_that_comes_as_the_connection_is_closed_is_answered(monkeypatch):
    monkeypatch.setattr("pegboard_mcp.connection.FIRST_WAIT", 0.0)  # the server may be started again at once
    blocked, released = threading.Event(), threading.Event()

    async def hold(_client):
        blocked.set()
        released.wait()

    good = mcp_toolset("good", command=sys.executable, args=("-I", SERVER, "none"))
    missing = await mcp_toolset("missing", command="no-such-program").connection()
    with pytest.raises(ServerError, match="no program"):
        await missing.start()
    holding = asyncio.create_task((await good.connection()).ask(hold))  # blocks the thread of all connections
    await asyncio.to_thread(blocked.wait, 60)
    answers = asyncio.gather(missing.start(), missing.close(), return_exceptions=True)
    await asyncio.sleep(0)
    released.set()
    refused, closed = await asyncio.wait_for(answers, 60)
    assert ("connection to the server 'missing' was closed" in str(refused), closed) == (True, None)
    await holding
    await good.close()


PROGRAM = """
import asyncio, sys
from pegboard import Limits, ToolRegistry
from pegboard_mcp import mcp_toolset

async def main():
    registry = ToolRegistry(limits=Limits(toolset_timeout=300))
    registry.register(mcp_toolset("bad", command=sys.executable, args=("-I", *sys.argv[1:])))
    print((await registry.resolve()).names)

asyncio.run(main())
"""


def test_a_program_that_ends_without_closing_leaves_no_server_behind(tmp_path):
    """Not even one that ignores the end of its input and SIGTERM."""
    words = [sys.executable, "-c", PROGRAM, SERVER, "stays", str(tmp_path / "process")]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    assert done.stdout == "('bad__echo', 'bad__reverse')\n"
    process = (tmp_path / "process").read_text()
    until(lambda: state(process) in ("", "Z"))


FORKED = """
import asyncio, os, sys
from pegboard import Limits, Permissions, Rule, ToolRegistry
from pegboard_mcp import mcp_toolset

registry = ToolRegistry(permissions=Permissions([Rule("*", "*", "allow")]), limits=Limits(toolset_timeout=300))
registry.register(mcp_toolset("bad", command=sys.executable, args=("-I", *sys.argv[1:]), timeout=30))

def call():
    print(asyncio.run(registry.call("bad__echo", {"text": "hi"})).text, flush=True)

call()
child = os.fork()
call()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
call()
"""


def test_a_forked_process_has_a_server_of_its_own():
    words = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", FORKED, SERVER, "none"]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    assert (done.stdout, done.stderr) == ("hi\n" * 4, "")


def state(process):
    """The state of a process, empty if there is none."""
    try:
        return Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def until(condition):
    """Waits until something holds: a process that was killed may still take a moment to end."""
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def children():
    """The processes that this one has started and that are still there."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            facts = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if facts[1] == str(os.getpid()):
            yield process.name
