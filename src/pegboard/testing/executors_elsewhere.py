"""The checks of `check_executor` for executors with workers elsewhere, and for those that keep results."""
# ruff: noqa: D103  the name of a check says what it checks

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, Final

import attrs

from pegboard.dispatch.approval.request import Once
from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.execution import ExecutionResponse, LocalExecutor
from pegboard.testing.executors import (
    ANN,
    EXECUTOR_TOOLS,
    Bench,
    answering,
    check,
    effects_in,
    expect,
    expect_one_of,
    note,
    until,
)
from pegboard.tools.call import ToolCall
from pegboard.tools.context import ToolContext
from pegboard.worker import RemoteCaller, Worker

_ADDED: Final = {"result": 3}
_NONE: Final = list[Any]()


@check("remote")
async def runs_in_another_process(bench: Bench) -> None:
    result = await bench.registry().call("check_process", {}, ANN)
    if result.is_error or result.structured_content == {"result": os.getpid()}:
        raise AssertionError(f"expected the id of another process, got {result.text!r:.100}")


@check("remote")
async def a_dying_worker_is_reported(bench: Bench) -> None:
    result = await bench.registry().call("check_crash", {}, ANN)
    expect_one_of(result.kind, ("crashed", "unknown_outcome"), "kind")
    await bench.expect_to_add("the next call")


@check("durable")
async def the_same_call_again_runs_once(bench: Bench) -> None:
    file = bench.file()
    async with bench.start() as other:
        for executor in (bench.executor, other):
            arguments = {"a": 1, "b": 2, "file": file}
            result = await bench.registry(executor=executor).call("check_add", arguments, ANN, call_id="toolu_same")
            expect((result.structured_content, effects_in(file)), (_ADDED, ["added"]), "result and runs")
        session = attrs.evolve(ANN, session="other")
        await bench.registry().call("check_add", arguments, session, call_id="toolu_same")
        expect(len(effects_in(file)), 2, "runs, with one of another session")


@check("durable")
async def a_call_without_an_identity_runs_each_time(bench: Bench) -> None:
    file, context = bench.file(), attrs.evolve(ANN, message=None)
    for _ in range(2):
        await bench.registry().call("check_add", {"a": 1, "b": 2, "file": file}, context, call_id="call_0")
    expect(len(effects_in(file)), 2, "runs")


@check("durable")
async def an_approved_call_survives_its_caller(bench: Bench) -> None:
    file, asked = bench.file(), list[str]()
    call = ToolCall("check_delete", {"file": file}, "toolu_approved")
    approver = answering(asked, Once())
    async with bench.start() as other:
        for executor in (bench.executor, other):
            outcome = await bench.registry(approver, executor).dispatch([call], context=ANN)
            expect((outcome.results[0].text, effects_in(file)), ("deleted", ["deleted"]), "result and runs")
    expect(len(asked), 1, "how often it was approved")


@check("durable")
async def the_id_of_another_call_is_refused(bench: Bench) -> None:
    file, kinds = bench.file(), list[Any]()
    for number in (1, 2):
        arguments = {"a": number, "b": 2, "file": file}
        kinds.append((await bench.registry().call("check_add", arguments, ANN, call_id="toolu_again")).kind)
    expect((kinds, effects_in(file)), ([None, "unknown_outcome"], ["added"]), "kinds of errors, and runs")


# Workers that the checks run in this process -------------------------------------------------------------------------


@asynccontextmanager
async def _serving(bench: Bench, *workers: Worker) -> AsyncGenerator[None]:
    """Workers of the executor, until the end of the block."""
    async with bench.start() as other:
        tasks = [asyncio.ensure_future(other.serve(worker)) for worker in workers]
        try:
            yield
        finally:
            for worker in workers:
                worker.stopping.set()
            await asyncio.gather(*tasks)
            for worker in workers:
                await worker.executor.aclose()


def _worker(queue: str, kind: type[Worker] = Worker, **facts: Any) -> Worker:
    return kind(LocalExecutor(EXECUTOR_TOOLS, permissions=Permissions(mode="bypass")), queue=queue, **facts)


class _Hostile(Worker):
    """A worker that isn't as it should be."""

    play: Callable[[bytes, RemoteCaller], Awaitable[bytes]]  # what it does with a call, and answers

    async def run(self, data: bytes, caller: RemoteCaller) -> bytes:
        answer = await self.play(data, caller)
        await caller.flush()
        return answer


def _hostile(queue: str, play: Callable[[bytes, RemoteCaller], Awaitable[bytes]]) -> Worker:
    worker: Any = _worker(queue, _Hostile)
    worker.play = play
    return worker


def _done(caller: RemoteCaller, **more: Any) -> bytes:
    return caller.wire.write({"response": {**ExecutionResponse(output="done").to_json(), **more}})


@check("remote", "serve")
async def a_call_goes_to_a_worker_of_its_queue(bench: Bench) -> None:
    queue = bench.queue()

    async def play(_: bytes, caller: RemoteCaller) -> bytes:
        return _done(caller)

    async with _serving(bench, _hostile(queue, play)):
        result = await bench.registry(queue=queue).call("check_large", {"length": 1}, ANN)
        expect(result.text, "done", "what the queue's only worker answers")


@check("remote", "serve")
async def no_worker_is_reported_as_not_run(bench: Bench) -> None:
    file = bench.file()
    result = await bench.registry(queue=bench.queue()).call("check_add", {"a": 1, "b": 2, "file": file}, ANN)
    expect((result.kind, effects_in(file)), ("not_executed", _NONE), "kind and effects")


@check("remote", "serve")
async def an_invalid_queue_is_refused(bench: Bench) -> None:
    for queue in ("..", "a b", "x" * 300, "a.>", "*"):
        executor = _changing(bench.executor, queue=queue)
        file = bench.file()
        result = await bench.registry(executor=executor).call("check_add", {"a": 1, "b": 2, "file": file}, ANN)
        expect((result.is_error, effects_in(file)), (True, _NONE), f"a call for the queue {queue!r:.20}")


def _changing(executor: Any, **facts: Any) -> Any:
    """The executor, which gets changed requests."""

    async def execute_tool(call: Any) -> ExecutionResponse:
        request = call.request
        for name, value in facts.items():
            object.__setattr__(request, name, value)  # also what its own checks would refuse
        return await executor.execute_tool(call)

    return SimpleNamespace(execute_tool=execute_tool)


@check("remote", "serve")
async def a_worker_runs_at_most_its_limit_at_once(bench: Bench) -> None:
    queue, file = bench.queue(), bench.file()
    async with _serving(bench, _worker(queue, max_concurrency=3)):
        calls = [ToolCall("check_slow", {"file": file}, f"toolu_{number}") for number in range(12)]
        outcome = await bench.registry(queue=queue).dispatch(calls, context=attrs.evolve(ANN, message=file))
    expect({result.kind for result in outcome.results}, {None}, "kinds")
    running = most = 0
    for effect in effects_in(file):
        running += 1 if effect == "began" else -1
        most = max(most, running)
    expect_one_of(most, (2, 3), "how many calls ran at once, of at most 3")


@check("remote", "serve")
async def two_workers_run_each_call_once(bench: Bench) -> None:
    queue, files = bench.queue(), [bench.file() for _ in range(30)]
    async with _serving(bench, _worker(queue, name="one"), _worker(queue, name="two")):
        calls = [ToolCall("check_add", {"a": 1, "b": 2, "file": file}, file) for file in files]
        outcome = await bench.registry(queue=queue).dispatch(calls, context=ANN)
    expect([result.structured_content for result in outcome.results], [_ADDED] * 30, "results")
    expect([effects_in(file) for file in files], [["added"]] * 30, "runs")


@check("remote", "serve")
async def a_worker_that_stops_lets_its_calls_end(bench: Bench) -> None:
    queue, file, go = bench.queue(), bench.file(), bench.file()
    worker = _worker(queue)
    async with _serving(bench, worker):
        call = await bench.begin("check_wait", file, bench.registry(queue=queue), go=go)
        worker.stopping.set()
        note(go, "go")
        expect((await call).text, "waited", "the result of a call whose worker stops")


@check("remote", "serve", "status")
async def status_lists_workers_and_their_calls(bench: Bench) -> None:
    queue, file, go = bench.queue(), bench.file(), bench.file()
    async with _serving(bench, _worker(queue, name="one", max_concurrency=3)):
        call = await bench.begin("check_wait", file, bench.registry(queue=queue), "toolu_status", go=go)
        found = [each for each in (await bench.executor.status()).workers if each.queue == queue]
        note(go, "go")
        await call
    expect(len(found), 1, "workers of the queue")
    expect(sorted(found[0].running.values()), ["check_wait"], "what the worker runs")


@check("remote", "serve")
async def a_worker_that_asks_nonsense_gets_errors(bench: Bench) -> None:
    queue, errors = bench.queue(), list[str]()
    questions: list[tuple[Any, Any]] = [("nonsense", {}), ("ask", {}), ("ask", []), (5, {}), ("call", {"name": 7})]
    questions += [("artifacts.save", {"name": "a", "content": 3}), ("__class__", {}), ("memory.add", None)]

    async def play(_: bytes, caller: RemoteCaller) -> bytes:
        for question, given in questions:
            try:
                errors.append(f"{await caller.answer(question, given)}")
            except Exception as error:  # noqa: BLE001  whatever comes
                errors.append(type(error).__name__)
        return _done(caller)

    async with _serving(bench, _hostile(queue, play)):
        expect((await bench.registry(queue=queue).call("check_large", {"length": 1}, ANN)).text, "done")
    expect(len(errors), len(questions), "answers")
    if accepted := {*errors} - {"LookupError", "RuntimeError", "ToolError", "CallError", "ValueError"}:
        raise AssertionError(f"nonsense was answered with {accepted!r:.300}")


@check("remote", "serve")
async def a_worker_that_asks_and_tells_too_much_is_bounded(bench: Bench) -> None:
    queue, seen, refused = bench.queue(), list[Any](), list[str]()

    async def play(_: bytes, caller: RemoteCaller) -> bytes:
        for number in range(12_000):
            caller.emit({"type": "progress", "progress": number})
        for number in range(10_050):
            try:
                await caller.answer("allows", {"permission": "read", "subject": f"{number}"})
            except LookupError as error:
                refused.append(f"{error}")
        return _done(caller)

    async with _serving(bench, _hostile(queue, play)):
        context = ToolContext(ANN, listener=seen.append)
        result = await bench.registry(queue=queue).call("check_large", {"length": 1}, context)
    expect_one_of(result.text, ("done", result.text if result.is_error else ""), "result")
    if len(seen) > 10_000 or (result.text == "done" and not refused):
        raise AssertionError(
            f"{len(seen)} of 12,000 events arrived, and {len(refused)} of 10,050 questions were refused"
        )


@check("remote", "serve")
async def an_invalid_event_is_left_out(bench: Bench) -> None:
    queue, seen = bench.queue(), list[Any]()

    async def play(_: bytes, caller: RemoteCaller) -> bytes:
        for event in ({"type": "nonsense"}, {"type": "progress", "progress": "much"}, {}, {"type": 5}):
            caller.emit(event)
        assert caller.tell is not None
        await caller.tell([b"", b"no json", b"[]", b'{"event": 5}'])
        caller.emit({"type": "progress", "progress": 1})
        return _done(caller)

    async with _serving(bench, _hostile(queue, play)):
        context = ToolContext(ANN, listener=seen.append)
        expect((await bench.registry(queue=queue).call("check_large", {"length": 1}, context)).text, "done")
    expect([each.progress for each in seen], [1], "the events that were passed on")


@check("remote", "serve")
async def an_invalid_answer_is_an_error(bench: Bench) -> None:
    queue, answers = bench.queue(), list[bytes]()
    wrong = [b"", b"no json", b"[]", b"{}", b'{"response": 5}', b'{"response": {"output": 5}}', b'{"fatal": 3}']
    wrong += [b'{"response": {"structuredContent": NaN}}', b'{"response": {"kind": "nonsense", "isError": true}}']
    wrong += [b"\xff\xfe", b"[" * 100_000]

    async def play(_: bytes, caller: RemoteCaller) -> bytes:
        return answers.pop() if answers else _done(caller)

    async with _serving(bench, _hostile(queue, play)):
        registry = bench.registry(queue=queue)
        for answer in wrong:
            answers.append(answer)
            result = await registry.call("check_large", {"length": 1}, ANN)
            expect_one_of(result.kind, ("crashed", "unknown_outcome"), f"the kind for the answer {answer!r:.40}")
        expect((await registry.call("check_large", {"length": 1}, ANN)).text, "done", "the next result")


@check("remote", "serve")
async def what_another_version_adds_is_ignored(bench: Bench) -> None:
    queue = bench.queue()

    async def play(data: bytes, caller: RemoteCaller) -> bytes:
        request = caller.wire.read(data)
        return caller.wire.write({"response": {"output": request["tool"], "novel": {"a": 1}}, "novel": [2]})

    async with _serving(bench, _hostile(queue, play)):
        expect((await bench.registry(queue=queue).call("check_large", {"length": 1}, ANN)).text, "check_large")


@check("remote", "serve")
async def what_comes_after_the_answer_is_left_out(bench: Bench) -> None:
    queue, seen, late = bench.queue(), list[Any](), list[RemoteCaller]()
    errors = list[BaseException]()

    async def play(_: bytes, caller: RemoteCaller) -> bytes:
        late.append(caller)
        return _done(caller)

    async with _serving(bench, _hostile(queue, play)):
        registry = bench.registry(queue=queue)
        context = ToolContext(ANN, listener=seen.append)
        expect((await registry.call("check_large", {"length": 1}, context)).text, "done")
        late[0].emit({"type": "progress", "progress": 1})
        try:
            async with asyncio.timeout(20):
                await late[0].answer("call", {"name": "check_here", "arguments": {}})
        except Exception as error:  # noqa: BLE001  whatever comes
            errors.append(error)
        expect((await registry.call("check_large", {"length": 1}, ANN)).text, "done", "the next result")
    expect((seen, len(errors)), (_NONE, 1), "events that were passed on, and refused questions, after the answer")


# Processes that are killed -------------------------------------------------------------------------------------------


def call_once() -> None:
    """Makes the call that the program's argument describes, and prints its result: a caller in another process."""
    import asyncio

    from pegboard.plugins.load import load

    given = json.loads(sys.argv[1])

    async def main() -> None:
        async with load(settings=given["settings"]) as registry:
            for each in EXECUTOR_TOOLS:
                registry.register(each.evolve(policy=attrs.evolve(each.policy, executor=given["executor"])))
            result = await registry.call(given["tool"], given["arguments"], ANN, call_id=given["id"])
            print(json.dumps([result.kind, result.text]))  # noqa: T201  for the process that has started this

    asyncio.run(main())


async def _caller(bench: Bench, tool: str, arguments: Mapping[str, Any], id_: str) -> asyncio.subprocess.Process:
    """Starts a caller in another process."""
    given = {**bench.engine.caller, "tool": tool, "arguments": arguments, "id": id_}
    code = "from pegboard.testing.executors_elsewhere import call_once; call_once()"
    pipe = asyncio.subprocess.PIPE
    command = sys.executable, "-c", code, json.dumps(given)
    return await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)


async def _output_of(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """What a process has printed, once it has ended; a check that is cancelled ends it."""
    try:
        return await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@check("remote", "caller")
async def a_short_program_ends_cleanly(bench: Bench) -> None:
    for number in range(2):
        process = await _caller(bench, "check_add", {"a": 1, "b": 2}, f"toolu_short_{number}")
        printed, errors = await _output_of(process)
        expect((process.returncode, errors.decode()), (0, ""), "exit code and what it says")
        expect(json.loads(printed)[0], None, "kind")


@check("remote", "kill_worker", "start_worker")
async def a_killed_worker_runs_no_call_twice(bench: Bench) -> None:
    file, go = bench.file(), bench.file()
    call = await bench.begin("check_wait", file, call_id="toolu_killed", go=go)
    await bench.engine.kill_worker()
    await bench.engine.start_worker()
    expect((await call).kind, "unknown_outcome", "kind")
    note(go, "go")
    expect(len(effects_in(file)), 1, "runs")
    await bench.expect_to_add("the next call")


@check("durable", "kill_worker", "start_worker")
async def a_killed_workers_idempotent_call_runs_again(bench: Bench) -> None:
    file, go = bench.file(), bench.file()
    call = await bench.begin("check_wait_again", file, call_id="toolu_again", go=go)
    await bench.engine.kill_worker()
    await bench.engine.start_worker()
    note(go, "go")
    expect(((await call).text, len(effects_in(file))), ("waited", 2), "result and runs")


@check("durable", "caller")
async def a_killed_callers_result_is_found_by_its_id(bench: Bench) -> None:
    file, go = bench.file(), bench.file()
    arguments = {"file": file, "go": go}
    process = await _caller(bench, "check_wait", arguments, "toolu_caller")
    await until(lambda: bool(effects_in(file)) or process.returncode is not None)
    with suppress(ProcessLookupError):  # it has ended by itself
        process.kill()
    await process.communicate()
    note(go, "go")
    again = await _caller(bench, "check_wait", arguments, "toolu_caller")
    printed, errors = await _output_of(again)
    expect((again.returncode, errors.decode()), (0, ""), "exit code and what it says")
    expect((json.loads(printed), len(effects_in(file))), ([None, "waited"], 1), "result and runs")


@check("durable", "kill_server", "start_server")
async def a_call_survives_its_server(bench: Bench) -> None:
    file, go = bench.file(), bench.file()
    call = await bench.begin("check_wait", file, call_id="toolu_server", go=go)
    await bench.engine.kill_server()
    note(go, "go")
    await bench.engine.start_server()
    expect(((await call).text, len(effects_in(file))), ("waited", 1), "result and runs")


@check("remote", "kill_server", "start_server")
async def a_server_that_is_away_fails_only_the_calls_of_then(bench: Bench) -> None:
    file = bench.file()
    await bench.engine.kill_server()
    try:
        result = await bench.registry().call("check_add", {"a": 1, "b": 2, "file": file}, ANN)
    finally:
        await bench.engine.start_server()
    expect_one_of(result.kind, ("not_executed", "unknown_outcome"), "kind")
    if result.kind == "not_executed":
        expect(effects_in(file), _NONE, "effects of a call that was reported as not run")
    last = result
    for _ in range(20):  # its worker has to reach it again, too
        last = await bench.registry().call("check_add", {"a": 1, "b": 2}, ANN)
        if last.kind is None:
            break
        await asyncio.sleep(0.25)
    expect(last.structured_content, _ADDED, "a call once the server is there again")
    if result.kind == "not_executed":
        expect(effects_in(file), _NONE, "later effects of a call that was reported as not run")


@check("durable")
async def two_callers_of_one_call_get_its_result(bench: Bench) -> None:
    file, go = bench.file(), bench.file()
    async with bench.start() as other:
        registries = [bench.registry(executor=executor) for executor in (bench.executor, other)]
        arguments = {"file": file, "go": go}
        calls = [
            asyncio.ensure_future(registry.call("check_wait", arguments, ANN, call_id="toolu_two"))
            for registry in registries
        ]
        await until(lambda: bool(effects_in(file)) or any(call.done() for call in calls))
        note(go, "go")
        expect([(await call).text for call in calls], ["waited", "waited"], "results")
    expect(len(effects_in(file)), 1, "runs")


@check("durable")
async def there_is_nothing_to_attach_to_without_a_run(bench: Bench) -> None:
    expect(await bench.executor.attach("sha256:none"), None, "what is attached to")


@check("durable")
async def another_process_attaches_while_the_call_runs(bench: Bench) -> None:
    file, go = bench.file(), bench.file()
    keys, kept = list[str](), bench.executor

    async def execute_tool(call: Any) -> ExecutionResponse:
        keys.append(call.request.key)
        return await kept.execute_tool(call)

    first = bench.registry(executor=SimpleNamespace(execute_tool=execute_tool))
    call = await bench.begin("check_wait", file, first, "toolu_attach", go=go)
    async with bench.start() as other:
        attached = asyncio.ensure_future(other.attach(keys[0]))
        await asyncio.wait([attached], timeout=0.2)
        note(go, "go")
        response = await attached
    texts = [response and response.output, (await call).text]
    expect((texts, len(effects_in(file))), (["waited", "waited"], 1), "results and runs")


@check("durable", "serve")
async def a_call_that_was_not_run_may_be_sent_again(bench: Bench) -> None:
    queue, file = bench.queue(), bench.file()
    arguments = {"a": 1, "b": 2, "file": file}
    first = await bench.registry(queue=queue).call("check_add", arguments, ANN, call_id="toolu_later")
    expect((first.kind, effects_in(file)), ("not_executed", _NONE), "without a worker")
    async with _serving(bench, _worker(queue)):
        again = await bench.registry(queue=queue).call("check_add", arguments, ANN, call_id="toolu_later")
    expect((again.structured_content, effects_in(file)), (_ADDED, ["added"]), "with a worker")
