"""The checks of executors: sound ones pass, and each broken one fails the check that is about it."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest

from dispatch.executors.test_worker import Adapter
from pegboard import Permissions
from pegboard.errors import FatalToolError
from pegboard.execution import ExecutionResponse, LocalExecutor
from pegboard.testing import EXECUTOR_TOOLS, check_executor, executors as suite
from pegboard.worker import ExecutorStatus, RemoteCaller, SentCall, Worker, WorkerInfo, check_queue


def started(kind):
    """What starts an executor of this class; one worker for all."""
    worker = LocalExecutor(EXECUTOR_TOOLS, permissions=Permissions(mode="bypass"))

    @asynccontextmanager
    async def start():
        yield kind(worker)

    return start


class Durable(Adapter):
    """Executor that keeps results by key."""

    def __init__(self, worker):
        super().__init__(worker)
        self.results = vars(worker).setdefault("results", {})

    def key(self, request):
        return request.key

    async def attach(self, key):
        return await asyncio.shield(self.results[key]) if key in self.results else None

    async def run(self, call):
        return await super().execute_tool(call)

    async def execute_tool(self, call):
        key = self.key(call.request)
        if key is None:
            return await self.run(call)
        if key not in self.results:
            self.results[key] = asyncio.ensure_future(self.run(call))
        return await self.results[key]


@pytest.mark.slow
async def test_sound_executors_pass_and_the_report_lists_what_was_skipped():
    report = await check_executor(started(Adapter))
    skipped = {name for name, check in suite.CHECKS.items() if check.scope != "local"}
    assert {*report.passed} == suite.CHECKS.keys() - skipped
    assert report.skipped.keys() == skipped
    assert report.skipped["runs_in_another_process"] == "for remote executors"
    report = await check_executor(started(Durable), durable=True)
    assert {name for name, why in report.skipped.items() if why == "for remote executors"} == {
        name for name, check in suite.CHECKS.items() if check.scope == "remote"
    }
    assert "there is no kill_worker and no start_worker" in report.skipped.values()
    skip = dict.fromkeys(["runs_in_another_process", "a_dying_worker_is_reported"], "the worker is in this process")
    engine = Engine()
    report = await check_executor(started_on(engine), remote=True, durable=True, engine=engine, skip=skip)
    assert {*report.skipped.values()} == {"the worker is in this process", "there is no caller"}


async def test_checks_can_be_chosen_and_skipped_with_a_reason():
    only = ("plain_and_async_results", "fatal_ends_the_turn")
    report = await check_executor(started(Adapter), only=only, skip={"fatal_ends_the_turn": "not yet"})
    assert report.passed == only[:1]
    assert report.skipped["fatal_ends_the_turn"] == "not yet"
    assert report.skipped["the_time_limit"] == "not asked for"
    for option in ({"only": ["nonsense"]}, {"skip": {"nonsense": "why"}}):
        with pytest.raises(ValueError, match="there is no check nonsense"):
            await check_executor(started(Adapter), **option)


class Engine:
    """An engine in memory, whose worker and server can be killed.

    Attributes:
        again: Whether a call runs again if its worker dies.
    """

    def __init__(self, again=lambda call: call.tool.spec.annotations.idempotent_hint is True):
        self.again, self.runs, self.queues, self.slots, self.is_up = again, {}, {}, {}, True
        self.local = LocalExecutor(EXECUTOR_TOOLS, permissions=Permissions(mode="bypass"))
        self.default = Worker(self.local)

    async def kill_worker(self):
        for call, lost in self.runs.items():
            lost.set_result(None if self.again(call) else ExecutionResponse.failed("unknown_outcome", "lost"))

    async def start_worker(self):
        self.default = Worker(self.local)

    async def kill_server(self):
        self.is_up = False

    async def start_server(self):
        self.is_up = True


class Reached(Engine):
    """One that callers in other processes don't reach."""

    def __init__(self):
        super().__init__()
        self.caller = {"executor": "nonsense", "settings": {}}


class Queued(Durable):
    """Executor that sends calls to workers of their queue."""

    transport = Adapter

    def __init__(self, engine):
        super().__init__(engine.local)
        self.engine = engine

    def workers(self, queue):
        return [self.engine.default] if queue == "default" else self.engine.queues.get(queue, [])

    async def serve(self, worker):
        self.engine.queues.setdefault(worker.queue, []).append(worker)
        await worker.stopping.wait()
        self.engine.queues[worker.queue].remove(worker)
        while worker.running:  # noqa: ASYNC110  there is no event for it
            await asyncio.sleep(0.001)

    async def status(self):
        infos = [
            WorkerInfo(name=each.name, queue=queue, running={f"{n}": call.tool for n, call in each.running.items()})
            for queue, workers in self.engine.queues.items()
            for each in workers
        ]
        return ExecutorStatus(workers=infos)

    async def execute_tool(self, call):
        queue = check_queue(call.request.queue or "default")
        if not self.engine.is_up:
            return ExecutionResponse.failed("not_executed", "no server")
        for _ in range(20):
            if self.workers(queue):
                return await super().execute_tool(call)
            await asyncio.sleep(0.005)
        return ExecutionResponse.failed("not_executed", "no worker")

    def slot(self, worker):
        return self.engine.slots.setdefault(worker, asyncio.Semaphore(worker.max_concurrency))

    async def run(self, call):
        while True:
            workers = [each for each in self.workers(call.request.queue or "default") if not self.slot(each).locked()]
            if not workers:
                await asyncio.sleep(0.001)
                continue
            async with self.slot(workers[0]):
                response = await self.run_on(workers[0], call)
            if response is not None:
                return response

    async def run_on(self, worker, call):
        """The response; `None` if the worker died and the call runs again."""
        adapter = self.transport(self.engine.local)
        adapter.worker = worker
        run = asyncio.ensure_future(adapter.execute_tool(call))
        lost = self.engine.runs[call] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait([run, lost], return_when=asyncio.FIRST_COMPLETED)
            return lost.result() if lost.done() else run.result()
        finally:
            del self.engine.runs[call]
            run.cancel()
            await asyncio.wait([run])


def started_on(engine, kind=Queued):
    """What starts an executor of this engine."""

    @asynccontextmanager
    async def start():
        yield kind(engine)

    return start


def changed(request=(), response=()):
    """An executor that changes each request and response in this way."""

    class Changing(Adapter):
        async def execute_tool(self, call):
            call.request = call.request.evolve(**dict(request))
            return (await super().execute_tool(call)).evolve(**dict(response))

    return Changing


class Mute(Adapter):
    """Sends no events."""

    async def execute_tool(self, call):
        call.context.listener = None
        return await super().execute_tool(call)


class Unconnected(Adapter):
    """Sends requests only."""

    async def execute(self, request):
        return await self.worker.execute(request)

    execute_tool = property()


class Catching(Adapter):
    """Makes a result of a fatal error."""

    async def execute_tool(self, call):
        try:
            return await super().execute_tool(call)
        except FatalToolError as error:
            return ExecutionResponse.failed("tool_failure", str(error))


class Abandoning(Adapter):
    """Lets tools run on when their call is over."""

    async def execute_tool(self, call):
        call.request, limit = call.request.evolve(timeout=None), call.request.timeout
        running = asyncio.ensure_future(super().execute_tool(call))
        done, _ = await asyncio.wait([running], timeout=limit)
        return running.result() if done else ExecutionResponse.failed("timeout", "too slow")


class Impatient(Adapter):
    """Counts the time that the user takes."""

    async def execute_tool(self, call):
        try:
            async with asyncio.timeout(call.request.timeout):
                return await super().execute_tool(call)
        except TimeoutError:
            return ExecutionResponse.failed("timeout", "too slow")


class Mixing(Adapter):
    """Gives each call the response of the call before."""

    last = None

    async def execute_tool(self, call):
        response = await super().execute_tool(call)
        self.last, mixed = response, self.last or response
        return mixed


class Small(Adapter):
    """Fails for long results."""

    async def execute_tool(self, call):
        response = await super().execute_tool(call)
        if len(response.output) > 1_000:
            raise ValueError("too long")
        return response


class Cutting(Adapter):
    """Sends the beginning of long results."""

    async def execute_tool(self, call):
        response = await super().execute_tool(call)
        return response.evolve(output=response.output[:1_000])


class Eager(Adapter):
    """Says that it has run tools that it lacks."""

    async def execute_tool(self, call):
        response = await super().execute_tool(call)
        return ExecutionResponse(output="done") if "no such tool" in (response.error or "") else response


class Forgetful(Durable):
    """Keeps nothing."""

    def key(self, request):
        return None


class ById(Durable):
    """Keeps results by the calls' ids."""

    def key(self, request):
        return request.call_id


class Trusting(Durable):
    """Doesn't say which call it has run."""

    async def execute_tool(self, call):
        return (await super().execute_tool(call)).evolve(call_digest=None)


class ByTool(Durable):
    """Keeps results of calls without an identity, too."""

    def key(self, request):
        return request.key or request.tool


class Detached(Durable):
    """Can't attach to a run."""

    async def attach(self, key):
        return None


def changing(name, change):
    """A transport that changes what the sent call, `name`, gives."""

    class Changed(SentCall):
        pass

    setattr(Changed, name, change(getattr(SentCall, name)))

    class Transport(Adapter):
        async def execute_tool(self, call):
            sent = Changed(call)

            async def tell(events):
                for event in events:
                    await sent.handle(event)

            answer = await self.worker.run(sent.request, RemoteCaller(tell=tell, ask=sent.handle))
            return sent.response(answer)

    return type("Queued", (Queued,), {"transport": Transport})


def trusting(handle):
    async def handle_all(self, data):
        return (await handle(self, data)) and b'{"value": true}'

    return handle_all


def unbounded(handle):
    async def emit_all(self, data):
        self._events = self._questions = 0
        return await handle(self, data)

    return emit_all


def gullible(handle):
    async def emit_invalid(self, data):
        before = self._events
        if await handle(self, data) is not None and self._events >= before and b"question" not in data:
            raise ValueError("an invalid event")

    return emit_invalid


def credulous(response):
    def response_or_done(self, data):
        try:
            return response(self, data)
        except ValueError:
            return ExecutionResponse(output="done")

    return response_or_done


def strict(response):
    def response_of_this_version(self, data):
        if b"novel" in data:
            raise ValueError("unknown members")
        return response(self, data)

    return response_of_this_version


class Covering(Adapter):
    """Makes results of errors."""

    async def execute_tool(self, call):
        response = await super().execute_tool(call)
        return ExecutionResponse(output="done") if response.is_error else response


class Twice(Adapter):
    """Runs each call twice."""

    async def execute_tool(self, call):
        await super().execute_tool(call)
        return await super().execute_tool(call)


class Silent(Adapter):
    """Doesn't tell that a worker has died."""

    async def execute_tool(self, call):
        if "crash" in f"{call.request.arguments}":
            return ExecutionResponse()
        return await super().execute_tool(call)


class Narrow(Adapter):
    """Fails for long arguments."""

    async def execute_tool(self, call):
        if len(str(call.request.arguments)) > 1_000:
            raise ValueError("too long")
        return await super().execute_tool(call)


class Bound(Adapter):
    """Works in one event loop."""

    loop = None

    async def execute_tool(self, call):
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("another loop")
        return await super().execute_tool(call)


class Clocked(Adapter):
    """Measures time by the clock."""

    async def execute_tool(self, call):
        began = time.time()
        response = await super().execute_tool(call)
        return response if time.time() >= began else ExecutionResponse.failed("timeout", "too slow")


class AnyQueue(Queued):
    """Knows no queues."""

    async def execute_tool(self, call):
        object.__setattr__(call.request, "queue", None)
        return await super().execute_tool(call)


class Unlimited(Queued):
    """Runs what comes."""

    def slot(self, worker):
        return asyncio.Semaphore(100)


class Doubling(Queued):
    """Runs each call on two workers."""

    async def run(self, call):
        workers = self.workers(call.request.queue or "default")
        return (await asyncio.gather(*(self.run_on(worker, call) for worker in workers)))[0]

    async def run_on(self, worker, call):
        adapter = Adapter(self.engine.local)
        adapter.worker = worker
        return await adapter.execute_tool(call)


class Abrupt(Queued):
    """Ends calls as soon as their worker has to stop."""

    async def serve(self, worker):
        await super().serve(worker)

    async def run_on(self, worker, call):
        stopping = asyncio.ensure_future(worker.stopping.wait())
        running = asyncio.ensure_future(super().run_on(worker, call))
        await asyncio.wait([stopping, running], return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            stopping.cancel()
            return running.result()
        running.cancel()
        await asyncio.wait([running])
        return ExecutionResponse.failed("aborted", "over")


class Secretive(Queued):
    """Doesn't tell what its workers run."""

    async def status(self):
        workers = [attrs.evolve(each, running={}) for each in (await super().status()).workers]
        return ExecutorStatus(workers=workers)


class Falling(Queued):
    """Fails while there is no server."""

    async def execute_tool(self, call):
        if not self.engine.is_up:
            raise ConnectionError("no server")
        return await super().execute_tool(call)


class Inventing(Queued):
    """Attaches to any key."""

    async def attach(self, key):
        return ExecutionResponse(output="done")


class KeepingNothing(Queued):
    """Keeps no results."""

    def key(self, request):
        return None


class Remembering(Queued):
    """Keeps that a call was not run."""

    async def execute_tool(self, call):
        response = await super().execute_tool(call)
        if response.kind == "not_executed":
            self.results[call.request.key] = asyncio.ensure_future(asyncio.sleep(0, response))
        return response


class Fragile(Engine):
    """Loses its calls with its server."""

    async def kill_server(self):
        await super().kill_server()
        await self.kill_worker()


def changed_on(name):
    changes = {"trusting": ("handle", trusting), "unbounded": ("handle", unbounded), "gullible": ("handle", gullible)}
    changes |= {"credulous": ("response", credulous), "strict": ("response", strict)}
    return changing(*changes[name])


BROKEN_ENGINES = [
    ("a_call_goes_to_a_worker_of_its_queue", AnyQueue, Engine),
    ("no_worker_is_reported_as_not_run", AnyQueue, Engine),
    ("an_invalid_queue_is_refused", AnyQueue, Engine),
    ("a_worker_runs_at_most_its_limit_at_once", Unlimited, Engine),
    ("two_workers_run_each_call_once", Doubling, Engine),
    ("a_worker_that_stops_lets_its_calls_end", Abrupt, Engine),
    ("status_lists_workers_and_their_calls", Secretive, Engine),
    ("a_worker_that_asks_nonsense_gets_errors", changed_on("trusting"), Engine),
    ("a_worker_that_asks_and_tells_too_much_is_bounded", changed_on("unbounded"), Engine),
    ("an_invalid_event_is_left_out", changed_on("gullible"), Engine),
    ("an_invalid_answer_is_an_error", changed_on("credulous"), Engine),
    ("what_another_version_adds_is_ignored", changed_on("strict"), Engine),
    ("what_comes_after_the_answer_is_left_out", changed_on("trusting"), Engine),
    ("a_short_program_ends_cleanly", Queued, Reached),
    ("a_killed_callers_result_is_found_by_its_id", Queued, Reached),
    ("a_killed_worker_runs_no_call_twice", Queued, partial(Engine, lambda call: True)),
    ("a_killed_workers_idempotent_call_runs_again", Queued, partial(Engine, lambda call: False)),
    ("a_call_survives_its_server", Queued, Fragile),
    ("a_server_that_is_away_fails_only_the_calls_of_then", Falling, Engine),
    ("two_callers_of_one_call_get_its_result", KeepingNothing, Engine),
    ("there_is_nothing_to_attach_to_without_a_run", Inventing, Engine),
    ("another_process_attaches_while_the_call_runs", KeepingNothing, Engine),
    ("a_call_that_was_not_run_may_be_sent_again", Remembering, Engine),
]


@pytest.mark.slow
@pytest.mark.parametrize(("check", "kind", "engine"), BROKEN_ENGINES, ids=[row[0] for row in BROKEN_ENGINES])
async def test_a_broken_engine_fails_the_check_that_is_about_it(check, kind, engine, monkeypatch):
    monkeypatch.setattr(suite, "_SECONDS", 20.0)
    made = engine()
    start = started_on(made, kind)
    with pytest.raises(AssertionError, match=rf"the executor fails 1 of its checks:\n{re.escape(check)}: ."):
        await check_executor(start, remote=True, durable=True, engine=made, only=[check])


BROKEN = [
    ("plain_and_async_results", changed(response={"structured_content": None})),
    ("context_arrives", changed({"user": None})),
    ("context_arrives", changed({"state": {}})),
    ("context_arrives", changed({"trace": {}})),
    ("context_arrives", changed({"fencing_token": None})),
    ("all_parts_of_a_result", changed(response={"attachments": ()})),
    ("all_parts_of_a_result", changed(response={"actions": None})),
    ("errors_of_the_tool", changed({"expose_errors": True})),
    ("errors_of_the_tool", changed(response={"metadata": {}})),
    ("fatal_ends_the_turn", Catching),
    ("retries_run_again", changed(response={"metadata": {}})),
    ("retries_run_again", ById),
    ("progress_arrives_in_order_while_it_runs", Mute),
    ("a_tool_that_asks_runs_once", Unconnected),
    ("an_answer_that_comes_later", ById),
    ("nested_calls_and_stores_are_the_callers", Unconnected),
    ("approval_before_it_is_sent", Twice),
    ("the_time_limit", Abandoning),
    ("a_persons_time_does_not_count", Impatient),
    ("cancelling_reaches_the_tool", Abandoning),
    ("a_large_result_arrives_or_is_refused", Small),
    ("a_large_result_arrives_or_is_refused", Cutting),
    ("fifty_at_once", Mixing),
    ("another_definition_is_refused", changed({"digest": None})),
    ("a_tool_that_the_worker_lacks_is_refused", Eager),
    ("cancelling_reaches_a_plain_tool", Abandoning),
    ("a_large_argument_arrives_or_is_refused", Narrow),
    ("a_result_that_is_no_json_is_an_error", Covering),
    ("many_events_arrive_in_order", Mute),
    ("each_caller_has_its_own_loop", Bound),
    ("the_clock_may_be_put_back", Clocked),
    ("runs_in_another_process", Adapter),
    ("a_dying_worker_is_reported", Silent),
    ("the_same_call_again_runs_once", Forgetful),
    ("the_same_call_again_runs_once", ById),
    ("the_id_of_another_call_is_refused", Trusting),
    ("a_call_without_an_identity_runs_each_time", ByTool),
    ("an_approved_call_survives_its_caller", Detached),
]


@pytest.mark.parametrize(("check", "kind"), BROKEN, ids=[f"{check}-{kind.__name__}" for check, kind in BROKEN])
async def test_a_broken_executor_fails_the_check_that_is_about_it(check, kind, monkeypatch):
    monkeypatch.setattr(suite, "_SECONDS", 3.0)
    with pytest.raises(AssertionError, match=rf"the executor fails 1 of its checks:\n{re.escape(check)}: ."):
        await check_executor(started(kind), remote=True, durable=issubclass(kind, Durable), only=[check])


def test_each_check_catches_a_broken_executor():
    assert suite.CHECKS.keys() == {check for check, *_ in (*BROKEN, *BROKEN_ENGINES)}


async def test_an_executor_that_fails_is_reported_by_each_check():
    class Gone(Adapter):
        async def execute_tool(self, call):
            raise ConnectionError("gone")

    with pytest.raises(AssertionError, match=r"fails 2 of its checks:\nplain.*\ncontext"):
        await check_executor(started(Gone), only=["plain_and_async_results", "context_arrives"])
