"""ADK's own loop runs pegboard's tools, and pegboard runs ADK's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import BaseTool, FunctionTool, LongRunningFunctionTool, ToolContext, google_search
from google.adk.tools.base_toolset import BaseToolset
from google.adk.workflow._errors import NodeInterruptedError
from google.genai import types

import pegboard
from pegboard import ImageContent, Once, Permissions, ReadonlyContext, Reject, Rule, ToolRegistry, tool
from pegboard.approval import ask_later
from pegboard_adapters.adk import from_adk, to_adk

ANN = ReadonlyContext(user="ann", session="s", state={"mood": "good", "list": [1]})


class Scripted(BaseLlm):
    """A model that makes these calls at once, and then ends."""

    calls: list[tuple[str, dict[str, Any]]]
    seen: list[Any] = []
    on_call: Any = None

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append([each for group in llm_request.config.tools or [] for each in group.function_declarations])
        last = llm_request.contents[-1].parts or []
        if any(part.function_response for part in last):
            parts = [types.Part(text="done")]
        else:
            parts = [types.Part(function_call=types.FunctionCall(name=n, args=a)) for n, a in self.calls]
        if self.on_call is not None:
            self.on_call(len(self.seen))
        yield LlmResponse(content=types.Content(role="model", parts=parts))


class Run:
    """A runner with one agent."""

    def __init__(self, kinds: Any, *calls: tuple[str, dict[str, Any]], **options: Any) -> None:
        self.model = Scripted(model="scripted", calls=[*calls], on_call=options.pop("on_call", None), seen=[])
        agent = LlmAgent(name="agent", model=self.model, tools=[to_adk(kinds.registry, **options)])
        self.runner = InMemoryRunner(agent, app_name="app")

    async def send(self, *parts: types.Part, user: str = "ann", session: str = "s", **facts: Any) -> list[Any]:
        """The events that a message of the user leads to."""
        service = self.runner.session_service
        at = {"app_name": "app", "user_id": user, "session_id": session}
        if await service.get_session(**at) is None:
            await service.create_session(**at, **facts)
        message = types.Content(role="user", parts=list(parts or [types.Part(text="go")]))
        run = self.runner.run_async(user_id=user, session_id=session, new_message=message)
        return [event async for event in run]

    async def state(self) -> dict[str, Any]:
        session = await self.runner.session_service.get_session(app_name="app", user_id="ann", session_id="s")
        assert session is not None
        return session.state


def responses(events: list[Any]) -> list[Any]:
    return [response for event in events for response in event.get_function_responses()]


def run(kinds: Any, *calls: tuple[str, dict[str, Any]], **options: Any) -> list[Any]:
    return responses(asyncio.run(Run(kinds, *calls, **options).send()))


def test_results_images_and_errors_reach_the_model(kinds: Any) -> None:
    add, draw, find, crash, count, who = run(
        kinds,
        ("add", {"a": 1, "b": 2}),
        ("draw", {}),
        ("find", {"name": "bob"}),
        ("crash", {}),
        ("count", {"to": 3}),
        ("whoami", {}),
    )
    assert add.response == {"result": 3}
    assert (draw.response, draw.parts[0].inline_data.data) == ({}, kinds.png)
    assert draw.parts[0].inline_data.mime_type == "image/png"
    assert find.response == {"error": "There is no customer 'bob'; try 'ann'."}
    assert [*crash.response] == ["error"]
    assert "secret" not in str(crash)
    assert count.response == {"result": "counted to 3"}
    assert who.response == {"result": "ann in s"}


def test_invalid_arguments_run_nothing(kinds: Any) -> None:
    (response,) = run(kinds, ("add", {"a": "x", "b": 2}))
    assert "must be an integer" in response.response["error"]
    assert kinds.ran == []


def test_bad_tools_of_ours_and_of_theirs_affect_only_themselves(kinds: Any, check_theirs: Any) -> None:
    kinds.check_bad(run(kinds, *kinds.bad_calls))
    check_theirs("adk", list, NodeInterruptedError("secret"))


def test_a_recursive_argument_is_kept(kinds: Any) -> None:
    agent = Run(kinds, ("depth", {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}))
    (response,) = responses(asyncio.run(agent.send()))
    assert response.response == {"result": 3}
    (declaration,) = (each for each in agent.model.seen[0] if each.name == "depth")
    assert "$ref" in str(declaration.parameters_json_schema)


def confirmations(events: list[Any]) -> list[Any]:
    calls = [call for event in events for call in event.get_function_calls()]
    return [call for call in calls if call.name == "adk_request_confirmation"]


def reply(call: Any, **answer: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=answer))


@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        ({"confirmed": True}, True),
        ({"confirmed": True, "payload": {"answer": "once"}}, True),
        ({"confirmed": False}, False),
        ({"confirmed": False, "payload": {"answer": "once"}}, False),
        ({"confirmed": False, "payload": {"answer": "reject", "feedback": "keep it"}}, False),
        ({"confirmed": True, "payload": {"answer": "maybe"}}, False),
    ],
)
def test_what_asks_requests_a_confirmation(kinds: Any, answer: dict[str, Any], ran: bool) -> None:
    async def main() -> Any:
        agent = Run(kinds, ("delete", {"name": "a"}))
        events = await agent.send()
        (call,) = confirmations(events)
        assert "delete" in call.args["toolConfirmation"]["hint"]
        assert kinds.ran == []
        assert len(agent.model.seen) == 1
        return await agent.send(reply(call, **answer))

    (response,) = responses(asyncio.run(main()))
    assert kinds.ran == ([("delete", "a")] if ran else [])
    assert response.response == {"result": "deleted a"} if ran else "error" in response.response
    if "keep it" in str(answer):
        assert "keep it" in response.response["error"]


def test_a_message_instead_of_a_confirmation_runs_nothing(kinds: Any) -> None:
    async def main() -> Any:
        agent = Run(kinds, ("delete", {"name": "a"}))
        await agent.send()
        return await agent.send(types.Part(text="never mind"))

    asyncio.run(main())
    assert kinds.ran == []


def test_a_confirmation_answers_one_question(kinds: Any) -> None:
    @tool(destructive=True, requires_confirmation=True)
    async def wipe(context: pegboard.ToolContext) -> str:
        """Wipes."""
        await context.ask("format", ["disk"])
        kinds.ran.append("wipe")
        return "wiped"

    kinds.registry.register(wipe)
    kinds.registry.permissions = Permissions(rules=[Rule("format", "*", "ask")])

    async def main() -> Any:
        agent = Run(kinds, ("wipe", {}))
        (call,) = confirmations(await agent.send())
        return await agent.send(reply(call, confirmed=True))

    (response,) = responses(asyncio.run(main()))
    assert "error" in response.response
    assert kinds.ran == []


def test_the_registrys_approver_takes_precedence(kinds: Any) -> None:
    kinds.registry.approver = lambda request, context: Once()
    (response,) = run(kinds, ("delete", {"name": "a"}))
    assert response.response == {"result": "deleted a"}


def test_the_state_goes_both_ways(kinds: Any) -> None:
    @tool
    def remember(context: pegboard.ToolContext) -> str:
        """Remembers."""
        context.state["list"].append(2)
        context.state["new"] = context.state["mood"]
        context.state["user:name"] = "Ann"
        del context.state["old"]
        context.actions.skip_summarization = True
        return "remembered"

    kinds.registry.register(remember)

    async def main() -> Any:
        agent = Run(kinds, ("remember", {}))
        await agent.send(state={"mood": "good", "list": [1], "old": 1})
        assert len(agent.model.seen) == 1  # as the summary is skipped
        return await agent.state()

    assert asyncio.run(main()) == {"mood": "good", "list": [1, 2], "new": "good", "user:name": "Ann", "old": None}


def test_a_call_can_transfer_to_another_agent(kinds: Any) -> None:
    @tool
    def hand_over(context: pegboard.ToolContext) -> str:
        """Hands over."""
        context.actions.transfer_to = "other"
        context.actions.escalate = True
        return "over"

    kinds.registry.register(hand_over)

    async def main() -> Any:
        agent = Run(kinds, ("hand_over", {}))
        other = LlmAgent(name="other", model=Scripted(model="other", calls=[], seen=[]))
        first = LlmAgent(name="agent", model=agent.model, tools=[to_adk(kinds.registry)], sub_agents=[other])
        agent.runner = InMemoryRunner(first, app_name="app")
        return await agent.send()

    events = asyncio.run(main())
    (actions,) = (event.actions for event in events if event.get_function_responses())
    assert (actions.transfer_to_agent, actions.escalate) == ("other", True)


def test_long_running_tools_are_long_running(kinds: Any) -> None:
    @tool(long_running=True)
    def order() -> str:
        """Orders."""
        return "order 1"

    kinds.registry.register(order)
    events = asyncio.run(Run(kinds, ("order", {})).send())
    assert any(event.long_running_tool_ids for event in events)
    assert "order 1" in str(responses(events)[0].response)


def test_tools_are_resolved_anew_at_each_step(kinds: Any) -> None:
    def late() -> str:
        """Comes late."""
        return ""

    def register(step: int) -> None:
        if step == 1:
            kinds.registry.register(tool(late))

    agent = Run(kinds, ("count", {"to": 1}), where="not destructive", on_call=register)
    asyncio.run(agent.send())
    first, second = [{each.name for each in offered} for offered in agent.model.seen]
    assert second - first == {"late"}
    assert "delete" not in first


def test_a_prefix_of_adk_is_only_for_the_model(kinds: Any) -> None:
    async def main() -> Any:
        toolset = to_adk(kinds.registry)
        toolset.tool_name_prefix = "pb"
        model = Scripted(model="scripted", calls=[("pb_add", {"a": 1, "b": 2})], seen=[])
        agent = Run(kinds)
        agent.runner = InMemoryRunner(LlmAgent(name="agent", model=model, tools=[toolset]), app_name="app")
        return await agent.send()

    assert responses(asyncio.run(main()))[0].response == {"result": 3}


def test_cancelling_the_run_cancels_the_tool(kinds: Any) -> None:
    async def main() -> None:
        task = asyncio.create_task(Run(kinds, ("wait", {})).send())
        await kinds.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


def test_two_users_at_once_are_told_apart(kinds: Any) -> None:
    async def main() -> list[Any]:
        agent = Run(kinds, ("whoami", {}))
        runs = [agent.send(user=f"user{n}", session=f"s{n}") for n in range(2)]
        return [responses(events)[0].response["result"] for events in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == ["user0 in s0", "user1 in s1"]


def test_a_context_may_be_the_hosts_own(kinds: Any) -> None:
    (who,) = run(kinds, ("whoami", {}), context=lambda run: ReadonlyContext(user="bob", session=run.session.id))
    assert who.response == {"result": "bob in s"}


# ADK's tools in pegboard ----------------------------------------------------------------------------------------------


async def call(tools: Any, name: str, arguments: dict[str, Any], **options: Any) -> Any:
    approver, services = options.pop("approver", None), options.pop("services", {})
    async with ToolRegistry(approver=approver) as registry:
        for kind, service in services.items():
            registry.provide(kind, service)
        registry.register(from_adk(tools, **{"trust": True, **options}))
        resolved = await registry.resolve(ANN)
        assert not resolved.problems, resolved.problems
        return await registry.dispatch([pegboard.ToolCall(name, arguments, "1")], resolved, ANN)


def result(*arguments: Any, **options: Any) -> Any:
    return asyncio.run(call(*arguments, **options)).results[0]


def double(x: int) -> int:
    """Doubles."""
    return 2 * x


async def triple(x: int, tool_context: ToolContext) -> dict[str, Any]:
    """Triples."""
    return {"x": 3 * x, "who": tool_context.user_id, "session": tool_context.session.id}


def test_functions_and_function_tools_run_in_pegboard() -> None:
    tools = [double, FunctionTool(triple)]
    assert result(tools, "double", {"x": 2}).text == "4"
    assert result(tools, "triple", {"x": 2}).text == '{"x":6,"who":"ann","session":"s"}'
    assert result(double, "double", {"x": "two"}).kind == "invalid_arguments"


def test_plain_functions_run_in_threads() -> None:
    import threading

    def where() -> str:
        """Says where."""
        return threading.current_thread().name

    assert result([where], "where", {}).text != threading.current_thread().name


def test_their_errors_are_theirs_and_crashes_stay_hidden() -> None:
    def find() -> dict[str, Any]:
        """Finds."""
        return {"error": "no such thing"}

    def crash() -> str:
        """Crashes."""
        raise RuntimeError("secret-path")

    found, crashed = (result([find, crash], name, {}) for name in ("find", "crash"))
    assert (found.is_error, found.text) == (True, "no such thing")
    assert crashed.is_error
    assert "secret" not in crashed.text


def test_their_media_arrive(kinds: Any) -> None:
    def draw() -> dict[str, Any]:
        """Draws."""
        image = types.Part.from_bytes(data=kinds.png, mime_type="image/png")
        return {"text": "here", "images": [image], "file": types.Part.from_uri(file_uri="gs://a", mime_type="a/b")}

    async def one() -> types.Part:
        """Draws one."""
        return types.Part.from_bytes(data=kinds.png, mime_type="image/png")

    drawn = result([draw], "draw", {})
    assert drawn.content[1] == ImageContent(kinds.png)
    assert drawn.content[2].uri == "gs://a"
    assert drawn.text.startswith('{"text":"here"')
    assert result([one], "one", {}).content == (ImageContent(kinds.png),)


def test_their_changes_of_the_state_are_ours() -> None:
    def remember(tool_context: ToolContext) -> str:
        """Remembers."""
        tool_context.state["new"] = tool_context.state["mood"]
        tool_context.actions.transfer_to_agent = "other"
        tool_context.actions.escalate = True
        return "remembered"

    actions = asyncio.run(call([remember], "remember", {})).actions
    assert dict(actions.state_delta) == {"new": "good"}
    assert (actions.transfer_to, actions.escalate) == ("other", True)
    assert ANN.state["mood"] == "good"


def test_services_of_the_host_are_theirs() -> None:
    async def store(tool_context: ToolContext) -> list[str]:
        """Stores."""
        await tool_context.save_artifact("a.txt", types.Part.from_text(text="hi"))
        return await tool_context.list_artifacts()

    services = {BaseArtifactService: InMemoryArtifactService()}
    assert result([store], "store", {}, services=services).text == '["a.txt"]'


@pytest.mark.parametrize("approved", [True, False])
def test_their_confirmations_are_questions(approved: bool) -> None:
    async def pay(amount: int, tool_context: ToolContext) -> dict[str, Any]:
        """Pays."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="Pay?", payload={"amount": amount})
            return {"status": "waits"}
        return {"paid": amount} if tool_context.tool_confirmation.confirmed else {"error": "not paid"}

    def book(amount: int, tool_context: ToolContext) -> str:
        """Books."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="Book?")
            return "waits"
        return f"booked {tool_context.tool_confirmation.confirmed}"

    def wipe() -> str:
        """Wipes."""
        return "wiped"

    def large(amount: int) -> bool:
        return amount > 10

    def send(amount: int) -> str:
        """Sends."""
        return "sent"

    hints: list[str] = []

    def answer(request: Any, context: Any) -> Any:
        hints.append(request.hint or request.subject)
        return Once() if approved else Reject("no")

    tools = [pay, book, FunctionTool(wipe, require_confirmation=True), FunctionTool(send, require_confirmation=large)]
    assert (result(tools, "pay", {"amount": 5}, approver=answer).text == '{"paid":5}') == approved
    assert (result(tools, "book", {"amount": 5}, approver=answer).text == "booked True") == approved
    assert (result(tools, "wipe", {}, approver=answer).text == "wiped") == approved
    assert (result(tools, "send", {"amount": 50}, approver=answer).text == "sent") == approved
    assert hints == ["Pay?", "Book?", "call", "send needs an approval"]
    assert result(tools, "send", {"amount": 5}, approver=answer).text == "sent"


def test_a_confirmation_may_come_later() -> None:
    def book(amount: int, tool_context: ToolContext) -> str:
        """Books."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="Book?")
            return "waits"
        return f"booked {amount}"

    async def main() -> Any:
        async with ToolRegistry(approver=ask_later) as registry:
            registry.register(from_adk([book], trust=True))
            resolved = await registry.resolve(ANN)
            paused = await registry.dispatch([pegboard.ToolCall("book", {"amount": 1}, "1")], resolved, ANN)
            (pending,) = paused.pending.calls
            assert pending.hint == "Book?"
            return await registry.resume(paused.pending, {pending.id: Once()}, resolved, ANN)

    assert asyncio.run(main()).results[0].text == "booked 1"


def test_confirmations_without_end_and_credentials_are_errors() -> None:
    def nag(tool_context: ToolContext) -> str:
        """Nags."""
        tool_context.request_confirmation(hint="Again?")
        return "waits"

    def log_in(tool_context: ToolContext) -> str:
        """Logs in."""
        tool_context.actions.requested_auth_configs["1"] = object()  # type: ignore[assignment]
        return "waits"

    nagged = result([nag], "nag", {}, approver=lambda request, context: Once())
    assert "one confirmation after the other" in nagged.text
    assert "credentials" in result([log_in], "log_in", {}).text


class Guarded(BaseTool):
    """A tool that ADK asks about before it runs, with a schema in Gemini's form."""

    def __init__(self) -> None:
        super().__init__(name="guarded", description="Is guarded.")

    def _get_declaration(self) -> types.FunctionDeclaration:
        number = types.Schema(type=types.Type.INTEGER)
        schema = types.Schema(type=types.Type.OBJECT, properties={"x": number}, required=["x"])
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters=schema)

    async def check_require_confirmation(self, args: Any, tool_context: Any) -> bool:
        return args["x"] > 1

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return types.Part(text=f"ran {args['x']}")


def test_tools_of_other_classes_are_asked_about_before_they_run() -> None:
    assert result([Guarded()], "guarded", {"x": 1}).text == "ran 1"
    assert result([Guarded()], "guarded", {"x": 2}, approver=lambda request, context: Once()).text == "ran 2"
    refused = result([Guarded()], "guarded", {"x": 2}, approver=lambda request, context: Reject("no"))
    assert "not approved" in refused.text
    assert result([Guarded()], "guarded", {"x": "1"}).kind == "invalid_arguments"


def test_long_running_tools_of_theirs_are_ours() -> None:
    def order() -> dict[str, str]:
        """Orders."""
        return {"status": "pending"}

    async def main() -> Any:
        (order_tool,) = await from_adk([LongRunningFunctionTool(order)]).tools(ANN)
        return order_tool.spec

    assert asyncio.run(main()).long_running


class Changing(BaseToolset):
    """A toolset whose tools depend on the session."""

    closed = False

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        return [FunctionTool(double)] if readonly_context.state.get("mood") == "good" else []

    async def close(self) -> None:
        self.closed = True


class Broken(BaseToolset):
    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        raise ConnectionError("down")


def test_toolsets_are_asked_anew_and_closed() -> None:
    toolset = Changing()

    async def main() -> None:
        ours = from_adk(toolset)
        first, second = [(await ours.tools(ANN))[0] for _ in range(2)]
        assert first is second
        assert not await ours.tools(ReadonlyContext())
        await ours.close()

    asyncio.run(main())
    assert toolset.closed


def test_one_that_cannot_be_offered_affects_only_itself() -> None:
    def count(to: int) -> Any:
        """Counts."""
        yield from range(to)

    offered = asyncio.run(from_adk([google_search, Broken(), "no tool", count, double]).tools(ANN))
    assert [each.name for each in offered] == ["double"]
    assert sorted(str(problem.tool) for problem in offered.problems) == ["Broken", "count", "google_search", "no tool"]


def test_the_example_of_the_readme_runs(example: Any) -> None:
    names = example("ADK")
    events = asyncio.run(names["main"](Scripted(model="scripted", calls=[("delete", {"name": "a.txt"})], seen=[])))
    assert responses(events)[0].response == {"result": "deleted a.txt"}
