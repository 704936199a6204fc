from __future__ import annotations

import asyncio
import gc
import math
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest
from attrs import define, field
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from pegboard import Concurrency, Policy, ReadonlyContext, Tool, ToolCall, ToolRegistry, ToolSpec
from pegboard.dispatch import locks
from pegboard.dispatch.locks import (
    EXCLUSIVE,
    SHARED,
    UNKNOWN,
    BatchScheduler,
    LockHandle,
    LockManager,
    LockRequest,
    Semaphore,
    lock_request,
)

READ, WRITE = LockRequest(key="a", writes=False), LockRequest(key="a")
READ_B, WRITE_B = LockRequest(key="b", writes=False), LockRequest(key="b")
SLOT = LockRequest(slots=("tool", 1))


async def steps():
    """Lets everything happen that can."""
    for _ in range(6):
        await asyncio.sleep(0)


class Room:
    """A lock manager and its calls, by name."""

    def __init__(self, most=None):
        self.locks, self.calls, self.batches = LockManager(most), {}, {}

    async def come(self, name, request=SHARED, parent=None, batch=None):
        """`batch` is how many calls of its batch may run."""
        outer = None if parent is None else self.calls[parent]
        slots = None if batch is None else self.batches.setdefault(batch, Semaphore(batch))
        acquiring = self.locks.acquire(request, parent=outer, slots=slots)
        self.calls[name] = asyncio.ensure_future(self.wait(name, acquiring))
        await steps()

    async def wait(self, name, acquiring):
        self.calls[name] = await acquiring

    async def end(self, *names):
        for name in names:
            self.calls.pop(name).release()
            await steps()

    async def cancel(self, name):
        task = self.calls.pop(name)
        task.cancel()
        await steps()
        assert task.cancelled()

    @property
    def running(self):
        return "".join(name for name in self.calls if isinstance(self.calls[name], LockHandle))


# One after the other --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "runs"),
    [
        pytest.param([WRITE, WRITE, WRITE, WRITE], ["1", "2", "3", "4"], id="in order of arrival"),
        pytest.param([READ, WRITE, READ, READ], ["1", "2", "34"], id="a waiting writer isn't starved by readers"),
        pytest.param([SHARED, EXCLUSIVE, SHARED, READ], ["1", "2", "34"], id="nor an exclusive call by shared ones"),
        pytest.param(
            [WRITE, WRITE, SHARED, WRITE_B], ["134", "2"], id="a call overtakes those it doesn't conflict with"
        ),
        pytest.param([WRITE, WRITE, EXCLUSIVE], ["1", "2", "3"], id="an exclusive call waits for those before it"),
    ],
)
async def test_calls_that_wait_are_served_in_their_order(calls, runs):
    room = Room()
    for name, request in enumerate(calls, 1):
        await room.come(str(name), request)
    for running in runs:
        assert room.running == running
        await room.end(*running)
    assert room.locks.is_idle


async def test_a_shared_call_enters_unless_an_exclusive_one_runs_or_waits():
    locks = LockManager()
    assert locks.enter("first")
    held = asyncio.ensure_future(locks.acquire(EXCLUSIVE))
    await steps()
    assert not locks.enter("second")
    assert not held.done()
    locks.leave("first")
    handle = await held
    assert not locks.enter("second")
    handle.release()
    assert locks.enter("second")
    locks.leave("second")
    assert locks.is_idle


async def test_a_call_that_has_entered_has_a_handle_for_its_nested_calls():
    locks = LockManager()
    assert locks.handle_of("call") is None
    locks.enter("call")
    nested = await locks.acquire(EXCLUSIVE, parent=locks.handle_of("call"))
    assert not locks.enter("other")
    nested.release()
    locks.leave("call")
    assert locks.is_idle


# Cancellation ---------------------------------------------------------------------------------------------------------


async def test_a_call_cancelled_while_being_woken_passes_the_lock_on():
    room = Room()
    for name in "123":
        await room.come(name, WRITE)
    room.calls.pop("1").release()
    room.calls.pop("2").cancel()
    await steps()
    assert room.running == "3"
    await room.end("3")
    assert room.locks.is_idle


async def test_a_dropped_coroutine_leaves_the_queue():
    locks = LockManager()
    held = await locks.acquire(WRITE)
    waiting = locks.acquire(WRITE)
    waiting.send(None)
    del waiting
    gc.collect()
    held.release()
    assert locks.is_idle


def test_a_wait_in_a_loop_that_is_closed_stops_no_other_call():
    locks, held = LockManager(), []

    async def wait():
        held.append(await locks.acquire(WRITE))
        waiting = locks.acquire(WRITE)
        waiting.send(None)
        return waiting  # never continued, never closed

    async def last():
        acquiring = asyncio.ensure_future(locks.acquire(WRITE))
        await steps()
        held[0].release()
        (await acquiring).release()

    left = asyncio.run(wait())
    asyncio.run(last())
    assert locks.is_idle
    left.close()
    assert locks.is_idle


# From several threads and loops ---------------------------------------------------------------------------------------


async def test_a_wait_may_be_cancelled_just_as_another_thread_wakes_it():
    locks = LockManager()
    held = await locks.acquire(WRITE)
    waiting = asyncio.ensure_future(locks.acquire(WRITE))
    await steps()
    thread = threading.Thread(target=held.release)
    thread.start()
    thread.join()  # without a step of this loop
    waiting.cancel()
    await steps()
    assert waiting.cancelled()
    assert locks.is_idle


def test_an_exclusive_call_runs_alone_across_threads():
    locks, running, seen = LockManager(), [], []

    async def call(request):
        me = object()
        handle = None if request is SHARED and locks.enter(me) else await locks.acquire(request)
        running.append(request)
        seen.append(len(running) if EXCLUSIVE in running else 1)
        await asyncio.sleep(0)
        running.remove(request)
        locks.leave(me) if handle is None else handle.release()

    async def main():
        await asyncio.gather(*(call(request) for request in [SHARED, EXCLUSIVE, WRITE, SHARED] * 25))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: asyncio.run(main()), range(4)))
    assert (len(seen), set(seen)) == (400, {1})
    assert locks.is_idle


async def test_a_release_by_a_finaliser_in_the_middle_of_a_change_is_carried_out_after_it(monkeypatch):
    locks = LockManager()
    held = await locks.acquire(WRITE)
    locks.enter("shared")
    locks.handle_of("shared")
    advance = locks._advance

    def interrupted(handle):
        held.release()
        locks.leave("shared")
        assert not locks.is_idle
        return advance(handle)

    monkeypatch.setattr(locks, "_advance", interrupted)
    (await locks.acquire(WRITE_B)).release()
    assert locks.is_idle


# Slots ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_under_which_no_call_could_run_is_refused(most):
    with pytest.raises(ValueError, match="at least"):
        Semaphore(most)


# Nested calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outer", [SHARED, READ, WRITE, EXCLUSIVE, SLOT])
@pytest.mark.parametrize("inner", [SHARED, READ, WRITE, EXCLUSIVE, SLOT])
@pytest.mark.parametrize("innermost", [SHARED, WRITE, EXCLUSIVE, SLOT])
async def test_a_nested_call_does_not_wait_for_its_callers(outer, inner, innermost):
    room = Room(1)
    await room.come("1", outer, batch=1)
    await room.come("2", inner, "1")
    await room.come("3", innermost, "2")
    assert room.running == "123"
    await room.end("3", "2", "1")
    assert room.locks.is_idle


SCENARIOS = {
    "a nested call waits for others": [
        ("1", SHARED), ("o", WRITE), ("2", WRITE, "1"),
        "1o", "-o", "12",
    ],
    "nested calls of one caller wait for each other": [
        ("1", EXCLUSIVE), ("2", EXCLUSIVE, "1"), ("3", SHARED, "1"), ("4", WRITE, "1"),
        "12", "-2", "134",
    ],
    "two shared callers that each call an exclusive tool both get through": [
        ("1", SHARED), ("2", SHARED), ("x", EXCLUSIVE, "1"),
        "12", ("y", EXCLUSIVE, "2"), "12x", "-x", "-1", "2y", "-y", "-2",
    ],
    "a shared caller is in the way again when its nested calls have ended": [
        ("1", SHARED), ("2", SHARED, "1"), ("3", SHARED, "1"), ("e", EXCLUSIVE), "-2", "-3",
        "1", "-1", "e",
    ],
    "a caller that has a key keeps it while its nested call waits": [
        ("o", WRITE_B), ("1", WRITE), ("2", WRITE_B, "1"), ("w", WRITE),
        "o1", "-o", "12", "-2", "-1", "w",
    ],
    "a nested call goes before those that arrived after its caller": [
        ("1", WRITE), ("e", EXCLUSIVE), ("2", WRITE_B, "1"),
        "12",
    ],
    "nested calls of later callers starve no one": [
        ("r", READ), ("w", WRITE), ("1", SHARED), ("2", READ, "1"),
        "r1", "-r", "w1", "-w", "12",
    ],
    "a nested call passes those that wait for its caller": [
        ("1", WRITE), ("w", WRITE), ("2", WRITE, "1"),
        "12", ("3", WRITE, "1"), "12", "-2", "13", "-3", "-1", "w",
    ],
    "a nested exclusive call passes those that wait for its caller's key": [
        ("1", WRITE), ("w", WRITE), ("e", EXCLUSIVE, "1"),
        "1e", "-e", "1", "-1", "w",
    ],
    "a nested call passes those that have the lock reserved and wait for its caller's slot": [
        ("1", SLOT), ("w", LockRequest(key="a", slots=("tool", 1))), ("2", WRITE, "1"),
        "12", "-1", "2", "-2", "w",
    ],
    "a slot that a caller has is enough for all its nested calls": [
        ("1", SLOT), ("2", SLOT, "1"), ("3", SLOT, "1"), ("4", SLOT),
        "123", "-2", "-3", "-1", "4",
    ],
    "calls that have ended leave the circle": [
        ("1", LockRequest(slots=("tool", 2))), ("2", LockRequest(slots=("tool", 2))), ("w", WRITE),
        ("x", WRITE, "1"), ("y", LockRequest(slots=("tool", 2)), "w"),
        "12w", "-2", "1wy", "-y", "-w", "1x",
    ],
    "a call that outlives its caller is one like any other": [
        ("1", WRITE), ("2", SHARED, "1"), ("3", SHARED, "2"), ("o", WRITE_B), "-2", ("4", WRITE_B, "3"),
        "13o", "-o", "134", "-1", "34",
    ],
    "a wait that is cancelled lets those behind it go on": [
        ("1", READ), ("2", WRITE), ("3", READ), "~2", "13",
    ],
    "and changes nothing for those before it": [
        ("1", WRITE), ("2", READ), ("3", WRITE), "~3", "1", "-1", "2",
    ],
    "those that wait for a slot of their batch are in no other batch's way": [
        ("1", SHARED, None, 1), ("2", EXCLUSIVE, None, 1), ("3", WRITE, None, 1), ("o", WRITE), ("p",),
        "1op", "-1", "-o", ("q",), "-p", "2", "-2", "3q",
    ],
    "those that wait for a lock take none of the registry's slots": [
        2, ("1", WRITE), ("2", WRITE), ("3", WRITE), ("4",), ("5",), "14", "-1", "24", "-4", "25",
    ],
    "a call that waits for a slot keeps its place at the lock": [
        1, ("1", SHARED), ("2", WRITE), ("3", READ), ("4", WRITE),
        "1", "-1", "2", "-2", "3", "-3", "4",
    ],
    "writers that wait for each other's callers wait until one gives up": [
        ("1", WRITE), ("2", WRITE_B), ("x", WRITE_B, "1"), ("y", WRITE, "2"), "12", "~y", "-2", "1x",
    ],
    "readers that want to write do": [
        ("1", READ), ("2", READ), ("x", WRITE, "1"), ("y", WRITE, "2"), "12", "~y", "-2", "1x",
    ],
    "a slot and a key do": [
        ("1", SLOT), ("2", WRITE), ("x", WRITE, "1"), ("y", SLOT, "2"), "12", "~y", "-2", "1x",
    ],
    "a nested call that is cancelled lets its caller go on": [
        ("o", WRITE), ("1",), ("2", WRITE, "1"), ("e", EXCLUSIVE), "~2", "-o", "1", "-1", "e",
    ],
    "a caller that ends first leaves its nested call running": [
        ("1", SHARED), ("2", SHARED, "1"), "-1", ("3", EXCLUSIVE), "2", "-2", "3",
    ],
}  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
async def test_scenarios(scenario):
    """A tuple is a new call, `-x` ends one, `~x` cancels one, other text is what runs; a number is the limit."""
    room = Room(scenario[0] if isinstance(scenario[0], int) else None)
    for event in scenario:
        if isinstance(event, tuple):
            await room.come(*event)
        elif isinstance(event, str) and event[0] == "-":
            await room.end(event[1:])
        elif isinstance(event, str) and event[0] == "~":
            await room.cancel(event[1:])
        elif isinstance(event, str):
            assert room.running == event
    while running := room.running:
        await room.end(running[-1])
    assert room.locks.is_idle
    assert [(slots.used, slots.reserved, slots.queue) for slots in room.batches.values()] in ([], [(0, 0, [])])


# Any order of events, against a simple model --------------------------------------------------------------------------

KEYS = st.sampled_from("abc")
TOOLS = st.sampled_from([("t", 1), ("u", 2)])
REQUESTS = st.one_of(
    st.just(SHARED),
    st.just(EXCLUSIVE),
    st.builds(LockRequest, key=KEYS, writes=st.booleans()),
    st.builds(LockRequest, slots=TOOLS),
    st.builds(LockRequest, key=KEYS, writes=st.booleans(), slots=TOOLS),
    TOOLS.map(lambda slots: LockRequest(exclusive=True, slots=slots)),
)


@define(eq=False)
class Call:
    """What the model knows of one call."""

    request: LockRequest
    parent: Call | None
    pools: dict  # what it takes a slot of, and how many there are
    task: asyncio.Task
    state: str = "waiting"  # -> "running" -> "ended"; or "cancelled"
    children: list[Call] = field(factory=list)
    overlaps: set[Call] = field(factory=set)  # conflicting calls that ran when it gave up its nested call

    @property
    def callers(self):
        return () if self.parent is None else (self.parent, *self.parent.callers)

    @property
    def is_under_way(self):
        return self.state in ("waiting", "running")

    @property
    def is_in_the_way(self):
        """A shared call isn't, while it waits for its nested calls."""
        calls_others = any(child.is_under_way for child in self.children)
        return self.state == "running" and not (self.request.is_shared and calls_others)

    def conflicts(self, other):
        related = self in other.callers or other in self.callers
        return not related and self.request.conflicts(other.request)


class LocksMachine(RuleBasedStateMachine):
    calls = Bundle("calls")

    def __init__(self):
        super().__init__()
        self.loops = [asyncio.new_event_loop(), asyncio.new_event_loop()]
        self.known = []

    @initialize(most=st.sampled_from([None, None, 1, 2]), batches=st.lists(st.sampled_from([1, 2, 3]), max_size=2))
    def open(self, most, batches):
        self.locks, self.most = LockManager(most), most
        self.batches = [None, *map(Semaphore, batches)]

    @rule(target=calls, request=REQUESTS, batch=st.integers(0, 2), loop=st.integers(0, 1))
    def come(self, request, batch, loop):
        return self.enter(request, self.batches[batch % len(self.batches)], None, self.loops[loop])

    @rule(target=calls, request=REQUESTS, batch=st.integers(0, 2), parent=calls, loop=st.integers(0, 1))
    def come_nested(self, request, batch, parent, loop):
        if parent.state in ("running", "ended"):
            return self.enter(request, self.batches[batch % len(self.batches)], parent, self.loops[loop])
        return parent

    @rule(call=calls)
    def end(self, call):
        if call.state == "running":
            self.release(call)
            self.step()

    @rule(call=calls)
    def cancel(self, call):
        if call.state == "waiting":
            self.withdraw(call)
            self.step()

    @rule(call=calls, other=calls)
    def end_one_and_cancel_another_whose_turn_may_have_come(self, call, other):
        if call.state == "running" and other.state == "waiting":
            self.release(call)
            self.withdraw(other)
            self.step()

    def enter(self, request, batch, parent, loop):
        outer = None if parent is None else parent.task.result()
        task = loop.create_task(self.locks.acquire(request, slots=batch, parent=outer))
        call = Call(request, parent if parent is not None and parent.state == "running" else None, {}, task)
        call.pools = self.pools(call, batch)
        if call.parent is not None:
            call.parent.children.append(call)
        self.known.append(call)
        self.step()
        return call

    def pools(self, call, batch):
        callers_pools = {pool for caller in call.callers if caller.state == "running" for pool in caller.pools}
        pools = {}
        if call.request.slots is not None and call.request.slots[0] not in callers_pools:
            pools[call.request.slots[0]] = call.request.slots[1]
        if batch is not None and batch not in callers_pools:
            pools[batch] = batch.size
        if call.parent is None and self.most is not None:
            pools["registry"] = self.most
        return pools

    def release(self, call):
        call.task.result().release()
        call.state = "ended"
        if call.overlaps or any(child.is_under_way for child in call.children):
            self.goes_on(call.parent)

    def withdraw(self, call):
        call.task.cancel()
        call.state = "cancelled"
        self.goes_on(call.parent)

    def goes_on(self, caller):
        """A shared caller that gives up a nested call runs on, even if conflicting calls have started."""
        if caller is not None and caller.is_in_the_way:
            started = {other for other in self.known if other.is_under_way and other.task.done()}
            started |= {other for other in self.known if other.is_under_way and self.has_all(other)}
            caller.overlaps |= {other for other in started if other.conflicts(caller)}

    def has_all(self, call):
        """Whether it was just given everything, and only has to be woken."""
        frame = call.task.get_coro().cr_frame
        return frame is not None and "handle" in frame.f_locals and frame.f_locals["handle"].reached < 0

    def step(self):
        """Lets everything happen that can."""
        for _ in range(3):
            for loop in self.loops:
                loop.call_soon(loop.stop)
                loop.run_forever()
        for call in self.known:
            if call.state == "waiting" and call.task.done():
                assert not call.task.cancelled()
                call.state = "running"
        assert all(call.task.cancelled() for call in self.known if call.state == "cancelled")

    def waiting(self):
        return [call for call in self.known if call.state == "waiting"]

    def running(self):
        return [call for call in self.known if call.state == "running"]

    @invariant()
    def calls_that_conflict_never_run_together(self):
        for one, other in combinations([call for call in self.known if call.is_in_the_way], 2):
            assert not one.conflicts(other) or one in other.overlaps or other in one.overlaps

    @invariant()
    def no_more_run_than_there_are_slots(self):
        for call in self.running():
            for pool, most in call.pools.items():
                assert sum(pool in other.pools for other in self.running()) <= most

    @invariant()
    def no_call_waits_without_a_reason(self):
        """The reason is a call that runs, or one that waits for the same and has a reason itself."""
        with_reason, before = set(), None
        while before != len(with_reason):
            before = len(with_reason)
            with_reason |= {call for call in self.waiting() if self.has_a_reason(call, with_reason)}
        assert with_reason == set(self.waiting())

    def has_a_reason(self, call, others):
        if any(other.is_in_the_way and other.conflicts(call) for other in self.known):
            return True
        full = (sum(pool in other.pools for other in self.running()) >= most for pool, most in call.pools.items())
        shared = (other.conflicts(call) or other.pools.keys() & call.pools.keys() for other in others - {call})
        return any(full) or any(shared)

    def teardown(self):
        """Calls that wait for none end, until all have ended; where they wait in a circle, one of them gives up."""
        try:
            while any(call.is_under_way for call in self.known):
                free = [call for call in self.running() if not any(child.is_under_way for child in call.children)]
                if free:
                    self.release(free[0])
                else:
                    self.withdraw(next(call for call in self.waiting() if call.parent is not None))
                self.step()
                self.no_call_waits_without_a_reason()
                self.calls_that_conflict_never_run_together()
            assert not self.known or self.locks.is_idle
        finally:
            for loop in self.loops:
                loop.close()


TestLocks = LocksMachine.TestCase
TestLocks.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)


# What a call requests -------------------------------------------------------------------------------------------------

BY_PATH = Concurrency("key", ("path",))
WRITES, READS = Concurrency("path", ("path",)), Concurrency("path", ("path",), "read")
HERE = ReadonlyContext(work_dir="/work")


def probe(concurrency=None, *, name="probe", most=None, work_dir=None):
    facts = {} if concurrency is None else {"concurrency": concurrency}
    return Tool(ToolSpec(name, **facts), policy=Policy(max_concurrency=most), work_dir=work_dir)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        (lambda arguments: "shared", SHARED),
        (lambda arguments: "exclusive", EXCLUSIVE),
        (lambda arguments: Concurrency("key", ("path",), "read"), LockRequest(key='{"path":"a"}', writes=False)),
        (lambda arguments: Concurrency("key", arguments["keys"]), LockRequest(key='{"path":"a"}')),
        (lambda arguments: "alone", EXCLUSIVE),
        (lambda arguments: 1 / 0, EXCLUSIVE),
        (lambda arguments: None, EXCLUSIVE),
    ],
)
def test_how_a_call_shares_may_depend_on_its_arguments(shares, expected):
    made = Tool.from_schema("probe", {"type": "object"}, lambda arguments: None, concurrency=shares)
    assert lock_request(made, {"path": "a", "keys": ["path"]}, HERE) == expected
    assert made.spec.concurrency == Concurrency("exclusive")


async def test_calls_that_share_by_their_arguments_run_side_by_side_and_others_alone():
    together, running, seen = asyncio.Barrier(2), [], []

    async def work(arguments):
        if arguments["read"]:
            await together.wait()
            return
        running.append(arguments)
        await asyncio.sleep(0)
        seen.append(len(running))
        running.clear()

    registry = ToolRegistry()
    shares = {True: "shared", False: "exclusive"}
    options = {"concurrency": lambda arguments: shares[arguments["read"]]}
    registry.register(Tool.from_schema("work", {"type": "object"}, work, **options))
    calls = [ToolCall("work", {"read": read}, str(n)) for n, read in enumerate([True, True, False, False])]
    outcome = await registry.dispatch(calls)
    assert [each.is_error for each in outcome.results] == [False] * 4
    assert seen == [1, 1]


def key_of(arguments, concurrency=BY_PATH, **facts):
    return lock_request(probe(concurrency, **facts), arguments, HERE).key


@pytest.mark.parametrize(
    ("concurrency", "most", "expected"),
    [
        (None, None, SHARED),
        (Concurrency("exclusive"), None, EXCLUSIVE),
        (None, 3, LockRequest(slots=("probe", 3))),
        (Concurrency("exclusive"), 3, LockRequest(exclusive=True, slots=("probe", 3))),
        (Concurrency("key"), None, LockRequest(key="probe")),
        (Concurrency("key"), 3, LockRequest(key="probe", slots=("probe", 3))),
        (Concurrency("key", (), "read"), None, LockRequest(key="probe", writes=False)),
    ],
)
def test_a_call_requests_what_its_tool_declares(concurrency, most, expected):
    assert lock_request(probe(concurrency, most=most), {"path": "a"}, HERE) == expected
    assert expected.is_shared == (concurrency is None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (key_of({"path": "a", "text": "x"}), key_of({"text": "y", "path": "a"}), True),
        (key_of({"path": "a"}, name="read"), key_of({"path": "a"}, name="write"), True),
        (key_of({"path": "a"}), key_of({"user": "a"}, Concurrency("key", ("user",))), False),
        (
            key_of({"a": 1, "b": 2}, Concurrency("key", ("a", "b"))),
            key_of({"a": 1, "b": 2}, Concurrency("key", ("b", "a"))),
            True,
        ),
        (key_of({}), key_of({"path": None}), True),
        (key_of({}), key_of({"path": ""}), False),
        (key_of({"path": 1}), key_of({"path": 1.0}), True),
        (key_of({"path": {"x": 1, "y": [2.0]}}), key_of({"path": {"y": [2], "x": 1.0}}), True),
        (key_of({"path": "a"}), key_of({"path": "/a"}), False),
        (key_of({"path": "1"}), key_of({"path": 1}), False),
        (key_of({"path": "null"}), key_of({"path": None}), False),
        (key_of({"path": True}), key_of({"path": 1}), False),
    ],
)
def test_a_key_is_made_of_the_named_arguments(one, other, same):
    assert (one == other) is same


@pytest.mark.parametrize(
    ("path", "own", "place"),
    [
        ("a/./b//c/../d", None, "/work/a/b/d"),
        ("/work/a/", None, "/work/a"),
        (None, None, "/work"),
        ("a", "src", "/work/src/a"),
        ("../a", "/elsewhere/b", "/elsewhere/a"),
    ],
)
def test_a_path_starts_from_the_tools_folder_in_the_calls(path, own, place):
    def requested(concurrency):
        made = probe(concurrency, work_dir=own and (lambda arguments, context: own))
        return lock_request(made, {} if path is None else {"path": path}, HERE)

    assert requested(WRITES) == LockRequest(key=f"{place}/", path=f"{place}/")
    assert requested(READS) == LockRequest(writes=False, path=f"{place}/")


def test_all_names_of_a_file_are_one_path(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "alias").symlink_to("folder/new")
    names = ["folder/new", "link/new", "alias", "link/../alias", str(tmp_path / "link/../folder//new")]
    context = ReadonlyContext(work_dir=str(tmp_path))
    assert {lock_request(probe(WRITES), {"path": name}, context).key for name in names} == {
        os.path.realpath(tmp_path / "folder/new") + "/"
    }


def test_without_a_folder_a_path_starts_from_the_process_own(monkeypatch):
    def getcwd():
        raise FileNotFoundError

    here = lock_request(probe(WRITES), {"path": "a"}, ReadonlyContext())
    assert here.path == os.path.abspath("a") + "/"  # noqa: PTH100
    monkeypatch.setattr(os, "getcwd", getcwd)
    assert lock_request(probe(WRITES), {"path": "a"}, ReadonlyContext()) == EXCLUSIVE


def test_a_path_that_cannot_be_known_requests_everything():
    assert lock_request(probe(WRITES, most=3), {"path": 5}, HERE) == LockRequest(exclusive=True, slots=("probe", 3))
    assert lock_request(probe(WRITES, work_dir=lambda *_: 1 / 0), {"path": "a"}, HERE) == EXCLUSIVE


def test_a_key_that_json_cannot_write_requests_everything():
    endless = []
    endless.append(endless)
    for value in (math.nan, object(), endless):
        assert lock_request(probe(BY_PATH), {"path": value}, HERE) == EXCLUSIVE


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab./", max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["path", "a", "b"]), JSON), st.randoms(use_true_random=False))
def test_the_key_depends_on_nothing_but_the_values(arguments, random):
    names = list(arguments)
    random.shuffle(names)
    assert key_of(arguments) == key_of({name: arguments[name] for name in names})


# The order within a batch ---------------------------------------------------------------------------------------------


class Calls:
    """The calls of a batch; those that have come wait for the scheduler."""

    def __init__(self, number):
        self.scheduler, self.tasks = BatchScheduler([UNKNOWN] * number), {}

    async def come(self, *places):
        for place in places:
            self.tasks[place] = asyncio.ensure_future(self.scheduler.wait(place))
        await steps()

    @property
    def ready(self):
        return {place for place, task in self.tasks.items() if task.done()}


def place(path, access="write"):
    path = path.rstrip("/") + "/"
    return LockRequest(key=path if access == "write" else None, writes=access == "write", path=path)


@pytest.mark.parametrize(
    ("earlier", "later", "waits"),
    [
        (SHARED, SHARED, False),
        (SHARED, WRITE, False),
        (SHARED, EXCLUSIVE, True),
        (SLOT, WRITE, False),
        (EXCLUSIVE, SHARED, True),
        (EXCLUSIVE, SLOT, True),
        (EXCLUSIVE, READ, True),
        (READ, READ, False),
        (READ, WRITE, True),
        (WRITE, READ, True),
        (WRITE, WRITE, True),
        (WRITE, WRITE_B, False),
        (WRITE, SHARED, False),
        (None, SHARED, False),
        (None, READ, True),
        (None, EXCLUSIVE, True),
        (None, place("/a", "read"), True),
        (place("/a", "read"), place("/", "read"), False),
        (place("/a"), place("/a", "read"), True),
        (place("/a"), place("/a/b", "read"), True),
        (place("/a/b", "read"), place("/a"), True),
        (place("/a/b"), place("/", "read"), True),
        (place("/a"), place("/ab"), False),
        (place("/a/b"), place("/a/c"), False),
        (place("/a"), WRITE, False),
        (place("/a"), SHARED, False),
        (place("/a", "read"), EXCLUSIVE, True),
    ],
)
async def test_a_call_waits_for_an_earlier_one_that_conflicts_or_of_which_nothing_is_known(earlier, later, waits):
    calls = Calls(2)
    if earlier is not None:
        calls.scheduler.set_request(0, earlier)
    calls.scheduler.set_request(1, later)
    await calls.come(0, 1)
    assert calls.ready == ({0} if waits else {0, 1})
    calls.scheduler.mark_passed(0)
    calls.scheduler.mark_passed(0)
    await steps()
    assert calls.ready == {0, 1}


async def test_where_paths_conflict_a_call_waits_for_the_end_of_the_earlier_one():
    calls = Calls(2)
    calls.scheduler.set_request(0, place("/a"))
    calls.scheduler.set_request(1, place("/a/b", "read"))
    await calls.come(0, 1)
    calls.scheduler.mark_passed(0, has_ended=False)
    await steps()
    assert calls.ready == {0}
    calls.scheduler.mark_passed(0)
    await steps()
    assert calls.ready == {0, 1}


async def test_what_is_known_may_change_with_the_arguments():
    calls = Calls(3)
    for place, request in enumerate([WRITE, WRITE, READ_B]):
        calls.scheduler.set_request(place, request)
    await calls.come(1, 2)
    assert calls.ready == {2}
    calls.scheduler.set_request(0, WRITE_B)
    await steps()
    assert calls.ready == {1, 2}


def conflict(first, second):
    return first.exclusive or second.exclusive or first.conflicts(second)


@given(
    st.lists(st.sampled_from([SHARED, EXCLUSIVE, READ, WRITE, WRITE_B, READ_B, SLOT]), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=16),
)
def test_calls_go_on_exactly_when_no_earlier_one_that_conflicts_is_left(requests, events):
    """Whatever passes or is cancelled, in whatever order."""

    async def main():
        calls, left = Calls(len(requests)), set(range(len(requests)))
        for place, request in enumerate(requests):
            calls.scheduler.set_request(place, request)
        await calls.come(*left)
        for place, cancels in events:
            if cancels and place in left:
                calls.tasks[place].cancel()
            calls.scheduler.mark_passed(place)
            left.discard(place)
            await steps()
            for each in left:
                waits = any(other < each and conflict(requests[other], requests[each]) for other in left)
                assert calls.tasks[each].done() is (not waits)
        for place in left:
            calls.scheduler.mark_passed(place)
        await asyncio.gather(*(task for task in calls.tasks.values() if not task.cancelled()))

    asyncio.run(main())


@pytest.mark.parametrize("keys", [8, 10_000])
async def test_what_a_call_waits_for_is_found_in_as_many_steps_in_a_large_batch(keys):
    registry, lines = ToolRegistry(), 0
    by_number = Concurrency("key", ("n",))
    registry.register(Tool.from_schema("probe", {"type": "object"}, steps_aside, concurrency=by_number))

    def trace(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return trace if frame.f_code.co_filename == locks.__file__ else None

    async def lines_a_call(number):
        nonlocal lines
        calls = [ToolCall("probe", {"n": n % keys}, str(n)) for n in range(number)]
        before, lines = sys.gettrace(), 0
        sys.settrace(trace)
        try:
            outcome = await registry.dispatch(calls)
        finally:
            sys.settrace(before)
        assert not any(each.is_error for each in outcome.results)
        return lines / number

    few = await lines_a_call(50)
    assert few > 5
    assert await lines_a_call(1000) < 1.5 * few


async def steps_aside(arguments):
    await asyncio.sleep(0)
