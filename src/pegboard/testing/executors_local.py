"""The checks of `check_executor` for all executors: a call behaves as one that runs in a registry."""
# ruff: noqa: D102  the name of a check says what it checks

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import Any

from pegboard.dispatch.approval.queue import ask_later
from pegboard.dispatch.approval.request import Once, Reject
from pegboard.errors import FatalToolError
from pegboard.testing.executors import ADDED, ANN, Bench, check_parts, note
from pegboard.testing.scripted import ScriptedApprover
from pegboard.tools.call import ToolCall
from pegboard.tools.context import Progress, ReadonlyContext, ToolContext
from pegboard.tools.tool import Tool


class LocalChecks(Bench, scope="local"):
    """The checks for all executors."""

    async def plain_and_async_results(self) -> None:
        for name in ("check_add", "check_add_async"):
            result = await self.call(name, {"a": 1, "b": 2})
            self.expect((result.kind, result.structured_content), (None, ADDED), name)

    async def context_arrives(self) -> None:
        facts = {"user": "ann", "session": "s", "agent": "a", "model": "m", "invocation": "i", "message": "b"}
        given: Any = {**facts, "state": {"n": 1, "x": object()}, "extra": {"e": [2]}}
        trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        context = ToolContext(ReadonlyContext(**given), trace=trace, fencing_token=2**40)
        result = await self.call("check_context", {}, context, "toolu_c")
        wanted = {**facts, "state": {"n": 1}, "extra": {"e": [2]}, "trace": trace, "call_id": "toolu_c", "depth": 0}
        self.expect(result.structured_content, {**wanted, "limited": True, "fencing_token": 2**40}, "context")

    async def all_parts_of_a_result(self) -> None:
        context, wanted = ToolContext(ANN), check_parts(ToolContext())
        result = await self.call("check_parts", {}, context)
        self.expect([part.to_json() for part in result.content], [part.to_json() for part in wanted.content], "content")
        names = ("structured_content", "title", "display", "details", "attachments")
        self.expect(
            [getattr(result, name) for name in names], [getattr(wanted, name) for name in names], ", ".join(names)
        )
        self.expect(dict(result.metadata), {"m": 3, "fact": 2}, "metadata")
        self.expect(dict(context.actions.actions.state_delta), {"seen": 1}, "changes of state")

    async def errors_of_the_tool(self) -> None:
        busy = await self.call("check_error", {"kind": "retryable"})
        self.expect((busy.kind, busy.text, dict(busy.metadata)), ("tool_failure", "busy", {"retryable": True}))
        for kind in ("value", "exit"):
            result = await self.call("check_error", {"kind": kind})
            self.expect(
                (result.is_error, "secret" in result.text), (True, False), f"an unexpected error ({kind}) and its text"
            )
        await self.expect_to_add("the next call")

    async def fatal_ends_the_turn(self) -> None:
        outcome = await self.registry().dispatch([ToolCall("check_error", {"kind": "fatal"}, "toolu_f")], context=ANN)
        self.expect(type(outcome.fatal), FatalToolError, "the error that ends the turn")

    async def retries_run_again(self) -> None:
        result = await self.call("check_retries", {"file": self.file}, call_id="toolu_r")
        self.expect((result.text, self.effects), ("third", ["tried"] * 3), "result and runs")

    async def progress_arrives_in_order_while_it_runs(self) -> None:
        seen = list[object]()

        def listener(emitted: object) -> None:
            seen.append(emitted)
            if len(seen) == 8:
                note(self.file, "seen")

        context = ToolContext(ANN, listener=listener)
        result = await self.call("check_progress", {"number": 8, "file": self.file}, context)
        self.expect(result.structured_content, {"result": True}, "progress while it runs")
        self.expect(seen, [Progress(number) for number in range(8)], "progress")

    async def a_tool_that_asks_runs_once(self) -> None:
        for answers, text in (([Once(), Once()], "True None"), ([Once(), Reject("not now")], "False not now")):
            approver = ScriptedApprover(answers)
            result = await self.call("check_questions", {"file": self.file}, approver=approver)
            asked = [request.permission for request in approver.requests]
            self.expect((result.text, asked), (text, ["check_permission", "confirmation"]), "result and questions")
        self.expect(self.effects, ["started"] * 2, "runs of two calls")
        denied = await self.call("check_questions", {"file": self.file}, approver=ScriptedApprover([Reject("never")]))
        self.expect((denied.kind, "never" in denied.text), ("rejected", True), "a rejected permission")

    async def an_answer_that_comes_later(self) -> None:
        registry, call = self.registry(ask_later), ToolCall("check_questions", {"file": self.file}, "toolu_l")
        outcome = await registry.dispatch([call], context=ANN)
        for _ in range(2):
            self.expect([result.kind for result in outcome.results], ["confirmation_required"], "while it waits")
            answers = {each.id: Once() for each in outcome.pending}
            outcome = await registry.resume(outcome.pending, answers, context=ANN)
        self.expect(outcome.results[0].text, "True None")

    async def nested_calls_and_stores_are_the_callers(self) -> None:
        registry = self.registry()
        result = await registry.call("check_host", {}, ANN)
        self.expect(result.structured_content, {"result": [f"{os.getpid()}", [1, 2], ["likes tea"]]})
        stored = await ToolContext(ANN, services=registry.services).artifacts.list()
        self.expect(stored, ("a.txt",), "the caller's artifacts")

    async def approval_before_it_is_sent(self) -> None:
        result = await self.call("check_delete", {"file": self.file}, approver=ScriptedApprover([Reject()]))
        self.expect((result.kind, len(self.effects)), ("rejected", 0), "a rejected call, and its effects")
        result = await self.call("check_delete", {"file": self.file}, approver=ScriptedApprover([Once()]))
        self.expect((result.text, self.effects), ("deleted", ["deleted"]), "an approved call, and its effects")

    async def the_time_limit(self) -> None:
        call = ToolCall("check_endless", {"file": self.file}, "toolu_t")
        outcome = await self.registry().dispatch([call], context=ANN, timeout=1.0)
        self.expect(outcome.results[0].kind, "timeout", "kind")
        await self.until(self.has_ended)

    async def a_persons_time_does_not_count(self) -> None:
        async def approve_late(_request: Any, _context: ToolContext) -> Once:
            await asyncio.sleep(2)
            return Once()

        call = ToolCall("check_questions", {"file": self.file}, "toolu_p")
        outcome = await self.registry(approve_late).dispatch([call], context=ANN, timeout=1.0)
        self.expect(outcome.results[0].text, "True None", "answers that take longer than the limit of 1 s")

    async def cancelling_reaches_the_tool(self) -> None:
        await self._expect_to_cancel("check_endless")

    async def cancelling_reaches_a_plain_tool(self) -> None:
        await self._expect_to_cancel("check_blocking")

    async def _expect_to_cancel(self, tool: str) -> None:
        task = await self.begin(tool, {"file": self.file})
        task.cancel()
        await asyncio.wait([task])
        self.expect_true(task.cancelled(), "the call isn't cancelled")
        await self.until(self.has_ended)

    async def a_large_result_arrives_or_is_refused(self) -> None:
        for mebibytes in (1, 20):
            result = await self.call("check_large", {"length": mebibytes << 20})
            self.expect_one_of(result.kind, (None, "limit"), f"a result of {mebibytes} MiB")
            self.expect_true(
                result.is_error or "kept" in result.metadata, f"{mebibytes} MiB were cut before they arrived"
            )

    async def a_large_argument_arrives_or_is_refused(self) -> None:
        for size in (900_000, 20 << 20):
            result = await self.call("check_length", {"text": "x" * size})
            self.expect_one_of(result.kind, (None, "limit"), f"an argument of {size:,} characters")
            if result.kind is None:
                self.expect(result.structured_content, {"result": size}, "its length")

    async def fifty_at_once(self) -> None:
        calls = [ToolCall("check_add", {"a": number, "b": 0}, f"toolu_{number}") for number in range(50)]
        outcome = await self.registry().dispatch(calls, context=ANN)
        found = [result.structured_content for result in outcome.results]
        self.expect(found, [{"result": number} for number in range(50)], "results")

    async def another_definition_is_refused(self) -> None:
        result = await self.add(self.file, description="Another one.")
        self.expect((result.kind, len(self.effects)), ("not_executed", 0), "kind and effects")

    async def a_tool_that_the_worker_lacks_is_refused(self) -> None:
        registry = self.registry()
        registry.register(Tool.from_schema("check_missing", {"type": "object"}, executor="checked"))
        result = await registry.call("check_missing", {}, ANN)
        self.expect_one_of(result.kind, ("not_executed", "unknown_tool"), "kind")

    async def a_result_that_is_no_json_is_an_error(self) -> None:
        result = await self.call("check_error", {"kind": "no JSON"})
        self.expect_one_of(result.kind, ("invalid_output", "tool_failure", "crashed"), "the kind of a result with NaN")
        await self.expect_to_add("the next call")

    async def many_events_arrive_in_order(self) -> None:
        seen = list[Any]()
        result = await self.call("check_progress", {"number": 10_000}, ToolContext(ANN, listener=seen.append))
        self.expect(result.kind, None, "kind")
        self.expect([each.progress for each in seen], sorted(each.progress for each in seen), "progress")
        self.expect_true(len(seen) >= 1_000, f"only {len(seen)} of 10,000 reports arrived")

    async def each_caller_has_its_own_loop(self) -> None:
        async def end_early() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.call("check_endless", {"file": self.file})

        await asyncio.to_thread(asyncio.run, end_early())  # its loop is closed
        for _ in range(2):
            await asyncio.to_thread(asyncio.run, self.expect_to_add("a call in another loop"))
        await self.expect_to_add("a call in this loop")

    async def the_clock_may_be_put_back(self) -> None:
        from unittest.mock import patch

        clock = time.time
        task = await self.begin("check_wait", self.waiting)
        with patch("time.time", lambda: clock() - 3600):
            self.let_go()
            self.expect((await task).text, "waited", "a call while the caller's clock is put back")
            await self.expect_to_add("the next one")
