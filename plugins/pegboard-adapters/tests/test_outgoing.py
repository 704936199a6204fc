"""Calls by other frameworks, their questions, and schemas without references."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    Always,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    Tool,
    ToolContext,
    ToolRegistry,
    tool,
)
from pegboard.schema import Validator
from pegboard_adapters.outgoing import (
    answer_of,
    offer_each,
    question_of,
    run_call,
    run_call_sync,
    without_references,
)

ANN = ReadonlyContext(user="ann")


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def registry(ran: list[str]) -> ToolRegistry:
    @tool(destructive=True, requires_confirmation=True)
    async def wipe(name: str, context: ToolContext) -> str:
        """Wipes."""
        await context.ask("format", [name])
        answer = await context.request_confirmation("sure?")
        ran.append(name)
        return f"wiped {name}" if answer.confirmed else "kept"

    registry = ToolRegistry(permissions=Permissions(rules=[Rule("format", "*", "ask")]))
    registry.register(wipe)
    return registry


def call(registry: ToolRegistry, ask: Any) -> Any:
    async def main() -> Any:
        return await run_call(await registry.resolve(), "wipe", {"name": "a"}, ANN, call_id="1", ask=ask)

    return asyncio.run(main())


def test_each_question_is_asked_once_and_the_tool_runs_once(registry: ToolRegistry, ran: list[str]) -> None:
    asked: list[str] = []

    async def ask(pending: Any) -> Once:
        asked.append(pending.subject)
        assert question_of(pending)["request"]["id"] == pending.id
        return Once()

    assert call(registry, ask).text == "wiped a"
    assert (asked, ran) == (["call", "permission", "question"], ["a"])


def test_plain_calls_ask_likewise(registry: ToolRegistry, ran: list[str]) -> None:
    resolved = asyncio.run(registry.resolve())
    result = run_call_sync(resolved, "wipe", '{"name": "a"}', ANN, ask=lambda pending: Once())
    assert (result.text, ran) == ("wiped a", ["a"])
    assert run_call_sync(resolved, "wipe", {"name": "a"}, ANN).kind == "denied"


@pytest.mark.parametrize(("answer", "kind"), [(Reject("no"), "rejected"), (None, "denied")])
def test_a_no_and_no_answer_run_nothing(registry: ToolRegistry, ran: list[str], answer: Any, kind: str) -> None:
    result = call(registry, lambda pending: answer)
    assert (result.kind, ran) == (kind, [])


def test_what_asking_raises_passes_and_nothing_has_run(registry: ToolRegistry, ran: list[str]) -> None:
    class Pause(BaseException):
        """A framework's own control flow."""

    def ask(pending: Any) -> Once:
        raise Pause

    with pytest.raises(Pause):
        call(registry, ask)
    assert ran == []


def test_the_registrys_approver_is_asked_instead(registry: ToolRegistry, ran: list[str]) -> None:
    registry.approver = lambda request, context: Once()
    assert call(registry, lambda pending: Reject("no")).text == "wiped a"


def test_a_tool_that_never_stops_asking_is_ended() -> None:
    registry, numbers = ToolRegistry(), iter(range(1_000))

    @tool
    async def nag(context: ToolContext) -> str:
        """Nags."""
        await context.request_confirmation(f"and {next(numbers)}?")
        return "never"

    registry.register(nag)

    async def main() -> Any:
        return await run_call(await registry.resolve(), "nag", {}, ANN, call_id="1", ask=lambda pending: Once())

    assert asyncio.run(main()).is_error
    assert next(numbers) < 50


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (True, Once()),
        (False, Reject()),
        ("yes", Reject()),
        (None, Reject()),
        ({"answer": "always"}, Always()),
        ({"answer": "reject", "feedback": "later"}, Reject("later")),
        ({"answer": "perhaps"}, Reject()),
        (Once(payload=1), Once(payload=1)),
    ],
)
def test_only_a_clear_yes_is_a_yes(value: object, answer: object) -> None:
    assert answer_of(value) == answer


def test_a_tool_that_a_framework_refuses_is_left_out_by_itself(
    registry: ToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    registry.register(Tool.from_schema("odd", {}, lambda arguments: ""), Tool.provider("web", "openai.web_search"))
    resolved = asyncio.run(registry.resolve())

    def offer(tool: Tool) -> str:
        if tool.name == "odd":
            raise ValueError("bad schema")
        return tool.name

    assert offer_each(resolved, offer, "a framework") == ["wipe"]
    assert "odd can't be offered to a framework" in caplog.text
    with pytest.raises(ValueError, match="have no registry"):
        offer_each(resolved.evolve(registry=None), offer, "a framework")


TREE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Tree"}},
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            },
            "required": ["name"],
        }
    },
}


def nested(depth: int) -> dict[str, Any]:
    return {"name": "a", "children": [nested(depth - 1)] if depth else []}


@given(st.integers(0, 6), st.integers(0, 2))
def test_a_schema_without_references_accepts_what_it_accepted(depth: int, wrong_at: int) -> None:
    schema = without_references(TREE)
    assert "$ref" not in str(schema)
    assert Validator(schema).accepts({"tree": nested(depth)})
    value = wrong = nested(depth)
    for _ in range(min(wrong_at, depth)):
        wrong = wrong["children"][0]
    wrong["name"] = 1
    assert not Validator(schema).accepts({"tree": value})


def test_references_that_lead_nowhere_or_to_themselves_end() -> None:
    assert without_references({"$ref": "#/$defs/Missing"}) == {}
    loop = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    assert without_references(loop) == {}


@pytest.mark.slow
def test_a_schema_that_would_grow_without_bounds_is_refused() -> None:
    names = [f"D{number}" for number in range(20)]
    definitions: dict[str, Any] = {
        name: {"anyOf": [{"$ref": f"#/$defs/{after}"}, {"$ref": f"#/$defs/{after}", "title": "b"}]}
        for name, after in pairwise(names)
    }
    definitions[names[-1]] = {"type": "string"}
    with pytest.raises(ValueError, match="10,000"):
        without_references({"$ref": "#/$defs/D0", "$defs": definitions})
