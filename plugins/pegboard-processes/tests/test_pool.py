from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import isolated_tools
import pytest
from isolated_tools import tool_named
from running import PATIENCE, execute, is_there, skip_time, timed_out, until, written

from pegboard import ImageContent, TextContent, Tool, ToolContext
from pegboard.errors import FatalToolError
from pegboard.execution import ExecutionRequest, ExecutorCall
from pegboard.json import StructureError
from pegboard.tools import tools_from
from pegboard_processes import ChildProcesses, process
from pegboard_processes.process import ChildProcess
from pegboard_processes.rpc import frame
from pegboard_processes.session import Session

MEBIBYTE = 1 << 20


HOG = "result = len(bytearray({} << 20))"
PRINT = """
import sys
words = {!r}
print(words)
sys.stderr.write(f"error: {{words}}\\n")
os.write(1, f"raw: {{words}}\\n".encode())
result = "done"
"""
CLEAN_UP = """
try:
    Path({begun!r}).write_text("begun")
    {wait}(FOREVER)
finally:
    Path({file!r}).write_text("clean")
"""
NONSENSE = """
for number in range(3, 64):
    try:
        os.write(number, {!r}.encode("latin-1"))
    except OSError:
        continue
time.sleep(FOREVER)
"""


def do(call, code, **facts):
    """Runs code in a child."""
    return call("do", code=code, **facts)


def pid_of(call, **settings):
    return call("where", **settings).structured_content["pid"]


# Every kind of tool ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "output"),
    [
        ("add", {"a": 1}, '{"result": 3}'),
        ("add_later", {"a": 1, "b": 5}, '{"result": 6}'),
        ("count_up", {"to": 4}, "6"),
        ("count_up_later", {"to": 3}, "[0, 1, 2]"),
        ("loose", {"number": 4}, "4"),  # a sync function that returns a coroutine
        (isolated_tools.Doubler(3).as_tool(), {"number": 5}, '{"result": 15}'),
        (*tools_from(isolated_tools.Counter(10)), {"steps": 5}, '{"result": 15}'),
        (isolated_tools.SHOUT, {"text": "hi"}, "HI"),
        (isolated_tools.BACKWARDS, {"input": "abc"}, "cba"),
        (isolated_tools.PLUS_ONE, {"b": 4}, '{"result": 5}'),
        (tool_named("add").with_spec(name="other_add"), {"a": 1}, '{"result": 3}'),
    ],
)
def test_every_kind_of_tool_runs_in_a_child(call, tool, arguments, output):
    assert call(tool, **arguments).output == output


def test_arguments_and_results_are_structured(call):
    when = date(2026, 1, 5).isoformat()
    response = call("shift", point={"x": 1}, when=when, colour="blue", more=[3, 4])
    assert response.structured_content == {"x": 6, "y": 7}


def test_content_comes_back_as_content(call):
    result = do(
        call, 'from pegboard import ImageContent; result = ["see", ImageContent(b"1", "image/gif")]'
    ).to_result()
    assert result.content == (TextContent("see"), ImageContent(b"1", "image/gif"))


def test_a_full_result_comes_back_as_far_as_it_is_json(call):
    response = call("full_result")
    assert (response.title, response.display, response.detail) == ("Title", "shown", "why")
    assert (response.structured_content, response.details) == ({"a": 1}, [1])
    assert response.metadata["m"] == 1
    assert isinstance(response.metadata["o"], str)


def test_arguments_that_a_type_refuses_never_reach_a_child(call):
    with pytest.raises(StructureError):
        call("shift", point={"x": 1}, when="no date")


# One child, many calls ------------------------------------------------------------------------------------------------


def test_a_child_is_reused(call):
    assert pid_of(call) == pid_of(call) != os.getpid()


@pytest.mark.slow
def test_calls_run_concurrently_each_in_its_own_child(fresh):
    pool = fresh(most=2)

    async def both():
        answers = await asyncio.gather(execute(pool, "where"), execute(pool, "where"))
        return {answer.structured_content["pid"] for answer in answers}

    assert len(asyncio.run(both())) == 2


@pytest.mark.slow
def test_more_calls_than_children_are_queued(fresh):
    pool = fresh(most=1)

    async def many():
        return await asyncio.gather(*(execute(pool, "add", a=number) for number in range(5)))

    assert [answer.structured_content["result"] for answer in asyncio.run(many())] == [2, 3, 4, 5, 6]
    assert len(pool._idle) == 1


@pytest.mark.slow
def test_a_pool_serves_several_event_loops_in_several_threads(fresh):
    pool = fresh(most=2)

    def one(number):
        return asyncio.run(execute(pool, "add_later", a=number)).structured_content["result"]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(one, range(4))) == [2, 3, 4, 5]


@pytest.mark.slow
def test_a_child_is_replaced_after_its_number_of_calls(fresh, call):
    pool = fresh(calls=2)
    pids = [pid_of(call, pool=pool) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_the_working_folder_is_restored_after_a_call(call, tmp_path):
    home = call("where").structured_content["cwd"]
    assert do(call, f"os.chdir({str(tmp_path)!r}); result = os.getcwd()").output == str(tmp_path)
    assert call("where").structured_content["cwd"] == home


@pytest.mark.slow
def test_a_working_folder_that_was_removed_is_ignored(fresh, call, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    pool = fresh()
    assert pid_of(call, pool=pool)
    folder.rmdir()
    assert call("add", pool=pool, a=1).output == '{"result": 3}'
    monkeypatch.chdir(tmp_path)


def test_tasks_that_a_tool_leaves_behind_are_cancelled(call, tmp_path):
    assert call("leave_a_task", file=str(tmp_path / "task")).output == "left"
    assert (tmp_path / "task").read_text() == "cancelled"


@pytest.mark.slow
def test_a_context_is_silent_after_its_call(fresh, call):
    pool = fresh()
    before = pid_of(call, pool=pool)
    child = pool._idle[-1]
    assert call("report_later", pool=pool).output == "done"
    assert child.is_idle
    assert pid_of(call, pool=pool) == before


@pytest.mark.slow
def test_a_child_that_died_while_idle_is_replaced(fresh, call):
    pool = fresh()
    pid = pid_of(call, pool=pool)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_there(pid))
    assert call("add", pool=pool, a=1).structured_content == {"result": 3}


def test_children_have_the_parents_path_and_not_its_arguments(call):
    child = call("where").structured_content
    assert child["argv"] == ["-c"]
    assert str(Path(isolated_tools.__file__).parent) in child["path"]
    assert "" not in child["path"]
    assert child["group"] == child["pid"]


# Failures -------------------------------------------------------------------------------------------------------------


def test_arguments_may_be_longer_than_a_sockets_buffer(call):
    assert do(call, f"result = len({'x' * 5_000_000!r})").output == "5000000"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_fails_one_call_and_is_reported_to_the_operator(call, number):
    code = f"print('last words', flush=True); os.kill(os.getpid(), {number.value}); time.sleep(FOREVER)"
    response = do(call, code)
    assert (response.kind, response.is_error) == ("crashed", True)
    assert response.error == "do crashed. Its effects so far may remain; the same call may crash again."
    assert f"ended by signal {number.value} ({number.name})" in response.detail
    assert "Its last output:\nlast words" in response.detail
    assert call("add", a=1).structured_content == {"result": 3}


def test_a_segmentation_fault_has_the_python_stack_in_its_detail(call):
    response = do(call, "import ctypes; ctypes.string_at(0)")
    assert response.kind == "crashed"
    assert "SIGSEGV" in response.detail
    assert "in do" in response.detail
    assert "string_at" not in response.error


@pytest.mark.slow
def test_an_endless_loop_is_ended_at_the_limit(call):
    do(call, "")  # the child has imported the tool
    response = do(call, "while True: pass", timeout=0.3)
    assert (response.kind, response.error) == ("timeout", "do gave no result within 0.3 s. Its process was ended.")
    assert call("add", a=1).structured_content == {"result": 3}


@pytest.mark.slow
def test_a_tool_that_ignores_sigterm_is_killed(pool, tmp_path):
    file = tmp_path / "pid"
    assert timed_out(pool, "sleep_on", file, pid_file=str(file)).kind == "timeout"
    assert not is_there(int(file.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "wait"), [("do", "time.sleep"), ("go", "await asyncio.sleep")])
def test_a_tool_may_clean_up_on_sigterm(fresh, tmp_path, tool, wait):
    begun = tmp_path / "begun"
    code = CLEAN_UP.format(wait=wait, begun=str(begun), file=str(tmp_path / "file"))
    assert timed_out(fresh(grace=PATIENCE), tool, begun, code=code).kind == "timeout"
    assert (tmp_path / "file").read_text() == "clean"


@pytest.mark.slow
def test_endless_output_is_read_and_ended_at_the_limit(pool, tmp_path):
    begun = tmp_path / "begun"
    code = f"print('x' * 10_000); Path({str(begun)!r}).write_text('begun')\nwhile True: print('x' * 10_000)"
    response = timed_out(pool, "do", begun, code=code)
    assert response.kind == "timeout"
    assert 8_000 < len(response.detail) < 10_000


@pytest.mark.slow
def test_exceeding_the_memory_limit_fails_one_call(fresh, call):
    response = do(call, HOG.format(256), memory_limit=128 * MEBIBYTE)
    assert response.kind == "crashed"
    assert response.error == "do exceeded its memory limit (128 MiB) and was stopped. Request less."
    assert do(call, HOG.format(32), memory_limit=128 * MEBIBYTE).output == f"{32 * MEBIBYTE}"
    assert do(call, HOG.format(256)).output == f"{256 * MEBIBYTE}"
    assert do(call, HOG.format(256), pool=fresh(memory=128 * MEBIBYTE)).kind == "crashed"


def test_a_result_that_is_too_long_is_refused_and_the_child_reused(call):
    pid = pid_of(call)
    response = do(call, "result = 'x' * (100 << 20)")
    assert response.kind == "limit"
    assert response.error.startswith("do ran, but its result is too long: 104,8")
    assert pid_of(call) == pid


def test_a_result_that_is_too_large_or_not_json_is_refused(call):
    assert do(call, "result = [0] * 600_000").kind == "invalid_output"
    assert do(call, "result = float('nan')").kind == "invalid_output"


def test_output_is_logged_for_the_operator(call, caplog):
    with caplog.at_level(logging.INFO, "pegboard"):
        assert do(call, PRINT.format("hello")).output == "done"
    (record,) = [each for each in caplog.records if "printed" in each.msg]
    assert sorted(record.getMessage().splitlines()) == ["do printed:", "error: hello", "hello", "raw: hello"]


def test_output_before_an_error_is_in_its_detail(call):
    response = do(call, "print('careful'); raise ValueError")
    assert response.error == "do failed: ValueError."
    assert response.detail.endswith("Its last output:\ncareful\n")


@pytest.mark.slow
def test_output_of_one_call_is_not_in_the_detail_of_the_next(call):
    do(call, PRINT.format("before"))
    assert "before" not in do(call, "os._exit(1)").detail


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise ValueError('secret')", "ValueError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise StopIteration", "StopIteration"),
        ("raise MemoryError", "MemoryError"),
        ("def go(): return go()\ngo()", "RecursionError"),
    ],
)
def test_an_exception_fails_only_its_call(call, code, error):
    pid = pid_of(call)
    response = do(call, code)
    assert (response.kind, response.error) == ("tool_failure", f"do failed: {error}.")
    assert "in do" in response.detail
    assert pid_of(call) == pid


def test_the_text_of_an_exception_is_shown_if_it_may_be_exposed(pool):
    request = ExecutionRequest(tool="do", arguments={"code": "raise ValueError('secret')"}, expose_errors=True)
    response = asyncio.run(pool.execute_tool(ExecutorCall(tool_named("do"), request)))
    assert response.error == "do failed: ValueError: secret."


def test_a_tool_error_keeps_its_text_and_hint(call):
    response = do(call, "raise ToolError('no such file', retryable=True, hint='Look elsewhere.')")
    assert response.error == "no such file\nLook elsewhere."
    assert response.metadata == {"retryable": True}


def test_a_fatal_error_is_raised(call):
    with pytest.raises(FatalToolError, match="all is lost"):
        do(call, "from pegboard.errors import FatalToolError; raise FatalToolError('all is lost')")


@pytest.mark.slow
def test_a_tool_may_close_standard_output(fresh, call):
    pool, code = fresh(), "import sys; sys.stdout.close(); sys.stderr = None; result = 'closed'"
    assert do(call, code, pool=pool).output == "closed"
    assert call("add", pool=pool, a=1).structured_content == {"result": 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "\xff\xff\xff\xff",
        *(
            frame(body).decode("latin-1")
            for body in (
                b"hello",
                b"[]",
                b'{"unknown": true}',
                b'{"response": {"output": 1}}',
                b'{"response": []}',
                b'{"response": {}, "response": {}}',
                b'{"response": {"output": "\\ud800"}}',
                b'{"event": 1}',
                b'{"question": "1", "name": "ask", "arguments": {}}',
                b'{"question": 1, "name": 2, "arguments": {}}',
                b'{"question": 1, "name": "ask", "arguments": []}',
            )
        ),
    ],
)
def test_a_child_that_violates_the_protocol_is_ended(call, text):
    response = do(call, NONSENSE.format(text))
    assert response.kind == "crashed"
    assert "the child process was ended: " in response.detail
    assert call("add", a=1).structured_content == {"result": 3}


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("os.closerange(3, 256); time.sleep(FOREVER)", "closed its connection and had to be killed"),
        ("os._exit(3)", "ended with exit code 3"),
    ],
)
def test_a_child_that_disconnects_or_exits_fails_one_call(call, monkeypatch, code, detail):
    if "closed" in detail:
        monkeypatch.setattr(process, "LEAVING_SECONDS", 0.1)
    response = do(call, code)
    assert response.kind == "crashed"
    assert detail in response.detail
    assert call("add", a=1).structured_content == {"result": 3}


# Tools that can't be run in a child -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (isolated_tools.ANONYMOUS, "anonymous can't be sent to a child process"),
        (tools_from(isolated_tools.made_inside())[0], "inside can't be sent to a child process"),
        (tools_from(isolated_tools.Closed())[0], "locked can't be sent to a child process"),
    ],
)
def test_a_function_that_cant_be_sent_is_not_executed(call, tool, reason):
    response = call(tool)
    assert (response.kind, response.not_executed) == ("not_executed", True)
    assert response.error == f"{tool.name} was not run: it can't run in a child process. Continue without it."
    assert response.detail.startswith(reason)
    assert "top level of a module" in response.detail
    assert "executor='thread'" in response.detail


def test_a_tool_without_a_handler_is_not_executed(call):
    assert call(Tool.from_schema("far", {"type": "object"})).kind == "not_executed"


def test_nothing_is_executed_on_other_systems_than_posix(call, monkeypatch):
    monkeypatch.setattr("pegboard_processes.pool.os.name", "nt")
    response = call("add", a=1)
    assert response.kind == "not_executed"
    assert "POSIX" in response.error


def test_a_process_that_cant_be_started_fails_the_call(fresh, call, monkeypatch):
    def refuse(*_, **__):
        raise OSError(11, "no processes left")

    pool = fresh()
    monkeypatch.setattr("pegboard_processes.process.subprocess.Popen", refuse)
    response = call("add", pool=pool, a=1)
    assert (response.kind, response.error) == ("crashed", "add was not run: its process could not be started.")
    assert "no processes left" in response.detail


# Services of the host -------------------------------------------------------------------------------------------------


def test_a_service_that_can_be_pickled_is_sent_as_a_copy(call):
    context = ToolContext(services={isolated_tools.Point: isolated_tools.Point(3)})
    assert call("use_point", context).structured_content == {"result": 3}


def test_a_service_that_cant_be_pickled_is_reported_to_the_operator(call):
    closed = isolated_tools.Closed()
    response = call("use_closed", ToolContext(services={isolated_tools.Closed: closed}))
    assert response.kind == "not_executed"
    assert response.detail.startswith("an argument of use_closed can't be sent to a child process: ")
    assert "executor='thread', where it can use any service of the host" in response.detail


# The end --------------------------------------------------------------------------------------------------------------


async def begun(pool, file):
    """A call that never ends, and the id of its process."""
    task = asyncio.ensure_future(execute(pool, "sleep_on", timeout=None, pid_file=str(file)))
    return task, int(await asyncio.to_thread(written, file))


async def cancel_and_wait(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelling_a_call_ends_its_process(fresh, tmp_path):
    pool = fresh()

    async def cancelled():
        task, pid = await begun(pool, tmp_path / "pid")
        await cancel_and_wait(task)
        assert not is_there(pid)

    asyncio.run(cancelled())


@pytest.mark.slow
def test_cancelling_a_queued_call_starts_nothing(fresh, tmp_path):
    pool = fresh(most=1)

    async def cancelled():
        first, _ = await begun(pool, tmp_path / "one")
        second = asyncio.ensure_future(execute(pool, "sleep_on", pid_file=str(tmp_path / "two")))
        await asyncio.sleep(0)
        await cancel_and_wait(second)
        await cancel_and_wait(first)

    asyncio.run(cancelled())
    assert not (tmp_path / "two").exists()


def test_cancelling_a_call_while_its_child_starts_leaves_no_process(fresh, monkeypatch):
    started, cancelled, start = [], threading.Event(), ChildProcess.start

    def slow(most):
        child = start(most)
        started.append(child.process.pid)
        cancelled.wait(PATIENCE)
        return child

    monkeypatch.setattr(ChildProcess, "start", slow)

    async def cancel():
        task = asyncio.ensure_future(execute(fresh(), "add", a=1))
        await asyncio.to_thread(until, lambda: started)
        await cancel_and_wait(task)
        cancelled.set()

    asyncio.run(cancel())
    until(lambda: not is_there(started[0]))


@pytest.mark.slow
def test_a_queued_call_times_out(fresh, tmp_path):
    pool = fresh(most=1)

    async def waiting():
        first, _ = await begun(pool, tmp_path / "pid")
        response = await execute(pool, "add", timeout=0.05, a=1)
        await cancel_and_wait(first)
        return response

    response = asyncio.run(waiting())
    assert response.kind == "timeout"
    assert response.error == "add was not run: every child process was busy for 0.05 s. Try again later."


@pytest.mark.slow
def test_the_limit_of_a_call_begins_once_a_child_takes_it(fresh, monkeypatch):
    pool = fresh(most=1)

    async def decide(_call):
        skip_time()

    async def main():
        await execute(pool, "add", a=1)  # the module is imported
        monkeypatch.setattr(ExecutorCall, "decide_again", decide)
        return await execute(pool, "add", a=1)

    assert asyncio.run(main()).error is None


@pytest.mark.slow
def test_closing_aborts_running_calls_and_leaves_no_process(fresh, tmp_path):
    pool = fresh()

    async def closed():
        running, pid = await begun(pool, tmp_path / "pid")
        idle = await execute(pool, "where")
        await pool.aclose()
        assert not is_there(pid)
        assert not is_there(idle.structured_content["pid"])
        return await running

    response = asyncio.run(closed())
    assert (response.kind, response.error) == ("aborted", "sleep_on was aborted. Its process was ended.")


@pytest.mark.slow
def test_closing_ends_the_child_of_a_call_that_has_just_ended(fresh, monkeypatch):
    pool, run, closing = fresh(), Session.run, []

    async def run_and_close(session, child):
        ended = await run(session, child)
        closing.append(asyncio.ensure_future(pool.aclose()))
        await asyncio.sleep(0)
        return ended

    async def closed():
        response = await execute(pool, "add", a=1)
        await closing[0]
        return response

    monkeypatch.setattr(Session, "run", run_and_close)
    assert asyncio.run(closed()).output == '{"result": 3}'
    assert pool._idle == []


@pytest.mark.slow
def test_after_closing_a_call_starts_a_new_child(fresh, call):
    pool = fresh()
    before = pid_of(call, pool=pool)
    asyncio.run(pool.aclose())
    assert pid_of(call, pool=pool) != before


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["os._exit, 3", "time.sleep, FOREVER"])
def test_a_child_with_its_own_exit_handlers_is_ended(fresh, call, arguments):
    pool = fresh()
    pid = pid_of(call, pool=pool)
    assert do(call, f"import atexit; atexit.register({arguments})", pool=pool).kind is None
    asyncio.run(pool.aclose())
    assert not is_there(pid)


@pytest.mark.slow
def test_processes_started_by_a_tool_end_with_its_child(fresh, call, tmp_path):
    pool, file = fresh(), tmp_path / "pid"
    assert call("fork_and_go", pool=pool, pid_file=str(file)).output == "gone"
    assert is_there(int(file.read_text()))
    asyncio.run(pool.aclose())
    until(lambda: not is_there(int(file.read_text())))


@pytest.mark.slow
def test_a_fork_of_a_child_does_not_answer(fresh, call):
    pool = fresh()
    for _ in range(2):
        assert do(call, "result = 'child' if os.fork() == 0 else 'parent'", pool=pool).output == "parent"
    assert call("add", pool=pool, a=1).structured_content == {"result": 3}


@pytest.mark.slow
def test_a_fork_of_the_parent_starts_children_of_its_own(fresh, call):
    """Two parents of one child would receive each other's answers."""
    pool = fresh()
    before = pid_of(call, pool=pool)
    pool._owner += 1  # as in a fork: this process isn't the one that made the pool
    assert pid_of(call, pool=pool) != before
    assert len(pool._idle) == 1


@pytest.mark.slow
def test_no_zombie_is_left(fresh, call):
    pool = fresh()
    do(call, "os._exit(1)", pool=pool)
    pid = pid_of(call, pool=pool)
    asyncio.run(pool.aclose())
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


@pytest.mark.slow
def test_a_pool_that_is_garbage_collected_leaves_no_process(call):
    pool = ChildProcesses()
    pid = pid_of(call, pool=pool)
    del pool
    until(lambda: not is_there(pid))
