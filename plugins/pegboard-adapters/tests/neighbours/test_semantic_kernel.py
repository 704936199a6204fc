"""The recipe for Semantic Kernel: its kernel runs pegboard's tools for a model's calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.contents import ChatHistory, FunctionCallContent

from pegboard import Once, ReadonlyContext

ANN = ReadonlyContext(user="ann", session="s")


async def call_all(kinds: Any, *calls: tuple[str, Any], context: Any = ANN) -> list[str]:
    """What the model reads of each of these calls."""
    kernel, history = Kernel(), ChatHistory()
    kernel.add_plugin(kinds.recipe("Semantic Kernel").to_plugin(await kinds.registry.resolve(), context))
    behavior = FunctionChoiceBehavior.Auto()
    for at, (name, arguments) in enumerate(calls):
        call = FunctionCallContent(id=f"call{at}", name=f"pegboard-{name}", arguments=json.dumps(arguments))
        await kernel.invoke_function_call(call, history, function_behavior=behavior)
    return [str(message.items[0].result) for message in history.messages]


def run(kinds: Any, *calls: tuple[str, Any]) -> list[str]:
    return asyncio.run(call_all(kinds, *calls))


def test_results_and_errors_reach_the_model(kinds: Any) -> None:
    add, draw, find, crash, count, who = run(
        kinds,
        ("add", {"a": 1, "b": 2}),
        ("draw", {}),
        ("find", {"name": "bob"}),
        ("crash", {}),
        ("count", {"to": 3}),
        ("whoami", {}),
    )
    assert add == '{"result": 3}'
    assert draw == "[image/png]"
    assert find == "There is no customer 'bob'; try 'ann'."
    assert "secret" not in crash
    assert count == "counted to 3"
    assert who == "ann in s"


def test_invalid_arguments_run_nothing_and_recursive_ones_are_written_out(kinds: Any) -> None:
    async def schemas() -> str:
        plugin = kinds.recipe("Semantic Kernel").to_plugin(await kinds.registry.resolve(), ANN)
        return json.dumps([each.schema_data for each in plugin["depth"].parameters])

    tree = {"name": "a", "children": [{"name": "b", "children": []}]}
    wrong, missing, deep = run(kinds, ("add", {"a": "x", "b": 2}), ("add", {"a": 1}), ("depth", tree))
    assert "must be an integer" in wrong
    assert "equired" in missing
    assert kinds.ran == []
    assert deep == '{"result": 2}'
    assert "$ref" not in asyncio.run(schemas())


def test_what_asks_is_denied_unless_the_registry_has_an_approver(kinds: Any) -> None:
    assert "approv" in run(kinds, ("delete", {"name": "a"}))[0]
    assert kinds.ran == []
    kinds.registry.approver = lambda request, context: Once()
    assert run(kinds, ("delete", {"name": "a"})) == ["deleted a"]


def test_cancelling_the_call_cancels_the_tool(kinds: Any) -> None:
    async def main() -> None:
        task = asyncio.create_task(call_all(kinds, ("wait", {})))
        await kinds.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


def test_two_users_at_once_are_told_apart(kinds: Any) -> None:
    async def main() -> list[list[str]]:
        users = [ReadonlyContext(user=user, session="s") for user in ("a", "b")]
        return await asyncio.gather(*(call_all(kinds, ("whoami", {}), context=user) for user in users))

    assert asyncio.run(main()) == [["a in s"], ["b in s"]]
