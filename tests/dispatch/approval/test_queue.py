"""The approval queue: asking, and what an answer means for other requests."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from dispatch.approval.samples import a_request, a_tool, shared_by_calls
from pegboard import (
    Always,
    Approver,
    CallError,
    Later,
    Limits,
    Once,
    Preview,
    ReadonlyContext,
    Reject,
    Rule,
    ToolContext,
    threads,
)
from pegboard.approval import MemoryGrants, session_key, tool_key
from pegboard.dispatch.approval.queue import ApprovalQueue


def context(session="s", user=None, root=None):
    return ToolContext(ReadonlyContext(session=session, user=user, root=root))


TOP = ReadonlyContext(session="s")


def put(shared, request, context, **options):
    """Queues a request for the approver of the settings."""
    snapshot, settings = shared
    approver, runtime = settings.approver, snapshot.runtime
    approvers = approver if isinstance(approver, list | tuple) else () if approver is None else (approver,)
    facts = {"covered": lambda: False, "grants": runtime.grants, "seconds": settings.limits.approval_timeout}
    return runtime.approvals.ask(request, context, approvers, **facts | options)


def asked(approver, request=None, until=None, **options):
    """The result of one request; checks that it leaves nothing behind."""
    shared = shared_by_calls(approver, **options)

    async def main():
        before = asyncio.all_tasks()
        try:
            return await put(shared, request or a_request(), context(), until=until)
        finally:
            assert asyncio.all_tasks() == before
            assert shared[0].runtime.approvals._entries == {}
            assert shared[0].runtime.approvals._approver_locks.is_idle

    return asyncio.run(main())


def granted(grants, session="s", user=None, tool="delete"):
    """What the tool is allowed in this session, as rules."""
    return grants.rules(session_key(ReadonlyContext(session=session, user=user)), tool_key(a_tool(tool)))


def denied(approver, **options):
    with pytest.raises(CallError) as caught:
        asked(approver, **options)
    assert caught.value.kind == "denied"
    return caught.value


class Person:
    """Approver whose answers the test controls; `shown` has the requests so far."""

    def __init__(self, *, one_at_a_time=False):
        self.one_at_a_time = one_at_a_time
        self.shown = []
        self.cancelled = []
        self._answers = {}
        self._seen = asyncio.Event()

    async def approve(self, request, context):
        self.shown.append(request.call.name)
        self._seen.set()
        future = self._answers[request.call.name] = asyncio.get_running_loop().create_future()
        try:
            return await future
        except asyncio.CancelledError:
            self.cancelled.append(request.call.name)
            raise

    async def sees(self, *names):
        while not set(names) <= set(self.shown):
            self._seen.clear()
            await asyncio.wait_for(self._seen.wait(), 60)

    def answers(self, name, answer):
        self._answers[name].set_result(answer)


def ask(shared, name, *, session="s", user=None, root=None, covered=lambda: False):
    request = a_request(name)
    return asyncio.create_task(put(shared, request, context(session, user, root), covered=covered))


class Plain:
    def approve(self, request, context):
        return Once()


def test_the_protocol_is_the_method():
    assert isinstance(Plain(), Approver)
    assert not isinstance(Plain().approve, Approver)


def test_once_nobody_is_to_be_asked_any_more_the_answer_comes_later():
    asked_about, until = [], Future()

    async def approver(request, _context):
        asked_about.append(request)
        until.set_result(None)
        await asyncio.Event().wait()

    answer, _ = asked(approver, until=until)
    assert (answer, len(asked_about)) == (Later(), 1)
    assert asked(approver, until=until)[0] == Later()
    assert len(asked_about) == 1
    with pytest.raises(CallError, match="there is no approver"):
        asked(None, until=until)


@pytest.mark.parametrize("answer", [Once(), Once(7), Always(), Reject("no"), Later()])
def test_a_person_answers(answer):
    async def function(request, context):
        return answer

    class Plain:
        def approve(self, request, context):
            return answer

    request = a_request()
    for approver in (function, Plain(), lambda request, context: answer, partial(function)):
        assert asked(approver, request) == (answer, request)


async def test_a_plain_approver_may_block():
    """It runs in a thread, with the loop free."""
    free, threads = threading.Event(), []

    def approver(request, context):
        threads.append(threading.current_thread())
        assert free.wait(60)
        return Once()

    shared = shared_by_calls(approver)

    task = ask(shared, "delete")
    await asyncio.sleep(0)
    free.set()
    assert (await task)[0] == Once()
    assert threads != [threading.main_thread()]


async def never(request, context):
    await asyncio.get_running_loop().create_future()


def test_no_answer_in_time_is_a_denial():
    assert "no answer came within 0.02 s" in denied(never, seconds=0.02).text


def test_a_person_has_five_minutes_by_default():
    """Settable, also to no limit at all."""
    assert Limits().approval_timeout == 300.0
    assert asked(lambda request, context: Once(), seconds=None)[0] == Once()


@pytest.mark.parametrize(
    "fault",
    [
        ValueError("broken"),
        SystemExit(1),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        StopAsyncIteration(),
        RuntimeError(),
        GeneratorExit(),
        type("Mine", (BaseException,), {})(),
    ],
)
def test_an_approver_that_fails_denies_and_is_logged(fault, logged, caplog):
    async def fails(request, context):
        raise fault

    def fails_plainly(request, context):
        raise fault

    for approver in (fails, fails_plainly):
        error = denied(approver)
        assert error.text == "delete needs approval and asking for it failed. It was denied. Continue without it."
        assert "the approver failed" in error.detail
        assert [who for who, _ in logged()] == ["approver"]
        caplog.clear()


def test_an_approver_that_cancels_its_own_task_denies_at_once():
    async def cancels_itself(request, context):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    assert "asking for it failed" in denied(cancels_itself, seconds=60).text


@pytest.mark.parametrize("nonsense", [True, "once", "yes", 1, {"answer": "once"}, Once, Always, object(), [], b""])
def test_an_invalid_answer_denies(nonsense, logged):
    error = denied(lambda request, context: nonsense)
    assert "an approver may answer" in error.detail
    assert [who for who, _ in logged()] == ["approver"]


def test_the_person_sees_a_preview():
    """Made right before the approver is asked; the result has the request as it was shown."""
    request = a_request(tool=a_tool(preview=lambda arguments: f"deletes {arguments['path']}"))
    seen = []

    async def approver(request, context):
        seen.append(request.preview)
        return Later()

    _, shown = asked(approver, request)
    assert seen == [Preview("deletes a.txt")] == [shown.preview]
    assert shown.id == request.id


async def test_what_is_covered_already_isnt_asked():
    shared = shared_by_calls(lambda *_: pytest.fail("asked"))
    assert (await ask(shared, "delete", covered=lambda: True))[0] == Once()


async def test_rules_that_fail_cover_nothing(logged):
    def covered():
        raise OSError("the store is gone")

    shared = shared_by_calls(lambda *_: Reject())
    answer, _ = await ask(shared, "delete", covered=covered)
    assert [who for who, _ in logged()] == ["the permission rules"]
    assert answer == Reject()


def test_always_is_granted_to_this_user_in_this_session_and_to_the_tool_as_it_is():
    grants = MemoryGrants()
    asked(lambda *_: Always(), grants=grants)
    asked(lambda *_: Always(["b*"]), grants=grants)
    assert granted(grants) == (Rule("delete", "a.txt", "allow", literal=True), Rule("delete", "b*", "allow"))
    assert granted(grants, "t") == granted(grants, user="bob") == granted(grants, tool="other") == ()


def test_always_may_expire():
    now = [0.0]
    grants = MemoryGrants(lambda: now[0])
    asked(lambda *_: Always(seconds=60), grants=grants)
    assert len(granted(grants, "s")) == 1
    now[0] = 60.0
    assert granted(grants, "s") == ()


def test_always_without_patterns_is_once():
    grants = MemoryGrants()
    asked(lambda *_: Always(), a_request(always=()), grants=grants)
    assert granted(grants, "s") == ()


def test_always_counts_once_if_the_store_fails(logged):
    class Full(MemoryGrants):
        def add(self, *arguments):
            raise OSError("disk full")

    assert asked(lambda *_: Always(), grants=Full())[0] == Always()
    assert [who for who, _ in logged()] == ["storing a grant"]


async def test_always_settles_what_waits_in_this_session_and_is_covered_now():
    """What isn't covered, or is in another session, still waits."""
    person, grants = Person(), MemoryGrants()
    shared = shared_by_calls(person, grants=grants)
    tasks = {
        "one": ask(shared, "one"),
        "two": ask(shared, "two", covered=lambda: bool(granted(grants, tool="one"))),
        "three": ask(shared, "three"),
        "other": ask(shared, "other", session="t", covered=lambda: bool(granted(grants, tool="one"))),
        "nested": ask(shared, "nested", session="t", root=TOP, covered=lambda: bool(granted(grants, tool="one"))),
    }
    await person.sees(*tasks)
    person.answers("one", Always())
    assert (await tasks["one"])[0] == Always()
    assert [(await tasks[name])[0] for name in ("two", "nested")] == [Once(), Once()]
    assert sorted(person.cancelled) == ["nested", "two"]
    assert [entry.request.call.name for entry in shared[0].runtime.approvals._entries] == ["three", "other"]
    person.answers("three", Once())
    person.answers("other", Once())
    await asyncio.gather(*tasks.values())


@pytest.mark.parametrize(
    ("answer", "own", "others", "settled"),
    [
        (Reject("stop that"), {}, {}, Reject("stop that", rejected_with="one")),
        (Reject("stop that"), {}, {"session": "t"}, None),
        (Reject("stop that"), {}, {"session": "t", "root": TOP}, None),
        (Reject("stop that"), {"session": "t", "root": TOP}, {}, None),
        (Reject(), {"session": None, "user": "ann"}, {"session": None, "user": "bob"}, None),
        (Once(), {}, {}, None),
        (Later(), {}, {}, None),
    ],
)
async def test_reject_rejects_what_waits_in_this_session(answer, own, others, settled):
    """And no other answer settles another request; users without a session don't share one."""
    person = Person()
    shared = shared_by_calls(person)
    one, two = ask(shared, "one", **own), ask(shared, "two", **others)
    await person.sees("one", "two")
    person.answers("one", answer)
    assert (await one)[0] == answer
    if settled is None:
        assert not two.done()
        person.answers("two", Once())
    assert (await two)[0] == (settled or Once())


def test_a_later_answer_to_another_request_does_not_change_an_answer():
    """Also while its grant is still being stored."""

    loop = started = None
    stored = threading.Event()

    class Slow(MemoryGrants):
        def add(self, *arguments):
            loop.call_soon_threadsafe(started.set)
            stored.wait(60)
            super().add(*arguments)

    async def main():
        nonlocal loop, started
        loop, started = asyncio.get_running_loop(), asyncio.Event()
        person, grants = Person(), Slow()
        shared = shared_by_calls(person, grants=grants)
        tasks = {name: ask(shared, name) for name in ("one", "two", "three")}
        await person.sees(*tasks)
        person.answers("one", Always())
        await started.wait()
        person.answers("two", Reject())
        assert (await tasks["two"])[0] == Reject()
        assert (await tasks["three"])[0] == Reject(rejected_with="two")
        assert not tasks["one"].done()
        stored.set()
        assert (await tasks["one"])[0] == Always()

    asyncio.run(main())


def test_a_hanging_store_delays_an_answer_by_the_approval_timeout_at_most():
    free = threading.Event()

    class Hanging(MemoryGrants):
        def add(self, *arguments):
            free.wait(60)

    async def approver(request, context):
        return Always()

    assert asked(approver, grants=Hanging(), seconds=0.5)[0] == Always()
    free.set()


async def test_requests_rejected_along_are_rejected_first():
    """The rejection itself may end the turn, and they would be skipped."""
    person, order = Person(), []
    shared = shared_by_calls(person)
    tasks = [ask(shared, name) for name in ("one", "two", "three")]
    for name, task in zip(("one", "two", "three"), tasks, strict=True):
        task.add_done_callback(lambda _, name=name: order.append(name))
    await person.sees("one", "two", "three")
    person.answers("two", Reject())
    await asyncio.gather(*tasks)
    assert order == ["one", "three", "two"]


async def test_a_terminal_gets_one_request_at_a_time():
    person = Person(one_at_a_time=True)
    shared = shared_by_calls(person)
    tasks = [ask(shared, name, session=name) for name in ("one", "two", "three")]
    for name in ("one", "two", "three"):
        await person.sees(name)
        assert person.shown[-1] == name
        person.answers(name, Once())
    await asyncio.gather(*tasks)
    assert person.shown == ["one", "two", "three"]


async def test_a_bound_method_is_one_approver():
    """Though each access gives another object."""

    class Terminal:
        inside, most = 0, 0

        def ask(self, request, context):
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.inside -= 1
            return Once()

    terminal, approvals = Terminal(), ApprovalQueue()
    several = [shared_by_calls(terminal.ask, approvals=approvals) for _ in range(4)]
    await asyncio.gather(*(ask(shared, "delete", session=str(n)) for n, shared in enumerate(several)))
    assert terminal.most == 1


@pytest.mark.parametrize(("answer", "outcome"), [(Always(), Once()), (Reject(), Reject(None, rejected_with="one"))])
async def test_a_request_settled_in_the_queue_is_never_shown(answer, outcome):
    person, grants = Person(one_at_a_time=True), MemoryGrants()
    shared = shared_by_calls(person, grants=grants)
    tasks = [ask(shared, name, covered=lambda: bool(granted(grants, tool="one"))) for name in ("one", "two", "three")]
    await person.sees("one")
    person.answers("one", answer)
    assert [result for result, _ in await asyncio.gather(*tasks)] == [answer, outcome, outcome]
    assert person.shown == ["one"]
    assert shared[0].runtime.approvals._approver_locks.is_idle


@pytest.mark.parametrize("answered", [True, False])
async def test_the_time_of_a_queued_request_counts_from_the_last_answer(answered, monkeypatch):
    """A person who answers has the whole time for each; one who doesn't is waited for only once."""
    person, approvals, clock = Person(one_at_a_time=True), ApprovalQueue(), time.monotonic
    one = ask(shared_by_calls(person, approvals=approvals), "one")
    two = ask(shared_by_calls(person, approvals=approvals, seconds=600), "two", session="t")
    await person.sees("one")
    waiting = list(approvals._entries)[1]
    before = waiting.since
    if answered:
        person.answers("one", Once())
    else:
        monkeypatch.setattr(time, "monotonic", lambda: clock() + 60)  # the time is up
    await asyncio.wait([one])
    await person.sees("two")
    assert (waiting.since > before) is answered
    person.answers("two", Once())
    assert (await two)[0] == Once()
    assert (one.exception() is None) is answered


async def test_a_terminal_that_still_shows_a_request_gets_no_other():
    """A thread can't be ended: the next question waits until it is free, or is too late."""
    begun, free, shown = threading.Event(), threading.Event(), []

    def terminal(request, context):
        shown.append(request.call.name)
        begun.set()
        free.wait(60)
        return Once()

    shared = shared_by_calls(terminal, seconds=0.05)
    one = ask(shared_by_calls(terminal, approvals=shared[0].runtime.approvals), "one")
    await asyncio.to_thread(begun.wait, 60)
    one.cancel()
    with pytest.raises(CallError, match="no answer came"):
        await ask(shared, "two")
    assert shown == ["one"]
    free.set()
    assert (await ask(shared_by_calls(terminal, approvals=shared[0].runtime.approvals), "three"))[0] == Once()
    assert shown == ["one", "three"]


async def test_a_request_cancelled_before_its_thread_starts_releases_the_lock(monkeypatch):
    monkeypatch.setattr(threads, "SHARED", threads.WorkerPool(most=1))
    approvals, begun, free = ApprovalQueue(), threading.Event(), threading.Event()

    def terminal(request, context):
        begun.set()
        free.wait(60)
        return Once()

    def other(request, context):
        raise AssertionError("no thread is free for it")

    one = ask(shared_by_calls(terminal, approvals=approvals), "one")
    await asyncio.to_thread(begun.wait, 60)
    for _ in range(2):
        with pytest.raises(CallError, match="no answer came"):
            await ask(shared_by_calls(other, approvals=approvals, seconds=0.02), "two", session="t")
    free.set()
    await one
    assert approvals._approver_locks.is_idle


def test_a_system_without_threads_denies(monkeypatch):
    def fail(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "SHARED", threads.WorkerPool())
    monkeypatch.setattr(threading.Thread, "start", fail)
    assert "asking for it failed" in denied(lambda *_: Once()).text


async def policy(request, context):
    return {"harmless": Once(), "harmful": Reject("not that")}.get(request.call.name)


@pytest.mark.parametrize(
    ("approvers", "name", "answer", "seen"),
    [
        ([policy], "harmless", Once(), []),
        ([policy, "person"], "harmful", Reject("not that"), []),
        ([policy, "person"], "other", Always(), ["other"]),
        ((lambda *_: None, policy, "person"), "other", Always(), ["other"]),
        (["person", policy], "harmless", Always(), ["harmless"]),
        ([policy], "other", "there is no approver", []),
        ([], "harmless", "there is no approver", []),
        ([policy, 5], "harmless", "asking for it failed", []),
        ([lambda *_: 1 / 0, "person"], "other", "asking for it failed", []),
    ],
)
def test_of_several_approvers_the_first_that_has_an_answer_counts(approvers, name, answer, seen):
    """One that fails denies: the next one might allow what it would have refused."""
    shown = []

    def person(request, context):
        shown.append(request.call.name)
        return Always()

    approvers = type(approvers)(person if each == "person" else each for each in approvers)
    if isinstance(answer, str):
        assert answer in denied(approvers, request=a_request(name)).text
    else:
        assert asked(approvers, a_request(name))[0] == answer
    assert shown == seen


@pytest.mark.parametrize("one_at_a_time", [False, True])
async def test_cancellation_leaves_nothing_behind(one_at_a_time):
    """Whether it is shown or queued; the others go on."""
    person = Person(one_at_a_time=one_at_a_time)
    shared = shared_by_calls(person)
    one, two, three = (ask(shared, name, session=name) for name in ("one", "two", "three"))
    await person.sees("one")
    two.cancel()
    one.cancel()
    await asyncio.wait([one, two])
    assert one.cancelled()
    assert two.cancelled()
    await person.sees("three")
    person.answers("three", Once())
    assert (await three)[0] == Once()
    assert shared[0].runtime.approvals._entries == {}
    assert shared[0].runtime.approvals._approver_locks.is_idle
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_an_approver_that_ignores_its_cancellation_changes_nothing():
    """A late answer is ignored."""
    grants = MemoryGrants()

    async def stubborn(request, context):
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return Always(["*"])

    denied(stubborn, seconds=0.02, grants=grants)
    assert granted(grants, "s") == ()


async def test_an_approver_that_does_not_end_is_abandoned(monkeypatch):
    monkeypatch.setattr("pegboard.dispatch.approval.queue.GRACE_SECONDS", 0.02)
    free = asyncio.Event()

    async def stubborn(request, context):
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    shared = shared_by_calls(stubborn, seconds=0.02)
    with pytest.raises(CallError, match="no answer came"):
        await ask(shared, "delete")
    assert shared[0].runtime.approvals._entries == {}
    free.set()


def test_requests_of_several_loops_are_settled_together():
    """Each in its own loop, by an answer given in another."""
    approvals, grants = ApprovalQueue(), MemoryGrants()
    barrier, answers = threading.Barrier(4, timeout=60), []

    async def approver(request, context):
        await asyncio.to_thread(barrier.wait)
        return Reject() if request.call.name == "n0" else await asyncio.get_running_loop().create_future()

    def state(name):
        shared = shared_by_calls(approver, approvals=approvals, grants=grants)

        async def main():
            answers.append((await ask(shared, name))[0])

        asyncio.run(main())

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(state, ("n0", "n1", "n2", "n3")))
    assert sorted(map(repr, answers)) == sorted(map(repr, [Reject(), *[Reject(rejected_with="n0")] * 3]))
    assert approvals._entries == {}


def test_a_request_of_a_closed_loop_is_ignored():
    approvals = ApprovalQueue()
    loop = asyncio.new_event_loop()
    shared = shared_by_calls(never, approvals=approvals)

    async def start():
        return ask(shared, "lost"), asyncio.current_task()

    task, _ = loop.run_until_complete(start())
    loop.run_until_complete(asyncio.sleep(0))
    left = asyncio.all_tasks(loop)
    loop.close()
    assert len(approvals._entries) == 1

    async def main():
        return await ask(shared_by_calls(lambda *_: Reject(), approvals=approvals), "two")

    assert asyncio.run(main())[0] == Reject()
    for each in left:
        each._log_destroy_pending = False
    del task, each, left
