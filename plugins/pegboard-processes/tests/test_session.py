from __future__ import annotations

import asyncio
import gc
import json
from contextvars import ContextVar

import attrs
import pytest
from running import PATIENCE, execute, is_there, skip_time, until, written

from pegboard import (
    CallError,
    Confirmation,
    ImageContent,
    Progress,
    ReadonlyContext,
    ToolContext,
    ToolError,
    ToolResult,
)
from pegboard.errors import ArtifactError, FatalToolError
from pegboard_processes import process, session

CONTEXT = ReadonlyContext(user="ann", session="s1", state={"old": 1})
QUESTION = 'context.ask("edit", ["a.txt"], always=["*.txt"], metadata={"diff": "+1"})'
ASK = f'await {QUESTION}; result = "allowed"'
ASK_BOTH = """
await asyncio.gather(context.ask("a"), context.ask("b"))
while {spin}:
    pass
result = "allowed"
"""
CALL_MANY = """
calls = [asyncio.ensure_future(context.call("echo", {"a": number})) for number in range(64 + 1)]
(first,), _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
result = str(first.exception())
"""
CALL_TWICE = """
one, two = await asyncio.gather(context.call("echo", {"a": 1}), context.call("echo", '{"a": 2}'))
result = f"{one.text} {two.text}"
"""
CHANGE = 'context.state["new"] = [1]; del context.state["old"]; context.actions.transfer_to = "writer"'
CONFIRM = """
answer = await context.request_confirmation("sure?", {"n": 1})
result = {"answer": answer.to_json(), "earlier": [one.hint for one in answer.earlier]}
"""
REPORT_MANY = "for number in range({}): context.report(number)"


@attrs.define(eq=False)
class Host:
    """A call host with a given answer, which records what it is asked."""

    answer: object = None
    asked: list = attrs.field(factory=list)

    async def ask(self, context, permission, patterns, always, metadata):
        await asyncio.sleep(0)
        self.asked.append((permission, list(patterns), list(always), dict(metadata)))
        if isinstance(self.answer, BaseException):
            raise self.answer

    def allows(self, context, permission, subject):
        return permission == "read_file" and not subject.endswith(".env")

    def allowed_names(self, context, permission, folder, names):
        return tuple(name for name in names if self.allows(context, permission, f"{folder}/{name}"))

    async def request_confirmation(self, context, hint, payload):
        earlier = (Confirmation("before", confirmed=False),)
        return Confirmation(hint, confirmed=True, payload=payload, feedback="fine").after(earlier)

    async def call(self, context, name, arguments):
        await asyncio.sleep(0)
        self.asked.append((name, arguments))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return ToolResult(f"{name}: {arguments}")

    def background(self, context, work):
        raise AssertionError("a child can't ask for it")


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def run_tool(call, host):
    """Calls a tool in a child whose context is connected to this one's."""

    def run_tool(tool, context=None, *, listener=None, **arguments):
        context = context or ToolContext(CONTEXT, "c1", tool, host=host, listener=listener)
        return call(tool, context, **arguments)

    return run_tool


# Events ---------------------------------------------------------------------------------------------------------------


def test_events_reach_the_listener_in_order(run_tool):
    seen = []
    assert run_tool("emit_all", listener=seen.append).output == "emitted"
    assert seen[:2] == [Progress(1, 4, "one of four"), Progress(0.5)]
    assert seen[2].title == "Heading"
    assert seen[2].facts["place"] == "here"
    assert seen[3:6] == ["part", ImageContent(b"1"), {"x": 1, "y": 2}]
    assert seen[6].startswith("<object object")
    assert seen[7] == "nan"
    assert seen[8].startswith("(partial left out: 9,000,0")


def test_title_and_metadata_are_in_the_response_and_in_the_hosts_context(run_tool, host):
    response = run_tool("emit_all")
    assert (response.title, response.metadata["place"]) == ("Heading", "here")
    context = ToolContext(host=host, listener=lambda _: None)
    run_tool("emit_all", context)
    assert context.actions.title == "Heading"


def test_many_events_all_arrive_in_order(run_tool):
    seen = []
    assert not run_tool("do", listener=seen.append, code=REPORT_MANY.format(2000)).is_error
    assert seen == [Progress(number) for number in range(2000)]


@pytest.mark.slow
def test_a_call_that_floods_events_can_be_cancelled(pool):
    seen = []

    async def cancelled():
        context = ToolContext(listener=seen.append)
        task = asyncio.ensure_future(execute(pool, "do", context, code=REPORT_MANY.format(10**9)))
        await asyncio.to_thread(until, lambda: len(seen) > 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


# The context ----------------------------------------------------------------------------------------------------------


def test_the_context_has_everything_that_is_json(run_tool, host):
    context = ToolContext(
        ReadonlyContext(
            user="ann",
            agent="planner",
            agent_description="plans",
            model="m1",
            provider="p1",
            session="s1",
            invocation="i1",
            message="m9",
            branch="a.b",
            work_dir="/tmp",
            state={"n": 1, "object": object()},
            extra={"e": [1], "set": {1}},
        ),
        call_id="c7",
        values={"v": 1, "lock": object()},
        depth=2,
        confirmation=Confirmation("sure?", confirmed=True),
        host=host,
    )
    found = run_tool("about", context).structured_content
    assert found["request"] == ["ann", "planner", "plans", "m1", "p1"]
    assert found["ids"] == ["s1", "i1", "m9", "a.b", "c7"]
    assert (found["state"], found["extra"], found["values"]) == ({"n": 1}, {"e": [1]}, {"v": 1})
    assert (found["tool"], found["work_dir"], found["depth"], found["has_limit"]) == ("about", "/tmp", 2, True)
    assert found["confirmation"] == {"hint": "sure?", "confirmed": True}


def test_actions_come_back_with_the_response(run_tool):
    response = run_tool("do", code=CHANGE)
    assert response.actions == {"stateDelta": {"new": [1]}, "stateRemoved": ["old"], "transferTo": "writer"}


# Questions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "code"), [("go", ASK), ("do", f'context.wait({QUESTION}); result = "allowed"')])
def test_the_parents_host_is_asked_for_a_permission(run_tool, host, tool, code):
    assert run_tool(tool, code=code).output == "allowed"
    assert host.asked == [("edit", ["a.txt"], ["*.txt"], {"diff": "+1"})]


@pytest.mark.parametrize(
    "error",
    [
        ToolError("not you", hint="ask Bob"),
        CallError("rejected", "no"),
        FatalToolError("over"),
        ArtifactError("a", name="b"),
    ],
)
def test_an_uncaught_refusal_is_raised_unchanged_in_the_parent(run_tool, host, error):
    host.answer = error
    with pytest.raises(type(error)) as raised:
        run_tool("go", code=ASK)
    assert raised.value is error


def test_a_refusal_may_be_caught_in_the_child(run_tool, host):
    host.answer = ToolError("not you")
    assert run_tool("ask_and_go_on", permission="edit").output == "refused: not you"
    host.answer = LookupError("no one is there")
    assert run_tool("ask_and_go_on", permission="edit").output == "LookupError: no one is there"


def test_of_other_errors_the_tool_gets_only_the_type(run_tool, host):
    host.answer = ValueError("secret")
    assert run_tool("ask_and_go_on", permission="edit").output == "RuntimeError: the host failed: ValueError"
    host.answer = asyncio.CancelledError()  # an answer that cancels itself
    assert run_tool("ask_and_go_on", permission="edit").output == "RuntimeError: the host failed: CancelledError"


def test_a_confirmation_has_all_earlier_answers(run_tool):
    found = json.loads(run_tool("go", code=CONFIRM).output)
    assert found["answer"] == {"hint": "sure?", "confirmed": True, "payload": {"n": 1}, "feedback": "fine"}
    assert found["earlier"] == ["before"]


def test_a_tool_calls_several_tools_at_once(run_tool, host):
    assert run_tool("go", code=CALL_TWICE).output == "echo: {'a': 1} echo: {\"a\": 2}"
    assert sorted(map(str, host.asked)) == sorted(map(str, [("echo", {"a": 1}), ("echo", '{"a": 2}')]))


async def test_answers_and_events_see_the_context_variables_of_the_caller(pool):
    caller, seen = ContextVar("caller", default=None), []

    class Seeing(Host):
        async def call(self, *_):
            seen.append(caller.get())
            return ToolResult("called")

    caller.set("ann")
    context = ToolContext(host=Seeing(), listener=lambda _: seen.append(caller.get()))
    await execute(pool, "call_one", context, name="echo")
    await execute(pool, "count_up", context, to=1)
    assert seen == ["ann", "ann"]


def test_each_thread_of_a_tool_gets_its_own_answer(run_tool):
    assert run_tool("ask_in_threads", count=4).structured_content == {
        "result": [f"echo: {{'a': {number}}}" for number in range(4)]
    }


def test_memory_and_artifacts_are_the_parents(run_tool):
    found = run_tool("remember").structured_content
    assert found == {"user": "ann", "found": ["likes tea"], "text": "hello", "names": ["a.txt"], "left": []}


def test_background_work_is_refused(run_tool):
    response = run_tool("do", code="context.background(later(1))")
    assert (response.kind, response.error) == ("tool_failure", "do failed: LookupError.")


def test_rules_of_the_parent_decide_what_a_tool_may_access(run_tool):
    one_by_one = '[path for path in ["a", "b.env"] if context.allows("read_file", path)]'
    for found in (one_by_one, 'context.allowed_names("read_file", "src", ["a", "b.env"])'):
        assert json.loads(run_tool("do", ToolContext(host=Host()), code=f"result = {found}").output) == ["a"]


def test_the_time_limit_pauses_while_the_user_is_asked(run_tool):
    """The answer takes longer than the limit."""

    class Slow(Host):
        async def ask(self, *_):
            skip_time()
            await asyncio.sleep(0)

    assert run_tool("go", ToolContext(host=Slow()), code=ASK).output == "allowed"


@pytest.mark.slow
def test_the_time_limit_pauses_until_the_last_answer_and_then_resumes(run_tool):
    class Slow(Host):
        async def ask(self, context, permission, *_):
            for _ in range(50 if permission == "b" else 0):  # until the other answer was given
                await asyncio.sleep(0)
            if permission == "b":
                skip_time()
                await asyncio.sleep(0)

    assert run_tool("go", ToolContext(host=Slow()), code=ASK_BOTH.format(spin=False)).output == "allowed"
    assert run_tool("go", ToolContext(host=Slow()), timeout=1.0, code=ASK_BOTH.format(spin=True)).kind == "timeout"


def test_too_many_questions_at_once_are_refused(run_tool):
    class Silent(Host):
        async def call(self, *_):
            await asyncio.Event().wait()

    assert run_tool("go", ToolContext(host=Silent()), code=CALL_MANY).output == "too many questions at once"


@pytest.mark.slow
async def test_questions_of_a_call_that_ends_are_cancelled(pool):
    asked, cancelled = asyncio.Event(), asyncio.Event()

    class Silent(Host):
        async def call(self, context, name, arguments):
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

    task = asyncio.ensure_future(execute(pool, "call_one", ToolContext(host=Silent()), name="echo"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await cancelled.wait()


def test_the_time_limit_pauses_while_another_tool_runs(run_tool):
    """It takes longer than the limit of its caller."""

    class Slow(Host):
        async def call(self, context, name, arguments):
            skip_time()
            await asyncio.sleep(0)
            return ToolResult("called")

    assert run_tool("call_one", ToolContext(host=Slow()), name="echo").output == "called"


# Starting and closing -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_start_of_a_child_has_its_own_time_limit(fresh, call, monkeypatch):
    monkeypatch.setattr(session, "START_SECONDS", 0.001)
    monkeypatch.setattr(process, "PROGRAM", "import time; time.sleep(3600)")
    response = call("add", pool=fresh(), a=1)
    assert (response.kind, response.error) == ("crashed", "add was not run: its process could not be started.")


def started_in(loop, pool, file):
    """A call that never ends, in a loop that was closed, and the id of its process."""
    task = loop.create_task(execute(pool, "sleep_on", timeout=None, pid_file=str(file)))
    task._log_destroy_pending = False
    loop.run_until_complete(asyncio.to_thread(written, file))
    loop.close()
    return task, int(file.read_text())


@pytest.mark.slow
def test_closing_the_loop_during_a_call_leaves_no_process(fresh, tmp_path):
    task, pid = started_in(asyncio.new_event_loop(), fresh(), tmp_path / "pid")
    task.get_coro().close()
    del task
    gc.collect()
    until(lambda: not is_there(pid))


@pytest.mark.slow
def test_closing_the_pool_ends_calls_of_a_closed_loop(fresh, tmp_path):
    pool = fresh()
    task, pid = started_in(asyncio.new_event_loop(), pool, tmp_path / "pid")
    asyncio.run(asyncio.wait_for(pool.aclose(), PATIENCE))
    until(lambda: not is_there(pid))
    task.get_coro().close()
