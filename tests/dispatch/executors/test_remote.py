from __future__ import annotations

import asyncio

import attrs
import pytest

from pegboard import (
    Actions,
    CallError,
    ExecutionResponse,
    ExecutorCall,
    FatalToolError,
    ImageContent,
    Limits,
    Once,
    PermissionRequired,
    PluginError,
    Progress,
    ReadonlyContext,
    Reject,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    hookimpl,
    register_plugin,
    tool,
)
from pegboard.dispatch.executors.executor import ExecutionRequest
from pegboard.schema.json import StructureError
from pegboard.tools.context import DisplayUpdate


class Remote:
    """An executor with given answers, one after the other; the last one stays. It keeps the requests."""

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

    async def execute_tool(self, call):
        return await self.execute(call.request)


class Asking(Remote):
    """Asks a question of the call's, and lets its error end the call."""

    async def execute_tool(self, call):
        await call.answer("ask", {"permission": "edit", "patterns": ["a.txt"]})
        return self.answers[0]


def far(**options):
    return Tool.from_schema("far", {"type": "object"}, lambda arguments: None, executor="cloud", **options)


def registry_with(executor, *, limits=None, allows=(), **options):
    """A registry whose tool `far` runs in this executor."""
    asked = []

    async def approver(request, context):
        asked.append((request.permission, list(request.patterns), dict(request.metadata or {})))
        return Once() if request.permission in allows else Reject("no")

    registry = ToolRegistry(limits=limits or Limits(), approver=approver)
    registry.register(far(**options))
    registry.add("executors", "cloud", executor)
    registry.asked = asked
    return registry


def call(registry, arguments=None, context=None):
    return asyncio.run(registry.call("far", arguments or {}, context, call_id="c1"))


# The request ----------------------------------------------------------------------------------------------------------


def test_the_request_holds_the_call_and_its_limits():
    remote = Remote(ExecutionResponse(output="done"))
    registry = registry_with(remote, timeout=5.0, memory_limit=1 << 30, expose_errors=True)
    assert call(registry, {"a": 1}, ReadonlyContext(user="ann", session="s")).text == "done"
    (request,) = remote.requests
    assert (request.tool, request.arguments, request.call_id) == ("far", {"a": 1}, "c1")
    assert (request.user, request.session) == ("ann", "s")
    assert (request.timeout, request.memory_limit, request.expose_errors) == (5.0, 1 << 30, True)


def test_limits_that_the_tool_leaves_open_are_the_registrys_and_the_batchs():
    remote = Remote(ExecutionResponse())
    call(registry_with(remote, limits=Limits(timeout=7.0, expose_errors=True)))
    call(registry_with(remote, limits=Limits(timeout=None)))
    registry = registry_with(remote, timeout=9.0)
    asyncio.run(registry.dispatch([ToolCall("far", {}, id="1")], timeout=3.0))
    assert [request.timeout for request in remote.requests] == [7.0, None, 3.0]
    assert remote.requests[0].expose_errors


def test_a_later_attempt_gets_the_time_that_is_left():
    busy = ExecutionResponse.failed("tool_failure", "busy").evolve(metadata={"retryable": True})

    class Slow(Remote):
        async def execute(self, request):
            await asyncio.sleep(0.2 if not self.requests else 0)
            return await super().execute(request)

    remote = Slow(busy, ExecutionResponse(output="done"))
    assert call(registry_with(remote, timeout=1.0, retries=1, idempotent=True)).text == "done"
    first, second = remote.requests
    assert first.timeout == 1.0
    assert second.timeout < 0.85


# The answer -----------------------------------------------------------------------------------------------------------


def test_what_the_tool_answers_is_its_result():
    response = ExecutionResponse(
        output="text", content=(ImageContent(b"1"),), structured_content={"a": 1}, title="T", metadata={"m": 1}
    )
    result = call(registry_with(Remote(response)))
    assert (result.content, result.structured_content) == ((ImageContent(b"1"),), {"a": 1})
    assert (result.title, result.metadata) == ("T", {"m": 1})


def test_an_error_that_the_tool_answers_itself_stays_its_answer():
    result = call(registry_with(Remote(ExecutionResponse(output="sorry", is_error=True))))
    assert (result.is_error, result.text) == (True, "sorry")


def test_a_failed_call_fails_with_its_kind():
    result = call(registry_with(Remote(ExecutionResponse.failed("crashed", "it crashed", detail="SIGSEGV"))))
    assert (result.kind, result.text, result.detail) == ("crashed", "it crashed", "SIGSEGV")


def test_what_is_not_executed_there_is_not_executed():
    assert call(registry_with(Remote(ExecutionResponse(not_executed=True)))).kind == "not_executed"


def test_a_tool_error_reaches_callbacks_as_one():
    response = ExecutionResponse.failed("tool_failure", "busy").evolve(metadata={"retryable": True})
    registry, seen = registry_with(Remote(response)), []
    registry.add_callback("on_tool_error", lambda error: seen.append(error))  # noqa: PLW0108  (by its parameter's name)
    assert call(registry).text == "busy"
    assert (type(seen[0]), seen[0].retryable) == (ToolError, True)


def test_what_the_call_asks_for_reaches_the_context():
    context = ToolContext()
    call(registry_with(Remote(ExecutionResponse(actions={"transfer_to": "writer"}))), context=context)
    assert context.actions.actions == Actions(transfer_to="writer")


# An executor that isn't as it should be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("no connection"),
        SystemExit(1),
        asyncio.CancelledError(),
        TimeoutError("slow network"),
        None,
        {"output": "a mapping"},
        ExecutionResponse(actions={"state_delta": 1}),
    ],
    ids=["raises", "exits", "cancels itself", "times out", "nothing", "mapping", "nonsense"],
)
@pytest.mark.parametrize("kind", [Remote, Near])
def test_one_that_fails_or_answers_nonsense_costs_the_call_and_is_logged(kind, answer, caplog):
    result = call(registry_with(kind(answer)))
    assert result.kind == "crashed"
    assert result.text == "far was not completed: where it runs failed. What it had done by then may stand."
    (record,) = caplog.records
    assert record.getMessage() == "executor 'cloud' failed"
    assert type(record.exc_info[1]).__name__ in result.detail


def test_fatal_errors_and_call_errors_pass():
    with pytest.raises(FatalToolError):
        call(registry_with(Remote(FatalToolError("over"))))
    assert call(registry_with(Remote(CallError("limit", "too much")))).kind == "limit"


def test_arguments_that_a_type_refuses_are_invalid_arguments():
    result = call(registry_with(Near(StructureError("is no date", ("when",)))))
    assert (result.kind, "when: is no date" in result.text) == ("invalid_arguments", True)


def test_what_an_answer_raised_ends_the_call_as_it_would_here():
    result = call(registry_with(Asking(ExecutionResponse(output="never"))))
    assert (result.kind, result.is_error) == ("rejected", True)


class Slow:
    """Keeps to no limit."""

    was_cancelled = False

    def __init__(self, error=asyncio.CancelledError):
        self.error = error

    async def execute(self, request):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise self.error from None


class OwnError(asyncio.CancelledError):
    """Another class of cancellation, which asyncio's own timeout passes on."""


@pytest.mark.parametrize("error", [asyncio.CancelledError, OwnError])
def test_one_that_keeps_to_no_limit_is_cancelled_a_moment_later(error):
    slow = Slow(error)
    result = call(registry_with(slow, limits=Limits(timeout=0.01, grace=0.01)))
    assert (result.kind, result.text) == (
        "timeout",
        "far gave no result within 0.01 s. Its work may still be going on.",
    )
    assert slow.was_cancelled


async def test_cancelling_passes_through():
    slow = Slow()
    task = asyncio.ensure_future(registry_with(slow).call("far"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.was_cancelled


# Which executor -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cloud", "No installed plugin provides 'cloud'. There are other"),
        ("process", "No installed plugin provides 'process': pip install pegboard-processes"),
    ],
)
def test_a_name_that_nothing_provides_is_not_executed_and_the_package_is_named(name, hint, monkeypatch):
    monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")  # as if none were installed
    registry = ToolRegistry()
    registry.register(Tool.from_schema("far", {"type": "object"}, lambda arguments: None, executor=name))
    registry.add("executors", "other", Remote(None))
    result = call(registry)
    assert (result.kind, result.text) == ("not_executed", f"far was not run. {hint}")


def test_a_plugin_that_fails_to_bring_it_is_named_and_the_operator_learns_why(monkeypatch):
    def fail(self, kind, name):
        raise PluginError("clouds", "no network")

    monkeypatch.setattr(ToolRegistry, "_provided", fail)
    registry = ToolRegistry()
    registry.register(far())
    result = call(registry)
    assert result.text == "far was not run: the plugin that provides its executor 'cloud' failed."
    assert (result.kind, "no network" in result.detail) == ("not_executed", True)


def test_a_plugin_brings_one_and_it_is_closed_with_the_registry():
    class Closing(Remote):
        is_closed = False

        async def aclose(self):
            self.is_closed = True
            raise RuntimeError("it costs only itself")

    closing = Closing(ExecutionResponse(output="there"))

    class Plugin:
        @hookimpl
        def pegboard_register_executors(self, register, settings):
            register("cloud", closing)

    async def main():
        async with ToolRegistry() as registry:
            registry.register(far())
            register_plugin(registry, Plugin(), "cloud")
            return await registry.call("far")

    assert asyncio.run(main()).text == "there"
    assert closing.is_closed


# A permission that is needed there ------------------------------------------------------------------------------------


def needed(permission, approval="digest"):
    return ExecutionResponse(
        permission_required=PermissionRequired(permission, ("a.txt",), "Edits a.txt", {"diff": "+1"}, approval)
    )


def test_what_needs_a_permission_there_is_asked_here_and_sent_again():
    remote = Remote(needed("edit"), ExecutionResponse(output="edited"))
    registry = registry_with(remote, allows=("edit",))
    assert call(registry).text == "edited"
    ((permission, patterns, metadata),) = registry.asked
    assert (permission, patterns) == ("edit", ["a.txt"])
    assert metadata == {"diff": "+1", "description": "Edits a.txt"}
    assert [request.approvals for request in remote.requests] == [(), ("digest",)]


def test_one_call_may_need_several():
    remote = Remote(needed("edit", "1"), needed("net", "2"), ExecutionResponse(output="done"))
    assert call(registry_with(remote, allows=("edit", "net"))).text == "done"
    assert remote.requests[-1].approvals == ("1", "2")


def test_a_no_ends_the_call():
    remote = Remote(needed("edit"))
    assert call(registry_with(remote)).kind == "rejected"
    assert len(remote.requests) == 1


@pytest.mark.parametrize("approval", ["same", None])
def test_one_that_asks_again_for_what_it_was_given_is_denied(approval):
    remote = Remote(needed("edit", approval))
    assert call(registry_with(remote, allows=("edit",))).kind == "denied"
    assert len(remote.requests) <= 2


def test_one_that_asks_without_end_is_denied():
    remote = Remote(*(needed("edit", f"{number}") for number in range(100)))
    assert call(registry_with(remote, allows=("edit",))).kind == "denied"
    assert len(remote.requests) == 8


# What a tool there may emit and ask -----------------------------------------------------------------------------------


@tool
def near(a: int, context: ToolContext) -> int:
    """A tool with its function here."""
    return a


@attrs.define(eq=False)
class Host:
    """A call host that lets everything pass."""

    asked: list = attrs.field(factory=list)

    async def ask(self, context, permission, patterns, always, metadata):
        self.asked.append((permission, list(patterns), list(always), dict(metadata)))

    async def call(self, context, name, arguments):
        return ToolResult(f"{name}: {arguments}")


def executor_call(**facts):
    context = ToolContext(ReadonlyContext(user="ann", session="s"), "c1", "near", **facts)
    return ExecutorCall(
        Tool.from_function(near.__wrapped__ if hasattr(near, "__wrapped__") else near),
        ExecutionRequest.of_call("near", {"a": 1}, context),
        context,
    )


def answers(call, *questions):
    async def all_of_them():
        return [await call.answer(name, given) for name, given in questions]

    return asyncio.run(all_of_them())


def test_an_executor_gets_the_function_and_its_arguments():
    made = executor_call()
    assert made.handler is made.tool.handler
    args, kwargs = asyncio.run(made.bind())
    assert made.handler.function(*args, **kwargs) == 1


def test_what_is_emitted_reaches_the_listener_and_a_heading_the_context():
    seen = []
    made = executor_call(listener=seen.append)
    assert made.is_watched
    made.emit({"progress": [1, None, None]})
    made.emit({"title": "T", "facts": {"a": 1}})
    assert seen == [Progress(1), DisplayUpdate("T", {"a": 1})]
    assert made.context.actions.title == "T"
    made.context.listener = None  # it went away meanwhile
    made.emit({"partial": 1})
    assert not made.is_watched


def test_questions_are_answered_by_the_context():
    host = Host()
    asked = {"permission": "edit", "patterns": ["a"], "always": ["*"], "metadata": {"diff": "+1"}}
    found = answers(
        executor_call(host=host),
        ("ask", asked),
        ("call", {"name": "echo", "arguments": {"a": 1}}),
        ("memory.add", {"text": "likes tea"}),
        ("memory.search", {"query": "tea", "session_only": True}),
        ("artifacts.save", {"name": "a.txt", "content": {"type": "text", "text": "hello"}}),
        ("artifacts.load", {"name": "a.txt"}),
        ("artifacts.list", {}),
        ("artifacts.delete", {"name": "a.txt"}),
    )
    assert host.asked == [("edit", ["a"], ["*"], {"diff": "+1"})]
    assert ToolResult.from_data(found[1]).text == "echo: {'a': 1}"
    assert (found[2]["user"], found[2]["text"]) == ("ann", "likes tea")
    assert found[3] == [found[2]]
    assert found[4:] == [1, {"type": "text", "text": "hello"}, ["a.txt"], None]


def test_a_question_to_a_person_is_answered_with_all_answers_before_it():
    (answer,) = answers(executor_call(), ("request_confirmation", {"hint": "sure?", "payload": {"n": 1}}))
    assert answer == {"hint": "sure?", "confirmed": True, "payload": {"n": 1}}


@pytest.mark.parametrize(
    ("question", "given"),
    [
        ("ask", {}),
        ("ask", {"permission": "p", "patterns": [1]}),
        ("ask", {"permission": "p", "patterns": ["a"], "always": [1]}),
        ("request_confirmation", {"hint": 1}),
        ("call", {"name": "a", "arguments": []}),
        ("memory.search", {"query": "a", "limit": "1"}),
        ("memory.add", {"text": None}),
        ("artifacts.save", {"name": "a", "content": {"type": "text"}}),
        ("artifacts.save", {"name": "a"}),
        ("artifacts.load", {"name": "a", "version": "1"}),
        ("artifacts.delete", {}),
    ],
)
def test_questions_with_wrong_arguments_are_refused(question, given):
    with pytest.raises(ValueError, match=r".+: .+|missing"):
        answers(executor_call(host=Host()), (question, given))


def test_there_are_no_other_questions():
    with pytest.raises(LookupError, match="nothing here answers 'surprise'"):
        answers(executor_call(), ("surprise", {}))
