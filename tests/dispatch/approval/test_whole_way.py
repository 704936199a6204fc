"""From the model's call to its result, with approval by a person: in one process, and over several."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import Future

import pytest
from attrs import evolve

from pegboard import (
    Always,
    Ask,
    Limits,
    Once,
    PendingCalls,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolResult,
    tool,
)
from pegboard.approval import answer_from_result, ask_later, confirmation_call
from pegboard.errors import PendingError
from pegboard.events import ApprovalAnswered
from pegboard.testing import ScriptedApprover
from pegboard_guard import FileApprovals

KEY = "a key of sixteen bytes or more"
ANN = ReadonlyContext(session="s", user="ann")


@tool(destructive=True)
def delete(path: str) -> str:
    """Deletes a file."""
    if "KILLED_WHILE_IT_RUNS" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"deleted {path}"


@tool
async def deploy(where: str, context: ToolContext) -> str:
    """Asks for a permission, then a question."""
    await context.ask("network", [where])
    answer = await context.request_confirmation(f"Deploy to {where}?")
    return f"deployed to {where}" if answer.confirmed else f"not deployed to {where}: {answer.feedback}"


@tool
def wipe(context: ToolContext) -> str:
    """Asks from a thread."""
    context.wait(context.ask("wipe"))
    return "wiped"


@tool(read_only=True)
def look() -> str:
    """Looks."""
    return "seen"


def make_registry(**options):
    registry = ToolRegistry(**options)
    registry.register(delete, deploy, wipe, look)
    return registry


def dispatched(registry, *calls, **options):
    made = [ToolCall(name, arguments, f"call-{place}") for place, (name, arguments) in enumerate(calls)]
    return asyncio.run(registry.dispatch(made, context=ANN, **options))


def suspended(registry, name="delete", arguments=None, **options):
    """The pending call, as another process reads it."""
    outcome = dispatched(registry, (name, arguments or {"path": "a"}), approver=ask_later, **options)
    return PendingCalls.loads(outcome.pending.dumps(KEY), KEY)


def resumed(registry, pending, answer=None, context=ANN, **options):
    """The outcome of resuming the calls, each with this answer."""
    answers = {call.id: answer or Once() for call in pending}
    return asyncio.run(registry.resume(pending, answers, context=context, **options))


def one_call(function, **options):
    """A registry with one tool, and the outcome of a call of it."""
    registry = ToolRegistry(**options)
    registry.register(function)
    return registry, asyncio.run(registry.dispatch([ToolCall(function.__name__, {}, "c")], context=ANN))


def test_a_batch_is_answered_in_call_order():
    with ScriptedApprover({"delete": [Once(), Reject("keep it")], "wipe": Once()}) as approver:
        calls = [("delete", {"path": "a"}), ("wipe", {}), ("delete", {"path": "b"})]
        outcome = dispatched(make_registry(approver=approver), *calls, sequential=True)
    assert [result.text for result in outcome.results] == [
        "deleted a",
        "wiped",
        "The user rejected this call of delete: keep it",
    ]
    assert outcome.ended is None


def test_callbacks_may_answer_before_a_person_and_only_what_the_rules_leave_open():
    """One that fails denies; the approver is asked if none of them answers."""

    async def answers(request, context):
        await asyncio.sleep(0)
        return {"a": Once(), "c": Reject("not c"), "d": "yes"}.get(json.loads(request.arguments_text).get("path"))

    with ScriptedApprover({"delete": [Reject("asked")]}) as approver:
        registry = make_registry(approver=approver)
        registry.add_callback("approve_call", lambda: None)
        registry.add_callback("approve_call", answers)
        outcome = dispatched(registry, *(("delete", {"path": path}) for path in "abcd"), sequential=True)
    assert [result.kind for result in outcome.results] == [None, "rejected", "rejected", "denied"]
    assert "asked" in outcome.results[1].text
    assert "not c" in outcome.results[2].text
    registry = make_registry(permissions=Permissions([Rule("delete", "*", "deny")]))
    registry.add_callback("approve_call", answers)
    assert dispatched(registry, ("delete", {"path": "a"})).results[0].kind == "denied"


def suspending(context, *, kept, request=None):
    """Body of a tool that suspends its call and resumes where it was."""
    done = [] if context.confirmation is None else context.confirmation.stored
    if len(done) == 2:
        return f"{done} and {context.confirmation.payload}"
    context.suspend(f"Part {len(done)}?", {"part": len(done)}, stored=[*done, kept], request=request)
    return None


def test_a_call_that_suspends_itself_asks_no_approver_and_gets_its_data_back():
    @tool
    def build(context: ToolContext) -> str:
        """Builds in parts."""
        return suspending(context, kept=context.confirmation.payload if context.confirmation else "begun")

    def approver(*_):
        raise AssertionError("asked")

    registry, outcome = one_call(build, approver=approver)
    for part in ("one", "two"):
        assert outcome.results[0].kind == "confirmation_required"
        (waiting,) = pending = PendingCalls.loads(outcome.pending.dumps(KEY), KEY)
        assert "begun" not in waiting.to_text()
        outcome = resumed(registry, pending, Once(part))
    assert outcome.results[0].text == "['begun', 'one'] and two"


def test_data_of_a_suspended_call_survives_another_question():
    @tool
    async def build(context: ToolContext) -> str:
        """Asks something else once it goes on."""
        if context.confirmation is None:
            context.suspend("Begin?", stored="foundations")
        await context.request_confirmation("Sure?")
        return context.confirmation.stored

    registry, outcome = one_call(build)
    for _ in range(2):
        outcome = resumed(registry, outcome.pending, approver=ask_later)
    assert outcome.results[0].text == "foundations"


def test_a_suspended_call_may_set_the_id_of_its_request():
    @tool
    def wait(context: ToolContext) -> None:
        """Waits."""
        context.suspend("Go on?", request="asked before")

    _, outcome = one_call(wait)
    assert [waiting.id for waiting in outcome.pending] == ["asked before"]


@pytest.mark.parametrize("wrong", [{"hint": ""}, {"hint": "x" * 10_001}, {"stored": {1, 2}}, {"payload": print}])
def test_a_call_is_not_suspended_with_invalid_data(wrong):
    @tool
    def wait(context: ToolContext) -> None:
        """Waits."""
        context.suspend(**{"hint": "Go on?", **wrong})

    _, outcome = one_call(wait)
    assert (outcome.results[0].kind, len(outcome.pending)) == ("tool_failure", 0)


def test_options_of_a_batch_are_inherited_by_nested_calls():
    seen = []

    @tool
    def look(context: ToolContext) -> None:
        """Looks."""
        seen.append(dict(context.inherited()))

    registry = ToolRegistry(approver=ask_later, permissions=Permissions())
    registry.register(look)
    rules = Permissions([Rule("delete", "*", "deny")])
    asyncio.run(registry.dispatch([ToolCall("look")]))
    asyncio.run(registry.dispatch([ToolCall("look")], permissions=rules, timeout=5))
    assert seen == [{"approver": ask_later}, {"approver": ask_later, "permissions": rules, "timeout": 5}]


def test_a_batch_asks_nobody_once_its_time_to_ask_is_over():
    """What waits for an answer then stays pending, and so does what needs one later, also inside a call."""
    until, asked = Future(), []

    async def approver(request, _context):
        asked.append(request.call.name)
        until.set_result(None)
        await asyncio.Event().wait()

    @tool
    async def outer(context: ToolContext) -> str:
        """Runs calls."""
        given = await registry.dispatch([ToolCall("delete", {"path": "b"}, "1")], **context.inherited())
        return given.results[0].kind

    registry = ToolRegistry(approver=approver)
    registry.register(delete, outer)
    calls = [ToolCall("delete", {"path": "a"}, "1"), ToolCall("outer", {}, "2")]
    outcome = asyncio.run(registry.dispatch(calls, context=ANN, ask_until=until, sequential=False))
    assert [result.text for result in outcome.results][1] == "confirmation_required"
    (pending,) = outcome.pending
    assert pending.call.id == "1"
    resumed = asyncio.run(registry.resume(outcome.pending, {pending.id: Once()}, context=ANN))
    assert resumed.results[0].text == "deleted a"


class Clock(asyncio.SelectorEventLoop):
    """Event loop whose time can be advanced."""

    ahead = 0.0

    def time(self):
        return super().time() + self.ahead


async def slow(_request, _context):
    """An approver that takes longer than any limit, by the loop's clock."""
    asyncio.get_running_loop().ahead += 100
    for _ in range(3):  # lets due timers run
        await asyncio.sleep(0)
    return Once()


def run_by_clock(registry, name):
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(registry.call(name, {})).text


def test_waiting_for_a_person_isnt_the_tools_time():
    @tool(timeout=50)
    async def slow_to_be_allowed(context: ToolContext) -> str:
        """Asks."""
        await context.ask("x")
        return str((await context.request_confirmation("Sure?")).confirmed)

    registry = ToolRegistry(approver=slow)
    registry.register(slow_to_be_allowed)
    assert run_by_clock(registry, "slow_to_be_allowed") == "True"


@pytest.mark.parametrize("batch", [True, False])
def test_waiting_for_a_person_isnt_the_time_of_enclosing_calls(batch):
    """Whether they call in their own task, or several at once."""
    registry = make_registry(approver=slow)

    @tool(timeout=50)
    async def delete_both(context: ToolContext) -> str:
        """Deletes two files."""
        calls = [ToolCall("delete", {"path": path}, path) for path in "ab"]
        if not batch:
            return "".join([(await registry.call(call.name, call.arguments)).text for call in calls])
        outcome = await registry.dispatch(calls)
        return "".join(result.text for result in outcome.results)

    registry.register(delete_both)
    assert run_by_clock(registry, "delete_both") == "deleted adeleted b"


@pytest.mark.parametrize("stage", ["before_tool", "wrap_tool"])
def test_waiting_for_a_person_isnt_the_time_of_a_callback(stage):
    async def before(context):
        await context.ask("checked")

    async def wrap(context, call_next):
        await context.ask("checked")
        return await call_next()

    registry = make_registry(approver=slow, limits=evolve(Limits(), callback_timeout=50))
    registry.add_callback(stage, before if stage == "before_tool" else wrap)
    assert run_by_clock(registry, "look") == "seen"


LATER = Ask("careful", ["a*"], metadata={"why": "it is old"})


def asking(*answers, **options):
    """A registry whose callbacks answer these."""
    registry = make_registry(**options)
    for answer in answers:
        registry.add_callback("before_tool", lambda answer=answer: answer)
    return registry


def test_a_callback_that_asks_is_asked_about_with_the_call():
    """One request for both, with a permission that wasn't answered before."""
    changed = Ask("other", ["o"], arguments={"path": "b"})
    with ScriptedApprover([Once()]) as approver:
        registry = asking(LATER, changed, approver=approver)
        assert registry.call_sync("delete", {"path": "a"}).text == "deleted b"
    (first,) = approver.requests
    assert (first.permission, first.patterns, first.arguments) == ("careful", ("a*", "o", "*"), {"path": "b"})
    assert (first.always, first.wider, dict(first.metadata)) == ((), (), {"why": "it is old"})
    assert (
        first.reason == "it needs the permission 'careful', it needs the permission 'other', it is marked destructive"
    )


def test_always_may_answer_what_only_a_callback_asks():
    with ScriptedApprover([Always()]) as approver:
        registry = asking(LATER, approver=approver)
        assert [registry.call_sync("look", {}, ANN).text for _ in range(2)] == ["seen", "seen"]
    assert "always allows: exactly this, in any call" in approver.requests[0].to_text()


@pytest.mark.parametrize(("action", "kind"), [("allow", None), ("deny", "denied"), ("ask", "denied")])
def test_rules_answer_what_a_callback_asks(action, kind):
    registry = asking(LATER, permissions=Permissions([Rule("careful", "*", action)]))
    assert registry.call_sync("look", {}).kind == kind


def test_one_answer_resumes_a_call_that_a_callback_asked_about():
    registry = asking(LATER)
    assert resumed(registry, suspended(registry)).results[0].text == "deleted a"
    assert resumed(make_registry(), suspended(registry)).results[0].text == "deleted a", (
        "less is asked than was approved"
    )
    otherwise = resumed(asking(Ask("careful", ["b*"])), suspended(registry))
    assert otherwise.results[0].kind == "denied", "it was about something else"


def test_rules_added_while_a_person_is_asked_apply_to_callbacks_too():
    def approver(request, context):
        registry.permissions = Permissions([Rule("careful", "*", "deny")])
        return Once()

    registry = asking(LATER, approver=approver)
    assert registry.call_sync("look", {}).kind == "denied"


def test_a_tool_that_asks_is_resumed_over_several_turns():
    """Each answer reaches its question; the last is a no."""
    registry = make_registry()
    outcome = dispatched(registry, ("deploy", {"where": "x"}), approver=ask_later)
    for answer in (Once(), Reject("not on Fridays")):
        assert outcome.results[0].kind == "confirmation_required"
        pending = PendingCalls.loads(outcome.pending.dumps(KEY), KEY)
        outcome = resumed(registry, pending, answer, approver=ask_later)
    assert outcome.results[0].text == "not deployed to x: not on Fridays"
    assert len(outcome.pending) == 0


def test_a_client_that_knows_only_messages_can_answer():
    registry = make_registry()
    outcome = dispatched(registry, ("delete", {"path": "a"}), ("delete", {"path": "b"}), approver=ask_later)
    answers = {call.id: answer_from_result({"confirmed": True}) for call in map(confirmation_call, outcome.pending)}
    done = asyncio.run(registry.resume(outcome.pending, answers, context=ANN))
    assert [result.text for result in done.results] == ["deleted a", "deleted b"]


@pytest.mark.parametrize("together", [True, False])
def test_a_call_that_is_suspended_twice_and_approved_twice_runs_once(together):
    """As by a host that repeats a turn after a crash; in one resumption or in two."""
    registry = make_registry()
    pending = [suspended(registry) for _ in range(2)]
    assert pending[0].calls[0].id != pending[1].calls[0].id
    batches = [PendingCalls([*pending[0], *pending[1]])] if together else pending
    results = [result for batch in batches for result in resumed(registry, batch).results]
    assert [result.kind or result.text for result in results] == ["deleted a", "unknown_outcome"]


def test_an_approval_after_a_rejection_runs_nothing():
    registry, results = make_registry(), []
    pending = suspended(registry)
    for answer in (Reject(), Once()):
        results += resumed(registry, pending, answer).results
    assert [result.kind for result in results] == ["rejected", "unknown_outcome"]


def test_calls_without_ids_are_identified_by_position():
    """Two of them are different calls, and each runs once, even if suspended and approved again."""
    registry, calls, texts = make_registry(), [ToolCall("delete", {"path": "a"})] * 2, []
    for message in ("1", "1", "2"):
        context = evolve(ANN, message=message)
        outcome = asyncio.run(registry.dispatch(calls, context=context, approver=ask_later))
        done = resumed(registry, outcome.pending, context=context)
        texts.append([result.kind or result.text for result in done.results])
    assert texts == [["deleted a"] * 2, ["unknown_outcome"] * 2, ["deleted a"] * 2]


@pytest.mark.parametrize("other", [{"invocation": "2"}, {"message": "2"}, {"user": "bob"}, {"session": "t"}])
def test_the_same_id_elsewhere_is_another_call(other):
    registry, one = make_registry(), evolve(ANN, invocation="1", message="1")
    for context in (one, evolve(one, **other)):
        call = ToolCall("delete", {"path": "a"}, "call_0")
        outcome = asyncio.run(registry.dispatch([call], context=context, approver=ask_later))
        assert resumed(registry, outcome.pending, context=context).results[0].text == "deleted a"


def test_generated_ids_do_not_identify_calls():
    """For a provider without ids: each of its messages begins with `call_0`."""
    registry = make_registry()
    for _ in range(2):
        outcome = asyncio.run(
            registry.dispatch([ToolCall("delete", {"path": "a"}, "call_0")], context=ANN, approver=ask_later)
        )
        assert resumed(registry, outcome.pending).results[0].text == "deleted a"


def test_another_user_or_session_cant_answer():
    registry = make_registry()
    pending = suspended(registry)
    for other in (
        ReadonlyContext(session="s", user="bob"),
        ReadonlyContext(session="t", user="ann"),
        ReadonlyContext(),
    ):
        done = resumed(registry, pending, context=other)
        assert (done.results, done.ignored, done.pending) == ((), (pending.calls[0].id,), pending)


DENY = Permissions([Rule("*", "*", "deny")])


@pytest.mark.parametrize("forbid", [True, False])
@pytest.mark.parametrize(("name", "arguments"), [("delete", {"path": "a"}), ("deploy", {"where": "x"}), ("wipe", {})])
def test_rules_that_change_while_a_person_is_asked_hold_for_that_call(name, arguments, forbid):
    """Whether it asks before it runs, or from inside."""
    registry = make_registry()

    async def approver(request, context):
        registry.permissions = Permissions([Rule("*", "*", "deny", forbid=forbid)])
        return Once()

    (result,) = dispatched(registry, (name, arguments), approver=approver).results
    assert result.kind == "denied"
    assert "is denied for this call" in result.text


@pytest.mark.parametrize("sequential", [True, False])
def test_rules_that_change_hold_for_calls_of_the_batch_that_havent_started(sequential):
    """They wait for the first one, or for a slot; running calls go on."""
    registry = make_registry()

    @tool(concurrency="exclusive")
    async def change(to: str) -> str:
        """Changes the rules."""
        action = {"deny": "deny", "ask": "ask"}[to]
        registry.permissions = Permissions([Rule("note", "*", action)])
        return "changed"

    @tool(concurrency="exclusive")
    async def note() -> str:
        """Runs later."""
        return "noted"

    registry.register(change, note)
    for to, text in (("deny", "is denied"), ("ask", "approval")):
        registry.permissions = None
        outcome = dispatched(registry, ("note", {}), ("change", {"to": to}), ("note", {}), sequential=sequential)
        first, changed, last = outcome.results
        assert (first.text, changed.text, last.kind) == ("noted", "changed", "denied")
        assert text in last.text


def test_permissions_of_a_batch_stay_its_own():
    registry = make_registry()

    async def approver(request, context):
        registry.permissions = DENY
        return Once()

    outcome = dispatched(registry, ("delete", {"path": "a"}), approver=approver, permissions=Permissions())
    assert outcome.results[0].text == "deleted a"


def test_calls_of_a_batch_with_its_own_rules_are_not_resumed_without_rules():
    """The attempt doesn't use up the answers, and rules that deny now apply."""
    registry, asks = make_registry(), Permissions([Rule("*", "*", "ask")])
    pending = suspended(registry, permissions=asks)
    for other in (registry, make_registry(permissions=asks)):
        with pytest.raises(PendingError, match="delete was suspended under permissions of its own batch: pass them"):
            resumed(other, pending)
    assert resumed(registry, pending, permissions=asks).results[0].text == "deleted a"
    other = suspended(registry, arguments={"path": "b"}, permissions=asks)
    assert resumed(registry, other, permissions=DENY).results[0].kind == "denied"


ASK = """
import asyncio, sys
from dispatch.approval.test_whole_way import KEY, make_registry, suspended
sys.stdout.write(suspended(make_registry()).dumps(KEY))
"""

ANSWER = """
import asyncio, sys
from dispatch.approval.test_whole_way import KEY, PendingCalls, make_registry, resumed
from pegboard_guard import FileApprovals
pending = PendingCalls.loads(sys.stdin.read(), KEY)
print(resumed(make_registry(grants=FileApprovals(sys.argv[1])), pending).results[0].text)
"""


@pytest.fixture
def script(pytestconfig):
    """Runs a script in a process of its own."""

    def run(text, *arguments, given="", code=0, **variables):
        environment = {**os.environ, "PYTHONPATH": str(pytestconfig.rootpath / "tests"), **variables}
        command = [sys.executable, "-c", text, *arguments]
        done = subprocess.run(command, input=given, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout

    return run


@pytest.mark.slow
def test_confirmation_outlives_the_process(script, tmp_path):
    """Asked in one, run in another; in a third it has been used."""
    text = script(ASK)
    store = str(tmp_path / "approvals.json")
    assert script(ANSWER, store, given=text) == "deleted a\n"
    assert script(ANSWER, store, given=text).startswith("delete was not run again: its approval was used before")


@pytest.mark.slow
def test_an_approved_call_whose_process_was_killed_has_an_unknown_outcome(script, tmp_path):
    """It may have run, so that it isn't run again, and is not called denied."""
    text, store = script(ASK), FileApprovals(tmp_path / "approvals.json")
    pending = PendingCalls.loads(text, KEY)
    script(ANSWER, str(store.path), given=text, code=-signal.SIGKILL, KILLED_WHILE_IT_RUNS="1")
    (result,) = resumed(make_registry(grants=store), pending).results
    assert result.kind == "unknown_outcome"
    assert result.text == (
        "delete was not run again: its approval was used before, and the outcome isn't known here. "
        "Find out what it has done before asking again."
    )


@pytest.mark.parametrize("cancels", [False, True])
@pytest.mark.parametrize("number", [1, 2])
async def test_an_approved_call_doesnt_run_once_its_batch_has_ended(number, cancels):
    """Neither after an interruption nor after cancellation that comes together with the answer."""
    ran = []

    async def answer(request, context):
        return Once()

    @tool(destructive=True)
    async def note() -> str:
        """Never waits."""
        ran.append(True)
        return "noted"

    def end(event):
        if isinstance(event, ApprovalAnswered):
            running.cancel() if cancels else batch.interrupt()

    registry = ToolRegistry(approver=answer)
    registry.register(note)
    made = [ToolCall("note", {}, f"{index}") for index in range(number)]
    batch = await registry.batch(made, context=ANN, listener=end)
    running = asyncio.ensure_future(batch.run())
    await asyncio.wait([running])
    assert ([result.kind for result in batch.outcome.results], ran) == (["skipped"] * number, [])


async def test_the_result_of_a_call_that_waits_has_its_pending_call():
    """Also of one without a batch, to be stored and resumed; the result's JSON leaves it out."""
    registry = ToolRegistry(approver=ask_later)

    @registry.register
    @tool(destructive=True)
    def wipe(disk: int) -> str:
        """Wipes a disk."""
        return f"wiped {disk}"

    result = await registry.call("wipe", {"disk": 2}, call_id="7")
    assert (result.kind, result.pending.call.id, result.pending.arguments) == (
        "confirmation_required",
        "7",
        {"disk": 2},
    )
    assert result == ToolResult.from_data(result.to_data())
    assert ToolResult.from_data(result.to_data()).pending is None
    pending = PendingCalls.loads(PendingCalls([result.pending]).dumps())
    resumed = await registry.resume(pending, {result.pending.id: Once()})
    assert (resumed.results[0].text, resumed.results[0].pending) == ("wiped 2", None)
    assert (await registry.call("wipe", {"disk": 2}, approver=lambda request, context: Once())).pending is None


async def test_the_results_of_a_batch_have_the_pending_calls_of_its_outcome():
    """Under the ids that these have there, where a tool has used one twice."""
    registry = ToolRegistry()

    @registry.register
    def wait(context: ToolContext) -> str:
        """Waits."""
        context.suspend("Go on?", request="same same same same same same")

    outcome = await registry.dispatch([ToolCall("wait", {}, "1"), ToolCall("wait", {}, "2")])
    assert [result.pending for result in outcome.results] == list(outcome.pending)
    assert len({result.pending.id for result in outcome.results}) == 2
