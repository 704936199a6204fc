"""The recipe for AutoGen: its workbench runs pegboard's tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.tools import ImageResultContent

from pegboard import Once, ReadonlyContext, tool

ANN = ReadonlyContext(user="ann", session="s")


def run(kinds: Any, *calls: tuple[str, Any]) -> list[Any]:
    async def main() -> list[Any]:
        async with kinds.recipe("AutoGen").PegboardWorkbench(kinds.registry, ANN) as workbench:
            return [await workbench.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(main())


def test_results_images_and_errors_are_autogens(kinds: Any) -> None:
    add, draw, find, crash, count, who = run(
        kinds,
        ("add", {"a": 1, "b": 2}),
        ("draw", None),
        ("find", {"name": "bob"}),
        ("crash", {}),
        ("count", {"to": 3}),
        ("whoami", {}),
    )
    assert (add.to_text(), add.is_error) == ('{"result": 3}', False)
    assert isinstance(draw.result[0], ImageResultContent)
    assert (find.to_text(), find.is_error) == ("There is no customer 'bob'; try 'ann'.", True)
    assert crash.is_error
    assert "secret" not in crash.to_text()
    assert count.to_text() == "counted to 3"
    assert who.to_text() == "ann in s"


def test_invalid_arguments_run_nothing_and_recursive_ones_are_kept(kinds: Any) -> None:
    tree = {"name": "a", "children": [{"name": "b", "children": []}]}
    wrong, deep = run(kinds, ("add", {"a": "x", "b": 2}), ("depth", tree))
    assert wrong.is_error
    assert kinds.ran == []
    assert deep.to_text() == '{"result": 2}'


def test_what_asks_is_denied_unless_the_registry_has_an_approver(kinds: Any) -> None:
    (denied,) = run(kinds, ("delete", {"name": "a"}))
    assert denied.is_error
    assert kinds.ran == []
    kinds.registry.approver = lambda request, context: Once()
    assert run(kinds, ("delete", {"name": "a"}))[0].to_text() == "deleted a"


def test_the_cancellation_token_cancels_the_tool(kinds: Any) -> None:
    async def main() -> None:
        token = CancellationToken()
        workbench = kinds.recipe("AutoGen").PegboardWorkbench(kinds.registry, ANN)
        task = asyncio.create_task(workbench.call_tool("wait", {}, token))
        await kinds.begun.wait()
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


def test_later_tools_are_listed_and_two_users_are_told_apart(kinds: Any) -> None:
    def late() -> str:
        """Comes late."""
        return "late"

    async def main() -> None:
        benches = [
            kinds.recipe("AutoGen").PegboardWorkbench(kinds.registry, ReadonlyContext(user=user, session="s"))
            for user in ("a", "b")
        ]
        before = [each["name"] for each in await benches[0].list_tools()]
        kinds.registry.register(tool(late))
        after = [each["name"] for each in await benches[0].list_tools()]
        assert {*after} - {*before} == {"late"}
        results = await asyncio.gather(*(bench.call_tool("whoami", {}) for bench in benches))
        assert [result.to_text() for result in results] == ["a in s", "b in s"]

    asyncio.run(main())
