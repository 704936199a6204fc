"""Sessions: commands that run on between calls."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from pegboard import Once, Permissions, ReadonlyContext, Reject, Rule
from pegboard.testing import ScriptedApprover
from pegboard_shell.output import TextBuffer


@pytest.fixture
def start(make_registry):
    """Starts a session; returns the registry and the result."""

    async def run(command, registry=None, **arguments):
        registry = registry or make_registry()
        result = await registry.call("shell", {"command": command, "background": True, **arguments})
        return registry, result

    return run


async def test_a_session_is_written_to_and_polled_until_its_end(start):
    registry, started = await start("while read -r line; do echo got $line; done; exit 5", wait=0.01)
    key = started.metadata["session"]
    assert f'poll_session(session="{key}")' in started.text
    arguments = {"session": key, "text": "one\n", "until": "got one\n", "wait": 60}
    written = await registry.call("write_stdin", arguments)
    assert written.text.startswith("got one\n[Session ")
    arguments = {"session": key, "text": "two\n", "close": True, "wait": 60}
    ended = await registry.call("write_stdin", arguments)
    assert ended.text.startswith("got two\n[Exit code 5, ")
    gone = await registry.call("poll_session", {"session": key})
    assert gone.is_error
    assert "You have none" in gone.text


async def test_a_poll_waits_for_the_end_and_returns_new_output(start, fifo):
    gate = fifo()
    registry, started = await start(f"echo first; cat {gate}; echo last", until="first\n", wait=60)
    assert started.text.startswith("first\n[Session ")
    polling = asyncio.create_task(registry.call("poll_session", {"session": started.metadata["session"], "wait": 60}))
    await asyncio.to_thread(gate.write_text, "more\n")
    assert (await polling).text.startswith("more\nlast\n[Exit code 0, ")


async def test_a_command_that_ends_before_its_wait_leaves_no_session(start):
    _registry, result = await start("echo done", wait=60)
    assert result.text.startswith("done\n[Exit code 0, ")
    assert "session" not in result.metadata


async def test_a_session_belongs_to_its_user_and_conversation(make_registry):
    registry = make_registry()
    mine = ReadonlyContext(user="ann", session="1")
    started = await registry.call("shell", {"command": "cat", "background": True, "wait": 0.01}, context=mine)
    key = started.metadata["session"]
    for other in (ReadonlyContext(user="bob", session="1"), ReadonlyContext(user="ann", session="2"), None):
        for name, more in (("poll_session", {}), ("write_stdin", {"text": "x"}), ("end_session", {})):
            refused = await registry.call(name, {"session": key, **more}, context=other)
            assert refused.is_error
            assert key not in refused.text.partition("There are")[2]
    assert not (await registry.call("end_session", {"session": key}, context=mine)).is_error


async def test_sessions_are_limited_and_ended_ones_make_room(make_registry):
    registry = make_registry(sessions=2)
    keys = []
    for _ in range(2):
        started = await registry.call("shell", {"command": "cat", "background": True, "wait": 0.01})
        keys.append(started.metadata["session"])
    refused = await registry.call("shell", {"command": "cat", "background": True, "wait": 0.01})
    assert refused.is_error
    assert keys[0] in refused.text
    closing = {"session": keys[0], "text": "\n", "close": True, "wait": 0.001, "until": "\n"}
    await registry.call("write_stdin", closing)
    ended = await registry.call("end_session", {"session": keys[0]})
    assert ended.is_error or "Exit code" in ended.text
    again = await registry.call("shell", {"command": "cat", "background": True, "wait": 0.01})
    assert not again.is_error


async def test_sessions_that_start_at_once_are_limited(make_registry):
    registry, arguments = make_registry(sessions=1), {"command": "cat", "background": True, "wait": 0.01}
    results = await asyncio.gather(*(registry.call("shell", arguments) for _ in range(2)))
    await registry.aclose()
    assert sorted(result.is_error for result in results) == [False, True]


async def test_a_program_that_doesnt_read_doesnt_block_the_call(start):
    registry, started = await start("sleep 10000", wait=0.01)
    key = started.metadata["session"]
    for _ in range(4):
        written = await registry.call("write_stdin", {"session": key, "text": "x" * 30_000, "wait": 0.001})
    assert "bytes were written: the command isn't reading" in written.text
    await registry.call("end_session", {"session": key})


async def test_writing_to_a_closed_input_is_an_error(start):
    registry, started = await start("exec <&-; echo closed; sleep 10000", until="closed", wait=60)
    refused = await registry.call("write_stdin", {"session": started.metadata["session"], "text": "x\n"})
    assert refused.is_error
    assert "has closed its stdin" in refused.text
    await registry.call("end_session", {"session": started.metadata["session"]})


async def test_output_of_a_session_between_two_polls_is_limited(make_registry):
    registry = make_registry(output_limit=1 << 16)
    command = "yes 0123456789 | head -c 5000000; echo; echo end; cat"
    started = await registry.call("shell", {"command": command, "background": True, "until": "\nend\n", "wait": 60})
    assert started.metadata["lost_bytes"] > 4_000_000
    ended = await registry.call("end_session", {"session": started.metadata["session"]})
    assert ended.metadata["output_bytes"] == 0


@pytest.mark.parametrize(("size", "on_the_loop"), [(1_000, True), (2_000_000, False)])
async def test_long_output_is_converted_off_the_loop(run, monkeypatch, size, on_the_loop):
    threads, taken = [], TextBuffer.take

    def recording(buffer):
        threads.append(threading.current_thread())
        return taken(buffer)

    monkeypatch.setattr(TextBuffer, "take", recording)
    assert (await run(f"yes | head -c {size}")).metadata["output_bytes"] == size
    assert [each is threading.main_thread() for each in threads] == [on_the_loop]


async def test_an_interrupted_poll_leaves_the_session_and_its_output(start, fifo):
    gate = fifo()
    registry, started = await start(f"cat {gate}; cat", wait=0.01)
    key = started.metadata["session"]
    polling = asyncio.create_task(registry.call("poll_session", {"session": key, "wait": 60}))
    await asyncio.to_thread(gate.write_text, "more\n")
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    polled = await registry.call("poll_session", {"session": key, "until": "more", "wait": 60})
    assert polled.text.startswith("more\n")
    await registry.call("end_session", {"session": key})


async def test_an_interrupted_start_leaves_no_session(make_registry, fifo, is_running, join):
    registry, ready = make_registry(sessions=1), fifo()
    command = f"echo $$ > {ready}; exec sleep 10000"
    starting = asyncio.create_task(registry.call("shell", {"command": command, "background": True, "wait": 60}))
    pid = int(await asyncio.to_thread(ready.read_text))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.to_thread(join)
    assert not is_running(pid)
    assert not (await registry.call("shell", {"command": "true", "background": True, "wait": 60})).is_error


def test_a_session_outlives_its_event_loop(make_registry):
    registry = make_registry()
    command = {"command": "read -r line; echo $line", "background": True, "wait": 0.01}
    started = asyncio.run(registry.call("shell", command))
    arguments = {"session": started.metadata["session"], "text": "hello\n", "wait": 60}
    assert asyncio.run(registry.call("write_stdin", arguments)).text.startswith("hello\n[Exit code 0, ")


@pytest.mark.slow
def test_sessions_end_with_their_registry(make_registry, join, is_running):
    registry = make_registry()
    arguments = {"command": "echo $$; exec sleep 10000", "background": True, "until": "\n", "wait": 60}
    pid = int(asyncio.run(registry.call("shell", arguments)).text.split()[0])
    assert is_running(pid)
    del registry
    for _ in range(1_000):  # the thread that has served the call may hold it a moment longer
        gc.collect()
        if not is_running(pid):
            break
    join()
    assert not is_running(pid)


async def test_closing_the_registry_ends_its_sessions(start, is_running):
    arguments = {"until": "\n", "wait": 60}
    registry, started = await start("trap '' TERM; echo $$; sleep 10000; sleep 10000", **arguments)
    pid = int(started.text.split()[0])
    await registry.aclose()
    assert not is_running(pid)
    _, again = await start("echo $$; exec sleep 10000", registry, **arguments)
    await registry.aclose()
    assert not is_running(int(again.text.split()[0]))


async def test_a_session_is_ended_at_its_limit(start):
    _, ended = await start("exec sleep 10000", timeout=0.3, wait=60)
    assert ended.metadata["exit_code"] == 124
    assert (
        "It was killed at its time limit of 0.3 s. Start it again without timeout to run it without a limit."
        in ended.text
    )


async def test_input_without_a_sandbox_asks_and_the_prompt_shows_the_command(start, make_registry):
    registry = make_registry(mode="default")
    with ScriptedApprover([Once(), Reject("no")]) as approver:
        registry.approver = approver
        _, started = await start("cat", registry, wait=0.01)
        key = started.metadata["session"]
        refused = await registry.call("write_stdin", {"session": key, "text": "rm -rf x\n"})
        assert refused.is_error
        assert not (await registry.call("end_session", {"session": key})).is_error, "ending it needs no confirmation"
    assert "Write to a running command: cat" in approver.requests[1].to_text()


async def test_input_is_denied_by_rules_for_the_shell(start):
    registry, started = await start("cat", wait=0.01)
    key = started.metadata["session"]
    registry.permissions = Permissions([Rule("shell", "curl *", "deny", forbid=True)], mode="bypass")
    refused = await registry.call("write_stdin", {"session": key, "text": "echo a; sudo curl x\n"})
    assert refused.kind == "denied"
    assert (await registry.call("end_session", {"session": key})).metadata["output_bytes"] == 0
