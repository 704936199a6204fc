from __future__ import annotations

import json
import pickle
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from running import PATIENCE, call_of, is_there, until, written

from pegboard_processes import child as module
from pegboard_processes.rpc import Connection, Frames, Reply, frame
from pegboard_processes.task import task_for

TESTS = Path(__file__).parent

PARENT = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from running import execute
from pegboard_processes import ChildProcesses

pool = ChildProcesses()
print(asyncio.run(execute(pool, sys.argv[2], pid_file=sys.argv[3])).output, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["sleep_on", "fork_and_go"])
def test_children_and_their_processes_end_with_a_parent_that_is_killed(tmp_path, tool):
    """`sleep_on` ignores SIGTERM during its call; `fork_and_go` has started another process."""
    file = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(TESTS), tool, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        pid = int(written(file))
        assert is_there(pid)
        parent.kill()
        until(lambda: not is_there(pid))


@pytest.mark.slow
def test_a_parent_that_exits_leaves_no_child(tmp_path):
    """The pool isn't closed; its children are ended at the interpreter's exit."""
    file = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(TESTS), "fork_and_go", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as parent:
        assert parent.stdout.readline() == b"gone\n"
        _, errors = parent.communicate(timeout=PATIENCE)
    assert (parent.returncode, errors) == (0, b"")
    until(lambda: not is_there(int(file.read_text())))


# Tasks ----------------------------------------------------------------------------------------------------------------


def test_a_reply_that_comes_after_its_call_is_ignored():
    link, other = socket.socketpair()
    call = call_of("add")
    with link, other:
        for message in (Reply(1, "late"), task_for(call, call.request, (1, 2), {})):
            link.sendall(frame(pickle.dumps(message)))
        link.shutdown(socket.SHUT_WR)
        module.Server(Connection(other, 10_000)).serve()
        *_, body = Frames(10_000).feed(link.recv(10_000))
    assert json.loads(body)["response"]["structuredContent"] == {"result": 3}


# Memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "during"),
    [
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (1 << 30, resource.RLIM_INFINITY)),
        ((1 << 28, 1 << 29), (1 << 28, 1 << 29)),
    ],
    ids=["free", "limited already"],
)
def test_a_memory_limit_is_restored_and_never_raises_one(monkeypatch, own, during):
    limits = []
    monkeypatch.setattr(module.resource, "getrlimit", lambda _: own)
    monkeypatch.setattr(module.resource, "setrlimit", lambda _, limit: limits.append(limit))
    with module._memory_limit(1 << 30):
        assert limits == [during]
    assert limits[1:] == [own]
