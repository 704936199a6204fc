"""Programs that hang, flood, fork or are cancelled, and that no process is left."""

from __future__ import annotations

import asyncio
import os
import secrets
import select
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import frozen
from hypothesis import given, strategies as st

from pegboard import programs
from pegboard.programs import JOB, OutputBuffer, ProcessTree, RunningProgram, running


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine, a killed process may take a while to end."""
    monkeypatch.setattr(running, "_DEATH_SECONDS", 60.0)
    monkeypatch.setattr(programs.tree, "_DEATH_SECONDS", 60.0)


@frozen
class Lifeline:
    """A named pipe that a program and its processes hold open.

    Attributes:
        path: Its path.
        hold: The beginning of a shell line that holds it open.
    """

    path: Path
    hold: str
    descriptor: int

    def wait(self, seconds=60.0):
        """Waits until something was written to it, or all who held it open have ended."""
        poller = select.poll()
        poller.register(self.descriptor, select.POLLIN)
        assert poller.poll(seconds * 1_000), "a process still runs"
        return os.read(self.descriptor, 100)

    def is_released(self):
        try:
            return os.read(self.descriptor, 100) == b""
        except BlockingIOError:
            return False


@pytest.fixture
def lifeline(tmp_path):
    path = tmp_path / "lifeline"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield Lifeline(path, f"exec 9>{path}; ", descriptor)
    os.close(descriptor)


def program_of(line, **options):
    return RunningProgram(["sh", "-c", line], OutputBuffer(1 << 16), **options)


async def run(line, **options):
    program = program_of(line, **options)
    program.start()
    await program.wait()
    assert program.is_over
    return program


def text_of(program):
    head, lost, tail = program.output.parts()
    assert not lost
    return (head + tail).decode()


async def test_a_program_reads_and_writes():
    errors = OutputBuffer(100)
    program = await run('read a; echo "got $a"; echo bad >&2; exit 3', stdin=b"this\n", errors=errors)
    assert (program.code, text_of(program), errors.parts()) == (3, "got this\n", (b"bad\n", 0, b""))
    assert text_of(await run("cat; read line || echo nothing; echo bad >&2")) == "nothing\nbad\n"


async def test_long_input_is_written_while_output_is_read():
    data = secrets.token_bytes(100_000).hex().encode() * 100
    program = RunningProgram(["cat"], OutputBuffer(len(data)), stdin=data)
    program.start()
    await program.wait()
    assert b"".join(program.output.parts()[::2]) == data
    assert text_of(await run("exec 0<&-; echo done", stdin=data)) == "done\n"


async def test_input_can_be_written_while_it_runs():
    program = program_of("while read -r line; do echo got $line; done; exit 5", stdin=None)
    program.start()
    assert await program.until(lambda: program.pid is not None)
    assert program.write(b"one\n") == 4
    assert await program.until(lambda: b"got one\n" in program.output.head)
    program.close_input()
    assert await program.until(None, 60)
    assert program.code == 5
    with pytest.raises(BrokenPipeError):
        program.write(b"two\n")


async def test_a_program_that_cant_be_started_fails():
    program = RunningProgram(["/nosuch/program"], OutputBuffer(100))
    program.start()
    await program.wait()
    assert (program.is_over, program.pid, type(program.failure)) == (True, None, FileNotFoundError)


async def test_a_thread_that_cant_be_started_is_its_failure(monkeypatch):
    def refuse(_self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", refuse)
        program = program_of("true")
        program.start()
    program.end(now=True)
    program.join(60)  # as at exit
    assert (program.is_over, program.pid, type(program.failure)) == (True, None, RuntimeError)


async def test_a_program_that_never_ends_is_ended_at_its_limit(lifeline):
    program = await run(f"{lifeline.hold} sleep 10000; sleep 10000", limit=0.2)
    assert (program.timed_out, program.code) == (True, -15)
    assert lifeline.is_released()


async def test_a_limit_that_has_long_passed_leaves_time_to_end_the_program():
    """As after this process was stopped for a while, with Ctrl-Z."""
    program = program_of("sleep 10000", limit=1.0)
    program.started -= 3600
    program.start()
    await program.wait()
    assert (program.is_over, program.timed_out) == (True, True)


async def test_a_program_that_ignores_sigterm_is_killed_with_its_children(lifeline):
    program = program_of(f"trap '' TERM; {lifeline.hold} sh -c 'echo >&9; sleep 10000; sleep 10000'", grace=0.1)
    program.start()
    assert await asyncio.to_thread(lifeline.wait) == b"\n"
    program.end()
    await program.wait()
    assert program.code == -9
    assert lifeline.is_released()


async def test_a_program_may_clean_up_on_sigterm():
    program = program_of(
        "trap 'echo cleaned; exit 3' TERM; echo ready; while :; do sleep 0.01; done 2> /dev/null", grace=60
    )
    program.start()
    assert await program.until(lambda: b"ready" in program.output.head, 60)
    program.end()
    await program.wait()
    assert (program.code, text_of(program)) == (3, "ready\ncleaned\n")


async def test_endless_output_ends_at_the_limit():
    program = await run("yes", limit=0.3)
    head, lost, tail = program.output.parts()
    assert (program.timed_out, len(head), len(tail)) == (True, 1 << 15, 1 << 15)
    assert lost == program.output.size - (1 << 16)


@pytest.mark.parametrize(
    ("line", "floods"), [("yes", True), ("head -c 65537 /dev/zero", True), ("head -c 65536 /dev/zero", False)]
)
async def test_a_program_may_be_ended_when_it_writes_too_much(line, floods):
    program = await run(line, ends_floods=True, grace=0.1)
    assert (program.flooded, program.timed_out) == (floods, False)


async def test_children_that_a_program_leaves_are_ended_and_counted(lifeline):
    program = await run(f"{lifeline.hold} (sleep 10000 & sleep 10000) & echo >&9")
    assert program.code == 0
    assert lifeline.wait() == b"\n"
    assert lifeline.is_released()


async def test_processes_that_have_left_the_group_are_ended(lifeline):
    """The program ends once its daemon runs, which takes a while to release its memory when killed."""
    daemon = """
import os, signal
if os.fork():
    os._exit(0)
os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
much = b"x" * 100_000_000
os.closerange(0, 3)
os.write(9, b"ready")
signal.pause()
"""
    program = program_of(f'{lifeline.hold} {sys.executable} -c "$CODE"; read line', stdin=None, env={"CODE": daemon})
    program.start()
    assert await asyncio.to_thread(lifeline.wait) == b"ready"
    program.close_input()
    await program.wait()
    assert (program.leftovers.ended, program.leftovers.running) == (1, ())
    assert lifeline.is_released()


async def test_a_daemon_may_be_spared(lifeline):
    os.mkfifo(gate := f"{lifeline.path}2")
    line = f"{lifeline.hold} setsid sh -c 'echo >&9; read line < {gate}' > /dev/null 2>&1 & cat {gate}"
    program = program_of(line, tree=ProcessTree(finds_daemons=False))
    program.start()
    assert await asyncio.to_thread(lifeline.wait) == b"\n"
    program.end(now=True)
    await program.wait()
    assert not lifeline.is_released()
    await asyncio.to_thread(Path(gate).write_text, "\n")
    assert await asyncio.to_thread(lifeline.wait) == b""


async def test_the_marks_of_trees_are_inherited(monkeypatch):
    monkeypatch.setenv(JOB, "outer")
    outer, own = text_of(await run(f"echo ${JOB}", env={})).split()
    assert (outer, len(own)) == ("outer", 16)
    assert text_of(await run(f"echo ${JOB}", tree=ProcessTree(finds_daemons=False))) == "outer\n"


@pytest.mark.slow
async def test_a_process_that_cant_be_found_is_reported(lifeline):
    """It has neither the group nor the environment of its program, but holds the output."""
    os.mkfifo(gate := f"{lifeline.path}2")
    program = program_of(f"{lifeline.hold} setsid env -i sh -c 'echo >&9; read line < {gate}' & read line", stdin=None)
    program.start()
    assert await asyncio.to_thread(lifeline.wait) == b"\n"
    program.close_input()
    await program.wait()
    assert program.leftovers.holds_output
    await asyncio.to_thread(Path(gate).write_text, "\n")


async def test_other_processes_may_finish_their_output():
    line = "(sleep 0.1; echo late) & echo early"
    assert text_of(await run(line, linger=60)) == "early\nlate\n"
    assert text_of(await run(line)) == "early\n"


async def test_a_program_may_close_its_output_and_run_on(lifeline):
    program = await run(f"{lifeline.hold} exec >&- 2>&-; sleep 0.05; echo >&9")
    assert (program.code, lifeline.wait()) == (0, b"\n")


async def test_cancellation_at_any_moment_leaves_no_process(lifeline):
    for steps in [*range(0, 30, 3), 100, 300, 1_000, 3_000]:
        calling = asyncio.create_task(run(f"trap '' TERM; {lifeline.hold} sleep 10000; sleep 10000"))
        for _ in range(steps):
            await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert lifeline.is_released(), steps


async def test_without_pidfd_the_end_is_polled_for(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    assert (await run("echo hallo; exit 4")).code == 4
    assert (await run("sleep 10000", limit=0.2)).timed_out
    assert (await run("sleep 10000 &", limit=60)).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "daemon"), [("sys.exit()", "setsid sleep 10000 &"), ("os._exit(1)", ""), ("os.kill(os.getpid(), 9)", "")]
)
def test_programs_end_with_this_process(lifeline, end, daemon):
    """Also processes that have left the group of a running program, if this process isn't killed."""
    code = f"""
import asyncio, os, subprocess, sys
from pegboard.programs import OutputBuffer, ProcessTree, RunningProgram
hold, line = "trap '' TERM HUP; {lifeline.hold}", "echo ready >&9; sleep 10000; sleep 10000"
program = RunningProgram(["sh", "-c", hold + "{daemon} " + line], OutputBuffer(100))
program.start()
assert asyncio.run(program.until(lambda: program.pid is not None))
tree = ProcessTree()
tree.add(subprocess.Popen(["sh", "-c", hold + line], **tree.options()).pid)
sys.stdin.readline()
{end}
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    seen = b""
    while seen.count(b"ready") < 2:
        seen += lifeline.wait()
    process.communicate(b"\n", timeout=120)
    assert lifeline.wait() == b""


def test_a_fork_leaves_the_programs_of_its_parent_alone():
    code = """
import asyncio, os, subprocess
from pegboard.programs import OutputBuffer, ProcessTree, RunningProgram
tree, program = ProcessTree(), RunningProgram(["cat"], OutputBuffer(100), stdin=None)
process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, **tree.options())
tree.add(process.pid)
program.start()
assert asyncio.run(program.until(lambda: program.pid is not None))
if (fork := os.fork()) == 0:
    tree.signal(15)
    tree.kill()
    program.end(now=True)
    os._exit(0)
os.waitpid(fork, 0)
process.communicate(b"")
program.close_input()
program.join(120)
assert (process.returncode, program.code) == (0, 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@given(st.lists(st.binary(max_size=60)), st.integers(0, 80), st.data())
def test_a_buffer_stores_the_beginning_and_the_end(pieces, most, data):
    most_head = data.draw(st.integers(0, most))
    buffer, written = OutputBuffer(most, most_head), b"".join(pieces)
    for piece in pieces:
        buffer.add(piece)
    head, lost, tail = buffer.parts()
    assert (buffer.size, len(head) + lost + len(tail)) == (len(written), len(written))
    assert (len(head), len(tail)) == (
        min(len(written), most_head),
        min(max(len(written) - most_head, 0), most - most_head),
    )
    assert written.startswith(head)
    assert written.endswith(tail)
