from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from pegboard import threads as threads_module
from pegboard.threads import MOST_ABANDONED, HangingThreadsError, WorkerPool, _Workers, waiting

PATIENCE = 60  # seconds; only a broken test waits so long
HOLD = "working.<locals>.hold"  # the owner of what `working` runs


@pytest.fixture
def threads():
    pool = WorkerPool()
    yield pool
    pool.close()


def working(pool, count):
    """Jobs that occupy their threads until the event is set, and a queue of the threads that have started."""
    gate, begun = threading.Event(), queue.SimpleQueue()

    def hold(answer):
        begun.put(threading.current_thread())
        gate.wait(PATIENCE)
        return answer

    tasks = [asyncio.ensure_future(pool.run(hold, number)) for number in range(count)]
    return gate, begun, tasks


async def begun_by(begun):
    """The next thread that starts; awaited off the loop, which submits the jobs."""
    return await asyncio.to_thread(begun.get, timeout=PATIENCE)


async def given_up(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_function_runs_in_a_daemon_thread(threads):
    """Daemons, so that a tool that never ends can't keep the program from ending."""
    runner = asyncio.run(threads.run(threading.current_thread))
    assert runner is not threading.main_thread()
    assert runner.daemon


async def test_context_variables_are_carried_and_changes_stay_inside(threads):
    variable = contextvars.ContextVar("variable", default="unset")

    def read_and_change():
        seen = variable.get()
        variable.set("changed inside")
        return seen

    variable.set("outside")
    assert (await threads.run(read_and_change), variable.get()) == ("outside", "outside")


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, RecursionError, asyncio.CancelledError])
async def test_what_the_function_raises_reaches_the_caller(threads, kind):
    def broken():
        raise kind("why")

    with pytest.raises(kind, match="why"):
        await threads.run(broken)
    assert threads.abandoned == 0


async def test_stop_iteration_comes_as_the_cause_of_a_runtime_error(threads):
    """No future takes a StopIteration: the coroutine that awaits it would just end."""
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        await threads.run(next, iter(()))
    assert isinstance(caught.value.__cause__, StopIteration)


async def test_no_more_of_one_owner_work_at_once_than_may_and_the_others_wait_their_turn():
    pool = WorkerPool(most=2)
    gate, begun, tasks = working(pool, 5)
    runners = {await begun_by(begun), await begun_by(begun)}
    no_others = begun.empty()
    gate.set()
    answers = await asyncio.gather(*tasks)
    runners |= {begun.get() for _ in range(3)}
    pool.close()
    assert (no_others, answers, len(runners)) == (True, [0, 1, 2, 3, 4], 2)


async def test_an_abandoned_thread_is_counted_until_it_has_ended_its_work_and_then_serves_again():
    pool = WorkerPool(most=1, linger=0.001)
    gate, begun, (stuck,) = working(pool, 1)
    runner = await begun_by(begun)
    await given_up(stuck)
    abandoned = pool.abandoned
    assert await pool.run(int) == 0
    gate.set()
    runner.join(PATIENCE)  # it lingers, and ends without a job
    assert (abandoned, pool.abandoned, runner.is_alive()) == (1, 0, False)
    assert await pool.run(int) == 0


async def test_a_queued_job_takes_the_place_of_an_abandoned_one():
    """Otherwise the next job of the owner would wait forever."""
    pool = WorkerPool(most=1)
    gate, begun, (stuck,) = working(pool, 1)
    await begun_by(begun)
    waiting = asyncio.ensure_future(pool.run_for(HOLD, lambda: "served"))
    await asyncio.sleep(0)  # it is handed over now, and no thread is free
    await given_up(stuck)
    answer = await asyncio.wait_for(waiting, PATIENCE)
    gate.set()
    pool.close()
    assert answer == "served"


async def test_a_job_given_up_before_its_turn_never_runs():
    pool, ran = WorkerPool(most=1), []
    gate, begun, (first,) = working(pool, 1)
    await begun_by(begun)
    second = asyncio.ensure_future(pool.run_for(HOLD, lambda: ran.append("second")))
    await asyncio.sleep(0)
    await given_up(second)
    abandoned = pool.abandoned
    gate.set()
    await first
    await pool.run(ran.append, "third")
    pool.close()
    assert (ran, abandoned) == (["third"], 0)


async def test_a_coroutine_that_an_abandoned_thread_returns_is_closed(threads):
    coroutine, begun, gate = asyncio.sleep(0), threading.Event(), threading.Event()

    def late():
        begun.set()
        gate.wait(PATIENCE)
        return coroutine

    task = asyncio.ensure_future(threads.run(late))
    await asyncio.to_thread(begun.wait, PATIENCE)
    await given_up(task)
    gate.set()
    async with asyncio.timeout(PATIENCE):
        while inspect.getcoroutinestate(coroutine) != inspect.CORO_CLOSED:  # noqa: ASYNC110  the pool gives no signal
            await asyncio.sleep(0)


def test_the_answer_of_an_abandoned_thread_is_dropped_even_when_the_loop_is_gone():
    pool = WorkerPool(most=1, linger=0.001)

    async def main():
        gate, begun, (stuck,) = working(pool, 1)
        runner = await begun_by(begun)
        await given_up(stuck)
        return gate, runner

    gate, runner = asyncio.run(main())
    assert asyncio.run(pool.run(int)) == 0
    gate.set()
    runner.join(PATIENCE)
    assert not runner.is_alive()
    pool.close()


def test_after_close_the_threads_end_and_a_later_call_still_works(threads):
    async def idents():
        return await asyncio.gather(*(threads.run(threading.current_thread) for _ in range(3)))

    for runner in asyncio.run(idents()):
        assert runner.is_alive()
    runners = set(asyncio.run(idents()))
    threads.close()
    for runner in runners:
        runner.join(PATIENCE)
        assert not runner.is_alive()
    assert asyncio.run(threads.run(int)) == 0


async def test_close_lets_a_working_thread_finish(threads):
    gate, begun, (task,) = working(threads, 1)
    await begun_by(begun)
    threads.close()
    gate.set()
    assert (await task) == 0


def test_calls_from_several_loops_share_the_threads(threads):
    with ThreadPoolExecutor(8) as loops:
        answers = loops.map(lambda number: asyncio.run(threads.run(lambda: number)), range(8))
    assert list(answers) == list(range(8))


def test_a_failure_to_start_a_thread_is_raised(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    pool = WorkerPool()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start a thread"):
            asyncio.run(pool.run(int))
    assert asyncio.run(pool.run(int)) == 0
    pool.close()


async def test_existing_threads_are_used_if_no_further_one_starts(monkeypatch):
    pool = WorkerPool()
    gate, begun, (first,) = working(pool, 1)
    await begun_by(begun)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda thread: (_ for _ in ()).throw(RuntimeError))
        second = asyncio.ensure_future(pool.run(lambda: "second"))
        await asyncio.sleep(0)
    gate.set()
    assert (await asyncio.gather(first, second)) == [0, "second"]
    pool.close()


def test_a_thread_that_a_waiting_job_counts_on_stays_though_its_time_is_up():
    class Slow:
        """A queue whose job is counted, but arrives just after the timeout; later there is none."""

        spare: ClassVar = [0, 1]

        def get(self, timeout):
            workers.spare = self.spare.pop(0)
            raise queue.Empty

    workers = _Workers(jobs=Slow(), threads=1)
    WorkerPool()._serve(workers)
    assert (Slow.spare, workers.threads) == ([], 0)


async def test_functions_that_wait_for_others_dont_take_all_threads():
    """Each of two functions waits, in a pool of one thread, for another that needs a thread."""
    threads = WorkerPool(most=1)
    loop = asyncio.get_running_loop()

    def inner():
        return "inner"

    def outer():
        with waiting():
            return asyncio.run_coroutine_threadsafe(threads.run(inner), loop).result(60)

    answers = await asyncio.gather(threads.run(outer), threads.run(outer))
    again = await threads.run(inner)
    threads.close()
    assert [*answers, again] == ["inner", "inner", "inner"]


async def test_not_begun_is_called_for_a_job_cancelled_in_the_queue():
    noted = []
    queued = WorkerPool(most=0).run_for("print", print, lambda: noted.append(True))
    queued.send(None)
    with pytest.raises(asyncio.CancelledError):
        queued.throw(asyncio.CancelledError)
    assert noted == [True]


# Functions that hang --------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(threads_module, "STALL_SECONDS", 0.01)


@pytest.mark.parametrize("given_up_on", [True, False])
async def test_where_all_threads_that_there_may_be_hang_functions_fail_at_once(impatient, given_up_on):
    """Also queued ones. Once a thread is free, functions run again."""
    pool = WorkerPool(most=3, cap=3)
    gate, begun, hanging = working(pool, 3)
    for _ in hanging:
        await begun_by(begun)
    queued = asyncio.ensure_future(pool.run(int))
    if given_up_on:
        for each in hanging:
            await given_up(each)
    with pytest.raises(HangingThreadsError, match=r"3 threads hang, most of them in working\.<locals>\.hold"):
        await asyncio.wait_for(queued, PATIENCE)
    with pytest.raises(HangingThreadsError):
        await pool.run(int)
    gate.set()
    assert await once_free(pool) == 0
    pool.close()


async def once_free(pool):
    """The result of a function, retried while all threads seem to hang."""
    while True:
        try:
            return await pool.run(int)
        except HangingThreadsError:
            await asyncio.to_thread(time.sleep, 0.001)


async def test_one_owner_has_no_more_threads_than_may_work_at_once_and_the_rest_waits(impatient):
    """However long the others wait, and even if some of them are cancelled."""
    pool = WorkerPool(most=2, cap=8)
    gate, begun, hanging = working(pool, 6)
    for _ in range(2):
        await begun_by(begun)
    assert [await asyncio.wait_for(pool.run(int), PATIENCE) for _ in range(5)] == [0] * 5
    await given_up(hanging[2])
    assert begun.empty()
    gate.set()
    assert await asyncio.gather(*hanging[:2], *hanging[3:]) == [0, 1, 3, 4, 5]
    pool.close()


async def test_functions_of_an_owner_fail_at_once_while_too_many_hang_and_no_others_do():
    pool, gate, begun = WorkerPool(), threading.Event(), queue.SimpleQueue()

    def hang():
        begun.put(None)
        gate.wait(PATIENCE)

    for _ in range(MOST_ABANDONED):
        hanging = asyncio.ensure_future(pool.run_for("tool", hang))
        await begun_by(begun)
        await given_up(hanging)
    with pytest.raises(HangingThreadsError, match=r"16 threads hang, most of them in tool,"):
        await pool.run_for("tool", hang)
    assert await pool.run_for("other", int) == 0
    gate.set()
    while pool.abandoned:
        await asyncio.to_thread(time.sleep, 0.001)
    assert await pool.run_for("tool", int) == 0
    pool.close()


async def test_many_functions_that_end_wait_their_turn_however_many_there_are(impatient):
    pool = WorkerPool(most=2, cap=4)
    answers = await asyncio.gather(*(pool.run(time.sleep, 0.002) for _ in range(100)))
    assert len(answers) == 100
    assert pool._workers.threads <= 4
    pool.close()


FORKS = """
import asyncio, os, sys
from pegboard import ToolRegistry, tool

@tool
def plain() -> str:
    "Runs in a thread."
    return "done"

def observe(event):
    received.append(event.type)

received = []
registry = ToolRegistry()
registry.register(plain)
registry.add_callback("observe", observe)
assert registry.call_sync("plain").text == "done"
if os.fork() == 0:
    received.clear()
    assert registry.call_sync("plain").text == "done"
    asyncio.run(registry.aclose())
    print(received, flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""


@pytest.mark.slow
def test_after_a_fork_the_child_has_threads_of_its_own():
    """As with gunicorn, celery and multiprocessing: tools are registered before the fork and called in the child."""
    run = [sys.executable, "-W", "ignore", "-c", FORKS]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "['call_pending', 'call_running', 'call_completed']\n"), done.stderr
