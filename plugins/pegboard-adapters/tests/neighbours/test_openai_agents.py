"""The OpenAI Agents SDK's own loop runs pegboard's tools, and pegboard runs the SDK's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import (
    Agent,
    AgentsException,
    Model,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolGuardrailFunctionOutput as Verdict,
    ToolOutputImage,
    Usage,
    WebSearchTool,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from pegboard import ImageContent, Once, ReadonlyContext, Reject, ToolRegistry
from pegboard_adapters.openai_agents import from_openai_agents, to_openai_agents

ANN = ReadonlyContext(user="ann", session="s")


class Scripted(Model):
    """A model that makes these calls at once, and then ends."""

    def __init__(self, *calls: tuple[str, str]) -> None:
        self.calls = calls

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        if isinstance(input, list) and any(item.get("type") == "function_call_output" for item in input):
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            items: list[Any] = [
                ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
            ]
        else:
            items = [
                ResponseFunctionToolCall(name=name, arguments=arguments, call_id=f"call{at}", type="function_call")
                for at, (name, arguments) in enumerate(self.calls)
            ]
        return ModelResponse(output=items, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


QUIET = RunConfig(tracing_disabled=True)


async def agent_of(kinds: Any, *calls: tuple[str, str], **options: Any) -> Agent[Any]:
    return Agent(name="a", model=Scripted(*calls), tools=[*to_openai_agents(await kinds.registry.resolve(), **options)])


def outputs(result: Any) -> list[Any]:
    return [item.raw_item["output"] for item in result.new_items if item.type == "tool_call_output_item"]


def run(kinds: Any, *calls: tuple[str, str], **options: Any) -> list[Any]:
    async def main() -> Any:
        return await Runner.run(await agent_of(kinds, *calls, **options), "go", context=ANN, run_config=QUIET)

    return outputs(asyncio.run(main()))


def test_results_images_and_errors_reach_the_model(kinds: Any) -> None:
    add, draw, find, crash, count, who = run(
        kinds,
        ("add", '{"a": 1, "b": 2}'),
        ("draw", ""),
        ("find", '{"name": "bob"}'),
        ("crash", "{}"),
        ("count", '{"to": 3}'),
        ("whoami", "{}"),
    )
    assert json.loads(add) == {"result": 3}
    assert draw[0]["type"] == "input_image"
    assert draw[0]["image_url"].startswith("data:image/png;base64,")
    assert find == "There is no customer 'bob'; try 'ann'."
    assert "secret" not in crash
    assert count == "counted to 3"
    assert who == "ann in s"


@pytest.mark.parametrize("arguments", ['{"a": "x", "b": 2}', "no JSON", '{"a": 1, "a": 2, "b": 1}'])
def test_invalid_arguments_run_nothing(kinds: Any, arguments: str) -> None:
    (text,) = run(kinds, ("add", arguments))
    assert "call the tool again" in text or "JSON" in text
    assert kinds.ran == []


def test_bad_tools_of_ours_and_of_theirs_affect_only_themselves(kinds: Any, check_theirs: Any) -> None:
    kinds.check_bad(run(kinds, *((name, json.dumps(arguments)) for name, arguments in kinds.bad_calls)))
    check_theirs("openai-agents", lambda functions: [*map(function_tool, functions)], AgentsException("secret"))


def test_a_recursive_argument_is_kept_and_strict_only_where_the_schema_is(kinds: Any) -> None:
    tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
    (text,) = run(kinds, ("depth", json.dumps(tree)))
    assert json.loads(text) == {"result": 3}
    tools = {each.name: each for each in to_openai_agents(asyncio.run(kinds.registry.resolve()))}
    assert "$ref" in str(tools["depth"].params_json_schema)
    assert tools["add"].strict_json_schema
    assert not tools["depth"].strict_json_schema
    assert tools["draw"].params_json_schema["properties"] == {}


@pytest.mark.parametrize("approved", [True, False])
def test_what_asks_interrupts_the_run(kinds: Any, approved: bool) -> None:
    async def main() -> Any:
        agent = await agent_of(kinds, ("delete", '{"name": "a"}'))
        paused = await Runner.run(agent, "go", context=ANN, run_config=QUIET)
        (asked,) = paused.interruptions
        assert kinds.ran == []
        state = paused.to_state()
        state.approve(asked) if approved else state.reject(asked)
        return await Runner.run(agent, state, run_config=QUIET)

    result = asyncio.run(main())
    assert result.final_output == "done"
    assert kinds.ran == ([("delete", "a")] if approved else [])


def test_only_tools_that_may_ask_need_an_approval(kinds: Any) -> None:
    tools = {each.name: each for each in to_openai_agents(asyncio.run(kinds.registry.resolve()))}
    assert callable(tools["delete"].needs_approval)
    assert tools["add"].needs_approval is False
    kinds.registry.approver = lambda request, context: Once()
    tools = {each.name: each for each in to_openai_agents(asyncio.run(kinds.registry.resolve()))}
    assert tools["delete"].needs_approval is False
    assert run(kinds, ("delete", '{"name": "a"}')) == ["deleted a"]


def test_cancelling_the_run_cancels_the_tool(kinds: Any) -> None:
    async def main() -> None:
        agent = await agent_of(kinds, ("wait", "{}"))
        task = asyncio.create_task(Runner.run(agent, "go", context=ANN, run_config=QUIET))
        await kinds.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


def test_two_users_at_once_are_told_apart(kinds: Any) -> None:
    async def main() -> list[str]:
        agent = await agent_of(kinds, ("whoami", "{}"))
        contexts = [ReadonlyContext(user=f"user{n}", session=f"s{n}") for n in range(2)]
        runs = [Runner.run(agent, "go", context=each, run_config=QUIET) for each in contexts]
        return [outputs(result)[0] for result in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == ["user0 in s0", "user1 in s1"]


# The SDK's tools in pegboard ------------------------------------------------------------------------------------------


async def call(tools: Any, name: str, arguments: dict[str, Any], **options: Any) -> Any:
    approver = options.pop("approver", None)
    async with ToolRegistry(approver=approver) as registry:
        registry.register(from_openai_agents(tools, **{"trust": True, **options}))
        resolved = await registry.resolve(ANN)
        assert not resolved.problems, resolved.problems
        return await registry.call(name, arguments, ANN, resolved=resolved)


def test_their_functions_run_and_crashes_stay_hidden(kinds: Any) -> None:
    @function_tool
    def double(x: int) -> int:
        """Doubles."""
        return 2 * x

    @function_tool
    def crash() -> int:
        """Crashes."""
        raise RuntimeError("secret-path")

    @function_tool
    def draw() -> Any:
        """Draws."""
        import base64

        return ToolOutputImage(image_url=f"data:image/png;base64,{base64.b64encode(kinds.png).decode()}")

    assert asyncio.run(call([double], "double", {"x": 2})).text == "4"
    crashed = asyncio.run(call(crash, "crash", {}))
    assert crashed.is_error
    assert "secret" not in crashed.text
    assert asyncio.run(call([draw], "draw", {})).content == (ImageContent(kinds.png),)
    assert asyncio.run(call([double], "double", {"x": "two"})).kind == "invalid_arguments"


def test_their_context_is_the_calls_or_the_hosts() -> None:
    @function_tool
    def who(ctx: RunContextWrapper[Any]) -> str:
        """Says who."""
        return f"{ctx.context}" if isinstance(ctx.context, str) else f"{ctx.context.user}"

    assert asyncio.run(call([who], "who", {})).text == "ann"
    assert asyncio.run(call([who], "who", {}, context=lambda call: f"own {call.user}")).text == "own ann"


@pytest.mark.parametrize("approved", [True, False])
def test_their_approvals_are_questions(approved: bool) -> None:
    async def large(ctx: Any, arguments: dict[str, Any], call_id: str) -> bool:
        return arguments["amount"] > 10

    @function_tool(needs_approval=large)
    def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    @function_tool(needs_approval=True)
    def wipe() -> str:
        """Wipes."""
        return "wiped"

    answer = Once() if approved else Reject("no")
    approver = lambda request, context: answer  # noqa: E731
    assert (asyncio.run(call([pay], "pay", {"amount": 50}, approver=approver)).text == "paid 50") == approved
    assert asyncio.run(call([pay], "pay", {"amount": 5})).text == "paid 5"
    assert (asyncio.run(call([wipe], "wipe", {}, approver=approver)).text == "wiped") == approved


def test_their_guardrails_and_time_limits_hold() -> None:
    ran: list[str] = []

    @tool_input_guardrail
    def not_bob(data: Any) -> Any:
        names = json.loads(data.context.tool_arguments)["name"]
        return Verdict.reject_content("not bob") if names == "bob" else Verdict.allow()

    @tool_output_guardrail
    def not_secret(data: Any) -> Any:
        return Verdict.raise_exception() if "secret" in data.output else Verdict.allow()

    @function_tool(timeout=5, tool_input_guardrails=[not_bob], tool_output_guardrails=[not_secret])
    async def find(name: str) -> str:
        """Finds."""
        ran.append(name)
        return f"found {name}"

    bob, secret, ann = (asyncio.run(call([find], "find", {"name": name})) for name in ("bob", "secret", "ann"))
    assert (bob.is_error, bob.text) == (True, "not bob")
    assert (secret.is_error, "found" in secret.text) == (True, False)
    assert (ann.text, ran) == ("found ann", ["secret", "ann"])
    (offered,) = asyncio.run(from_openai_agents([find]).tools(ANN))
    assert offered.policy.timeout == 5


def test_the_package_of_a_function_tells_its_trust() -> None:
    def fine() -> str:
        """Is fine."""
        return "fine"

    fine.__module__ = "attrs"
    assert asyncio.run(call([function_tool(fine)], "fine", {}, trust=["attrs"])).text == "fine"
    assert "approval" in asyncio.run(call([function_tool(fine)], "fine", {}, trust=["openai-agents"])).text


def test_hosted_tools_are_problems_of_their_own() -> None:
    @function_tool
    def fine() -> str:
        """Is fine."""
        return "fine"

    result = asyncio.run(from_openai_agents([WebSearchTool(), fine]).tools(ANN))
    assert [each.name for each in result] == ["fine"]
    assert [problem.tool for problem in result.problems] == ["web_search"]


def test_the_example_of_the_readme_runs(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    names = example("OpenAI Agents SDK")
    assert asyncio.run(names["main"](Scripted(("delete", '{"name": "a.txt"}')))) == "done"
