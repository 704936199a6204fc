"""FastMCP's own client calls pegboard's tools on a FastMCP server, and pegboard runs the tools of such a server."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import McpError, NotFoundError, ToolError as FastMCPToolError
from fastmcp.utilities.types import Image
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from pegboard import (
    ImageContent,
    Later,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    ToolContext,
    ToolRegistry,
    tool,
)
from pegboard_adapters.fastmcp import from_fastmcp, to_fastmcp

ANN = ReadonlyContext(user="ann", session="s")
MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


async def server_of(kinds: Any, **options: Any) -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("s")
    await to_fastmcp(server, kinds.registry, **options)
    return server


def run(kinds: Any, *calls: tuple[str, dict[str, Any]], context: Any = lambda _: ANN, **client: Any) -> list[Any]:
    """The results of these calls by a client, in its own session."""

    async def main() -> list[Any]:
        async with Client(await server_of(kinds, context=context), **client) as session:
            return [await session.call_tool(name, arguments, raise_on_error=False) for name, arguments in calls]

    return asyncio.run(main())


def texts(result: Any) -> str:
    return "".join(item.text for item in result.content)


@MODES
def test_results_images_and_errors_reach_the_client(kinds: Any, mode: Any) -> None:
    add, draw, find, crash, count, who = run(
        kinds,
        ("add", {"a": 1, "b": 2}),
        ("draw", {}),
        ("find", {"name": "bob"}),
        ("crash", {}),
        ("count", {"to": 3}),
        ("whoami", {}),
        mode=mode,
    )
    assert add.structured_content == {"result": 3}
    assert not add.is_error
    assert (draw.content[0].type, draw.content[0].mime_type) == ("image", "image/png")
    assert (find.is_error, texts(find)) == (True, "There is no customer 'bob'; try 'ann'.")
    assert crash.is_error
    assert "secret" not in str(crash)
    assert texts(count) == "counted to 3"
    assert texts(who) == "ann in s"


def test_progress_reaches_the_client_before_the_result(kinds: Any) -> None:
    seen: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    (result,) = run(kinds, ("count", {"to": 3}), progress_handler=on_progress)
    assert texts(result) == "counted to 3"
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


def test_progress_that_goes_back_is_left_out(kinds: Any) -> None:
    seen: list[float] = []

    @tool(read_only=True)
    def jump(context: ToolContext) -> str:
        """Jumps."""
        for progress in (1, 3, 2, 4):
            context.report(progress)
        context.emit("a partial result")
        return "done"

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    kinds.registry.register(jump)
    run(kinds, ("jump", {}), progress_handler=on_progress)
    assert seen == [1, 3, 4]


def test_invalid_arguments_run_nothing(kinds: Any) -> None:
    (result,) = run(kinds, ("add", {"a": "x", "b": 2}))
    assert result.is_error
    assert "must be an integer" in texts(result)
    assert kinds.ran == []


def serve(functions: Any) -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("s")
    for function in functions:
        server.tool(function)
    return server


def test_bad_tools_of_ours_and_of_theirs_affect_only_themselves(kinds: Any, check_theirs: Any) -> None:
    kinds.check_bad(run(kinds, *kinds.bad_calls))
    check_theirs("fastmcp", serve, NotFoundError("secret"), twice=False)


def test_a_recursive_argument_is_kept(kinds: Any) -> None:
    tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
    (result,) = run(kinds, ("depth", tree))
    assert result.structured_content == {"result": 3}


def test_later_tools_are_listed_with_their_hints(kinds: Any) -> None:
    async def main() -> None:
        server = await server_of(kinds)
        assert "late" not in [each.name for each in await server.list_tools()]  # outside of a request
        async with Client(server) as client:
            before = {each.name: each for each in await client.list_tools()}
            kinds.registry.register(tool(late, title="Late one"))
            after = {each.name: each for each in await client.list_tools()}
            assert texts(await client.call_tool("late", {})) == "late"
        assert "late" not in before
        assert after["late"].title == "Late one"
        assert before["add"].annotations.read_only_hint is True
        assert before["delete"].annotations.destructive_hint is True
        assert before["add"].output_schema["properties"]["result"]["type"] == "integer"

    def late() -> str:
        """Comes late."""
        return "late"

    asyncio.run(main())


def test_the_servers_own_tools_take_precedence_and_no_call_needs_a_client(kinds: Any) -> None:
    async def main() -> None:
        server = await server_of(kinds)

        @server.tool
        def add(a: int, b: int) -> str:
            """Is the server's."""
            return "mine"

        assert (await server.call_tool("add", {"a": 1, "b": 2})).content[0].text == "mine"
        assert (await server.call_tool("count", {"to": 1})).content[0].text == "counted to 1"
        with pytest.raises(FastMCPToolError, match="approv"):
            await server.call_tool("delete", {"name": "a"})

    asyncio.run(main())


@MODES
@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        ({"value": True}, True),
        ({"value": False}, False),
        (ElicitResult(action="accept"), False),
        (ElicitResult(action="decline"), False),
        (ElicitResult(action="cancel"), False),
    ],
)
def test_what_asks_asks_the_clients_user(kinds: Any, mode: Any, answer: Any, ran: bool) -> None:
    asked: list[str] = []

    async def on_elicitation(message: str, *_: Any) -> Any:
        asked.append(message)
        return answer

    (result,) = run(kinds, ("delete", {"name": "a"}), elicitation_handler=on_elicitation, mode=mode)
    assert result.is_error is not ran
    assert kinds.ran == ([("delete", "a")] if ran else [])
    (message,) = asked
    assert "delete" in message
    assert '"a"' in message


@MODES
def test_a_client_that_cannot_ask_gets_a_denial(kinds: Any, mode: Any) -> None:
    (result,) = run(kinds, ("delete", {"name": "a"}), mode=mode)
    assert result.is_error
    assert kinds.ran == []


def test_a_client_whose_handler_fails_approves_nothing(kinds: Any) -> None:
    async def on_elicitation(message: str, *_: Any) -> Any:
        raise RuntimeError("no terminal")

    (result,) = run(kinds, ("delete", {"name": "a"}), elicitation_handler=on_elicitation, mode="legacy")
    assert result.is_error
    with pytest.raises(McpError, match="no terminal"):  # such a client doesn't send its next request
        run(kinds, ("delete", {"name": "a"}), elicitation_handler=on_elicitation, mode="auto")
    assert kinds.ran == []


@MODES
def test_a_running_tool_asks_again_and_for_fields(kinds: Any, mode: Any) -> None:
    form = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}

    @tool(destructive=True, requires_confirmation=True)
    async def wipe(context: ToolContext) -> str:
        """Wipes."""
        await context.ask("format", ["disk"])
        answer = await context.request_confirmation("How large?", {"form": form})
        kinds.ran.append("wipe")
        return f"wiped {answer.payload['size']}"

    asked: list[str] = []

    async def on_elicitation(message: str, _: Any, params: Any, *__: Any) -> Any:
        asked.append(message)
        return {"size": 3} if "size" in params.requested_schema["properties"] else {"value": True}

    kinds.registry.register(wipe)
    kinds.registry.permissions = Permissions(rules=[Rule("format", "*", "ask")])
    (result,) = run(kinds, ("wipe", {}), elicitation_handler=on_elicitation, mode=mode)
    assert texts(result) == "wiped 3"
    assert len(asked) == 3
    assert kinds.ran == ["wipe"]


def test_an_answer_without_its_question_counts_for_nothing(kinds: Any) -> None:
    """Clients can send answers in a first request, and the state of another tool."""
    from pegboard_adapters.fastmcp import _Asker

    class Request:
        request_context = object()
        input_responses: Any = None
        request_state: Any = None

    request: Any = Request()
    request.input_responses = {"key": ElicitResult(action="accept", content={"value": True})}
    assert _Asker.of(request).given == {}
    for state in ("no JSON", "{}", "[]", '{"asked": "other", "given": 1}'):
        request.request_state = state
        assert "key" not in _Asker.of(request).given


def test_the_registrys_approver_takes_precedence(kinds: Any) -> None:
    kinds.registry.approver = lambda request, context: Once()
    (result,) = run(kinds, ("delete", {"name": "a"}))
    assert texts(result) == "deleted a"


@MODES
def test_cancelling_the_request_cancels_the_tool(kinds: Any, mode: Any) -> None:
    async def main() -> None:
        async with Client(await server_of(kinds), mode=mode) as client:
            task = asyncio.create_task(client.call_tool("wait", {}))
            await kinds.begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


@MODES
def test_two_users_at_once_are_told_apart(kinds: Any, mode: Any) -> None:
    def context(request: Context) -> ReadonlyContext:
        meta = request.request_context.meta or {}
        return ReadonlyContext(user=meta.get("user"), session=meta.get("session"))

    async def main() -> list[str]:
        server = await server_of(kinds, context=context)

        async def call(n: int) -> str:
            async with Client(server, mode=mode) as client:
                return texts(await client.call_tool("whoami", {}, meta={"user": f"user{n}", "session": f"s{n}"}))

        return await asyncio.gather(*(call(n) for n in range(2)))

    assert asyncio.run(main()) == ["user0 in s0", "user1 in s1"]


def test_the_user_is_the_subject_of_the_access_token_and_the_session_is_mcps(
    kinds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastmcp.server.auth import AccessToken

    from pegboard_adapters import fastmcp

    token = AccessToken(token="t", client_id="c", scopes=[], claims={"sub": "bob"})
    monkeypatch.setattr(fastmcp, "get_access_token", lambda: token)

    def who(mode: str) -> str:
        (result,) = run(kinds, ("whoami", {}), context=None, mode=mode)
        return texts(result)

    assert who("auto") == "bob in None"  # later revisions of MCP have no sessions
    first, second = who("legacy"), who("legacy")
    assert first.startswith("bob in ")
    assert "None" not in first
    assert first != second


def test_progress_that_cannot_be_sent_does_not_affect_the_result(
    kinds: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise OSError("the client is gone")

    monkeypatch.setattr(Context, "report_progress", fail)
    (result,) = run(kinds, ("count", {"to": 3}))
    assert texts(result) == "counted to 3"
    assert "progress can't be sent" in caplog.text


# The tools of a FastMCP server in pegboard ----------------------------------------------------------------------------


async def call(server: Any, name: str, arguments: Any = None, *, listener: Any = None, **options: Any) -> Any:
    async with ToolRegistry(approver=options.pop("approver", None)) as registry:
        registry.register(from_fastmcp(server, **{"trust": True, **options}))
        resolved = await registry.resolve(ANN)
        assert not resolved.problems, resolved.problems
        return await registry.call(name, arguments, ToolContext(request=ANN, listener=listener), resolved=resolved)


def test_their_functions_run_and_their_progress_is_the_calls() -> None:
    server: FastMCP[Any] = FastMCP("s")

    @server.tool
    async def double(x: int, ctx: Context) -> int:
        """Doubles."""
        await ctx.report_progress(1, 2, "half")
        return 2 * x

    seen: list[Any] = []
    result = asyncio.run(call(server, "double", {"x": 2}, listener=seen.append))
    assert (result.structured_content, result.text) == ({"result": 4}, "4")
    assert [(each.progress, each.total, each.message) for each in seen] == [(1, 2, "half")]


def test_invalid_arguments_of_theirs_run_nothing() -> None:
    server, ran = FastMCP[Any]("s"), list[int]()

    @server.tool
    def double(x: int) -> int:
        """Doubles."""
        ran.append(x)
        return 2 * x

    assert asyncio.run(call(server, "double", {"x": "two"})).kind == "invalid_arguments"
    assert ran == []


def test_their_errors_are_theirs_and_crashes_stay_hidden() -> None:
    server, child = FastMCP[Any]("s"), FastMCP[Any]("child")

    @server.tool
    def find() -> str:
        """Finds."""
        raise FastMCPToolError("no bob")

    def crash() -> str:
        """Crashes."""
        raise RuntimeError("secret-path")

    server.tool(crash)
    child.tool(crash)
    server.mount(child, namespace="child")
    found = asyncio.run(call(server, "find"))
    assert (found.is_error, found.text) == (True, "no bob")
    for name in ("crash", "child_crash"):
        crashed = asyncio.run(call(server, name))
        assert crashed.is_error
        assert "secret" not in crashed.text
        assert "secret" in crashed.detail


def test_images_arrive(kinds: Any) -> None:
    server: FastMCP[Any] = FastMCP("s")

    @server.tool
    def draw() -> Any:
        """Draws."""
        return ["here", Image(data=kinds.png, format="png")]

    assert ImageContent(kinds.png) in asyncio.run(call(server, "draw")).content


@pytest.mark.parametrize("approved", [True, False])
def test_what_they_elicit_is_a_question(approved: bool) -> None:
    server: FastMCP[Any] = FastMCP("s")

    @server.tool
    async def delete(name: str, ctx: Context) -> str:
        """Deletes."""
        answer = await ctx.elicit(f"Delete {name}?", bool)
        return f"deleted {name}" if answer.action == "accept" and answer.data else answer.action

    asked: list[Any] = []

    def approver(request: Any, context: Any) -> Any:
        asked.append(request)
        return Once() if approved else Reject()

    result = asyncio.run(call(server, "delete", {"name": "a"}, approver=approver))
    assert result.text == ("deleted a" if approved else "decline")
    (request,) = asked
    assert "Delete a?" in request.hint
    assert request.payload["form"]["properties"]["value"]["type"] == "boolean"


def test_fields_are_answered_by_data_that_fits_them() -> None:
    server: FastMCP[Any] = FastMCP("s")

    @server.tool
    async def order(ctx: Context) -> str:
        """Orders."""
        answer = await ctx.elicit("How many?", int)
        return f"{answer.action} {getattr(answer, 'data', None)}"

    def given(answer: Any) -> str:
        return asyncio.run(call(server, "order", approver=lambda request, context: answer)).text

    assert given(Once({"value": 3})) == "accept 3"
    assert given(Once({"value": "three"})) == "decline None"
    assert given(Once()) == "decline None"  # a mere yes isn't a number
    assert asyncio.run(call(server, "order")).text == "decline None"  # nobody can be asked


def test_a_question_in_the_result_is_asked_too() -> None:
    """Tools for revisions of MCP from 2026-07-28 on return their questions, and run again with the answers."""
    server: FastMCP[Any] = FastMCP("s")
    form = {"type": "object", "properties": {"value": {"type": "boolean"}}, "required": ["value"]}

    @server.tool
    async def delete(ctx: Context) -> Any:
        """Deletes."""
        if not ctx.input_responses:
            asked = ElicitRequest(params=ElicitRequestFormParams(message="Delete?", requested_schema=form))
            return InputRequiredResult(input_requests={"q": asked})
        return f"deleted: {ctx.input_responses['q'].content['value']}"

    assert asyncio.run(call(server, "delete", approver=lambda request, context: Once())).text == "deleted: True"


def test_a_question_that_is_answered_later_ends_the_call_until_then() -> None:
    server, ran = FastMCP[Any]("s"), list[str]()

    @server.tool
    async def delete(ctx: Context) -> str:
        """Deletes."""
        answer = await ctx.elicit("Delete?", bool)
        ran.append(answer.action)
        return answer.action

    async def main() -> Any:
        from pegboard import PendingCalls

        async with ToolRegistry(approver=lambda request, context: Later()) as registry:
            registry.register(from_fastmcp(server, trust=True))
            waiting = await registry.call("delete", {}, ANN)
            assert waiting.kind == "confirmation_required"
            assert ran == []
            pending = PendingCalls([waiting.pending])
            return await registry.resume(pending, {waiting.pending.id: Once()}, None, ANN)

    assert asyncio.run(main()).results[0].text == "accept"
    assert ran == ["accept"]


def test_cancelling_the_call_cancels_their_tool(kinds: Any) -> None:
    server: FastMCP[Any] = FastMCP("s")

    @server.tool
    async def wait() -> str:
        """Waits."""
        kinds.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            kinds.cancelled.set()
        return "never"

    async def main() -> None:
        task = asyncio.create_task(call(server, "wait"))
        await kinds.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


def test_the_server_starts_once_and_ends_with_its_toolset() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Any) -> Any:
        events.append("start")
        yield {"n": 1}
        events.append("end")

    server: FastMCP[Any] = FastMCP("s", lifespan=lifespan)

    @server.tool
    def count(ctx: Context) -> int:
        """Counts."""
        events.append("call")
        return ctx.lifespan_context["n"]

    async def main() -> None:
        async with ToolRegistry() as registry:
            registry.register(from_fastmcp(server, trust=True))
            assert await asyncio.gather(*(registry.call("count") for _ in range(2)))
            await registry.call("count")
            assert events == ["start", "call", "call", "call"]
        assert events[-1] == "end"

    asyncio.run(main())
    events.clear()
    registry = ToolRegistry()
    registry.register(from_fastmcp(server, trust=True))
    assert [registry.call_sync("count").text for _ in range(2)] == ["1", "1"]  # each in an event loop of its own
    assert events == ["start", "call", "end"] * 2


def test_they_ask_unless_they_are_trusted_whatever_their_hints_say() -> None:
    server: FastMCP[Any] = FastMCP("s")

    @server.tool(annotations={"readOnlyHint": True}, tags={"t"}, title="Fine one")
    def fine() -> str:
        """Is fine."""
        return "fine"

    assert "approval" in asyncio.run(call(server, "fine", trust=False)).text
    assert asyncio.run(call(server, "fine", trust=["fine"])).text == "fine"

    async def main() -> None:
        toolset = from_fastmcp(server)
        first, second = [await toolset.tools(ANN) for _ in range(2)]
        assert first[0] is second[0]
        spec = first[0].spec
        assert (spec.annotations.read_only_hint, spec.title, set(spec.tags)) == (True, "Fine one", {"t"})

    asyncio.run(main())


def test_one_that_cannot_be_offered_affects_only_itself() -> None:
    server: FastMCP[Any] = FastMCP("s")

    @server.tool
    def fine() -> str:
        """Is fine."""
        return "fine"

    @server.tool
    def odd(x: int) -> str:
        """Is odd."""
        return ""

    async def main() -> Any:
        (found,) = (each for each in await server.list_tools() if each.name == "odd")
        found.parameters["properties"]["x"] = {"$ref": "#/$defs/Missing"}
        return await from_fastmcp(server).tools(ANN)

    result = asyncio.run(main())
    assert [each.name for each in result] == ["fine"]
    assert [problem.tool for problem in result.problems] == ["odd"]


def test_something_else_is_no_server() -> None:
    with pytest.raises(TypeError, match="no FastMCP server"):
        from_fastmcp(json)  # type: ignore[arg-type]


def test_an_error_of_the_protocol_and_a_failing_start_are_crashes_that_a_later_call_survives() -> None:
    starts: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Any) -> Any:
        starts.append("start")
        if len(starts) == 1:
            raise OSError("secret-database")
        yield {}

    server: FastMCP[Any] = FastMCP("s", lifespan=lifespan)

    @server.tool
    def odd(fail: bool) -> str:
        """Is odd."""
        if fail:
            raise McpError(code=-32000, message="secret-path")
        return "fine"

    async def main() -> list[Any]:
        async with ToolRegistry() as registry:
            registry.register(from_fastmcp(server, trust=True))
            return [await registry.call("odd", {"fail": fail}) for fail in (False, True, False)]

    unstarted, failed, fine = asyncio.run(main())
    assert (unstarted.is_error, failed.is_error, fine.text) == (True, True, "fine")
    assert "secret" not in unstarted.text + failed.text


@pytest.mark.parametrize(
    ("question", "action"),
    [
        ({"message": "Sure?", "requested_schema": {"type": "object", "properties": {}}}, "accept"),
        ({"message": "x" * 30_000, "requested_schema": {"type": "object", "properties": {}}}, "decline"),
        ({"message": "Log in", "url": "https://example.com/login"}, "accept"),
        ({"message": "Log in", "url": "file:///etc/passwd"}, "decline"),
    ],
)
def test_a_question_may_have_no_fields_or_an_address_but_must_be_readable(
    question: dict[str, Any], action: str
) -> None:
    server: FastMCP[Any] = FastMCP("s")
    asked: list[str] = []

    @server.tool
    async def ask(ctx: Context) -> str:
        """Asks."""
        if "url" in question:
            answer = await ctx.session.elicit_url(**question, elicitation_id="1", related_request_id=ctx.request_id)
        else:
            answer = await ctx.session.elicit(**question, related_request_id=ctx.request_id)
        return answer.action

    def approver(request: Any, context: Any) -> Any:
        asked.append(request.hint)
        return Once()

    assert asyncio.run(call(server, "ask", approver=approver)).text == action
    assert len(asked) == (action == "accept")
    assert all(question.get("url", "") in hint for hint in asked)


def test_questions_at_once_that_are_answered_later_end_the_call() -> None:
    server: FastMCP[Any] = FastMCP("s")

    @server.tool
    async def delete(ctx: Context) -> str:
        """Deletes."""
        await asyncio.gather(ctx.elicit("Delete a?", bool), ctx.elicit("Delete b?", bool))
        return "deleted"

    assert asyncio.run(call(server, "delete", approver=lambda *_: Later())).kind == "confirmation_required"


def test_the_example_of_the_readme_runs(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def run_async(server: FastMCP[Any]) -> None:
        async with Client(server) as client:
            seen.extend(tool.name for tool in await client.list_tools())
            seen.append(texts(await client.call_tool("shout", {"text": "hi"})))

    monkeypatch.setattr(FastMCP, "run_async", run_async)
    asyncio.run(example("FastMCP")["main"]())
    assert seen == ["delete", "shout", "HI"]
