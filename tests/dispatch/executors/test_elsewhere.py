from __future__ import annotations

import asyncio

import pytest

from dispatch.executors.isolated_tools import tool_named
from pegboard.dispatch.executors.elsewhere import run_elsewhere
from pegboard.dispatch.executors.executor import AnswerError
from pegboard.dispatch.executors.late import LateProcesses
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.dispatch.executors.response import ExecutionResponse, PermissionRequired
from pegboard.dispatch.limits import CallError, Limits
from pegboard.dispatch.state import CallServices, CallState
from pegboard.errors import FatalToolError, ToolError
from pegboard.schema.problems import StructureError
from pegboard.threads import WorkerPool
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ImageContent, ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.origin import Policy
from pegboard.tools.tool import Tool

FAR = Tool.from_schema("far", {"type": "object"}, lambda arguments: None)


class Remote:
    """An executor that answers as it is told, one answer after the other, and keeps the requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    async def execute(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Near(Remote):
    """The same, handed the tool itself."""

    async def execute_tool(self, tool, request, context, talk):
        self.talk = talk
        return await self.execute(request)


class Host:
    """Allows what is in `allows`."""

    def __init__(self, *allows):
        self.allows = allows
        self.asked = []

    async def ask(self, context, permission, patterns, always, metadata):
        self.asked.append((permission, list(patterns), dict(metadata)))
        if permission not in self.allows:
            raise CallError("rejected", f"no {permission}")


@pytest.fixture
def work():
    """The work for one call of a tool that runs elsewhere."""
    told = []

    def work(tool=FAR, arguments=None, *, context=None, limits=None, executors=None, **policy):
        around = CallServices(
            lambda _: tool,
            WorkerPool(),
            limits=limits or Limits(),
            observe=lambda who, error: told.append((who, error)),
            executors=executors or {},
        )
        made = CallState(ToolCall(tool.name, arguments or {}, "c1"), context or ToolContext(call_id="c1"), around)
        made.tool = tool.evolve(policy=Policy(**policy)) if policy else tool
        made.arguments = arguments or {}
        made.told = told
        return made

    return work


def go(work, executor):
    return asyncio.run(run_elsewhere(work, executor))


def failure(work, executor):
    with pytest.raises(CallError) as raised:
        go(work, executor)
    return raised.value


# The request ----------------------------------------------------------------------------------------------------------


def test_the_request_tells_the_call_and_its_limits(work):
    remote = Remote(ExecutionResponse(output="done"))
    context = ToolContext(ReadonlyContext(user="ann", session="s"), "c1", "far")
    made = work(arguments={"a": 1}, context=context, timeout=5.0, memory_limit=1 << 30, expose_errors=True)
    assert go(made, remote) == ToolResult("done")
    (request,) = remote.requests
    assert (request.tool, request.arguments, request.call_id) == ("far", {"a": 1}, "c1")
    assert (request.user, request.session) == ("ann", "s")
    assert (request.timeout, request.memory_limit, request.expose_errors) == (5.0, 1 << 30, True)


def test_limits_that_the_tool_leaves_open_are_the_registrys_and_the_batchs(work):
    remote = Remote(ExecutionResponse())
    go(work(limits=Limits(timeout=7.0, expose_errors=True)), remote)
    go(work(limits=Limits(timeout=None)), remote)
    batch = work(timeout=9.0)
    batch.around = batch.around.evolve(longest=3.0)
    go(batch, remote)
    assert [request.timeout for request in remote.requests] == [7.0, None, 3.0]
    assert remote.requests[0].expose_errors


def test_a_later_attempt_gets_the_time_that_is_left(work):
    remote = Remote(ExecutionResponse())
    context = ToolContext()
    context.deadline = 0.0  # long ago
    go(work(context=context, timeout=60.0), remote)
    assert remote.requests[0].timeout == 0.0


# The answer -----------------------------------------------------------------------------------------------------------


def test_what_the_tool_answers_is_its_result(work):
    response = ExecutionResponse(
        output="text", content=(ImageContent(b"1"),), structured_content={"a": 1}, title="T", metadata={"m": 1}
    )
    result = go(work(), Remote(response))
    assert (result.content, result.structured_content) == ((ImageContent(b"1"),), {"a": 1})
    assert (result.title, result.metadata) == ("T", {"m": 1})


def test_an_error_that_the_tool_answers_itself_stays_its_answer(work):
    result = go(work(), Remote(ExecutionResponse(output="sorry", is_error=True)))
    assert (result.is_error, result.text) == (True, "sorry")


def test_a_failed_call_is_raised_with_its_kind(work):
    error = failure(work(), Remote(ExecutionResponse.failed("crashed", "it crashed", detail="SIGSEGV")))
    assert (error.kind, error.text, error.detail) == ("crashed", "it crashed", "SIGSEGV")


def test_what_is_not_executed_there_is_not_executed(work):
    assert failure(work(), Remote(ExecutionResponse(not_executed=True))).kind == "not_executed"


def test_a_tool_error_is_raised_as_one_so_that_retries_see_it(work):
    response = ExecutionResponse.failed("tool_failure", "busy").evolve(metadata={"retryable": True})
    with pytest.raises(ToolError, match="busy") as raised:
        go(work(), Remote(response))
    assert raised.value.retryable


def test_what_the_call_asks_for_reaches_the_context(work):
    made = work()
    go(made, Remote(ExecutionResponse(actions={"transfer_to": "writer"})))
    assert made.context.actions.transfer_to == "writer"


# An executor that isn't as it should be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("no connection"),
        SystemExit(1),
        asyncio.CancelledError(),
        None,
        {"output": "a mapping"},
        ExecutionResponse(actions={"state_delta": 1}),
    ],
    ids=["raises", "exits", "cancels itself", "nothing", "mapping", "nonsense"],
)
@pytest.mark.parametrize("kind", [Remote, Near])
def test_one_that_fails_or_answers_nonsense_costs_the_call_and_the_operator_is_told(work, kind, answer):
    made = work(executor="cloud")
    error = failure(made, kind(answer))
    assert error.kind == "crashed"
    assert error.text == "far was not completed: where it runs failed. What it had done by then may stand."
    ((who, raised),) = made.told
    assert who == "executor 'cloud'"
    assert type(raised).__name__ in error.detail


def test_where_nobody_watches_it_costs_the_call_all_the_same(work):
    made = work()
    made.around = made.around.evolve(observe=None)
    assert failure(made, Remote(RuntimeError())).kind == "crashed"


def test_fatal_errors_and_call_errors_pass(work):
    with pytest.raises(FatalToolError):
        go(work(), Remote(FatalToolError("over")))
    assert failure(work(), Remote(CallError("limit", "too much"))).kind == "limit"


def test_arguments_that_a_type_refuses_are_invalid_arguments(work):
    error = failure(work(), Near(StructureError("is no date", ("when",))))
    assert (error.kind, "when: is no date" in error.text) == ("invalid_arguments", True)


def test_what_an_answer_raised_is_raised_as_it_was(work):
    class SuspendedError(Exception):
        pass

    with pytest.raises(SuspendedError):
        go(work(), Near(AnswerError(SuspendedError())))


def test_one_that_keeps_to_no_limit_is_cancelled_a_moment_later(work):
    class Slow:
        was_cancelled = False

        async def execute(self, request):
            try:
                await asyncio.Event().wait()
            finally:
                self.was_cancelled = True

    slow = Slow()
    error = failure(work(limits=Limits(timeout=0.01, grace=0.01)), slow)
    assert (error.kind, error.text) == (
        "timeout",
        "far gave no result within 0.01 s. Its work may still be going on.",
    )
    assert slow.was_cancelled


def test_one_whose_own_kind_of_cancellation_comes_back_is_timed_out_all_the_same(work):
    class OwnError(asyncio.CancelledError):
        pass

    class Slow:
        async def execute(self, request):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise OwnError from None

    assert failure(work(limits=Limits(timeout=0.01, grace=0.01)), Slow()).kind == "timeout"


def test_its_own_time_out_is_its_own(work):
    assert failure(work(limits=Limits(timeout=60.0)), Remote(TimeoutError("slow network"))).kind == "crashed"


def test_cancelling_passes_through(work):
    class Slow:
        async def execute(self, request):
            await asyncio.Event().wait()

    async def cancelled():
        task = asyncio.ensure_future(run_elsewhere(work(), Slow()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


def test_a_name_that_nobody_has_brought_is_not_executed(work):
    error = failure(work(executor="cloud", executors={"other": Remote(None)}), "cloud")
    assert (error.kind, error.text) == (
        "not_executed",
        "far has to run in a place that isn't here; the host has to change that.",
    )
    assert error.detail == "there is no executor 'cloud'; there are loop, other, thread"


def test_a_name_finds_what_was_brought(work):
    remote = Remote(ExecutionResponse(output="there"))
    assert go(work(executors={"cloud": remote}), "cloud").text == "there"


# A permission that is needed there ------------------------------------------------------------------------------------


def needed(permission, approval="digest"):
    return ExecutionResponse(
        permission_required=PermissionRequired(permission, ("a.txt",), "Edits a.txt", {"diff": "+1"}, approval)
    )


def test_what_needs_a_permission_there_is_asked_here_and_sent_again(work):
    host, remote = Host("edit"), Remote(needed("edit"), ExecutionResponse(output="edited"))
    assert go(work(context=ToolContext(host=host)), remote).text == "edited"
    assert host.asked == [("edit", ["a.txt"], {"diff": "+1", "description": "Edits a.txt"})]
    assert [request.approvals for request in remote.requests] == [(), ("digest",)]


def test_one_call_may_need_several(work):
    host = Host("edit", "net")
    remote = Remote(needed("edit", "1"), needed("net", "2"), ExecutionResponse(output="done"))
    assert go(work(context=ToolContext(host=host)), remote).text == "done"
    assert remote.requests[-1].approvals == ("1", "2")


def test_a_no_ends_the_call(work):
    remote = Remote(needed("edit"))
    error = failure(work(context=ToolContext(host=Host())), remote)
    assert (error.kind, error.text) == ("rejected", "no edit")
    assert len(remote.requests) == 1


@pytest.mark.parametrize("approval", ["same", None])
def test_one_that_asks_again_for_what_it_was_given_is_denied(work, approval):
    remote = Remote(needed("edit", approval))
    assert failure(work(context=ToolContext(host=Host("edit"))), remote).kind == "denied"
    assert len(remote.requests) <= 2


def test_one_that_asks_without_end_is_denied(work):
    remote = Remote(*(needed("edit", f"{number}") for number in range(100)))
    assert failure(work(context=ToolContext(host=Host("edit"))), remote).kind == "denied"
    assert len(remote.requests) == 8


# Child processes that are made late -----------------------------------------------------------------------------------


def test_processes_are_made_for_the_first_call_and_ended(work):
    late = LateProcesses(grace=0.2)

    async def all_of_it():
        await late.aclose()
        values = [await run_elsewhere(work(tool_named("add"), {"a": number}), late) for number in (1, 2)]
        await late.aclose()
        return [value.structured_content["result"] for value in values]

    assert asyncio.run(all_of_it()) == [3, 4]


def test_late_processes_find_tools_by_name_too():
    late = LateProcesses(tools=[])
    assert asyncio.run(late.execute(ExecutionRequest(tool="missing"))).kind == "unknown_tool"
