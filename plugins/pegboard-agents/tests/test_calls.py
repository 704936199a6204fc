"""The tool `batch`, and invalid calls that are answered without an error."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio

import pytest

from pegboard import (
    FileContent,
    ImageContent,
    Once,
    ReadonlyContext,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolResult,
    tool,
)
from pegboard.approval import ask_later
from pegboard.errors import FatalToolError
from pegboard.testing import ScriptedModel
from pegboard_agents import Agent, agent_tool, answer_invalid, batch

CONTEXT = ReadonlyContext(state={})


@tool(read_only=True)
async def double(number: int, context: ToolContext) -> int:
    """Doubles a number."""
    context.state[f"double {number}"] = True
    return 2 * number


@tool(read_only=True)
async def picture() -> ToolResult:
    """A picture and a file."""
    return ToolResult([ImageContent(b"1"), "words"], attachments=FileContent("a.txt", "a"))


@tool(destructive=True)
async def wipe(place: str) -> str:
    """Wipes a place."""
    return f"wiped {place}"


def registry_of(*tools):
    registry = ToolRegistry()
    registry.register(batch, *tools)
    return registry


def run(registry, *calls, where=None, **options):
    """The outcome of one call of `batch` with these calls."""
    listed = [{"tool": name, "parameters": parameters} for name, parameters in calls]

    async def main():
        offered = await registry.resolve(CONTEXT, where=where)
        return await registry.dispatch([ToolCall("batch", {"tool_calls": listed}, "1")], offered, CONTEXT, **options)

    return asyncio.run(main())


def kinds(outcome):
    return [fact["kind"] for fact in outcome.results[0].structured_content["results"]]


def test_calls_run_concurrently_and_results_are_in_order():
    met = asyncio.Barrier(2)

    @tool(read_only=True)
    async def meet() -> str:
        """Waits for another."""
        await met.wait()
        return "met"

    outcome = run(registry_of(meet, double), ("meet", {}), ("double", {"number": 4}), ("meet", {}))
    (result,) = outcome.results
    assert result.text.split("\n") == [
        "[1/3] meet: ok",
        "met",
        "[2/3] double: ok",
        '{"result": 8}',
        "[3/3] meet: ok",
        "met",
        "3 of 3 calls succeeded.",
    ]
    assert outcome.actions.state_delta == {"double 4": True}


def test_images_are_in_the_content_and_files_attached():
    (result,) = run(registry_of(picture), ("picture", {}), ("picture", {})).results
    assert [type(item).__name__ for item in result.content].count("ImageContent") == 2
    assert len(result.attachments) == 2


def test_a_call_that_fails_costs_no_other_and_is_no_error_of_the_batch():
    outcome = run(registry_of(double), ("double", {"number": "x"}), ("nosuch", {}), ("double", {"number": 1}))
    assert kinds(outcome) == ["invalid_arguments", "unknown_tool", None]
    assert not outcome.results[0].is_error
    assert outcome.results[0].text.endswith("1 of 3 calls succeeded.")


def test_the_same_call_twice_runs_twice():
    outcome = run(registry_of(double), ("double", {"number": 1}), ("double", {"number": 1}))
    assert outcome.results[0].text.count("[") == 2
    assert kinds(outcome) == [None, None]


def test_only_offered_tools_run():
    outcome = run(registry_of(double, wipe), ("wipe", {"place": "x"}), ("double", {"number": 1}), where="read_only")
    assert kinds(outcome) == ["not_offered", None]


def test_more_than_25_are_refused_one_by_one():
    outcome = run(registry_of(double), *[("double", {"number": 1})] * 27)
    assert kinds(outcome) == [None] * 25 + ["limit"] * 2
    assert "25 of 27 calls succeeded." in outcome.results[0].text


def test_a_list_of_nothing_is_invalid():
    assert run(registry_of()).results[0].kind == "invalid_arguments"


@pytest.mark.parametrize("name", ["batch", "BATCH"])
def test_a_batch_cant_contain_a_batch(name):
    inner = {"tool_calls": [{"tool": "double", "parameters": {"number": 1}}]}
    assert kinds(run(registry_of(double), (name, inner), ("double", {"number": 1}))) == ["limit", None]


def test_an_agent_in_a_batch_may_have_its_own():
    inner = ToolCall("batch", {"tool_calls": [{"tool": "double", "parameters": {"number": 3}}]})
    helper = agent_tool(Agent(name="helper", model=ScriptedModel([inner, "six"])))
    outcome = run(registry_of(double, helper), ("helper", {"request": "x"}))
    assert outcome.results[0].text.split("\n")[1] == "six"


def test_each_call_is_asked_about_by_itself():
    asked = []

    def approver(request, _context):
        asked.append(request.arguments["place"])
        return Once() if request.arguments["place"] == "attic" else None

    outcome = run(registry_of(wipe), ("wipe", {"place": "attic"}), ("wipe", {"place": "home"}), approver=approver)
    assert (sorted(asked), kinds(outcome)) == (["attic", "home"], [None, "denied"])


def test_one_whose_answer_comes_later_is_denied_and_the_others_run():
    outcome = run(registry_of(wipe, double), ("wipe", {"place": "x"}), ("double", {"number": 1}), approver=ask_later)
    assert kinds(outcome) == ["denied", None]
    assert not outcome.pending


def test_one_that_hangs_ends_at_its_own_limit():
    @tool(read_only=True, timeout=0.05)
    async def hang() -> None:
        """Hangs."""
        await asyncio.Event().wait()

    assert kinds(run(registry_of(hang, double), ("hang", {}), ("double", {"number": 1}))) == ["timeout", None]


def test_what_ends_the_turn_ends_it_once_the_others_have_ended():
    ran = []

    @tool
    async def stop() -> None:
        """Stops."""
        raise FatalToolError("stop")

    @tool
    async def later() -> None:
        """Runs on."""
        await asyncio.sleep(0)
        ran.append(1)

    assert isinstance(run(registry_of(stop, later), ("stop", {}), ("later", {})).fatal, FatalToolError)
    assert ran == [1]


def test_cancelling_it_cancels_its_calls():
    async def main():
        begun, ended = asyncio.Event(), []

        @tool(read_only=True)
        async def hang() -> None:
            """Hangs."""
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                ended.append(1)

        calls = [ToolCall("batch", {"tool_calls": [{"tool": "hang"}]}, "1")]
        running = await registry_of(hang).batch(calls, None, CONTEXT)
        task = asyncio.ensure_future(running.run())
        await begun.wait()
        running.interrupt()
        return await task, ended

    outcome, ended = asyncio.run(main())
    assert (outcome.results[0].kind, ended) == ("aborted", [1])


# Bad calls -----------------------------------------------------------------------------------------------------------


def test_bad_calls_are_answered_without_an_error_where_the_host_wants_it():
    registry = ToolRegistry()
    registry.register(double)
    with answer_invalid(registry):
        bad = asyncio.run(registry.call("double", {"number": "x"}))
        assert (bad.is_error, bad.metadata["invalid"]) == (False, "invalid_arguments")
        assert "number: must be an integer" in bad.text
        assert "No tool is called 'nosuch'" in asyncio.run(registry.call("nosuch")).text
        assert asyncio.run(registry.call("Double", {"number": 2})).structured_content == {"result": 4}
    assert asyncio.run(registry.call("double", {"number": "x"})).kind == "invalid_arguments"


def test_other_errors_stay_errors():
    registry = ToolRegistry()
    registry.register(wipe)
    answer_invalid(registry)
    assert asyncio.run(registry.call("wipe", {"place": "x"})).kind == "denied"
