from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import attrs
import pytest
from attrs import evolve

from pegboard import (
    Actions,
    CallError,
    Confirmation,
    ImageContent,
    Limits,
    Once,
    Origin,
    Permissions,
    Policy,
    Preview,
    Progress,
    ReadonlyContext,
    Reject,
    Rule,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    hookimpl,
    register_plugin,
    tool,
    tool_of,
)
from pegboard.approval import ask_later
from pegboard.dispatch.executors import executor as executor_module
from pegboard.errors import FatalToolError, PluginError
from pegboard.execution import (
    ExecutionRequest,
    ExecutionResponse,
    ExecutorCall,
    LocalExecutor,
    PermissionRequired,
    ToolInfo,
)
from pegboard.json import StructureError
from pegboard.tools import DisplayUpdate, tools_from
from pegboard.tools.handler import LazyHandler


class Remote:
    """Executor with scripted answers, the last of which repeats; records the requests."""

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
    """The same as a `ToolExecutor`."""

    async def execute_tool(self, call):
        return await self.execute(call.request)


class Asking(Remote):
    """Asks the call a question, and lets its error end the call."""

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


def test_the_request_holds_the_call_and_its_limits():
    remote = Remote(ExecutionResponse(output="done"))
    registry = registry_with(remote, timeout=5.0, memory_limit=1 << 30, expose_errors=True, queue="gpu")
    assert call(registry, {"a": 1}, ReadonlyContext(user="ann", session="s")).text == "done"
    (request,) = remote.requests
    assert (request.tool, request.arguments, request.call_id) == ("far", {"a": 1}, "c1")
    assert (request.user, request.session) == ("ann", "s")
    assert (request.timeout, request.memory_limit, request.expose_errors) == (5.0, 1 << 30, True)
    assert request.queue == "gpu"


@pytest.mark.parametrize(
    ("sends", "sends_all", "sent"),
    [
        (None, False, ({}, {}, {})),
        (None, True, ({"cart": 1, "a.b": 2}, {"key": 3}, {"v": 4})),
        ([], True, ({}, {}, {})),
        (["state", "values"], False, ({"cart": 1, "a.b": 2}, {}, {"v": 4})),
        (["state.a.b", "extra.key", "values.w"], False, ({"a.b": 2}, {"key": 3}, {})),
    ],
)
def test_of_the_context_only_what_the_tool_names_is_sent(sends, sends_all, sent):
    """But for an executor of this machine, which gets all where the tool names nothing."""
    remote = Remote(ExecutionResponse())
    remote.sends_all = sends_all
    registry = registry_with(remote, sends=sends)
    registry.add_callback("before_tool", lambda context: context.values.update(v=4))
    call(registry, {}, ReadonlyContext(user="ann", state={"cart": 1, "a.b": 2}, extra={"key": 3, "x": object()}))
    (request,) = remote.requests
    assert (request.state, request.extra, request.values) == sent
    assert request.user == "ann"


def test_limits_default_to_those_of_the_registry_and_the_batch():
    remote = Remote(ExecutionResponse())
    call(registry_with(remote, limits=Limits(timeout=7.0, expose_errors=True)))
    call(registry_with(remote, limits=Limits(timeout=None)))
    registry = registry_with(remote, timeout=9.0)
    asyncio.run(registry.dispatch([ToolCall("far", {}, id="1")], timeout=3.0))
    assert [request.timeout for request in remote.requests] == [7.0, None, 3.0]
    assert remote.requests[0].expose_errors


def test_a_retry_gets_the_remaining_time():
    busy = ExecutionResponse.failed("tool_failure", "busy").evolve(metadata={"retryable": True})

    class Slow(Remote):
        async def execute(self, request):
            await asyncio.sleep(0.01)
            return await super().execute(request)

    remote = Slow(busy, ExecutionResponse(output="done"))
    assert call(registry_with(remote, timeout=60.0, retries=1, idempotent=True)).text == "done"
    first, second = remote.requests
    assert first.timeout == 60.0
    assert 0 < second.timeout <= 59.995


@pytest.mark.parametrize(
    ("response", "facts"),
    [
        (ExecutionResponse(output="sorry", is_error=True), ("tool_failure", "sorry", None)),
        (ExecutionResponse.failed("crashed", "it crashed", detail="SIGSEGV"), ("crashed", "it crashed", "SIGSEGV")),
        (ExecutionResponse(not_executed=True), ("not_executed", "There is nothing to run it with.", None)),
    ],
)
def test_an_error_response_becomes_an_error_result(response, facts):
    result = call(registry_with(Remote(response)))
    assert (result.kind, result.text, result.detail, result.is_error) == (*facts, True)


def test_a_response_becomes_a_result():
    response = ExecutionResponse(
        output="text", content=(ImageContent(b"1"),), structured_content={"a": 1}, title="T", metadata={"m": 1}
    )
    result = call(registry_with(Remote(response)))
    assert (result.content, result.structured_content) == ((ImageContent(b"1"),), {"a": 1})
    assert (result.title, result.metadata) == ("T", {"m": 1})


def test_a_retryable_error_reaches_callbacks_as_a_tool_error():
    response = ExecutionResponse.failed("tool_failure", "busy").evolve(metadata={"retryable": True})
    registry, seen = registry_with(Remote(response)), []
    registry.add_callback("on_tool_error", lambda error: seen.append(error))  # noqa: PLW0108  (by its parameter's name)
    assert call(registry).text == "busy"
    assert (type(seen[0]), seen[0].retryable) == (ToolError, True)


def test_actions_of_the_response_reach_the_context():
    context = ToolContext()
    call(registry_with(Remote(ExecutionResponse(actions={"transfer_to": "writer"}))), context=context)
    assert context.actions.actions == Actions(transfer_to="writer")


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
        ExecutionResponse(title=5),
        ExecutionResponse(output="done", kind="nonsense"),
    ],
    ids=["raises", "exits", "cancels itself", "times out", "nothing", "mapping", "actions", "title", "kind"],
)
@pytest.mark.parametrize("kind", [Remote, Near])
def test_an_executor_that_fails_or_returns_nonsense_fails_only_the_call_and_is_logged(kind, answer, caplog):
    result = call(registry_with(kind(answer)))
    assert result.kind == "crashed"
    assert result.text == "far was not completed: its executor failed. Its effects so far may remain."
    (record,) = caplog.records
    assert record.getMessage() == "executor 'cloud' failed"
    assert type(record.exc_info[1]).__name__ in result.detail


def test_fatal_errors_and_call_errors_propagate():
    with pytest.raises(FatalToolError):
        call(registry_with(Remote(FatalToolError("over"))))
    assert call(registry_with(Remote(CallError("limit", "too much")))).kind == "limit"


def test_arguments_that_a_type_refuses_are_invalid_arguments():
    result = call(registry_with(Near(StructureError("is not a date", ("when",)))))
    assert (result.kind, "when: is not a date" in result.text) == ("invalid_arguments", True)


def test_an_error_of_an_answer_ends_the_call():
    result = call(registry_with(Asking(ExecutionResponse(output="never"))))
    assert (result.kind, result.is_error) == ("rejected", True)


class Slow:
    """Ignores the time limit."""

    was_cancelled = False

    def __init__(self, error=asyncio.CancelledError):
        self.error = error
        self.started = asyncio.Event()

    async def execute(self, request):
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise self.error from None


class OwnError(asyncio.CancelledError):
    """Another class of cancellation, which asyncio's own timeout passes on."""


class SlowNear(Slow):
    """The same as a `ToolExecutor`."""

    async def execute_tool(self, call):
        await self.execute(call.request)


class Deaf(Slow):
    """Ignores that it is cancelled."""

    async def execute(self, request):
        while True:
            with suppress(asyncio.CancelledError):
                await super().execute(request)


@pytest.mark.parametrize(
    "slow", [Slow(), Slow(OwnError), SlowNear(), Deaf()], ids=["slow", "own error", "slow near", "deaf"]
)
def test_an_executor_that_exceeds_the_limit_is_cancelled(slow, monkeypatch):
    monkeypatch.setattr(executor_module, "_START_SECONDS", 0.01)
    monkeypatch.setattr(executor_module, "_CLEANUP_SECONDS", 0.01)
    result = call(registry_with(slow, limits=Limits(timeout=0.01, grace=0.01)))
    assert (result.kind, result.text) == (
        "timeout",
        "far gave no result within 0.01 s. It may still be running.",
    )
    assert slow.was_cancelled


async def test_cancelling_a_call_cancels_its_executor():
    slow = Slow()
    task = asyncio.ensure_future(registry_with(slow).call("far"))
    await slow.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.was_cancelled


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cloud", "no installed plugin provides 'cloud'. Known executors: other"),
        ("process", "no installed plugin provides 'process': pip install pegboard-processes"),
    ],
)
def test_an_unknown_executor_is_not_executed_and_its_package_is_named(name, hint, monkeypatch):
    monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")  # as if none were installed
    registry = ToolRegistry()
    registry.register(Tool.from_schema("far", {"type": "object"}, lambda arguments: None, executor=name))
    registry.add("executors", "other", Remote(None))
    result = call(registry)
    assert (result.kind, result.text) == ("not_executed", f"far was not run: {hint}")


def test_an_executor_whose_plugin_fails_is_not_executed(monkeypatch):
    def fail(self, kind, name):
        raise PluginError("clouds", "no network")

    monkeypatch.setattr("pegboard.contributions.Contributions.find", fail)
    registry = ToolRegistry()
    registry.register(far())
    result = call(registry)
    assert result.text == "far was not run: its executor 'cloud' can't be loaded."
    assert (result.kind, "no network" in result.detail) == ("not_executed", True)


def test_the_executor_of_a_plugin_is_closed_with_the_registry():
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


def needed(permission, approval="digest"):
    return ExecutionResponse(
        permission_required=PermissionRequired(permission, ("a.txt",), "Edits a.txt", {"diff": "+1"}, approval)
    )


@pytest.mark.parametrize(("approval", "sent"), [("digest", "digest"), (None, "edit")])
def test_a_required_permission_is_asked_for_and_the_request_sent_again(approval, sent):
    """With its approval, or else with the permission's name."""
    remote = Remote(needed("edit", approval), ExecutionResponse(output="edited"))
    registry = registry_with(remote, allows=("edit",))
    assert call(registry).text == "edited"
    ((permission, patterns, metadata),) = registry.asked
    assert (permission, patterns) == ("edit", ["a.txt"])
    assert metadata == {"diff": "+1", "description": "Edits a.txt"}
    assert [request.approvals for request in remote.requests] == [(), (sent,)]


def test_a_rejection_ends_the_call():
    remote = Remote(needed("edit"))
    assert call(registry_with(remote)).kind == "rejected"
    assert len(remote.requests) == 1


@pytest.mark.parametrize("approval", ["same", None])
def test_requiring_a_granted_permission_again_is_denied(approval):
    registry = registry_with(remote := Remote(needed("edit", approval)), allows=("edit",))
    assert call(registry).kind == "denied"
    assert (len(remote.requests), len(registry.asked)) == (2, 1)


def test_requiring_permissions_without_end_is_denied():
    remote = Remote(*(needed("edit", f"{number}") for number in range(100)))
    assert call(registry_with(remote, allows=("edit",))).kind == "denied"
    assert [request.approvals for request in remote.requests] == [tuple("0123456"[:count]) for count in range(8)]


@tool
def near(a: int, context: ToolContext) -> int:
    """A tool with its function in this process."""
    return a


@attrs.define(eq=False)
class Host:
    """A call host that allows everything."""

    asked: list = attrs.field(factory=list)

    async def ask(self, context, permission, patterns, always, metadata):
        self.asked.append((permission, list(patterns), list(always), dict(metadata)))

    async def call(self, context, name, arguments):
        return ToolResult(f"{name}: {arguments}")


def executor_call(**facts):
    context = ToolContext(ReadonlyContext(user="ann", session="s"), "c1", "near", **facts)
    return ExecutorCall(tool_of(near), ExecutionRequest.of_call("near", {"a": 1}, context), context)


def answers(call, *questions):
    async def all_of_them():
        return [await call.answer(name, given) for name, given in questions]

    return asyncio.run(all_of_them())


def test_an_executor_gets_the_function_and_its_arguments():
    made = executor_call()
    assert made.handler is made.tool.handler
    args, kwargs = asyncio.run(made.bind())
    assert made.handler.function(*args, **kwargs) == 1


def test_events_reach_the_listener_and_a_title_the_context():
    seen = []
    made = executor_call(listener=seen.append)
    assert made.is_watched
    made.emit({"type": "progress", "progress": 1})
    made.emit({"type": "display", "title": "T", "facts": {"a": 1}})
    assert seen == [Progress(1), DisplayUpdate("T", {"a": 1})]
    assert made.context.actions.title == "T"
    made.context.listener = None
    made.emit({"type": "partial", "data": 1})
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


def test_a_confirmation_is_answered_as_json():
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


def test_an_unknown_question_is_refused():
    with pytest.raises(LookupError, match="there is no question 'surprise'"):
        answers(executor_call(), ("surprise", {}))


@tool
def echo(text: str) -> str:
    """Gives it back."""
    return text


@tool
async def add(a: int, b: int = 2) -> int:
    """Adds."""
    await asyncio.sleep(0)
    return a + b


@tool(permission="edit", preview=lambda arguments: Preview(f"Edits {arguments['path']}", "+1 line"))
def edit(path: str) -> str:
    """Edits a file."""
    return f"edited {path}"


@tool(destructive=True)
def wipe() -> str:
    """Wipes everything."""
    return "wiped"


@tool(requires_confirmation=lambda arguments: arguments["count"] > 3)
def send(count: int) -> str:
    """Sends messages."""
    return f"sent {count}"


@tool
async def ask_inside(context: ToolContext, path: str) -> str:
    """Asks for a permission while it runs."""
    await context.ask("net", [path], always=["*"], metadata={"why": "update"})
    return f"fetched {path}"


@tool
def keep_allowed(context: ToolContext, paths: list[str | None]) -> list[str | None]:
    """The paths that the rules allow."""
    return [path for path in paths if context.allows("read", path)]


@tool
async def nest(context: ToolContext, name: str, arguments: dict | str) -> str:
    """Calls another tool."""
    result = await context.call(name, arguments)
    return f"{result.kind or 'ok'}: {result.text}"


@tool
async def confirm(context: ToolContext) -> bool:
    """Asks a question."""
    return (await context.request_confirmation("sure?")).confirmed


@tool
def background(context: ToolContext) -> str:
    """Starts background work."""

    async def work():
        raise AssertionError("never")

    try:
        context.background(work())
    except LookupError as error:
        first = str(error)
    with pytest.raises(LookupError):
        context.background(print)
    return first


@tool
def fatal() -> None:
    """Ends the turn."""
    raise FatalToolError("over")


@tool
def fail() -> None:
    """Fails."""
    raise ValueError("secret")


@tool
def note(context: ToolContext) -> str:
    """Changes the state."""
    context.state["seen"] = True
    context.metadata(title="Noted")
    return "noted"


ALL = [echo, add, edit, wipe, send, ask_inside, keep_allowed, nest, confirm, background, fatal, fail, note]


@pytest.fixture
def local():
    """Creates executors that are closed after the test."""
    made = []

    def local(*functions, active=None, **settings):
        tools = [one for function in functions or ALL for one in tools_from(function)]
        made.append(LocalExecutor(tools, active, **settings))
        return made[-1]

    yield local
    for executor in made:
        asyncio.run(executor.aclose())


def run_locally(executor, name, approvals=(), /, **arguments):
    request = ExecutionRequest(tool=name, arguments=arguments, call_id="c1", approvals=approvals)
    return asyncio.run(executor.execute(request))


def test_tools_are_listed_by_name_or_in_the_order_of_active(local):
    executor = local(echo, add)
    assert [info.name for info in executor.tools()] == ["add", "echo"]
    executor.active = ["echo", "missing", "add", "echo"]
    assert [info.name for info in executor.tools()] == ["echo", "add"]
    executor.active = []
    assert executor.tools() == ()


def test_a_listed_tool_has_its_description_and_schema(local):
    (info,) = local(echo).tools()
    assert info == ToolInfo("echo", "Gives it back.", tools_from(echo)[0].spec.input_schema)
    assert info.to_json()["inputSchema"]["required"] == ["text"]


@tool
def busy() -> None:
    """Is busy."""
    raise ToolError("busy", retryable=True)


LATE, HIDDEN = (tools_from(echo)[0].with_spec(name=name) for name in ("late", "hidden"))


@pytest.mark.parametrize(
    ("name", "arguments", "facts"),
    [
        ("echo", {"text": "hi"}, {"output": "hi"}),
        ("add", {"a": 1}, {"structured_content": {"result": 3}}),
        ("add", {"a": "1"}, {"kind": "invalid_arguments", "is_error": True}),
        ("ech", {}, {"kind": "unknown_tool", "is_error": True}),
        ("hidden", {}, {"kind": "not_offered", "is_error": True}),
        ("fail", {}, {"kind": "tool_failure", "error": "fail failed: ValueError."}),
        ("busy", {}, {"error": "busy", "metadata": {"retryable": True}}),
        ("note", {}, {"title": "Noted", "actions": {"stateDelta": {"seen": True}}}),
        ("late", {"text": "late"}, {"output": "late"}),
        ("nest", {"name": "add", "arguments": {"a": 1}}, {"output": 'ok: {"result": 3}'}),
        ("nest", {"name": "add", "arguments": '{"a": 2}'}, {"output": 'ok: {"result": 4}'}),
        ("nest", {"name": "note", "arguments": {}}, {"actions": {"stateDelta": {"seen": True}}}),
    ],
)
def test_responses(local, name, arguments, facts):
    executor = local(*ALL, busy, LATE.evolve(handler=LazyHandler(lambda: LATE)), HIDDEN)
    executor.active = [info.name for info in executor.tools() if info.name != "hidden"]
    response = run_locally(executor, name, **arguments)
    assert {key: getattr(response, key) for key in facts} == facts


@pytest.mark.parametrize(("name", "kind"), [("add", "invalid_arguments"), ("missing", "unknown_tool")])
def test_a_tool_gets_the_error_of_its_inner_call(local, name, kind):
    assert run_locally(local(), "nest", name=name, arguments="{").output.startswith(f"{kind}: ")


def test_the_text_of_an_exception_is_shown_if_the_request_exposes_errors(local):
    response = asyncio.run(local().execute(ExecutionRequest(tool="fail", expose_errors=True)))
    assert response.error == "fail failed: ValueError: secret."


def test_a_tool_without_a_handler_is_not_executed(local):
    response = run_locally(local(Tool.from_schema("far", {"type": "object"})), "far")
    assert (response.not_executed, response.kind, response.is_error) == (True, "not_executed", True)


def test_a_fatal_error_is_raised(local):
    with pytest.raises(FatalToolError, match="over"):
        run_locally(local(), "fatal")


def test_the_requests_time_limit_is_enforced(local):
    @tool
    async def never() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    executor = local(never, limits=Limits(grace=0.01))
    response = asyncio.run(executor.execute(ExecutionRequest(tool="never", timeout=0.01)))
    assert (response.kind, response.error) == ("timeout", "never gave no result within 0.01 s. It was cancelled.")


def test_the_context_is_that_of_the_request(local):
    @tool
    def about(context: ToolContext) -> list:
        """What it knows of its call."""
        return [context.call_id, context.user, context.session, dict(context.state), context.work_dir, context.tool]

    request = ExecutionRequest(tool="about", call_id="c9", user="ann", session="s1", state={"n": 1}, work_dir="/w")
    response = asyncio.run(local(about).execute(request))
    assert response.structured_content == {"result": ["c9", "ann", "s1", {"n": 1}, "/w", "about"]}


def test_a_tool_may_run_in_another_executor_which_is_closed_with_it(local):
    class Cloud:
        is_closed = False

        async def execute(self, request):
            return ExecutionResponse(output="far", structured_content={"result": request.arguments["a"]})

        async def aclose(self):
            self.is_closed = True

    far, cloud = tool_of(add).evolve(policy=Policy(executor="cloud")), Cloud()
    executor = LocalExecutor([far], executors={"cloud": cloud})
    assert run_locally(executor, "add", a=3).output == "far"
    asyncio.run(executor.aclose())
    assert cloud.is_closed
    missing = run_locally(local(far), "add", a=3)
    assert missing.kind == "not_executed"
    assert missing.error == "add was not run: no installed plugin provides 'cloud'. No executors are known"


def test_a_declared_permission_is_required(local):
    required = run_locally(local(), "edit", path="a.txt").permission_required
    assert (required.permission, required.description) == ("edit", "Edits a.txt")
    assert required.metadata["details"] == "+1 line"
    assert required.approval.startswith("sha256:")


def test_destructive_and_confirmed_tools_require_a_permission(local):
    executor = local()
    assert run_locally(executor, "wipe").permission_required.description == "wipe wants to run."
    assert run_locally(executor, "send", count=5).permission_required is not None
    assert run_locally(executor, "send", count=1).output == "sent 1"


def test_an_approval_allows_exactly_that_call(local):
    executor = local()
    approval = run_locally(executor, "edit", path="a.txt").permission_required.approval
    assert run_locally(executor, "edit", [approval], path="a.txt").output == "edited a.txt"
    assert run_locally(executor, "edit", [approval], path="b.txt").permission_required is not None
    assert run_locally(executor, "wipe", [approval]).permission_required is not None


def test_rules_allow_and_deny_without_asking(local):
    executor = local(permissions=Permissions([Rule("edit", "*", "allow"), Rule("wipe", "*", "deny")]))
    assert run_locally(executor, "edit", path="a.txt").output == "edited a.txt"
    assert run_locally(executor, "wipe").kind == "denied"


def test_a_permission_asked_for_while_running_is_required(local):
    executor = local()
    required = run_locally(executor, "ask_inside", path="u").permission_required
    assert (required.permission, required.patterns) == ("net", ("u",))
    assert required.metadata == {
        "why": "update",
        "reason": "it needs the permission 'net'",
        "always": ["*"],
    }
    assert run_locally(executor, "ask_inside", [required.approval], path="u").output == "fetched u"
    assert run_locally(executor, "ask_inside", [required.approval], path="v").permission_required is not None


def test_rules_decide_permissions_asked_for_while_running(local):
    allowed = local(permissions=Permissions([Rule("net", "*", "allow")]))
    denied = local(permissions=Permissions([Rule("net", "*", "deny")]))
    assert run_locally(allowed, "ask_inside", path="u").output == "fetched u"
    assert run_locally(denied, "ask_inside", path="u").kind == "denied"


def test_rules_decide_what_the_context_allows(local):
    executor = local(permissions=Permissions([Rule("read", "*.env", "deny")]))
    assert run_locally(executor, "keep_allowed", paths=["a", "b.env", None]).output == '{"result": ["a"]}'
    assert run_locally(local(), "keep_allowed", paths=["b.env", None]).output == '{"result": ["b.env", null]}'


def test_a_confirmation_is_refused_unless_the_request_has_the_answer(local):
    executor = local()
    refused = run_locally(executor, "confirm")
    assert refused.error == "confirm needs the user's answer (sure?), and can't ask the user here."
    answered = Confirmation("sure?", confirmed=True).to_json()
    response = asyncio.run(executor.execute(ExecutionRequest(tool="confirm", confirmation=answered)))
    assert response.structured_content == {"result": True}


def test_a_permission_of_an_inner_call_is_required_for_the_outer_one(local):
    executor = local()
    facts = {"name": "edit", "arguments": {"path": "a.txt"}}
    required = run_locally(executor, "nest", **facts).permission_required
    assert required.permission == "edit"
    assert run_locally(executor, "nest", [required.approval], **facts).output == "ok: edited a.txt"


def test_nested_calls_are_limited_in_depth(local):
    @tool
    async def loop(context: ToolContext) -> str:
        """Calls itself."""
        result = await context.call("loop")
        return result.text

    response = run_locally(local(loop, limits=Limits(depth=3)), "loop")
    assert response.output == "loop was not run: its call is nested more than 3 deep."


def test_background_work_is_refused(local):
    assert "only its result is sent back" in run_locally(local(), "background").output


class Durable:
    """Executor that runs each key once, as an engine on another machine does, and keeps its result."""

    def __init__(self, *tools):
        self.local, self.results, self.requests = LocalExecutor(tools), {}, []

    async def execute(self, request):
        request = ExecutionRequest.from_json(request.to_json())
        self.requests.append(request)
        if request.key is None or request.key not in self.results:
            self.results[request.key] = await self.local.execute(request)
        return self.results[request.key]


def durable_registry(function, **policy):
    """A registry whose tool runs in a durable executor of its own."""
    registry, made = ToolRegistry(), tool_of(function)
    registry.register(made.evolve(policy=Policy(executor="durable", **policy)))
    registry.add("executors", "durable", durable := Durable(made))
    return registry, durable


def keys_of(*calls):
    """The keys of these calls of `add`, each a context, an id and an argument."""
    registry, durable = durable_registry(add)
    for context, call_id, a in calls:
        asyncio.run(registry.call("add", {"a": a}, context, call_id=call_id))
    return [request.key for request in durable.requests]


@pytest.mark.parametrize(
    ("context", "call_id"),
    [(ReadonlyContext(user="ann", session="s"), "toolu_1"), (ReadonlyContext(message="m"), "call_0")],
)
def test_the_same_call_from_another_registry_has_the_same_key(context, call_id):
    (key,) = keys_of((context, call_id, 1))
    assert key
    assert keys_of((context, call_id, 1)) == [key]
    assert keys_of((context, call_id, 2)) == [key]  # other arguments are refused by their digest
    others = keys_of((context, call_id + "x", 1), (evolve(context, session="t"), call_id, 1))
    assert len({key, *others}) == 3


@pytest.mark.parametrize(("message", "call_id"), [(None, "call_0"), (None, ""), ("m", "")])
def test_a_call_without_an_identity_has_no_key(message, call_id):
    assert keys_of((ReadonlyContext(message=message), call_id, 1)) == [None]


async def test_a_call_of_a_batch_is_identified_by_its_own_message_only():
    registry, durable = durable_registry(add)
    for context in (ReadonlyContext(), ReadonlyContext(message="m")):
        await registry.dispatch([ToolCall("add", {"a": 1}, id="call_0")], context=context)
    assert [request.key is None for request in durable.requests] == [True, False]


async def test_a_call_inside_a_call_without_an_identity_has_none():
    registry, durable = durable_registry(add)
    registry.register(nest)
    for call_id in ("toolu_1", "toolu_2", "call_0", ""):
        await registry.call("nest", {"name": "add", "arguments": {"a": 1}}, call_id=call_id)
    first, second, *others = [request.key for request in durable.requests]
    assert None not in {first, second}
    assert (first != second, others) == (True, [None, None])


async def test_each_attempt_runs_again_in_an_executor_that_keeps_results_by_key(monkeypatch):
    runs = []

    @tool(idempotent=True)
    def flaky() -> str:
        """Works at the third attempt."""
        runs.append(1)
        if len(runs) < 3:
            raise ToolError("busy", retryable=True)
        return "done"

    monkeypatch.setattr("pegboard.dispatch.run.FIRST_PAUSE", 0.0)
    registry, durable = durable_registry(flaky, retries=2)
    for _ in range(2):  # the second time as by a host that begins anew
        assert (await registry.call("flaky", call_id="toolu_1")).text == "done"
        assert len(runs) == 3
    assert [request.attempt for request in durable.requests] == [1, 2, 3, 1, 2, 3]


async def test_a_call_runs_again_after_an_answer_that_came_later():
    remote = Remote(needed("edit"), ExecutionResponse(output="edited"))
    registry = registry_with(remote)
    calls = [ToolCall("far", {}, id="toolu_1")]
    outcome = await registry.dispatch(calls, approver=ask_later)
    resumed = await registry.resume(outcome.pending, {outcome.pending.calls[0].id: Once()})
    assert resumed.results[0].text == "edited"
    first, second = remote.requests
    assert None not in {first.key, second.key}
    assert first.key != second.key


def test_an_approved_request_has_another_key():
    remote = Remote(needed("edit"), ExecutionResponse(output="edited"))
    assert asyncio.run(registry_with(remote, allows=("edit",)).call("far", {}, call_id="toolu_1")).text == "edited"
    first, second = remote.requests
    assert first.key != second.key


@pytest.mark.parametrize("digest", [None, tool_of(echo).spec.digest])
def test_a_request_for_this_definition_or_any_is_executed(local, digest):
    request = ExecutionRequest(tool="echo", arguments={"text": "hi"}, digest=digest)
    assert asyncio.run(local().execute(request)).output == "hi"


def test_a_request_for_another_definition_is_not_executed(local):
    """The detail says where the caller's tool comes from."""
    registry = ToolRegistry()
    origin = Origin("weather", "weather-tools", "1.2")
    changed = tool_of(note).with_spec(description="Writes a note.")
    registry.register(changed.evolve(policy=Policy(executor="local"), origin=origin))
    registry.add("executors", "local", local(note))
    result = registry.call_sync("note")
    assert (result.kind, result.text) == (
        "not_executed",
        "note was not run: it is defined in another way where it would run. Continue without it.",
    )
    assert result.detail.startswith("its definition here is sha256:")
    assert result.detail.endswith("The caller has it from weather-tools==1.2.")


@pytest.mark.parametrize("as_plugin", [True, False])
def test_an_executor_may_be_registered_as_what_makes_it(as_plugin):
    """It is made once, at the first call, and closed with its registry."""
    made = []

    class Cloud(Remote):
        is_closed = False

        def __init__(self):
            super().__init__(ExecutionResponse(output="there"))
            made.append(self)

        async def aclose(self):
            self.is_closed = True

    class Plugin:
        @hookimpl
        def pegboard_register_executors(self, register, settings):
            register("cloud", Cloud)

    async def main():
        async with ToolRegistry() as registry:
            registry.register(far())
            if as_plugin:
                register_plugin(registry, Plugin(), "cloud")
            else:
                registry.add("executors", "cloud", partial(Cloud))
            assert not made
            return await asyncio.gather(*(registry.call("far") for _ in range(3)))

    assert [result.text for result in asyncio.run(main())] == ["there"] * 3
    (cloud,) = made
    assert cloud.is_closed


def test_an_executor_that_cant_be_made_is_made_by_a_later_call():
    answers = [ImportError("no client"), Remote(ExecutionResponse(output="there"))]

    def make():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    registry = registry_with(make)
    result = call(registry)
    assert (result.kind, result.text) == ("not_executed", "far was not run: its executor 'cloud' can't be loaded.")
    assert "no client" in result.detail
    assert call(registry).text == "there"
