from __future__ import annotations

import asyncio

import pytest

from pegboard import (
    Confirmation,
    ExecutionRequest,
    ExecutionResponse,
    FatalToolError,
    Limits,
    LocalExecutor,
    Permissions,
    Policy,
    Preview,
    Rule,
    Tool,
    ToolContext,
    ToolError,
    tool,
    tool_of,
)
from pegboard.dispatch.executors.local import ToolInfo
from pegboard.tools.tool import LateHandler
from pegboard.tools.typed import as_tools


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
    """Asks on its way."""
    await context.ask("net", [path], always=["*"], metadata={"why": "update"})
    return f"fetched {path}"


@tool
def keep_allowed(context: ToolContext, paths: list[str]) -> list[str]:
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
    """Wants to go on."""

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
    """Makes executors that are ended with the test."""
    made = []

    def local(*functions, active=None, **settings):
        tools = [one for function in functions or ALL for one in as_tools(function)]
        made.append(LocalExecutor(tools, active, **settings))
        return made[-1]

    yield local
    for executor in made:
        asyncio.run(executor.aclose())


def run(executor, name, approvals=(), /, **arguments):
    request = ExecutionRequest(tool=name, arguments=arguments, call_id="c1", approvals=approvals)
    return asyncio.run(executor.execute(request))


# What it tells of its tools -------------------------------------------------------------------------------------------


def test_tools_are_listed_by_name_or_in_the_order_of_active(local):
    executor = local(echo, add)
    assert [info.name for info in executor.tools()] == ["add", "echo"]
    executor.active = ["echo", "missing", "add", "echo"]
    assert [info.name for info in executor.tools()] == ["echo", "add"]
    executor.active = []
    assert executor.tools() == ()


def test_what_is_told_of_a_tool_is_what_a_model_needs(local):
    (info,) = local(echo).tools()
    assert info == ToolInfo("echo", "Gives it back.", as_tools(echo)[0].spec.input_schema)
    assert info.to_json()["input_schema"]["required"] == ["text"]


# Running --------------------------------------------------------------------------------------------------------------


def test_plain_and_async_tools_run(local):
    executor = local()
    assert run(executor, "echo", text="hi").output == "hi"
    assert run(executor, "add", a=1).structured_content == {"result": 3}


def test_arguments_are_judged_and_errors_are_answered(local):
    executor = local()
    assert run(executor, "add", a="1").kind == "invalid_arguments"
    missing = run(executor, "ech")
    assert (missing.kind, missing.is_error) == ("unknown_tool", True)
    assert "Did you mean 'echo'" in missing.error
    failed = run(executor, "fail")
    assert (failed.kind, failed.error) == ("tool_failure", "fail failed: ValueError.")
    assert "secret" in failed.detail


def test_the_text_of_an_exception_is_shown_where_the_request_allows_it(local):
    response = asyncio.run(local().execute(ExecutionRequest(tool="fail", expose_errors=True)))
    assert response.error == "fail failed: ValueError: secret."


def test_a_tool_that_is_not_active_is_not_offered(local):
    response = run(local(active=["echo"]), "add", a=1)
    assert (response.kind, response.error) == (
        "not_offered",
        "add is not available for this request. Available: echo.",
    )


def test_a_tool_without_a_handler_is_not_executed(local):
    response = run(local(Tool.from_schema("far", {"type": "object"})), "far")
    assert (response.not_executed, response.kind, response.is_error) == (True, "not_executed", True)


def test_a_handler_that_is_found_late_is_found(local):
    found = as_tools(echo)[0]
    assert run(local(found.evolve(handler=LateHandler(lambda: found))), "echo", text="late").output == "late"


def test_a_fatal_error_is_raised(local):
    with pytest.raises(FatalToolError, match="over"):
        run(local(), "fatal")


def test_the_requests_limit_holds(local):
    @tool
    async def never() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    executor = local(never, limits=Limits(grace=0.01))
    response = asyncio.run(executor.execute(ExecutionRequest(tool="never", timeout=0.01)))
    assert (response.kind, response.error) == ("timeout", "never gave no result within 0.01 s. It was cancelled.")


def test_the_context_is_the_requests(local):
    @tool
    def about(context: ToolContext) -> list:
        """What it knows of its call."""
        return [context.call_id, context.user, context.session, dict(context.state), context.work_dir, context.tool]

    request = ExecutionRequest(tool="about", call_id="c9", user="ann", session="s1", state={"n": 1}, work_dir="/w")
    response = asyncio.run(local(about).execute(request))
    assert response.structured_content == {"result": ["c9", "ann", "s1", {"n": 1}, "/w", "about"]}


def test_what_the_call_asks_of_its_host_and_tells_people_is_answered(local):
    response = run(local(), "note")
    assert (response.title, response.actions) == ("Noted", {"state_delta": {"seen": True}})


def test_a_tool_may_run_in_another_executor_which_is_closed_with_it(local):
    class Cloud:
        is_closed = False

        async def execute(self, request):
            return ExecutionResponse(output="far", structured_content={"result": request.arguments["a"]})

        async def aclose(self):
            self.is_closed = True

    far, cloud = tool_of(add).evolve(policy=Policy(executor="cloud")), Cloud()
    executor = LocalExecutor([far], executors={"cloud": cloud})
    assert run(executor, "add", a=3).output == "far"
    asyncio.run(executor.aclose())
    assert cloud.is_closed
    missing = run(local(far), "add", a=3)
    assert missing.kind == "not_executed"
    assert missing.error == "add was not run. No installed plugin provides 'cloud'. There are none"


# What has to be allowed first -----------------------------------------------------------------------------------------


def test_a_tool_that_declares_a_permission_is_asked_about_instead_of_run(local):
    required = run(local(), "edit", path="a.txt").permission_required
    assert (required.permission, required.description) == ("edit", "Edits a.txt")
    assert required.metadata["details"] == "+1 line"
    assert required.approval.startswith("sha256:")


def test_one_that_is_destructive_or_wants_confirmation_is_too(local):
    executor = local()
    assert run(executor, "wipe").permission_required.description == "wipe wants to run."
    assert run(executor, "send", count=5).permission_required is not None
    assert run(executor, "send", count=1).output == "sent 1"


def test_the_approval_lets_exactly_that_call_run(local):
    executor = local()
    approval = run(executor, "edit", path="a.txt").permission_required.approval
    assert run(executor, "edit", [approval], path="a.txt").output == "edited a.txt"
    assert run(executor, "edit", [approval], path="b.txt").permission_required is not None
    assert run(executor, "wipe", [approval]).permission_required is not None


def test_rules_allow_and_deny_without_asking(local):
    executor = local(permissions=Permissions([Rule("edit", "*", "allow"), Rule("wipe", "*", "deny")]))
    assert run(executor, "edit", path="a.txt").output == "edited a.txt"
    assert run(executor, "wipe").kind == "denied"


def test_a_tool_that_asks_on_its_way_is_asked_about_and_run_again(local):
    executor = local()
    required = run(executor, "ask_inside", path="u").permission_required
    assert (required.permission, required.patterns) == ("net", ("u",))
    assert required.metadata == {
        "why": "update",
        "reason": "asks for the permission 'net'",
        "always": ["*"],
    }
    assert run(executor, "ask_inside", [required.approval], path="u").output == "fetched u"
    assert run(executor, "ask_inside", [required.approval], path="v").permission_required is not None


def test_rules_answer_what_a_tool_asks_on_its_way(local):
    allowed = local(permissions=Permissions([Rule("net", "*", "allow")]))
    denied = local(permissions=Permissions([Rule("net", "*", "deny")]))
    assert run(allowed, "ask_inside", path="u").output == "fetched u"
    assert run(denied, "ask_inside", path="u").kind == "denied"


def test_rules_decide_what_a_tool_may_access_on_its_way(local):
    executor = local(permissions=Permissions([Rule("read", "*.env", "deny")]))
    assert run(executor, "keep_allowed", paths=["a", "b.env"]).output == '{"result": ["a"]}'


def test_a_question_has_nobody_to_answer_it_unless_it_was_answered_before(local):
    executor = local()
    assert run(executor, "confirm").error == "confirm needs a person's answer (sure?), and no person is asked here."
    answered = Confirmation("sure?", confirmed=True).to_json()
    response = asyncio.run(executor.execute(ExecutionRequest(tool="confirm", confirmation=answered)))
    assert response.structured_content == {"result": True}


# Tools that call tools ------------------------------------------------------------------------------------------------


def test_tools_call_tools_of_the_same_executor(local):
    executor = local()
    assert run(executor, "nest", name="add", arguments={"a": 1}).output == 'ok: {"result": 3}'
    assert run(executor, "nest", name="add", arguments='{"a": 2}').output == 'ok: {"result": 4}'
    assert run(executor, "nest", name="add", arguments="{").output.startswith("invalid_arguments: ")
    assert run(executor, "nest", name="missing", arguments={}).output.startswith("unknown_tool: ")
    assert run(executor, "nest", name="note", arguments={}).actions == {"state_delta": {"seen": True}}


def test_what_an_inner_call_needs_is_asked_for_the_outer_one(local):
    executor = local()
    facts = {"name": "edit", "arguments": {"path": "a.txt"}}
    required = run(executor, "nest", **facts).permission_required
    assert required.permission == "edit"
    assert run(executor, "nest", [required.approval], **facts).output == "ok: edited a.txt"


def test_calls_inside_calls_end_somewhere(local):
    @tool
    async def loop(context: ToolContext) -> str:
        """Calls itself."""
        result = await context.call("loop")
        return result.text

    response = run(local(loop, limits=Limits(depth=3)), "loop")
    assert response.output == "loop was not run: tools call tools more than 3 deep here."


def test_nothing_goes_on_in_the_background_there(local):
    assert "its result is all that is sent back" in run(local(), "background").output


def test_a_tool_error_keeps_its_words(local):
    @tool
    def busy() -> None:
        """Is busy."""
        raise ToolError("busy", retryable=True)

    response = run(local(busy), "busy")
    assert (response.error, response.metadata) == ("busy", {"retryable": True})
