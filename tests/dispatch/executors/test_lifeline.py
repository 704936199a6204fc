from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from dispatch.executors.watching import PATIENCE, is_there, until, written

TESTS = Path(__file__).parents[2]

PARENT = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from dispatch.executors.isolated_tools import tool_named
from pegboard.dispatch.executors.executor import SILENCE
from pegboard.dispatch.executors.processes import ChildProcesses
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.tools.context import ToolContext

name, arguments = sys.argv[2], {"pid_file": sys.argv[3]}
pool = ChildProcesses()
request = ExecutionRequest(tool=name, arguments=arguments)
print(asyncio.run(pool.execute_tool(tool_named(name), request, ToolContext(), SILENCE)).output, flush=True)
sys.stdin.read()
"""

CHILD = """
import fcntl, os, sys
{first}
from pegboard.dispatch.executors.lifeline import die_with
die_with(int(sys.argv[1]))
os.fork()
os.write(1, b"b")
while True:
    pass
"""


@contextmanager
def bound_child(reading, first=""):
    """A child and its own child, both bound to a pipe; both would go on for ever."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD.format(first=first), str(reading)],
        pass_fds=[reading],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        os.close(reading)
        try:
            yield child.stdout
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        assert child.stdout.read() == b""  # nobody is left who holds the other end
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("first", ["", "del fcntl.F_SETSIG"], ids=["by the kernel", "by a thread"])
def test_the_whole_group_ends_with_the_other_end_of_the_pipe(first):
    reading, writing = os.pipe()
    with bound_child(reading, first) as said:
        assert said.read(2) == b"bb"
        os.close(writing)


def test_a_parent_that_has_ended_already_ends_the_child_at_once():
    reading, writing = os.pipe()
    os.close(writing)
    with bound_child(reading):
        pass


@pytest.mark.parametrize("tool", ["sleep_on", "fork_and_go"])
def test_children_and_what_they_have_started_end_with_a_parent_that_is_killed(tmp_path, tool):
    """`sleep_on` ignores the signal to end and is in the middle of its call; `fork_and_go` has started another."""
    file = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(TESTS), tool, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        pid = int(written(file))
        assert is_there(pid)
        parent.kill()
        until(lambda: not is_there(pid))


def test_a_parent_that_ends_by_itself_leaves_no_child(tmp_path):
    """Nobody has closed the pool; it is ended at the interpreter's exit."""
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
