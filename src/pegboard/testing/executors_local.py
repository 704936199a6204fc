"""The checks of `check_executor` for all executors: a call behaves as one that runs in a registry."""
# ruff: noqa: D103  the name of a check says what it checks

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import Any

from pegboard.dispatch.approval.queue import ask_later
from pegboard.dispatch.approval.request import Once, Reject
from pegboard.errors import FatalToolError
from pegboard.testing.executors import (
    ADDED,
    ANN,
    Bench,
    answering,
    check,
    check_parts,
    effects_in,
    expect,
    expect_one_of,
    expect_true,
    has_ended,
    note,
    until,
)
from pegboard.tools.call import ToolCall
from pegboard.tools.context import Progress, ReadonlyContext, ToolContext
from pegboard.tools.tool import Tool


@check("local")
async def plain_and_async_results(bench: Bench) -> None:
    for name in ("check_add", "check_add_async"):
        result = await bench.call(name, {"a": 1, "b": 2})
        expect((result.kind, result.structured_content), (None, ADDED), name)


@check("local")
async def context_arrives(bench: Bench) -> None:
    facts = {"user": "ann", "session": "s", "agent": "a", "model": "m", "invocation": "i", "message": "b"}
    given: Any = {**facts, "state": {"n": 1, "x": object()}, "extra": {"e": [2]}}
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    context = ToolContext(ReadonlyContext(**given), trace=trace, fencing_token=2**40)
    result = await bench.call("check_context", {}, context, "toolu_c")
    wanted = {**facts, "state": {"n": 1}, "extra": {"e": [2]}, "trace": trace, "call_id": "toolu_c", "depth": 0}
    expect(result.structured_content, {**wanted, "limited": True, "fencing_token": 2**40}, "context")


@check("local")
async def all_parts_of_a_result(bench: Bench) -> None:
    context, wanted = ToolContext(ANN), check_parts(ToolContext())
    result = await bench.call("check_parts", {}, context)
    expect([part.to_json() for part in result.content], [part.to_json() for part in wanted.content], "content")
    names = ("structured_content", "title", "display", "details", "attachments")
    expect([getattr(result, name) for name in names], [getattr(wanted, name) for name in names], ", ".join(names))
    expect(dict(result.metadata), {"m": 3, "fact": 2}, "metadata")
    expect(dict(context.actions.actions.state_delta), {"seen": 1}, "changes of state")


@check("local")
async def errors_of_the_tool(bench: Bench) -> None:
    busy = await bench.call("check_error", {"kind": "retryable"})
    expect((busy.kind, busy.text, dict(busy.metadata)), ("tool_failure", "busy", {"retryable": True}))
    for kind in ("value", "exit"):
        result = await bench.call("check_error", {"kind": kind})
        expect((result.is_error, "secret" in result.text), (True, False), f"an unexpected error ({kind}) and its text")
    await bench.expect_to_add("the next call")


@check("local")
async def fatal_ends_the_turn(bench: Bench) -> None:
    outcome = await bench.registry().dispatch([ToolCall("check_error", {"kind": "fatal"}, "toolu_f")], context=ANN)
    expect(type(outcome.fatal), FatalToolError, "the error that ends the turn")


@check("local")
async def retries_run_again(bench: Bench) -> None:
    file = bench.file()
    result = await bench.call("check_retries", {"file": file}, call_id="toolu_r")
    expect((result.text, effects_in(file)), ("third", ["tried"] * 3), "result and runs")


@check("local")
async def progress_arrives_in_order_while_it_runs(bench: Bench) -> None:
    file, seen = bench.file(), list[object]()

    def listener(emitted: object) -> None:
        seen.append(emitted)
        if len(seen) == 8:
            note(file, "seen")

    result = await bench.call("check_progress", {"number": 8, "file": file}, ToolContext(ANN, listener=listener))
    expect(result.structured_content, {"result": True}, "progress while it runs")
    expect(seen, [Progress(number) for number in range(8)], "progress")


@check("local")
async def a_tool_that_asks_runs_once(bench: Bench) -> None:
    for answers, text in (((Once(),), "True None"), ((Once(), Reject("not now")), "False not now")):
        file, asked = bench.file(), list[str]()
        result = await bench.call("check_questions", {"file": file}, approver=answering(asked, *answers))
        expect((result.text, asked), (text, ["check_permission", "confirmation"]), "result and questions")
        expect(effects_in(file), ["started"], "runs")
    denied = await bench.call("check_questions", {"file": bench.file()}, approver=answering([], Reject("never")))
    expect((denied.kind, "never" in denied.text), ("rejected", True), "a rejected permission")


@check("local")
async def an_answer_that_comes_later(bench: Bench) -> None:
    registry, call = bench.registry(ask_later), ToolCall("check_questions", {"file": bench.file()}, "toolu_l")
    outcome = await registry.dispatch([call], context=ANN)
    for _ in range(2):
        expect([result.kind for result in outcome.results], ["confirmation_required"], "while it waits")
        answers = {each.id: Once() for each in outcome.pending}
        outcome = await registry.resume(outcome.pending, answers, context=ANN)
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
    result = await bench.call("check_delete", {"file": file}, approver=answering([], Reject()))
    expect((result.kind, len(effects_in(file))), ("rejected", 0), "a rejected call, and its effects")
    result = await bench.call("check_delete", {"file": file}, approver=answering([], Once()))
    expect((result.text, effects_in(file)), ("deleted", ["deleted"]), "an approved call, and its effects")


@check("local")
async def the_time_limit(bench: Bench) -> None:
    call = ToolCall("check_endless", {"file": (file := bench.file())}, "toolu_t")
    outcome = await bench.registry().dispatch([call], context=ANN, timeout=1.0)
    expect(outcome.results[0].kind, "timeout", "kind")
    await until(lambda: has_ended(file))


@check("local")
async def a_persons_time_does_not_count(bench: Bench) -> None:
    call = ToolCall("check_questions", {"file": bench.file()}, "toolu_p")
    outcome = await bench.registry(answering([], Once(), seconds=2.0)).dispatch([call], context=ANN, timeout=1.0)
    expect(outcome.results[0].text, "True None", "answers that take longer than the limit of 1 s")


@check("local")
async def cancelling_reaches_the_tool(bench: Bench) -> None:
    await _expect_to_cancel(bench, "check_endless")


@check("local")
async def cancelling_reaches_a_plain_tool(bench: Bench) -> None:
    await _expect_to_cancel(bench, "check_blocking")


async def _expect_to_cancel(bench: Bench, tool: str) -> None:
    task = await bench.begin(tool, {"file": (file := bench.file())})
    task.cancel()
    await asyncio.wait([task])
    expect_true(task.cancelled(), "the call isn't cancelled")
    await until(lambda: has_ended(file))


@check("local")
async def a_large_result_arrives_or_is_refused(bench: Bench) -> None:
    for mebibytes in (1, 20):
        result = await bench.call("check_large", {"length": mebibytes << 20})
        expect_one_of(result.kind, (None, "limit"), f"a result of {mebibytes} MiB")
        expect_true(result.is_error or "kept" in result.metadata, f"{mebibytes} MiB were cut before they arrived")


@check("local")
async def a_large_argument_arrives_or_is_refused(bench: Bench) -> None:
    for size in (900_000, 20 << 20):
        result = await bench.call("check_length", {"text": "x" * size})
        expect_one_of(result.kind, (None, "limit"), f"an argument of {size:,} characters")
        if result.kind is None:
            expect(result.structured_content, {"result": size}, "its length")


@check("local")
async def fifty_at_once(bench: Bench) -> None:
    calls = [ToolCall("check_add", {"a": number, "b": 0}, f"toolu_{number}") for number in range(50)]
    outcome = await bench.registry().dispatch(calls, context=ANN)
    found = [result.structured_content for result in outcome.results]
    expect(found, [{"result": number} for number in range(50)], "results")


@check("local")
async def another_definition_is_refused(bench: Bench) -> None:
    file = bench.file()
    result = await bench.add(file, description="Another one.")
    expect((result.kind, len(effects_in(file))), ("not_executed", 0), "kind and effects")


@check("local")
async def a_tool_that_the_worker_lacks_is_refused(bench: Bench) -> None:
    registry = bench.registry()
    registry.register(Tool.from_schema("check_missing", {"type": "object"}, executor="checked"))
    result = await registry.call("check_missing", {}, ANN)
    expect_one_of(result.kind, ("not_executed", "unknown_tool"), "kind")


@check("local")
async def a_result_that_is_no_json_is_an_error(bench: Bench) -> None:
    result = await bench.call("check_number")
    expect_one_of(result.kind, ("invalid_output", "tool_failure", "crashed"), "the kind of a result with NaN")
    await bench.expect_to_add("the next call")


@check("local")
async def many_events_arrive_in_order(bench: Bench) -> None:
    seen = list[Any]()
    result = await bench.call("check_progress", {"number": 10_000}, ToolContext(ANN, listener=seen.append))
    expect(result.kind, None, "kind")
    expect([each.progress for each in seen], sorted(each.progress for each in seen), "progress")
    expect_true(len(seen) >= 1_000, f"only {len(seen)} of 10,000 reports arrived")


@check("local")
async def each_caller_has_its_own_loop(bench: Bench) -> None:
    async def end_early() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await bench.call("check_endless", {"file": bench.file()})

    await asyncio.to_thread(asyncio.run, end_early())  # its loop is closed
    for _ in range(2):
        await asyncio.to_thread(asyncio.run, bench.expect_to_add("a call in another loop"))
    await bench.expect_to_add("a call in this loop")


@check("local")
async def the_clock_may_be_put_back(bench: Bench) -> None:
    from unittest.mock import patch

    given, clock = {"file": bench.file(), "go": bench.file()}, time.time
    task = await bench.begin("check_wait", given)
    with patch("time.time", lambda: clock() - 3600):
        note(given["go"], "go")
        expect((await task).text, "waited", "a call while the caller's clock is put back")
        await bench.expect_to_add("the next one")
