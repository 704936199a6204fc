"""The checks of `check_executor` for executors with workers elsewhere, and for those that keep results."""
# ruff: noqa: D102  the name of a check says what it checks

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias

import attrs

from pegboard.dispatch.approval.request import Once
from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.execution import ExecutionRequest, ExecutionResponse, LocalExecutor
from pegboard.testing.executors import ADDED, ANN, EXECUTOR_TOOLS, Bench, check, effects_in
from pegboard.testing.scripted import ScriptedApprover
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ToolContext
from pegboard.worker import RemoteCaller, Worker


class RemoteChecks(Bench, scope="remote"):
    """The checks for executors with another process."""

    async def runs_in_another_process(self) -> None:
        self.let_go()
        result = await self.call("check_wait", self.waiting)
        is_other = not result.is_error and self.effects != [f"{os.getpid()}"]
        self.expect_true(is_other, f"expected the id of another process, got {self.effects} and {result.text!r:.100}")

    async def a_dying_worker_is_reported(self) -> None:
        result = await self.call("check_error", {"kind": "crash"})
        self.expect_one_of(result.kind, ("crashed", "unknown_outcome"), "kind")
        await self.expect_to_add("the next call")


class DurableChecks(Bench, scope="durable"):
    """The checks for executors that keep results by key."""

    async def the_same_call_again_runs_once(self) -> None:
        async with self.start() as other:
            for executor in (self.executor, other):
                result = await self.add(self.file, call_id="toolu_same", executor=executor)
                self.expect((result.structured_content, self.effects), (ADDED, ["added"]), "result and runs")
            await self.add(self.file, context=attrs.evolve(ANN, session="other"), call_id="toolu_same")
            self.expect(len(self.effects), 2, "runs, with one of another session")

    async def a_call_without_an_identity_runs_each_time(self) -> None:
        for _ in range(2):
            await self.add(self.file, context=attrs.evolve(ANN, message=None), call_id="call_0")
        self.expect(len(self.effects), 2, "runs")

    async def an_approved_call_survives_its_caller(self) -> None:
        approver = ScriptedApprover(lambda _: Once())
        call = ToolCall("check_delete", {"file": self.file}, "toolu_approved")
        async with self.start() as other:
            for executor in (self.executor, other):
                outcome = await self.registry(approver, executor).dispatch([call], context=ANN)
                self.expect((outcome.results[0].text, self.effects), ("deleted", ["deleted"]), "result and runs")
        self.expect(len(approver.requests), 1, "how often it was approved")

    async def the_id_of_another_call_is_refused(self) -> None:
        kinds = [(await self.add(self.file, a=number, call_id="toolu_again")).kind for number in (1, 2)]
        self.expect((kinds, self.effects), ([None, "unknown_outcome"], ["added"]), "kinds of errors, and runs")

    async def two_callers_of_one_call_get_its_result(self) -> None:
        async with self.start() as other:
            calls = [
                asyncio.ensure_future(self.call("check_wait", self.waiting, call_id="toolu_two", executor=executor))
                for executor in (self.executor, other)
            ]
            await self.until(lambda: bool(self.effects) or any(call.done() for call in calls))
            self.let_go()
            self.expect([(await call).text for call in calls], ["waited", "waited"], "results")
        self.expect(len(self.effects), 1, "runs")

    async def there_is_nothing_to_attach_to_without_a_run(self) -> None:
        self.expect(await self.executor.attach("sha256:none"), None, "what is attached to")

    async def another_process_attaches_while_the_call_runs(self) -> None:
        keys = list[Any]()
        first = _looking(self.executor, lambda request: keys.append(request.key))
        call = await self.begin("check_wait", self.waiting, "toolu_attach", executor=first)
        async with self.start() as other:
            attached = asyncio.ensure_future(other.attach(keys[0]))
            await asyncio.wait([attached], timeout=0.2)
            self.let_go()
            response = await attached
        texts = [response and response.output, (await call).text]
        self.expect((texts, len(self.effects)), (["waited", "waited"], 1), "results and runs")


def _looking(executor: Any, look: Callable[[ExecutionRequest], object]) -> Any:
    """The executor, with a function that gets each request before it, and may change it."""

    async def execute_tool(call: Any) -> ExecutionResponse:
        look(call.request)
        return await executor.execute_tool(call)

    return SimpleNamespace(execute_tool=execute_tool)


_Play: TypeAlias = Callable[[bytes, RemoteCaller], Awaitable[bytes]]


@attrs.define(eq=False, kw_only=True)
class _Playing(Worker):
    """A worker that answers calls, and asks and tells their callers, as `play` does."""

    play: _Play

    async def run(self, data: bytes, caller: RemoteCaller) -> bytes:
        answer = await self.play(data, caller)
        await caller.flush()
        return answer


def _done(caller: RemoteCaller) -> bytes:
    return caller.wire.write({"response": ExecutionResponse(output="done").to_json()})


class WorkerChecks(Bench, scope="remote", needs=("serve",)):
    """The checks with workers that run in this process; of them some aren't as they should be."""

    def _worker(self, kind: Callable[..., Worker] = Worker, **facts: Any) -> Worker:
        local = LocalExecutor(EXECUTOR_TOOLS, permissions=Permissions(mode="bypass"))
        return kind(local, queue=self.queue, **facts)

    @asynccontextmanager
    async def _serving(self, *workers: Worker) -> AsyncGenerator[None]:
        """Workers of the executor, until the end of the block."""
        async with self.start() as other:
            tasks = [asyncio.ensure_future(other.serve(worker)) for worker in workers]
            try:
                yield
            finally:
                for worker in workers:
                    worker.stopping.set()
                await asyncio.gather(*tasks)
                for worker in workers:
                    await worker.executor.aclose()

    async def no_worker_is_reported_as_not_run(self) -> None:
        result = await self.add(self.file, queue=self.queue)
        self.expect((result.kind, len(self.effects)), ("not_executed", 0), "kind and effects")

    @check("durable", "serve")
    async def a_call_that_was_not_run_may_be_sent_again(self) -> None:
        first = await self.add(self.file, call_id="toolu_later", queue=self.queue)
        self.expect((first.kind, len(self.effects)), ("not_executed", 0), "without a worker")
        async with self._serving(self._worker()):
            again = await self.add(self.file, call_id="toolu_later", queue=self.queue)
        self.expect((again.structured_content, self.effects), (ADDED, ["added"]), "with a worker")

    async def an_invalid_queue_is_refused(self) -> None:
        for queue in ("..", "a b", "x" * 300, "a.>", "*"):  # set so that the request's own check doesn't refuse it
            executor = _looking(self.executor, lambda request, queue=queue: object.__setattr__(request, "queue", queue))
            result = await self.add(self.file, executor=executor)
            self.expect((result.is_error, len(self.effects)), (True, 0), f"a call for the queue {queue!r:.20}")

    async def a_worker_runs_at_most_its_limit_at_once(self) -> None:
        async with self._serving(self._worker(max_concurrency=3)):
            calls = [ToolCall("check_slow", {"file": self.file}, f"toolu_slow_{number}") for number in range(12)]
            outcome = await self.registry(queue=self.queue).dispatch(calls, context=ANN)
        self.expect({result.kind for result in outcome.results}, {None}, "kinds")
        running = most = 0
        for effect in self.effects:
            running += 1 if effect == "began" else -1
            most = max(most, running)
        self.expect_one_of(most, (2, 3), "how many calls ran at once, of at most 3")

    async def two_workers_run_each_call_once(self) -> None:
        files = [f"{self.file}{number}" for number in range(30)]
        async with self._serving(self._worker(name="one"), self._worker(name="two")):
            calls = [ToolCall("check_add", {"a": 1, "b": 2, "file": file}, file) for file in files]
            outcome = await self.registry(queue=self.queue).dispatch(calls, context=ANN)
        self.expect([result.structured_content for result in outcome.results], [ADDED] * 30, "results")
        self.expect([effects_in(file) for file in files], [["added"]] * 30, "runs")

    async def a_worker_that_stops_lets_its_calls_end(self) -> None:
        worker = self._worker()
        async with self._serving(worker):
            call = await self.begin("check_wait", self.waiting, queue=self.queue)
            worker.stopping.set()
            self.let_go()
            self.expect((await call).text, "waited", "the result of a call whose worker stops")

    @check("remote", "serve", "status")
    async def status_lists_workers_and_their_calls(self) -> None:
        async with self._serving(self._worker(name="one", max_concurrency=3)):
            call = await self.begin("check_wait", self.waiting, "toolu_status", queue=self.queue)
            found = [each for each in (await self.executor.status()).workers if each.queue == self.queue]
            self.let_go()
            await call
        self.expect([sorted(each.running.values()) for each in found], [["check_wait"]], "what the queue's workers run")

    @asynccontextmanager
    async def _answered_by(self, play: _Play) -> AsyncGenerator[Callable[..., Awaitable[ToolResult]]]:
        """Gives a function that makes a call for such a worker; it may get a context."""
        async with self._serving(self._worker(_Playing, play=play)):
            yield partial(self.call, "check_large", {"length": 1}, queue=self.queue)

    async def a_call_goes_to_a_worker_of_its_queue(self) -> None:
        async def play(_: bytes, caller: RemoteCaller) -> bytes:
            return _done(caller)

        async with self._answered_by(play) as call:
            self.expect((await call()).text, "done", "what the queue's only worker answers")

    async def a_worker_that_asks_nonsense_gets_errors(self) -> None:
        errors = list[str]()
        questions: list[tuple[Any, Any]] = [("nonsense", {}), ("ask", {}), ("ask", []), (5, {}), ("call", {"name": 7})]
        questions += [("artifacts.save", {"name": "a", "content": 3}), ("__class__", {}), ("memory.add", None)]

        async def play(_: bytes, caller: RemoteCaller) -> bytes:
            for question, given in questions:
                try:
                    errors.append(f"{await caller.answer(question, given)}")
                except Exception as error:  # noqa: BLE001  whatever comes
                    errors.append(type(error).__name__)
            return _done(caller)

        async with self._answered_by(play) as call:
            self.expect((await call()).text, "done")
        self.expect(len(errors), len(questions), "answers")
        accepted = {*errors} - {"LookupError", "RuntimeError", "ToolError", "CallError", "ValueError"}
        self.expect(accepted, set[str](), "answers to nonsense that are no such errors")

    async def a_worker_that_asks_and_tells_too_much_is_bounded(self) -> None:
        seen, refused = list[Any](), list[str]()

        async def play(_: bytes, caller: RemoteCaller) -> bytes:
            assert caller.tell is not None
            events = [{"type": "progress", "progress": number} for number in range(12_000)]
            await caller.tell([caller.wire.write({"event": event}) for event in events])
            for number in range(10_050):
                try:
                    await caller.answer("allows", {"permission": "read", "subject": f"{number}"})
                except LookupError as error:
                    refused.append(f"{error}")
            return _done(caller)

        async with self._answered_by(play) as call:
            result = await call(ToolContext(ANN, listener=seen.append))
        if not result.is_error:
            self.expect((result.text, bool(refused)), ("done", True), "result, and whether questions were refused")
        self.expect_true(len(seen) <= 10_000, f"{len(seen)} of 12,000 events arrived")

    async def an_invalid_event_is_left_out(self) -> None:
        seen = list[Any]()

        async def play(_: bytes, caller: RemoteCaller) -> bytes:
            for event in ({"type": "nonsense"}, {"type": "progress", "progress": "much"}, {}, {"type": 5}):
                caller.emit(event)
            assert caller.tell is not None
            await caller.tell([b"", b"no json", b"[]", b'{"event": 5}'])
            caller.emit({"type": "progress", "progress": 1})
            return _done(caller)

        async with self._answered_by(play) as call:
            self.expect((await call(ToolContext(ANN, listener=seen.append))).text, "done")
        self.expect([each.progress for each in seen], [1], "the events that were passed on")

    async def an_invalid_answer_is_an_error(self) -> None:
        answers = list[bytes]()
        wrong = [b"", b"no json", b"[]", b"{}", b'{"response": 5}', b'{"response": {"output": 5}}', b'{"fatal": 3}']
        wrong += [b'{"response": {"structuredContent": NaN}}', b'{"response": {"kind": "nonsense", "isError": true}}']
        wrong += [b"\xff\xfe", b"[" * 100_000]

        async def play(_: bytes, caller: RemoteCaller) -> bytes:
            return answers.pop() if answers else _done(caller)

        async with self._answered_by(play) as call:
            for answer in wrong:
                answers.append(answer)
                kind = (await call()).kind
                self.expect_one_of(kind, ("crashed", "unknown_outcome"), f"the kind for the answer {answer!r:.40}")
            self.expect((await call()).text, "done", "the next result")

    async def what_another_version_adds_is_ignored(self) -> None:
        async def play(data: bytes, caller: RemoteCaller) -> bytes:
            request = caller.wire.read(data)
            return caller.wire.write({"response": {"output": request["tool"], "novel": {"a": 1}}, "novel": [2]})

        async with self._answered_by(play) as call:
            self.expect((await call()).text, "check_large")

    async def what_comes_after_the_answer_is_left_out(self) -> None:
        seen, late, errors = list[Any](), list[RemoteCaller](), list[BaseException]()

        async def play(_: bytes, caller: RemoteCaller) -> bytes:
            late.append(caller)
            return _done(caller)

        async with self._answered_by(play) as call:
            self.expect((await call(ToolContext(ANN, listener=seen.append))).text, "done")
            late[0].emit({"type": "progress", "progress": 1})
            try:
                async with asyncio.timeout(20):
                    await late[0].answer("call", {"name": "check_here", "arguments": {}})
            except Exception as error:  # noqa: BLE001  whatever comes
                errors.append(error)
            self.expect((await call()).text, "done", "the next result")
        self.expect(
            (len(seen), len(errors)), (0, 1), "events that were passed on, and refused questions, after the answer"
        )


def call_once() -> None:
    """Makes the call that the program's argument describes, and prints its result: a caller in another process."""
    from pegboard.plugins.load import load

    given = json.loads(sys.argv[1])

    async def main() -> None:
        async with load(settings=given["settings"]) as registry:
            for each in EXECUTOR_TOOLS:
                registry.register(each.evolve(policy=attrs.evolve(each.policy, executor=given["executor"])))
            result = await registry.call(given["tool"], given["arguments"], ANN, call_id=given["id"])
            print(json.dumps([result.kind, result.text]))  # noqa: T201  for the process that has started this

    asyncio.run(main())


class KillingChecks(Bench):
    """The checks with processes that are killed."""

    def _caller(self, tool: str, arguments: Mapping[str, Any], id_: str) -> subprocess.Popen[str]:
        """Starts a caller in another process."""
        given = {**self.engine.caller, "tool": tool, "arguments": arguments, "id": id_}
        code = "from pegboard.testing.executors_elsewhere import call_once; call_once()"
        command = [sys.executable, "-c", code, json.dumps(given)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603  this code

    async def _printed_by(self, process: subprocess.Popen[str]) -> list[Any]:
        """Kind and text of the result that a caller prints, which has to end cleanly, and is killed if it doesn't."""
        try:
            await self.until(lambda: process.poll() is not None)
        finally:
            process.kill()
            printed, errors = process.communicate()
        self.expect((process.returncode, errors), (0, ""), "exit code and what it says")
        return json.loads(printed)

    @check("remote", "caller")
    async def a_short_program_ends_cleanly(self) -> None:
        for number in range(2):
            process = self._caller("check_add", {"a": 1, "b": 2}, f"toolu_short_{number}")
            self.expect((await self._printed_by(process))[0], None, "kind")

    @check("durable", "caller")
    async def a_killed_callers_result_is_found_by_its_id(self) -> None:
        process = self._caller("check_wait", self.waiting, "toolu_caller")
        try:
            await self.until(lambda: bool(self.effects) or process.poll() is not None)
        finally:
            process.kill()
            process.communicate()
        self.let_go()
        printed = await self._printed_by(self._caller("check_wait", self.waiting, "toolu_caller"))
        self.expect((printed, len(self.effects)), ([None, "waited"], 1), "result and runs")

    @check("remote", "kill_worker", "start_worker")
    async def a_killed_worker_runs_no_call_twice(self) -> None:
        call = await self.begin("check_wait", self.waiting, "toolu_killed")
        await self.engine.kill_worker()
        await self.engine.start_worker()
        self.expect((await call).kind, "unknown_outcome", "kind")
        self.let_go()
        self.expect(len(self.effects), 1, "runs")
        await self.expect_to_add("the next call")

    @check("durable", "kill_worker", "start_worker")
    async def a_killed_workers_idempotent_call_runs_again(self) -> None:
        call = await self.begin("check_wait_again", self.waiting, "toolu_idempotent")
        await self.engine.kill_worker()
        await self.engine.start_worker()
        self.let_go()
        self.expect(((await call).text, len(self.effects)), ("waited", 2), "result and runs")

    @check("durable", "kill_server", "start_server")
    async def a_call_survives_its_server(self) -> None:
        call = await self.begin("check_wait", self.waiting, "toolu_server")
        await self.engine.kill_server()
        self.let_go()
        await self.engine.start_server()
        self.expect(((await call).text, len(self.effects)), ("waited", 1), "result and runs")

    @check("remote", "kill_server", "start_server")
    async def a_server_that_is_away_fails_only_the_calls_of_then(self) -> None:
        await self.engine.kill_server()
        try:
            result = await self.add(self.file)
        finally:
            await self.engine.start_server()
        self.expect_one_of(result.kind, ("not_executed", "unknown_outcome"), "kind")
        for _ in range(20):  # its worker has to reach it again, too
            if (await self.add()).kind is None:
                break
            await asyncio.sleep(0.25)
        await self.expect_to_add("a call once the server is there again")
        if result.kind == "not_executed":
            self.expect(len(self.effects), 0, "effects of a call that was reported as not run")
