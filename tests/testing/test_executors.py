"""The checks of executors: sound ones pass, and each broken one fails the check that is about it."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager

import pytest

from dispatch.executors.test_worker import Adapter
from pegboard import Permissions
from pegboard.errors import FatalToolError
from pegboard.execution import ExecutionResponse, LocalExecutor
from pegboard.testing import EXECUTOR_TOOLS, check_executor, executors as suite


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
        return self.results.get(key)

    async def execute_tool(self, call):
        key = self.key(call.request)
        if key is None or key not in self.results:
            self.results[key] = await super().execute_tool(call)
        return self.results[key]


@pytest.mark.slow
async def test_sound_executors_pass_and_the_report_lists_what_was_skipped():
    report = await check_executor(started(Adapter))
    skipped = {name for name, (scope, _) in suite.CHECKS.items() if scope != "local"}
    assert {*report.passed} == suite.CHECKS.keys() - skipped
    assert report.skipped.keys() == skipped
    assert report.skipped["runs_in_another_process"] == "for remote executors"
    report = await check_executor(started(Durable), durable=True)
    assert set(report.skipped.values()) == {"for remote executors"}


async def test_checks_can_be_chosen_and_skipped_with_a_reason():
    only = ("plain_and_async_results", "fatal_ends_the_turn")
    report = await check_executor(started(Adapter), only=only, skip={"fatal_ends_the_turn": "not yet"})
    assert report.passed == only[:1]
    assert report.skipped["fatal_ends_the_turn"] == "not yet"
    assert report.skipped["the_time_limit"] == "not asked for"
    for option in ({"only": ["nonsense"]}, {"skip": {"nonsense": "why"}}):
        with pytest.raises(ValueError, match="there is no check nonsense"):
            await check_executor(started(Adapter), **option)


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
        return ExecutionResponse(output="done") if response.kind == "unknown_tool" else response


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


BROKEN = [
    ("plain_and_async_results", changed(response={"structured_content": None})),
    ("context_arrives", changed({"user": None})),
    ("context_arrives", changed({"state": {}})),
    ("context_arrives", changed({"trace": {}})),
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
    ("the_time_limit", Abandoning),
    ("a_persons_time_does_not_count", Impatient),
    ("cancelling_reaches_the_tool", Abandoning),
    ("a_large_result_arrives_or_is_refused", Small),
    ("a_large_result_arrives_or_is_refused", Cutting),
    ("fifty_at_once", Mixing),
    ("another_definition_is_refused", changed({"digest": None})),
    ("a_tool_that_the_worker_lacks_is_refused", Eager),
    ("runs_in_another_process", Adapter),
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


def test_each_check_but_two_catches_a_broken_executor():
    """An executor can't send a call before it is approved; what a dying worker does is tested with processes."""
    assert suite.CHECKS.keys() - {check for check, _ in BROKEN} == {
        "approval_before_it_is_sent",
        "a_dying_worker_is_reported",
    }


async def test_an_executor_that_fails_is_reported_by_each_check():
    class Gone(Adapter):
        async def execute_tool(self, call):
            raise ConnectionError("gone")

    with pytest.raises(AssertionError, match=r"fails 2 of its checks:\nplain.*\ncontext"):
        await check_executor(started(Gone), only=["plain_and_async_results", "context_arrives"])
