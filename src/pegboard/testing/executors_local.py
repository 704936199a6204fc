"""The checks of `check_executor` for all executors: a call behaves as one that runs in a registry."""
# ruff: noqa: D103  the name of a check says what it checks

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pegboard.dispatch.approval.queue import ask_later
from pegboard.dispatch.approval.request import Once, Reject
from pegboard.errors import FatalToolError
from pegboard.testing.executors import (
    ANN,
    Bench,
    answering,
    check,
    check_parts,
    effects_in,
    expect,
    expect_one_of,
    has_ended,
    note,
    until,
)
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import Progress, ReadonlyContext, ToolContext
from pegboard.tools.tool import Tool


@check("local")
async def plain_and_async_results(bench: Bench) -> None:
    for name in ("check_add", "check_add_async"):
        result = await bench.registry().call(name, {"a": 1, "b": 2})
        expect((result.kind, result.structured_content), (None, {"result": 3}), name)


@check("local")
async def context_arrives(bench: Bench) -> None:
    facts = {"user": "ann", "session": "s", "agent": "a", "model": "m", "invocation": "i", "message": "b"}
    given: Any = {**facts, "state": {"n": 1, "x": object()}, "extra": {"e": [2]}}
    context = ReadonlyContext(**given)
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    held = ToolContext(context, trace=trace, fencing_token=2**40)
    result = await bench.registry().call("check_context", {}, held, call_id="toolu_c")
    wanted = {**facts, "state": {"n": 1}, "extra": {"e": [2]}, "trace": trace, "call_id": "toolu_c", "depth": 0}
    expect(result.structured_content, {**wanted, "limited": True, "fencing_token": 2**40}, "context")


@check("local")
async def all_parts_of_a_result(bench: Bench) -> None:
    context = ToolContext(ANN)
    result = await bench.registry().call("check_parts", {}, context)
    expect([part.to_json() for part in result.content], [each.to_json() for each in _parts().content], "content")
    names = ("structured_content", "title", "display", "details", "attachments")
    expect([getattr(result, name) for name in names], [getattr(_parts(), name) for name in names], ", ".join(names))
    expect(dict(result.metadata), {"m": 3, "fact": 2}, "metadata")
    expect(dict(context.actions.actions.state_delta), {"seen": 1}, "changes of state")


def _parts() -> ToolResult:
    return check_parts(ToolContext())


@check("local")
async def errors_of_the_tool(bench: Bench) -> None:
    registry = bench.registry()
    busy = await registry.call("check_error", {"kind": "retryable"})
    expect((busy.kind, busy.text, dict(busy.metadata)), ("tool_failure", "busy", {"retryable": True}))
    for kind in ("value", "exit"):
        result = await registry.call("check_error", {"kind": kind})
        expect((result.is_error, "secret" in result.text), (True, False), f"an unexpected error ({kind}) and its text")
    await bench.expect_to_add("the next call")


@check("local")
async def fatal_ends_the_turn(bench: Bench) -> None:
    outcome = await bench.registry().dispatch([ToolCall("check_error", {"kind": "fatal"}, "toolu_f")], context=ANN)
    expect(type(outcome.fatal), FatalToolError, "the error that ends the turn")


@check("local")
async def retries_run_again(bench: Bench) -> None:
    result = await bench.registry().call("check_retries", {"file": (file := bench.file())}, ANN, call_id="toolu_r")
    expect((result.text, effects_in(file)), ("third", ["tried"] * 3), "result and runs")


@check("local")
async def progress_arrives_in_order_while_it_runs(bench: Bench) -> None:
    file, seen = bench.file(), list[object]()

    def listener(emitted: object) -> None:
        seen.append(emitted)
        if len(seen) == 8:
            note(file, "seen")

    result = await bench.registry().call("check_progress", {"file": file}, ToolContext(ANN, listener=listener))
    expect(result.text, "seen", "progress while it runs")
    expect(seen, [Progress(number) for number in range(1, 9)], "progress")


@check("local")
async def a_tool_that_asks_runs_once(bench: Bench) -> None:
    for answers, text in (((Once(),), "True None"), ((Once(), Reject("not now")), "False not now")):
        file, asked = bench.file(), list[str]()
        result = await bench.registry(answering(asked, *answers)).call("check_questions", {"file": file}, ANN)
        expect((result.text, asked), (text, ["check_permission", "confirmation"]), "result and questions")
        expect(effects_in(file), ["started"], "runs")
    denied = await bench.registry(answering([], Reject("never"))).call("check_questions", {"file": bench.file()}, ANN)
    expect((denied.kind, "never" in denied.text), ("rejected", True), "a rejected permission")


@check("local")
async def an_answer_that_comes_later(bench: Bench) -> None:
    registry, file = bench.registry(), bench.file()
    call = ToolCall("check_questions", {"file": file}, "toolu_l")
    outcome = await registry.dispatch([call], context=ANN, approver=ask_later)
    for _ in range(2):
        expect([result.kind for result in outcome.results], ["confirmation_required"], "while it waits")
        answers = {each.id: Once() for each in outcome.pending}
        outcome = await registry.resume(outcome.pending, answers, context=ANN, approver=ask_later)
    expect(outcome.results[0].text, "True None")


@check("local")
async def nested_calls_and_stores_are_the_callers(bench: Bench) -> None:
    registry = bench.registry()
    result = await registry.call("check_host", {}, ANN)
    expect(result.structured_content, {"result": [f"{os.getpid()}", [1, 2], ["likes tea"]]})
    stored = await ToolContext(ANN, services=registry.services).artifacts.list()
    expect(stored, ("a.txt",), "the caller's artifacts")


@check("local")
async def approval_before_it_is_sent(bench: Bench) -> None:
    file = bench.file()
    result = await bench.registry(answering([], Reject())).call("check_delete", {"file": file}, ANN)
    expect((result.kind, len(effects_in(file))), ("rejected", 0), "a rejected call, and its effects")
    result = await bench.registry(answering([], Once())).call("check_delete", {"file": file}, ANN)
    expect((result.text, effects_in(file)), ("deleted", ["deleted"]), "an approved call, and its effects")


@check("local")
async def the_time_limit(bench: Bench) -> None:
    call = ToolCall("check_endless", {"file": (file := bench.file())}, "toolu_t")
    outcome = await bench.registry().dispatch([call], context=ANN, timeout=1.0)
    expect(outcome.results[0].kind, "timeout", "kind")
    await until(lambda: has_ended(file))


@check("local")
async def a_persons_time_does_not_count(bench: Bench) -> None:
    result = await bench.registry(answering([], Once(), seconds=2.0)).call("check_patient", {}, ANN)
    expect(result.text, "asked", "an answer that takes longer than the limit of 1 s")


@check("local")
async def cancelling_reaches_the_tool(bench: Bench) -> None:
    file = bench.file()
    task = await bench.begin("check_endless", file)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        raise AssertionError("the call isn't cancelled")
    await until(lambda: has_ended(file))


@check("local")
async def a_large_result_arrives_or_is_refused(bench: Bench) -> None:
    for mebibytes in (1, 20):
        result = await bench.registry().call("check_large", {"length": mebibytes << 20}, ANN)
        expect_one_of(result.kind, (None, "limit"), f"a result of {mebibytes} MiB")
        if result.kind is None and "kept" not in result.metadata:
            raise AssertionError(f"a result of {mebibytes} MiB was cut before it arrived")


@check("local")
async def fifty_at_once(bench: Bench) -> None:
    registry = bench.registry()
    calls = [ToolCall("check_add", {"a": number, "b": 0}, f"toolu_{number}") for number in range(50)]
    found = [result.structured_content for result in (await registry.dispatch(calls, context=ANN)).results]
    expect(found, [{"result": number} for number in range(50)], "results")


@check("local")
async def another_definition_is_refused(bench: Bench) -> None:
    registry, file = bench.registry(description="Another one."), bench.file()
    result = await registry.call("check_add", {"a": 1, "b": 2, "file": file}, ANN)
    expect((result.kind, len(effects_in(file))), ("not_executed", 0), "kind and effects")


@check("local")
async def a_tool_that_the_worker_lacks_is_refused(bench: Bench) -> None:
    registry, missing = bench.registry(), Tool.from_schema("check_missing", {"type": "object"}, executor="checked")
    registry.register(missing)
    result = await registry.call("check_missing", {}, ANN)
    expect_one_of(result.kind, ("not_executed", "unknown_tool"), "kind")


@check("local")
async def cancelling_reaches_a_plain_tool(bench: Bench) -> None:
    file = bench.file()
    task = await bench.begin("check_blocking", file)
    task.cancel()
    await asyncio.wait([task])
    await until(lambda: has_ended(file))


@check("local")
async def a_large_argument_arrives_or_is_refused(bench: Bench) -> None:
    for size in (900_000, 20 << 20):
        result = await bench.registry().call("check_length", {"text": "x" * size}, ANN)
        expect_one_of(result.kind, (None, "limit"), f"an argument of {size:,} characters")
        if result.kind is None:
            expect(result.structured_content, {"result": size}, "its length")


@check("local")
async def a_result_that_is_no_json_is_an_error(bench: Bench) -> None:
    result = await bench.registry().call("check_number", {}, ANN)
    expect_one_of(result.kind, ("invalid_output", "tool_failure", "crashed"), "the kind of a result with NaN")
    await bench.expect_to_add("the next call")


@check("local")
async def many_events_arrive_in_order(bench: Bench) -> None:
    seen = list[Any]()
    result = await bench.registry().call("check_emit", {"number": 10_000}, ToolContext(ANN, listener=seen.append))
    expect(result.structured_content, {"result": 10_000})
    expect([each.progress for each in seen], sorted(each.progress for each in seen), "progress")
    if len(seen) < 1_000:
        raise AssertionError(f"only {len(seen)} of 10,000 reports arrived")


@check("local")
async def each_caller_has_its_own_loop(bench: Bench) -> None:
    file = bench.file()

    def call(name: str, arguments: Mapping[str, Any], seconds: float | None) -> Any:
        async def run() -> Any:
            async with asyncio.timeout(seconds):
                return await bench.registry().call(name, arguments, ANN)

        return asyncio.run(run())

    with suppress(TimeoutError):
        await asyncio.to_thread(call, "check_endless", {"file": file}, 1.0)  # its loop is closed
    for _ in range(2):
        result = await asyncio.to_thread(call, "check_add", {"a": 1, "b": 2}, None)
        expect(result.structured_content, {"result": 3}, "a call in another loop")
    await bench.expect_to_add("a call in this loop")


@check("local")
async def the_clock_may_be_put_back(bench: Bench) -> None:
    file, go, clock = bench.file(), bench.file(), time.time
    task = await bench.begin("check_wait", file, go=go)
    from unittest.mock import patch

    with patch("time.time", lambda: clock() - 3600):
        note(go, "go")
        result = await task
        expect(result.text, "waited", "a call while the caller's clock is put back")
        await bench.expect_to_add("the next one")
