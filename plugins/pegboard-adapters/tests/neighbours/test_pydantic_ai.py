"""Pydantic AI's own loop runs pegboard's tools, and pegboard runs Pydantic AI's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolDenied,
    ToolReturn,
)
from pydantic_ai.exceptions import ToolFailed, UserError
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from pegboard import ImageContent, Once, ReadonlyContext, ToolRegistry, tool
from pegboard_adapters.pydantic_ai import from_pydantic_ai, to_pydantic_ai


def scripted(*calls: tuple[str, Any], offered: list[Any] | None = None) -> FunctionModel:
    """A model that makes these calls at once, and then ends."""

    def answer(messages: Any, info: Any) -> ModelResponse:
        if offered is not None:
            offered[:] = info.function_tools
        if any(isinstance(part, ToolReturnPart | RetryPromptPart) for message in messages for part in message.parts):
            return ModelResponse([TextPart("done")])
        parts = [ToolCallPart(name, arguments, f"call{at}") for at, (name, arguments) in enumerate(calls)]
        return ModelResponse([*parts])

    return FunctionModel(answer)


def parts_of(result: Any) -> list[Any]:
    """The parts with results, in the order of their calls."""
    found = [part for message in result.all_messages() for part in message.parts]
    return sorted(
        (part for part in found if isinstance(part, ToolReturnPart | RetryPromptPart)), key=lambda p: p.tool_call_id
    )


def agent_of(kinds: Any, *calls: tuple[str, Any], **options: Any) -> Agent[Any, Any]:
    toolset = to_pydantic_ai(kinds.registry, **{k: options.pop(k) for k in ("context", "where") if k in options})
    return Agent(scripted(*calls, **options), toolsets=[toolset], output_type=[str, DeferredToolRequests])


ANN = ReadonlyContext(user="ann", session="s")


def run(kinds: Any, *calls: tuple[str, Any], **options: Any) -> list[Any]:
    return parts_of(agent_of(kinds, *calls, **options).run_sync("go", deps=ANN))


def test_results_images_and_errors_reach_the_model(kinds: Any) -> None:
    add, draw, find, crash, count, who = run(
        kinds,
        ("add", {"a": 1, "b": 2}),
        ("draw", {}),
        ("find", {"name": "bob"}),
        ("crash", {}),
        ("count", '{"to": 3}'),
        ("whoami", {}),
    )
    assert (add.content, add.metadata["structuredContent"]) == ('{"result": 3}', {"result": 3})
    assert isinstance(draw.content[0] if isinstance(draw.content, list) else draw.content, BinaryContent)
    assert (find.content, find.outcome) == ("There is no customer 'bob'; try 'ann'.", "failed")
    assert crash.outcome == "failed"
    assert "secret" not in str(crash)
    assert count.content == "counted to 3"
    assert who.content == "ann in s"


def test_invalid_arguments_run_nothing_and_are_retried(kinds: Any) -> None:
    (part,) = run(kinds, ("add", {"a": "x", "b": 2}))
    assert isinstance(part, RetryPromptPart) or part.outcome == "retried"  # of older and of newer releases
    assert "must be an integer" in part.content
    assert kinds.ran == []


def test_bad_tools_of_ours_and_of_theirs_affect_only_themselves(kinds: Any, check_theirs: Any) -> None:
    kinds.check_bad(run(kinds, *kinds.bad_calls))
    check_theirs("pydantic-ai", FunctionToolset, CallDeferred({"x": "secret"}), twice=False)


def test_a_recursive_argument_is_kept(kinds: Any) -> None:
    offered: list[Any] = []
    tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
    (part,) = run(kinds, ("depth", tree), offered=offered)
    assert part.content == '{"result": 3}'
    (schema,) = (each.parameters_json_schema for each in offered if each.name == "depth")
    assert "$ref" in str(schema)


@pytest.mark.parametrize("approved", [True, False])
def test_what_asks_is_deferred_and_runs_once_it_is_approved(kinds: Any, approved: bool) -> None:
    agent = agent_of(kinds, ("delete", {"name": "a"}))
    paused = agent.run_sync("go", deps=ANN)
    assert isinstance(paused.output, DeferredToolRequests)
    (call,) = paused.output.approvals
    assert "delete" in paused.output.metadata[call.tool_call_id]["text"]
    assert kinds.ran == []
    answers = DeferredToolResults(approvals={call.tool_call_id: approved or ToolDenied("keep it")})
    result = agent.run_sync(deps=ANN, message_history=paused.all_messages(), deferred_tool_results=answers)
    assert result.output == "done"
    assert kinds.ran == ([("delete", "a")] if approved else [])


def test_an_agent_that_cannot_defer_runs_nothing_that_asks(kinds: Any) -> None:
    with pytest.raises(UserError, match="DeferredToolRequests"):
        Agent(scripted(("delete", {"name": "a"})), toolsets=[to_pydantic_ai(kinds.registry)]).run_sync("go", deps=ANN)
    assert kinds.ran == []


def test_a_question_from_inside_is_another_approval_in_each_conversation(kinds: Any) -> None:
    from pegboard import ToolContext

    @tool(destructive=True, requires_confirmation=True)
    async def wipe(context: ToolContext) -> str:
        """Wipes."""
        await context.ask("format", ["disk"])
        kinds.ran.append("wipe")
        return "wiped"

    from pegboard import Permissions, Rule

    kinds.registry.register(wipe)
    kinds.registry.permissions = Permissions(rules=[Rule("format", "*", "ask")])
    agent = agent_of(kinds, ("wipe", {}))

    def approve(paused: Any) -> Any:
        answers = DeferredToolResults(approvals={paused.output.approvals[0].tool_call_id: True})
        return agent.run_sync(deps=ANN, message_history=paused.all_messages(), deferred_tool_results=answers)

    paused = [approve(each) for each in [agent.run_sync("go", deps=ANN) for _ in range(2)]]  # with equal ids of calls
    assert kinds.ran == []
    assert [approve(each).output for each in paused] == ["done", "done"]
    assert kinds.ran == ["wipe", "wipe"]


def test_the_registrys_approver_takes_precedence(kinds: Any) -> None:
    kinds.registry.approver = lambda request, context: Once()
    (part,) = run(kinds, ("delete", {"name": "a"}))
    assert part.content == "deleted a"


def test_tools_are_resolved_anew_at_each_step(kinds: Any) -> None:
    seen: list[list[str]] = []

    def answer(messages: Any, info: Any) -> ModelResponse:
        seen.append(sorted(each.name for each in info.function_tools))
        if len(seen) == 1:
            kinds.registry.register(tool(late))
            return ModelResponse([ToolCallPart("count", {"to": 1}, "1")])
        return ModelResponse([TextPart("done")])

    def late() -> str:
        """Comes late."""
        return ""

    Agent(FunctionModel(answer), toolsets=[to_pydantic_ai(kinds.registry, where="not destructive")]).run_sync("go")
    assert "late" not in seen[0]
    assert "late" in seen[1]
    assert "delete" not in seen[0]


def test_cancelling_the_run_cancels_the_tool(kinds: Any) -> None:
    async def main() -> None:
        task = asyncio.create_task(agent_of(kinds, ("wait", {})).run("go", deps=ANN))
        await kinds.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


def test_two_users_at_once_are_told_apart(kinds: Any) -> None:
    async def main() -> list[str]:
        agent = agent_of(kinds, ("whoami", {}))
        runs = [agent.run("go", deps=ReadonlyContext(user=f"user{n}", session=f"s{n}")) for n in range(2)]
        return [parts_of(result)[0].content for result in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == ["user0 in s0", "user1 in s1"]


# Pydantic AI's tools in pegboard --------------------------------------------------------------------------------------


async def call(toolset: Any, name: str, arguments: dict[str, Any], **options: Any) -> Any:
    approver = options.pop("approver", None)
    async with ToolRegistry(approver=approver) as registry:
        registry.register(from_pydantic_ai(toolset, **{"trust": True, **options}))
        resolved = await registry.resolve(ANN)
        assert not resolved.problems, resolved.problems
        return await registry.call(name, arguments, ANN, resolved=resolved)


def test_their_functions_run_with_the_deps_of_the_context() -> None:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool
    def greet(ctx: RunContext[str], name: str, times: int = 1) -> str:
        """Greets."""
        return f"{ctx.deps}: {' '.join(['hi'] * times)} {name} ({ctx.conversation_id})"

    result = asyncio.run(call(tools, "greet", {"name": "bob"}, deps=lambda context: context.user))
    assert result.text == "ann: hi bob (s)"


def test_their_errors_are_theirs_and_crashes_stay_hidden() -> None:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def retry() -> str:
        """Retries."""
        raise ModelRetry("try again with 2")

    @tools.tool_plain
    def fail() -> str:
        """Fails."""
        raise ToolFailed("no such thing")

    @tools.tool_plain
    def crash() -> str:
        """Crashes."""
        raise RuntimeError("secret-path")

    @tools.tool_plain
    def later() -> str:
        """Comes later."""
        raise CallDeferred

    texts = {name: asyncio.run(call(tools, name, {})) for name in ("retry", "fail", "crash", "later")}
    assert all(result.is_error for result in texts.values())
    assert (texts["retry"].text, texts["fail"].text) == ("try again with 2", "no such thing")
    assert "secret" not in texts["crash"].text
    assert "outside" in texts["later"].text


@pytest.mark.parametrize("approved", [True, False])
def test_their_approvals_are_questions(approved: bool) -> None:
    from pegboard import Reject

    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool
    def delete(ctx: RunContext[Any], name: str) -> str:
        """Deletes."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"why": "gone for good"})
        return f"deleted {name}"

    @tools.tool_plain(requires_approval=True)
    def wipe() -> str:
        """Wipes."""
        return "wiped"

    answer = Once() if approved else Reject("no")
    deleted = asyncio.run(call(tools, "delete", {"name": "a"}, approver=lambda request, context: answer))
    wiped = asyncio.run(call(tools, "wipe", {}, approver=lambda request, context: answer))
    assert (deleted.text == "deleted a", wiped.text == "wiped") == (approved, approved)


def test_media_and_returns_arrive(kinds: Any) -> None:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def draw() -> Any:
        """Draws."""
        return ToolReturn(return_value=["here", BinaryContent(kinds.png, media_type="image/png")], metadata={"n": 1})

    @tools.tool_plain
    def facts() -> Any:
        """Gives facts."""
        return {"a": [1, 2]}

    drawn = asyncio.run(call(tools, "draw", {}))
    assert drawn.content[1] == ImageContent(kinds.png)
    assert drawn.details == {"n": 1}
    assert asyncio.run(call(tools, "facts", {})).text == '{"a":[1,2]}'


def test_they_ask_unless_they_are_trusted_and_stay_the_same() -> None:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def fine() -> str:
        """Is fine."""
        return "fine"

    for trust in (False, ["pydantic-ai-slim"]):
        assert "approval" in asyncio.run(call(tools, "fine", {}, trust=trust)).text
    fine.__module__ = "attrs"
    assert asyncio.run(call(tools, "fine", {}, trust=["attrs"])).text == "fine"

    async def main() -> None:
        toolset = from_pydantic_ai(tools)
        first, second = [await toolset.tools(ANN) for _ in range(2)]
        assert first[0] is second[0]

    asyncio.run(main())


def test_the_example_of_the_readme_runs(example: Any) -> None:
    names = example("Pydantic AI")
    assert names["main"](scripted(("delete", {"name": "a.txt"}))) == "done"


class Opening(FunctionToolset[Any]):
    """A toolset that lists its tools while it is entered, which fails at first."""

    tries, is_open = 0, False

    async def __aenter__(self) -> Any:
        self.tries += 1
        if self.tries == 1:
            raise OSError("not yet")
        await asyncio.sleep(0)
        self.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_open = False

    async def get_tools(self, ctx: Any) -> Any:
        assert self.is_open
        return await super().get_tools(ctx)


def test_a_toolset_is_entered_once_before_it_lists_its_tools_and_left_by_closing() -> None:
    async def main() -> None:
        opening = Opening()
        toolset = from_pydantic_ai(opening)
        with pytest.raises(OSError, match="not yet"):
            await toolset.tools(ANN)
        await asyncio.gather(toolset.tools(ANN), toolset.tools(ANN))
        assert (opening.tries, opening.is_open) == (2, True)
        await toolset.close()
        assert not opening.is_open

    asyncio.run(main())
