from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest

from pegboard import (
    Abort,
    Completion,
    Message,
    ReadonlyContext,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    run_turn,
    tool,
)
from pegboard.backends import OperationStore
from pegboard.errors import OperationError, TurnAbortedError
from pegboard.events import CallCompleted
from pegboard.testing import ScriptedModel
from sqlite_backends import SqliteOperations

PATIENCE = 60  # seconds; only a broken test waits so long
ANN = ReadonlyContext(user="ann", session="s1", agent="clerk")


@attrs.frozen
class Report:
    pages: int


@tool(long_running=True)
async def build(topic: str):
    """Builds a report."""
    return ToolResult(f"job on {topic}")


@pytest.fixture
def store(tmp_path):
    return SqliteOperations(tmp_path / "operations.db")


@pytest.fixture
def registry(store):
    """A registry for one process of a host; all have one store."""

    def registry(*tools):
        made = ToolRegistry()
        made.register(build, *tools)
        made.provide(OperationStore, store)
        return made

    return registry


async def begin(registry, call_id="toolu_1", context=ANN):
    """The operation of a call."""
    result = await registry.call("build", {"topic": "cats"}, context, call_id=call_id)
    return result.metadata["operation"]


async def test_another_process_completes_an_operation_and_a_third_takes_its_result(registry):
    one, other, third = registry(), registry(), registry()
    operation = await begin(one)
    (pending,) = other.operations.pending
    assert (pending.id, pending.call_id, pending.tool, pending.session) == (operation, "toolu_1", "build", "s1")
    completion = other.operations.complete("toolu_1", Report(3))
    assert completion.result.structured_content == {"pages": 3}
    assert [each.operations.pending for each in (one, other, third)] == [()] * 3
    assert third.operations.take("s2") == ()
    assert third.operations.take("s1", {"toolu_2"}) == ()
    assert third.operations.take("s1") == (completion,)
    assert one.operations.take("s1") == other.operations.take("s1") == ()


async def test_the_callbacks_and_observers_of_that_process_see_the_call_as_it_was_made(registry):
    seen, events = [], []
    one, other = registry(), registry()

    def after(context, tool, arguments, result):
        seen.append((context.user, context.session, context.agent, context.call_id, tool.name, dict(arguments)))
        return ToolResult(f"{result.text}!")

    other.add_callback("after_tool", after)
    other.add_callback("observe", events.append)
    completion = await asyncio.to_thread(other.operations.complete, await begin(one), ToolResult("done"))
    await other.aclose()  # delivers the events
    assert completion.result.text == "done!"
    assert seen == [("ann", "s1", "clerk", "toolu_1", "build", {"topic": "cats"})]
    assert [(type(each), each.call_id) for each in events] == [(CallCompleted, "toolu_1")]


async def test_many_processes_complete_it_once(registry):
    registries = [registry() for _ in range(6)]
    operation = await begin(registries[0])

    def complete(number):
        try:
            return registries[number].operations.complete(operation, Report(number))
        except OperationError:
            return None

    with ThreadPoolExecutor(6) as threads:
        outcomes = list(threads.map(complete, range(6)))
    (completion,) = [each for each in outcomes if each is not None]
    assert registries[1].operations.take("s1") == (completion,)


async def test_while_one_process_completes_it_no_other_can(registry):
    one, other = registry(), registry()
    operation, begun, goes_on = await begin(one), threading.Event(), threading.Event()

    def after(result):
        begun.set()
        assert goes_on.wait(PATIENCE)

    one.add_callback("after_tool", after)
    first = asyncio.create_task(asyncio.to_thread(one.operations.complete, operation, Report(1)))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    with pytest.raises(OperationError, match="another process is completing it"):
        other.operations.complete(operation, Report(2))
    goes_on.set()
    assert isinstance(await first, Completion)
    assert other.operations.take("s1")[0].result.structured_content == {"pages": 1}


async def test_a_claim_that_has_run_out_lets_another_complete_it_but_only_one_result_stays(registry, store):
    one, other = registry(), registry()
    operation = await begin(one)

    def after(result):
        if result.structured_content == {"pages": 1}:
            with store.changed() as rows:  # its time is over
                rows.execute("update operations set claimed = 0")
            other.operations.complete(operation, Report(2))

    one.add_callback("after_tool", after)
    with pytest.raises(OperationError, match="has its result already"):
        await asyncio.to_thread(one.operations.complete, operation, Report(1))
    assert [each.result.structured_content for each in one.operations.take("s1")] == [{"pages": 2}]


async def test_what_a_tool_raises_later_and_what_ends_the_turn_are_stored(registry):
    one, other = registry(), registry()
    await begin(one)

    def after(result):
        return Abort("no more paper")

    assert other.operations.complete("toolu_1", ToolError("no paper")).result.text == "no paper"
    await begin(one, "toolu_2")
    other.add_callback("after_tool", after)
    completion = await asyncio.to_thread(other.operations.complete, "toolu_2", Report(1))
    first, second = one.operations.take("s1")
    assert (first.result.is_error, first.fatal) == (True, None)
    assert isinstance(second.fatal, TurnAbortedError)
    assert second.fatal.reason == "no more paper"
    assert second.to_json() == completion.to_json()


async def test_a_tool_that_the_completing_process_does_not_have_gives_the_value_as_text(registry, store):
    operation, other = await begin(registry()), ToolRegistry()
    other.provide(OperationStore, store)
    assert other.operations.complete(operation, "done").result.text == "done"


async def test_calls_of_one_id_are_told_apart_by_their_operations(registry):
    one, other = registry(), registry()
    ids = [await begin(one), await begin(one)]
    with pytest.raises(
        OperationError, match=f"2 calls 'toolu_1' are pending: name the operation, {ids[0]} or {ids[1]}"
    ):
        other.operations.complete("toolu_1", Report(1))
    assert other.operations.complete(ids[1], Report(2)).operation.id == ids[1]


async def test_an_operation_that_cannot_be_stored_has_an_unknown_outcome(registry, store, monkeypatch):
    def fail(*_, **__):
        raise ConnectionError("no server")

    monkeypatch.setattr(store, "add", fail)
    result = await registry().call("build", {"topic": "cats"}, ANN, call_id="toolu_1")
    assert result.kind == "unknown_outcome"
    assert result.text.startswith("build ran, but its operation can't be stored")
    assert "no server" in result.detail


async def test_the_result_of_background_work_is_for_all_processes_and_the_work_for_its_own(registry):
    goes_on = asyncio.Event()

    @tool
    async def start(context: ToolContext) -> str:
        async def work():
            await goes_on.wait()
            return "found"

        return context.background(work())

    one, other = registry(start), registry(start)
    operation = (await one.call("start", {}, ANN, call_id="toolu_1")).text
    assert other.operations.pending == ()
    with pytest.raises(OperationError):
        other.operations.complete(operation, "mine")
    goes_on.set()
    await one.operations.aclose(PATIENCE)  # waits for it; what is done isn't cancelled any more
    (completion,) = other.operations.take("s1")
    assert (completion.operation.id, completion.replaces) == (operation, False)


async def test_background_work_is_never_pending_elsewhere(registry, store, monkeypatch, caplog):
    """Nor while its result is about to be stored, or can't be."""
    monkeypatch.setattr(type(store), "finish", lambda *_: 1 / 0)

    @tool
    async def start(context: ToolContext) -> None:
        context.background(asyncio.Event().wait())

    one, other = registry(start), registry()
    await one.call("start", {}, ANN)
    await one.operations.aclose(PATIENCE)
    assert other.operations.pending == ()
    assert [each.getMessage() for each in caplog.records] == ["storing a completion failed"]


async def test_the_end_of_a_process_stores_what_became_of_its_background_work(registry):
    @tool
    async def start(context: ToolContext) -> None:
        context.background(asyncio.Event().wait())

    one, other = registry(start), registry(start)
    await one.call("start", {}, ANN, call_id="toolu_1")
    await one.aclose()
    assert [each.result.kind for each in other.operations.take("s1")] == ["aborted"]


async def test_the_result_of_a_long_running_tools_background_work_replaces_its_pending_one(registry):
    @tool(long_running=True)
    async def start(context: ToolContext) -> None:
        context.background(lambda: "found")

    one, other = registry(start), registry(start)
    result = await one.call("start", {}, ANN, call_id="toolu_1")
    if result.metadata.get("pending"):  # else it had its result at once
        while one.operations.pending:  # noqa: ASYNC110  what ends it emits no event
            await asyncio.sleep(0.001)
        await one.operations.aclose(PATIENCE)
        (completion,) = other.operations.take("s1")
        result = completion.result
    assert result.text == "found"


async def test_a_row_that_cannot_be_read_is_logged_and_left_out(registry, store, caplog):
    one = registry()
    operation = await begin(one)
    store.add("op_x", "{", call_id="toolu_9", user="ann", session="s1")
    assert [each.id for each in one.operations.pending] == [operation]
    one.operations.complete(operation, Report(1))
    store.finish("op_x", "[]")
    assert [each.operation.id for each in one.operations.take("s1")] == [operation]
    assert {each.getMessage() for each in caplog.records} >= {
        "reading a stored operation failed",
        "reading a stored completion failed",
    }


async def test_a_turn_in_another_process_gets_the_result(registry):
    one, other = registry(), registry()
    first = await run_turn(ScriptedModel([ToolCall("build", {"topic": "cats"}, "toolu_1"), "wait"]), "Hi.", one, ANN)
    registry().operations.complete("toolu_1", Report(1))
    second = ScriptedModel(["done"])
    await run_turn(second, [*first.messages, Message.user("And?")], other, ANN)
    (result,) = [each for message in second.requests[0].messages for each in message.results]
    assert result.result.structured_content == {"pages": 1}


@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_turn_takes_the_results_of_its_user_only(registry, is_shared):
    one = registry() if is_shared else ToolRegistry()
    if not is_shared:
        one.register(build)
    begun = [await begin(one, user, attrs.evolve(ANN, user=user)) for user in ("ann", "bob")]
    for number, id_ in enumerate(begun):
        await asyncio.to_thread(one.operations.complete, id_, Report(4_000_000_077 + number))
    model = ScriptedModel(["done"])
    await run_turn(model, "Hi.", one, attrs.evolve(ANN, user="bob"))
    shown = f"{model.requests[0].messages}"
    assert ("4000000078" in shown, "4000000077" in shown) == (True, False)
    assert [each.call_id for each in one.operations.take("s1", users={"bob", None})] == []
    assert [each.call_id for each in one.operations.take("s1", users={"ann"})] == ["ann"]


BEGIN = """
    import asyncio, sys
    from pegboard import ReadonlyContext, ToolRegistry, tool
    from pegboard.backends import OperationStore
    from sqlite_backends import SqliteOperations

    @tool(long_running=True)
    async def build(topic: str) -> str:
        return "job"

    async def main():
        registry = ToolRegistry()
        registry.register(build)
        registry.provide(OperationStore, SqliteOperations(sys.argv[1]))
        context = ReadonlyContext(user="ann", session="s1", agent="clerk")
        result = await registry.call("build", {"topic": "cats"}, context, call_id="toolu_1")
        print(result.metadata["operation"])

    asyncio.run(main())
"""


@pytest.mark.slow
def test_an_operation_outlives_its_process(registry, store, tmp_path):
    script = tmp_path / "begin.py"
    script.write_text(textwrap.dedent(BEGIN))
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script), str(store.path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": path},
    )
    completion = registry().operations.complete(done.stdout.strip(), Report(7))
    assert (completion.call_id, completion.result.structured_content) == ("toolu_1", {"pages": 7})
    assert registry().operations.take("s1") == (completion,)
