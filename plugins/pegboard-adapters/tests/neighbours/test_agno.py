"""The recipe for Agno: its agent runs pegboard's tools."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from pegboard import Once, ToolContext


class Scripted(Model):
    """A model that makes these calls at once, and then ends."""

    def __init__(self, *calls: tuple[str, Any]) -> None:
        super().__init__(id="scripted")
        self.calls = calls

    async def ainvoke(self, messages: Any, **_: Any) -> ModelResponse:
        if any(message.role == "tool" for message in messages):
            return ModelResponse(role="assistant", content="done")
        calls = [
            {"id": f"call{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for at, (name, arguments) in enumerate(self.calls)
        ]
        return ModelResponse(role="assistant", tool_calls=calls)

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        raise NotImplementedError

    invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke


async def agent_of(kinds: Any, *calls: tuple[str, Any]) -> Agent:
    tools = kinds.recipe("Agno").to_agno(await kinds.registry.resolve())
    return Agent(model=Scripted(*calls), tools=tools, telemetry=False)


def messages_of(run: Any) -> list[Any]:
    return [message for message in run.messages if message.role == "tool"]


def run(kinds: Any, *calls: tuple[str, Any]) -> Any:
    async def main() -> Any:
        return await (await agent_of(kinds, *calls)).arun("go", user_id="ann", session_id="s")

    return asyncio.run(main())


def test_results_images_and_errors_reach_the_model(kinds: Any) -> None:
    done = run(
        kinds,
        ("add", {"a": 1, "b": 2}),
        ("draw", {}),
        ("find", {"name": "bob"}),
        ("crash", {}),
        ("count", {"to": 3}),
        ("whoami", {}),
    )
    add, _, find, crash, count, who = messages_of(done)
    assert add.content == '{"result": 3}'
    assert done.images[0].content == kinds.png
    assert (find.content, find.tool_call_error) == ("There is no customer 'bob'; try 'ann'.", True)
    assert crash.tool_call_error
    assert "secret" not in crash.content
    assert count.content == "counted to 3"
    assert who.content == "ann in s"


def test_invalid_arguments_run_nothing_and_recursive_ones_are_kept(kinds: Any) -> None:
    tree = {"name": "a", "children": [{"name": "b", "children": []}]}
    wrong, deep = messages_of(run(kinds, ("add", {"a": "x", "b": 2}), ("depth", tree)))
    assert "must be an integer" in wrong.content
    assert kinds.ran == []
    assert deep.content == '{"result": 2}'


@pytest.mark.parametrize("approved", [True, False])
def test_what_asks_pauses_the_run(kinds: Any, approved: bool) -> None:
    async def main() -> Any:
        agent = await agent_of(kinds, ("delete", {"name": "a"}))
        paused = await agent.arun("go", user_id="ann", session_id="s")
        assert kinds.ran == []
        (requirement,) = paused.active_requirements
        requirement.confirm() if approved else requirement.reject("keep it")
        return await agent.acontinue_run(paused, requirements=paused.requirements)

    done = asyncio.run(main())
    assert kinds.ran == ([("delete", "a")] if approved else [])
    assert done.content == "done"


def test_the_registrys_approver_takes_precedence_and_a_running_tools_question_is_denied(kinds: Any) -> None:
    from pegboard import tool

    @tool(read_only=True)
    async def wipe(context: ToolContext) -> str:
        """Wipes."""
        return str((await context.request_confirmation("Really?")).confirmed)

    kinds.registry.register(wipe)
    (denied,) = messages_of(run(kinds, ("wipe", {})))
    assert denied.content != "True"
    kinds.registry.approver = lambda request, context: Once()
    deleted, wiped = messages_of(run(kinds, ("delete", {"name": "a"}), ("wipe", {})))
    assert (deleted.content, wiped.content) == ("deleted a", "True")


def test_cancelling_the_run_cancels_the_tool(kinds: Any) -> None:
    async def main() -> None:
        agent = await agent_of(kinds, ("wait", {}))
        task = asyncio.create_task(agent.arun("go"))
        await kinds.begun.wait()
        task.cancel()
        await asyncio.wait([task], timeout=10)
        await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


def test_two_users_at_once_are_told_apart(kinds: Any) -> None:
    async def main() -> list[str]:
        agent = await agent_of(kinds, ("whoami", {}))
        runs = [agent.arun("go", user_id=f"user{n}", session_id=f"s{n}") for n in range(2)]
        return [messages_of(done)[0].content for done in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == ["user0 in s0", "user1 in s1"]
