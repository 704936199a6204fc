"""Both sides of a call on another machine: what they write, read and refuse; neither trusts the other."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from pegboard import CallError, Confirmation, Permissions, Tool, ToolContext, ToolRegistry, tool, tool_of
from pegboard.errors import FatalToolError
from pegboard.execution import ExecutionRequest, ExecutorCall, LocalExecutor
from pegboard.worker import RemoteCaller, SentCall, Wire, Worker, has_not_started, read_response

HERE = RemoteCaller()


@tool
def echo(text: str) -> str:
    """Echoes a text."""
    return text


@tool
def repeat(text: str, times: int) -> str:
    """Repeats a text."""
    return text * times


@tool
def not_a_number() -> float:
    """Gives NaN."""
    return float("nan")


@tool
async def report(context: ToolContext, length: int) -> None:
    """Emits a text."""
    context.emit("x" * length)


@tool
def count(context: ToolContext) -> str:
    """Emits numbers."""
    for number in range(100):
        context.emit(number)
    return "counted"


@tool
async def ask(context: ToolContext) -> str:
    """Asks a question."""
    return (await context.request_confirmation("Really?")).feedback or ""


@tool
def end() -> None:
    """Ends the turn."""
    raise FatalToolError("over")


@tool
def not_run() -> None:
    """Ends as a call that wasn't run."""
    raise CallError("not_executed", "Its own call was not run.")


TOOLS = [tool_of(each) for each in (echo, repeat, not_a_number, report, count, ask, end, not_run)]


@pytest.fixture
def worker():
    executor = LocalExecutor(TOOLS, permissions=Permissions(mode="bypass"))
    yield Worker(executor)
    asyncio.run(executor.aclose())


def request(name, arguments=None):
    return json.dumps(ExecutionRequest(tool=name, arguments=arguments or {}).to_json()).encode()


def sent(name="echo", **facts):
    """A call on its way, with the events that reach its listener."""
    seen = []
    made = next(each for each in TOOLS if each.name == name)
    context = ToolContext(listener=seen.append, **facts)
    return SentCall(ExecutorCall(made, ExecutionRequest(tool=name), context)), seen


async def run(worker, name, arguments=None, caller=HERE):
    return read_response(await worker.run(request(name, arguments), caller), caller.wire)


async def test_a_request_is_run_and_answered(worker):
    assert (await run(worker, "echo", {"text": "hi"})).output == "hi"
    assert worker.running == {}


@pytest.mark.parametrize("name", ["echo", "missing"])
def test_a_request_enters_the_same_functions_however_many_tools_a_worker_has(name):
    def calls_of(number):
        others = [Tool.from_schema(f"other_{n}", {"type": "object"}, lambda arguments: None) for n in range(number)]
        worker, calls = Worker(LocalExecutor([*TOOLS, *others], permissions=Permissions(mode="bypass"))), 0

        def profile(frame, event, argument):
            nonlocal calls
            calls += event == "call"

        async def count():
            await run(worker, name, {"text": "hi"})  # what is made once
            sys.setprofile(profile)
            try:
                await worker.run(request(name, {"text": "hi"}), HERE)
            finally:
                sys.setprofile(None)
            await worker.executor.aclose()

        asyncio.run(count())
        return calls

    few = calls_of(1)
    assert 0 < calls_of(500) < few + 50


async def test_a_running_call_is_listed(worker):
    asked, go = asyncio.Event(), asyncio.Event()

    async def wait(question):
        asked.set()
        await go.wait()
        return b'{"value": {"hint": "", "confirmed": true, "feedback": "yes"}}'

    running = asyncio.ensure_future(run(worker, "ask", {}, RemoteCaller(ask=wait)))
    await asked.wait()
    assert [each.tool for each in worker.running.values()] == ["ask"]
    go.set()
    assert (await running).output == "yes"


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[]", b"{}", b'{"tool": 1}', b'{"tool": "echo", "timeout": NaN}', b"[" * 100_000],
    ids=["empty", "not text", "an array", "no tool", "wrong type", "NaN", "deep"],
)
async def test_a_request_that_cannot_be_read_is_not_run(worker, data):
    response = read_response(await worker.run(data, HERE))
    assert response.kind == "not_executed"
    assert "can't read the request" in response.error
    assert response.detail


async def test_a_tool_that_the_worker_lacks_is_not_run(worker):
    response = await run(worker, "missing")
    assert (response.kind, response.error) == (
        "not_executed",
        "missing was not run: its worker has no such tool. Continue without it.",
    )
    assert "equal [rename], [prefix] and transforms" in response.detail


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", True),
        (b'{"tool": "missing"}', True),
        (b'{"tool": "echo", "arguments": {"text": "hi"}, "digest": "another"}', True),
        (b'{"tool": "not_run"}', False),
        (b'{"tool": "echo", "arguments": {"text": "hi"}}', False),
    ],
    ids=["unreadable", "missing", "another definition", "an error of the tool", "a result"],
)
async def test_an_answer_says_whether_the_call_was_refused_before_its_tool_started(worker, data, expected):
    assert has_not_started(await worker.run(data, HERE)) is expected


async def test_a_request_over_the_limit_is_not_read(worker):
    caller = RemoteCaller(Wire(most_bytes=1_200))
    response = read_response(await worker.run(request("echo", {"text": "x" * 2_000}), caller))
    assert (response.kind, "at most 1.2 KiB" in response.detail) == ("not_executed", True)


async def test_a_result_over_the_limit_says_so(worker):
    caller = RemoteCaller(Wire(most_bytes=2_000))
    response = await run(worker, "repeat", {"text": "ab", "times": 5_000}, caller)
    assert response.kind == "limit"
    assert "Request less" in response.error


async def test_a_result_that_is_not_json_is_an_error(worker):
    assert (await run(worker, "not_a_number")).kind == "invalid_output"


async def test_a_fatal_error_ends_the_callers_turn(worker):
    with pytest.raises(FatalToolError, match="over"):
        await run(worker, "end")


async def test_an_executor_that_fails_answers_with_a_crash():
    class Failing(LocalExecutor):
        async def execute(self, request, caller=None):
            raise RuntimeError("secret")

    response = await run(Worker(Failing(TOOLS)), "echo")
    assert (response.kind, "secret" in response.error, "secret" in response.detail) == ("crashed", False, True)


async def test_cancelling_ends_the_call(worker):
    asked = asyncio.Event()

    async def wait(question):
        asked.set()
        await asyncio.Event().wait()

    running = asyncio.ensure_future(run(worker, "ask", {}, RemoteCaller(ask=wait)))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert worker.running == {}


async def test_a_transport_that_cannot_ask_refuses_questions(worker):
    response = await run(worker, "ask")
    assert response.is_error
    assert "can't be reached" in response.error


async def test_without_a_way_to_tell_events_are_left_out(worker):
    assert not (await run(worker, "report", {"length": 1})).is_error


async def test_an_event_that_is_too_long_is_replaced_by_a_notice(worker):
    told = []

    async def tell(events):
        told.extend(events)

    caller = RemoteCaller(Wire(most_bytes=1_200), tell=tell)
    await run(worker, "report", {"length": 2_000}, caller)
    call, seen = sent()
    for data in told:
        assert await call.handle(data) is None
    assert "left out" in seen[0]


def hearing():
    """A caller, and the data of the events that reach it."""
    told = []

    async def tell(events):
        told.extend(json.loads(event)["event"]["data"] for event in events)

    return RemoteCaller(tell=tell), told


async def test_of_too_many_events_that_wait_the_oldest_are_left_out(monkeypatch):
    monkeypatch.setattr("pegboard.worker._MOST_UNSENT_BYTES", 1_000)
    caller, told = hearing()
    for number in range(100):
        caller.emit({"type": "partial", "data": number})
    await caller.flush()
    assert told == [f"({101 - len(told)} events left out)", *range(101 - len(told), 100)]
    assert 10 < len(told) < 30


async def test_no_more_events_are_sent_than_a_caller_takes():
    caller, told = hearing()
    for number in range(10_010):
        caller.emit({"type": "partial", "data": number})
    await caller.flush()
    assert told == [*range(10_000)]


async def test_a_caller_that_takes_no_events_delays_an_answer_only_for_a_time(worker, monkeypatch, caplog):
    monkeypatch.setattr("pegboard.worker._FLUSH_SECONDS", 0.0)
    ended = asyncio.Event()

    async def tell(events):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert (await run(worker, "count", {}, RemoteCaller(tell=tell))).output == "counted"
    await ended.wait()
    assert "were left out" in caplog.text


class Reversed:
    """A codec."""

    def encode(self, data):
        return b"r" + data[::-1]

    def decode(self, data):
        if data[:1] != b"r":
            raise ValueError("it was not encoded")
        return data[:0:-1]


async def test_a_codec_changes_all_that_travels(worker):
    secret = Wire(codec=Reversed())
    data = secret.write(ExecutionRequest(tool="echo", arguments={"text": "hidden"}).to_json())
    answer = await worker.run(data, RemoteCaller(secret))
    assert (b"hidden" in data, b"hidden" in answer) == (False, False)
    assert read_response(answer, secret).output == "hidden"
    plain = read_response(await worker.run(request("echo", {"text": "x"}), RemoteCaller(secret)), secret)
    assert (plain.kind, plain.detail) == ("not_executed", "it was not encoded")


async def test_a_codec_that_fails_is_an_error_of_the_message(worker):
    class Failing(Reversed):
        def decode(self, data):
            raise KeyError("no such key")

    response = read_response(await worker.run(b"{}", RemoteCaller(Wire(codec=Failing()))), Wire(codec=Reversed()))
    assert (response.kind, "its codec failed: KeyError" in response.detail) == ("not_executed", True)


async def test_a_codec_that_cannot_encode_events_is_no_error_of_the_tool(worker, caplog):
    class Failing(Reversed):
        def encode(self, data):
            if b'"event"' in data:
                raise KeyError("no such key")
            return super().encode(data)

    async def tell(events):
        raise AssertionError(events)

    caller = RemoteCaller(Wire(codec=Failing()), tell=tell)
    data = Reversed().encode(request("count"))
    assert read_response(await worker.run(data, caller), caller.wire).output == "counted"
    assert caplog.text.count("sending events to the caller failed") == 1


async def test_events_are_sent_in_order_and_before_the_answer(worker):
    told = []

    async def tell(events):
        await asyncio.sleep(0)
        told.extend(json.loads(event)["event"]["data"] for event in events)

    assert (await run(worker, "count", {}, RemoteCaller(tell=tell))).output == "counted"
    assert told == [*range(100)]


async def test_a_caller_that_is_gone_gets_no_more_events_and_ends_what_asks_it(worker, caplog):
    attempts = []

    async def fail(data):
        attempts.append(data)
        raise OSError("no route")

    caller = RemoteCaller(tell=fail, ask=fail)
    assert (await run(worker, "count", {}, caller)).output == "counted"
    assert len(attempts) == 1
    assert "sending events to the caller" in caplog.text
    response = await run(worker, "ask", {}, caller)
    assert (response.kind, "can't be reached any more" in response.error) == ("aborted", True)


async def test_a_question_that_is_too_long_for_the_transport_is_an_error_of_the_tool(worker):
    caller = RemoteCaller(Wire(most_between=20), ask=sent("ask")[0].handle)
    response = await run(worker, "ask", {}, caller)
    assert (response.kind, "at most 20 bytes can be sent" in response.error) == ("tool_failure", True)


async def test_a_reply_that_is_too_long_for_the_transport_is_an_error_for_the_tool():
    class Host:
        async def request_confirmation(self, context, hint, payload):
            return Confirmation(hint=hint, confirmed=True, feedback="x" * 2_000)

    call, _ = sent("ask", host=Host())
    call.wire = Wire(most_between=500)
    reply = json.loads(await call.handle(b'{"question": "request_confirmation", "given": {"hint": "x"}}'))
    assert (reply["error"]["type"], "at most 500 bytes can be sent" in reply["error"]["text"]) == ("tool", True)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"7",
        b"{}",
        b'{"question": 7, "given": {}}',
        b'{"question": "ask", "given": []}',
        b'{"question": "shutdown", "given": {}}',
        b'{"question": "ask", "given": {"permission": 7}}',
        b'{"event": {"type": "unknown"}}',
        b'{"event": 7}',
    ],
    ids=["empty", "a number", "nothing", "no name", "no arguments", "unknown", "wrong type", "unknown event", "event"],
)
async def test_a_hostile_message_gets_an_error_and_reaches_nobody(message):
    call, seen = sent()
    assert "error" in json.loads(await call.handle(message))
    assert seen == []


@pytest.mark.parametrize("message", [b'{"question": [], "given": {}}', b'{"question": "ask", "given": "x"}', b"{}"])
async def test_a_message_that_is_no_question_is_called_invalid(message):
    reply = json.loads(await sent()[0].handle(message))
    assert reply["error"] == {"type": "lookup", "text": "the question is invalid"}


async def test_what_comes_after_the_response_is_left_out():
    call, seen = sent()
    assert call.response(b'{"response": {"output": "done"}}').output == "done"
    assert await call.handle(b'{"event": {"type": "partial", "data": 1}}') is None
    assert seen == []
    reply = json.loads(await call.handle(b'{"question": "allows", "given": {"permission": "x"}}'))
    assert "the call is over" in reply["error"]["text"]


async def test_events_and_questions_are_bounded():
    call, seen = sent()
    event = b'{"event": {"type": "partial", "data": 1}}'
    replies = [await call.handle(event) for _ in range(10_010)]
    assert (len(seen), set(replies)) == (10_000, {None})
    question = b'{"question": "unknown", "given": {}}'
    last = [json.loads(await call.handle(question)) for _ in range(10_001)][-1]
    assert "too many questions" in last["error"]["text"]


async def test_questions_that_wait_are_bounded():
    asked, go = asyncio.Semaphore(0), asyncio.Event()

    class Host:
        async def request_confirmation(self, context, hint, payload):
            asked.release()
            await go.wait()

    call, _ = sent("ask", host=Host())
    question = b'{"question": "request_confirmation", "given": {"hint": "x"}}'
    waiting = [asyncio.ensure_future(call.handle(question)) for _ in range(64)]
    for _ in waiting:
        await asked.acquire()
    assert "too many questions" in json.loads(await call.handle(question))["error"]["text"]
    waiting.pop().cancel()
    go.set()
    assert {*await asyncio.gather(*waiting)} == {b'{"value":null}'}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"response": 7}', b'{"response": {"isError": "no"}}'])
def test_an_answer_that_cannot_be_read_is_refused(data):
    with pytest.raises(ValueError, match=r"\w"):
        read_response(data)


async def test_an_executor_with_a_hostile_worker_fails_only_its_call():
    class Executor:
        async def execute_tool(self, call):
            return SentCall(call).response(b"garbage")

    async with ToolRegistry() as registry:
        registry.add("executors", "far", Executor())
        registry.register(echo, Tool.from_schema("far", {"type": "object"}, executor="far"))
        assert (await registry.call("far", {})).kind == "crashed"
        assert (await registry.call("echo", {"text": "hi"})).text == "hi"


@pytest.mark.parametrize("name", ["", "..", "a b", "a.b", "x" * 65, "é", 7, None, "a\n"])
def test_a_queue_has_a_plain_name(worker, name):
    with pytest.raises(ValueError, match="queue must be 1 to 64 of"):
        Worker(worker.executor, name)
