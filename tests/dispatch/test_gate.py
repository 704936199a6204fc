from __future__ import annotations

import asyncio
import gc
import threading
from functools import partial

import pytest

from pegboard.dispatch.claims import ALONE, Claims
from pegboard.dispatch.gate import Gate, Hold, Slots
from pegboard.dispatch.work import CallError

READ, WRITE = Claims(key="a", writes=False), Claims(key="a")
READ_B, WRITE_B = Claims(key="b", writes=False), Claims(key="b")
SLOT = Claims(slots=("tool", 1))


def in_a_loop(test):
    """Runs an async test."""

    def run(**fixtures):
        asyncio.run(test(**fixtures))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


class Room:
    """A gate and the calls at it, by name."""

    def __init__(self, most=None):
        self.gate, self.calls, self.started = Gate(most), {}, []

    def come(self, name, claims=None, parent=None, **options):
        outer = None if parent is None else self.calls[parent]
        entering = self.gate.enter(claims, parent=outer, name=name, **options)
        if isinstance(entering, Hold):
            self.calls[name] = entering
            self.started.append(name)
        else:
            self.calls[name] = asyncio.ensure_future(self.wait(name, entering))

    async def wait(self, name, entering):
        self.calls[name] = await entering
        self.started.append(name)

    async def end(self, *names):
        for name in names:
            self.calls.pop(name).release()
            await steps()

    async def cancel(self, name):
        await steps()
        task = self.calls.pop(name)
        task.cancel()
        await steps()
        assert task.cancelled()

    @property
    def running(self):
        return "".join(name for name in self.calls if isinstance(self.calls[name], Hold))


async def steps():
    """Lets everything happen that can."""
    for _ in range(5):
        await asyncio.sleep(0)


# One after the other --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (None, None, True),
        (None, ALONE, False),
        (ALONE, None, False),
        (ALONE, ALONE, False),
        (ALONE, READ, False),
        (READ, ALONE, False),
        (READ, READ, True),
        (READ, WRITE, False),
        (WRITE, READ, False),
        (WRITE, WRITE, False),
        (WRITE, WRITE_B, True),
        (WRITE, None, True),
        (SLOT, SLOT, False),
        (SLOT, Claims(slots=("other", 1)), True),
        (SLOT, WRITE, True),
        (Claims(slots=("tool", 2)), Claims(slots=("tool", 2)), True),
    ],
)
def test_calls_run_together_unless_they_conflict(first, second, together):
    @in_a_loop
    async def main():
        room = Room()
        room.come("1", first)
        room.come("2", second)
        assert room.running == ("12" if together else "1")
        if not together:
            await room.end("1")
            assert room.running == "2"
            await room.end("2")
        else:
            await room.end("1", "2")
        assert room.gate.is_empty

    main()


@in_a_loop
async def test_those_who_wait_go_in_order_of_arrival():
    room = Room()
    for name in "1234":
        room.come(name, WRITE)
    for name in "1234":
        assert room.running == name
        await room.end(name)
    assert room.gate.is_empty


@in_a_loop
async def test_a_waiting_writer_is_not_starved_by_later_readers():
    room = Room()
    room.come("r", READ)
    room.come("w", WRITE)
    room.come("x", READ)
    room.come("y", READ)
    assert room.running == "r"
    await room.end("r")
    assert room.running == "w"
    await room.end("w")
    assert room.running == "xy"


@in_a_loop
async def test_a_waiting_exclusive_call_is_not_starved_by_later_shared_ones():
    room = Room()
    room.come("1")
    room.come("e", ALONE)
    room.come("2")
    room.come("3", READ)
    await room.end("1")
    assert room.running == "e"
    await room.end("e")
    assert room.running == "23"


@in_a_loop
async def test_who_conflicts_with_nobody_ahead_passes():
    room = Room()
    room.come("w", WRITE)
    room.come("x", WRITE)
    room.come("s")
    room.come("b", WRITE_B)
    assert room.running == "wsb"


@in_a_loop
async def test_an_exclusive_call_waits_for_those_who_wait_before_it():
    room = Room()
    room.come("w", WRITE)
    room.come("x", WRITE)
    room.come("e", ALONE)
    await room.end("w")
    assert room.running == "x"
    await room.end("x")
    assert room.running == "e"


@in_a_loop
async def test_the_place_is_kept_from_the_call_of_enter():
    """Not from when it is awaited."""
    gate, order = Gate(), []
    held = gate.enter(WRITE)
    first, second = gate.enter(WRITE), gate.enter(WRITE)

    async def go(name, entering):
        hold = await entering
        order.append(name)
        hold.release()

    tasks = [asyncio.ensure_future(go("second", second)), asyncio.ensure_future(go("first", first))]
    await steps()
    held.release()
    await asyncio.gather(*tasks)
    assert order == ["first", "second"]
    assert gate.is_empty


@in_a_loop
async def test_a_hold_is_released_once():
    for claims in (None, WRITE):
        hold = Gate().enter(claims)
        hold.release()
        with pytest.raises(RuntimeError, match="released before"):
            hold.release()


@in_a_loop
async def test_a_turn_is_awaited_once():
    gate = Gate()
    held = gate.enter(WRITE)
    entering = gate.enter(WRITE)
    held.release()
    (await entering).release()
    with pytest.raises(RuntimeError, match="awaited once"):
        await entering
    assert gate.is_empty


def test_a_simple_call_needs_no_event_loop():
    gate = Gate()
    gate.enter().release()
    assert gate.is_empty
    with pytest.raises(RuntimeError, match="no running event loop"):
        gate.enter(WRITE)
    assert gate.is_empty


# Cancellation ---------------------------------------------------------------------------------------------------------


@in_a_loop
async def test_who_is_cancelled_leaves_nothing_behind_and_lets_the_next_go():
    room = Room()
    room.come("r", READ)
    room.come("w", WRITE)
    room.come("x", READ)
    await room.cancel("w")
    assert room.running == "rx"
    await room.end("r", "x")
    assert room.gate.is_empty


@in_a_loop
async def test_an_exclusive_call_that_is_cancelled_stops_nobody():
    room = Room()
    room.come("1")
    room.come("e", ALONE)
    room.come("2")
    await room.cancel("e")
    assert room.running == "12"


@in_a_loop
async def test_a_wait_that_is_cancelled_when_its_turn_has_just_come_gives_the_turn_on():
    room = Room()
    room.come("1", WRITE)
    room.come("2", WRITE)
    room.come("3", WRITE)
    await steps()
    room.calls.pop("1").release()
    room.calls.pop("2").cancel()
    await steps()
    assert room.running == "3"
    await room.end("3")
    assert room.gate.is_empty


@in_a_loop
async def test_a_wait_that_is_dropped_gives_its_place_up():
    """A task round it may be cancelled before its first step."""
    gate = Gate()
    held = gate.enter(WRITE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.enter(WRITE), 0)
    gate.enter(WRITE)
    gc.collect()
    held.release()
    assert gate.is_empty


def test_a_wait_in_a_loop_that_is_gone_stops_nobody():
    gate, held = Gate(), []

    async def wait():
        held.append(gate.enter(WRITE))
        waiting = gate.enter(WRITE)
        generator = waiting.__await__()
        generator.send(None)
        return generator  # nobody goes on with it, and nobody closes it

    async def last():
        entering = gate.enter(WRITE)
        held[0].release()
        (await entering).release()

    left = asyncio.run(wait())
    asyncio.run(last())
    assert gate.is_empty
    left.close()
    assert gate.is_empty


# From several threads and loops ---------------------------------------------------------------------------------------


def test_a_call_in_another_loop_is_woken_there():
    gate = Gate()
    waits, order = threading.Event(), []

    async def other():
        entering = gate.enter(WRITE)
        waits.set()
        hold = await entering
        order.append("other")
        hold.release()

    async def main():
        held = gate.enter(WRITE)
        thread = threading.Thread(target=lambda: asyncio.run(other()))
        thread.start()
        await asyncio.to_thread(waits.wait)
        order.append("main")
        held.release()
        await asyncio.to_thread(thread.join)

    asyncio.run(main())
    assert order == ["main", "other"]
    assert gate.is_empty


def test_a_hold_may_be_released_in_another_thread():
    @in_a_loop
    async def main():
        gate = Gate()
        held = gate.enter(WRITE)
        entering = gate.enter(WRITE)
        await asyncio.to_thread(held.release)
        (await entering).release()
        assert gate.is_empty

    main()


@in_a_loop
async def test_a_wait_may_be_cancelled_just_as_another_thread_wakes_it():
    gate = Gate()
    held = gate.enter(WRITE)
    waiting = asyncio.ensure_future(gate.enter(WRITE))
    await steps()
    thread = threading.Thread(target=held.release)
    thread.start()
    thread.join()  # without a step of this loop
    waiting.cancel()
    await steps()
    assert waiting.cancelled()
    assert gate.is_empty


def test_a_wait_that_is_given_up_as_its_loop_is_found_closed_leaves_once(monkeypatch):
    async def wait():
        outer = gate.enter()
        nested.append(gate.enter(WRITE, parent=outer))
        return outer

    @in_a_loop
    async def main():
        held = gate.enter(WRITE)
        outer = await wait()
        wake = Hold.wake

        def given_up(hold):
            nested.clear()
            gc.collect()
            return False

        monkeypatch.setattr(Hold, "wake", given_up)
        held.release()
        monkeypatch.setattr(Hold, "wake", wake)
        assert outer.children == 0
        outer.release()

    gate, nested = Gate(), []
    main()
    assert gate.is_empty


def test_calls_of_several_threads_never_run_beside_an_exclusive_one():
    gate, running, seen = Gate(), [], []

    async def call(claims):
        entering = gate.enter(claims)
        hold = entering if isinstance(entering, Hold) else await entering
        running.append(claims)
        seen.append(len(running) if ALONE in running else 1)
        await asyncio.sleep(0)
        running.remove(claims)
        hold.release()

    async def main():
        await asyncio.gather(*(call(claims) for claims in [None, ALONE, WRITE, None] * 25))

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(seen), set(seen)) == (400, {1})
    assert gate.is_empty


def test_who_gives_up_inside_the_gate_is_served_once_the_gate_is_free(monkeypatch):
    """A finaliser may run anywhere, and so release a hold while its own thread is changing lanes."""

    @in_a_loop
    async def main():
        gate = Gate()
        held, shared = gate.enter(WRITE), gate.enter()
        come = gate._turns.come

        def interrupted(hold, slots, loop):
            held.release()
            shared.release()
            assert not gate.is_empty
            come(hold, slots, loop)

        monkeypatch.setattr(gate._turns, "come", interrupted)
        (await gate.enter(WRITE)).release()
        assert gate.is_empty

    main()


def test_what_was_left_meanwhile_is_served_by_the_next_simple_call():
    gate = Gate()
    first, second = gate.enter(), gate.enter()
    gate._lock.acquire()
    first.release()  # as another thread would
    gate._lock.release()
    third = gate.enter()
    gate._lock.acquire()
    second.release()
    gate._lock.release()
    third.release()
    assert gate.is_empty


# Slots ----------------------------------------------------------------------------------------------------------------


@in_a_loop
async def test_a_batch_has_its_own_slots():
    room, slots = Room(), Slots(2)
    for name in "1234":
        room.come(name, slots=slots)
    room.come("o")
    assert room.running == "12o"
    await room.end("2")
    assert room.running == "13o"
    await room.end("1", "o", "3", "4")
    assert room.gate.is_empty


@in_a_loop
async def test_who_waits_for_a_slot_of_its_batch_is_in_no_other_batchs_way():
    room, slots = Room(), Slots(1)
    room.come("1", slots=slots)
    room.come("2", ALONE, slots=slots)
    room.come("3", WRITE, slots=slots)
    room.come("o", WRITE)
    room.come("p")
    assert room.running == "1op"
    await room.end("1", "o")
    room.come("q")
    await room.end("p")
    assert room.running == "2"
    await room.end("2")
    assert room.running == "3q"


@in_a_loop
async def test_who_is_cancelled_while_it_waits_for_a_slot_leaves_nothing_behind():
    room, slots = Room(), Slots(1)
    room.come("1", slots=slots)
    room.come("2", WRITE, slots=slots)
    room.come("3", WRITE, slots=slots)
    await room.cancel("2")
    await room.end("1")
    assert room.running == "3"
    await room.end("3")
    assert room.gate.is_empty


@in_a_loop
async def test_the_registry_has_slots_for_all_calls():
    room = Room(2)
    for name in "123":
        room.come(name)
    assert room.running == "12"
    await room.end("1")
    assert room.running == "23"
    await room.end("2", "3")
    assert room.gate.is_empty


@in_a_loop
async def test_who_waits_for_a_lock_takes_no_slot_of_the_registry():
    room = Room(2)
    room.come("1", WRITE)
    room.come("2", WRITE)
    room.come("3", WRITE)
    room.come("4")
    assert room.running == "14"


@in_a_loop
async def test_who_waits_for_a_slot_keeps_its_place_at_the_lock():
    room = Room(1)
    room.come("1")
    room.come("2", WRITE)
    room.come("3", READ)
    room.come("4", WRITE)
    for name in "1234":
        assert room.running == name
        await room.end(name)


@in_a_loop
async def test_who_comes_late_to_a_slot_goes_before_those_who_arrived_later():
    """It waited for a lock first, which those behind it didn't need."""
    room = Room(1)
    with_slot = partial(Claims, slots=("tool", 1))
    room.come("1", WRITE)
    room.come("2", with_slot(key="a"))
    room.come("3", with_slot())
    room.come("4", with_slot())
    for name in "1234":
        assert room.running == name
        await room.end(name)
    assert room.gate.is_empty


@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_under_which_no_call_could_run_is_refused(most):
    with pytest.raises(ValueError, match="at least"):
        Gate(most)
    with pytest.raises(ValueError, match="at least"):
        Slots(most)


# Calls from inside a tool ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outer", [None, READ, WRITE, ALONE, SLOT])
@pytest.mark.parametrize("inner", [None, READ, WRITE, ALONE, SLOT])
@pytest.mark.parametrize("innermost", [None, WRITE, ALONE, SLOT])
def test_a_nested_call_does_not_wait_for_its_callers(outer, inner, innermost):
    @in_a_loop
    async def main():
        room = Room(1)
        room.come("1", outer, slots=Slots(1))
        room.come("2", inner, "1")
        room.come("3", innermost, "2")
        assert room.running == "123"
        await room.end("3", "2", "1")
        assert room.gate.is_empty

    main()


@in_a_loop
async def test_a_nested_call_waits_for_others():
    room = Room()
    room.come("1")
    room.come("o", WRITE)
    room.come("2", WRITE, "1")
    assert room.running == "1o"
    await room.end("o")
    assert room.running == "12"


@in_a_loop
async def test_nested_calls_of_one_caller_wait_for_each_other():
    room = Room()
    room.come("1", ALONE)
    room.come("2", ALONE, "1")
    room.come("3", None, "1")
    room.come("4", WRITE, "1")
    assert room.running == "12"
    await room.end("2")
    assert room.running == "134"


@in_a_loop
async def test_two_shared_callers_that_each_call_an_exclusive_tool_both_get_through():
    room = Room()
    room.come("1")
    room.come("2")
    room.come("x", ALONE, "1")
    assert room.running == "12"  # the second caller still runs
    room.come("y", ALONE, "2")
    await steps()
    assert room.running == "12x"
    await room.end("x", "1")
    assert room.running == "2y"
    await room.end("y", "2")
    assert room.gate.is_empty


@in_a_loop
async def test_a_shared_caller_is_in_the_way_again_when_its_nested_calls_have_ended():
    room = Room()
    room.come("1")
    room.come("2", None, "1")
    room.come("3", None, "1")
    room.come("e", ALONE)
    await room.end("2")
    await room.end("3")
    assert room.running == "1"
    await room.end("1")
    assert room.running == "e"


@in_a_loop
async def test_a_caller_that_has_a_key_keeps_it_while_its_nested_call_waits():
    room = Room()
    room.come("o", WRITE_B)
    room.come("1", WRITE)
    room.come("2", WRITE_B, "1")
    room.come("w", WRITE)
    assert room.running == "o1"
    await room.end("o")
    assert room.running == "12"
    await room.end("2", "1")
    assert room.running == "w"


@in_a_loop
async def test_a_nested_call_goes_before_those_who_arrived_after_its_caller():
    """They may wait for the caller, and it waits for the nested call."""
    room = Room()
    room.come("1", WRITE)
    room.come("e", ALONE)
    room.come("2", WRITE_B, "1")
    assert room.running == "12"


@in_a_loop
async def test_nested_calls_of_later_callers_starve_nobody():
    room = Room()
    room.come("r", READ)
    room.come("w", WRITE)
    room.come("1")
    room.come("2", READ, "1")
    assert room.running == "r1"
    await room.end("r")
    assert room.running == "w1"
    await room.end("w")
    assert room.running == "12"


@in_a_loop
async def test_a_nested_call_goes_before_those_who_arrived_earlier_if_they_wait_for_its_caller():
    room = Room()
    room.come("h", READ)
    room.come("w", WRITE)  # waits for "h" ...
    room.come("1", WRITE_B)
    room.come("x", READ_B, "h")  # ... which waits for "1"
    room.come("2", READ, "1")  # ... which can't wait behind "w"
    await steps()
    assert room.running == "h12"
    await room.end("2", "1")
    assert room.running == "hx"
    await room.end("x", "h")
    assert room.running == "w"
    await room.end("w")
    assert room.gate.is_empty


@in_a_loop
async def test_a_nested_call_lets_those_go_first_whom_it_waits_for():
    """Though they arrived later."""
    room = Room()
    room.come("1", SLOT)
    room.come("2", WRITE)
    room.come("x", ALONE, "2")  # waits for "1"
    room.come("y", READ, "1")  # waits for "2", and so for "x"
    await steps()
    assert room.running == "12x"
    await room.end("x", "2")
    assert room.running == "1y"
    await room.end("y", "1")
    assert room.gate.is_empty


@pytest.mark.parametrize(
    ("one", "other", "ones", "others"),
    [
        (WRITE, WRITE_B, WRITE_B, WRITE),
        (READ, READ, WRITE, WRITE),
        (WRITE, WRITE_B, ALONE, ALONE),
        (SLOT, WRITE, WRITE, SLOT),
        (WRITE, WRITE_B, ALONE, READ),
    ],
)
def test_a_nested_call_that_would_close_a_circle_is_refused_at_once(one, other, ones, others):
    @in_a_loop
    async def main():
        room = Room()
        room.come("one", one)
        room.come("other", other)
        room.come("ones", ones, "one")
        with pytest.raises(CallError) as caught:
            room.come("others", others, "other")
        assert caught.value.kind == "limit"
        assert caught.value.text.startswith("others was not run: it would have to wait for a call that waits")
        for name in ("one", "other", "ones", "others"):
            assert name in caught.value.detail
        await room.end("other")
        assert room.running == "oneones"
        await room.end("ones", "one")
        assert room.gate.is_empty

    main()


@in_a_loop
async def test_a_circle_of_three_is_seen_too():
    room = Room()
    for name in "123":
        room.come(name, Claims(key=name))
    room.come("x", Claims(key="2"), "1")
    room.come("y", Claims(key="3"), "2")
    with pytest.raises(CallError):
        room.come("z", Claims(key="1"), "3")
    await room.end("3")
    assert room.running == "12y"
    await room.end("y", "2")
    assert room.running == "1x"


@in_a_loop
async def test_a_circle_through_deeper_calls_is_seen_too():
    room = Room()
    room.come("1", WRITE)
    room.come("2", None, "1")
    room.come("o", WRITE_B)
    room.come("p", None, "o")
    room.come("3", WRITE_B, "2")
    with pytest.raises(CallError):
        room.come("q", WRITE, "p")
    room.come("q", READ, "1")  # no circle: its own caller has the key
    assert room.running == "12opq"


@in_a_loop
async def test_as_long_as_one_slot_comes_free_there_is_no_circle():
    two = Claims(slots=("tool", 2))
    room = Room()
    room.come("1", two)
    room.come("2", two)
    room.come("w", WRITE)
    room.come("x", WRITE, "1")
    room.come("y", two, "w")  # "1" waits for "w", but "2" will end
    await room.end("2")
    assert room.running == "1wy"
    await room.end("y", "w")
    assert room.running == "1x"


@in_a_loop
async def test_a_nested_call_that_is_cancelled_lets_its_caller_go_on():
    room = Room()
    room.come("o", WRITE)
    room.come("1")
    room.come("2", WRITE, "1")
    room.come("e", ALONE)
    await room.cancel("2")
    await room.end("o")
    assert room.running == "1"
    await room.end("1")
    assert room.running == "e"
    await room.end("e")
    assert room.gate.is_empty


@in_a_loop
async def test_a_call_of_a_caller_that_has_ended_is_like_any_other():
    room, slots = Room(), Slots(1)
    room.come("1", WRITE, slots=slots)
    over = room.calls["1"]
    await room.end("1")
    room.come("2", slots=slots)
    entering = room.gate.enter(parent=over, slots=slots)
    assert not isinstance(entering, Hold)
    await room.end("2")
    (await entering).release()
    assert room.gate.is_empty


@pytest.mark.parametrize("claims", [None, SLOT, WRITE, ALONE])
def test_a_caller_that_ends_first_leaves_its_nested_call_running(claims):
    @in_a_loop
    async def main():
        room = Room()
        room.come("1", claims)
        room.come("2", None, "1")
        await room.end("1")
        room.come("3", ALONE)
        assert room.running == "2"
        await room.end("2")
        assert room.running == "3"
        await room.end("3")
        assert room.gate.is_empty

    main()


@in_a_loop
async def test_a_caller_may_end_before_its_nested_calls():
    room = Room()
    room.come("o", WRITE)
    room.come("1", WRITE_B)
    room.come("2", None, "1")
    room.come("3", WRITE, "2")
    await room.end("2")
    room.come("4", WRITE_B, "o")
    with pytest.raises(CallError):
        room.come("5", WRITE, "1")
    await room.end("1")
    assert room.running == "o4"
    await room.end("4", "o")
    assert room.running == "3"
    await room.end("3")
    assert room.gate.is_empty


@in_a_loop
async def test_a_call_that_went_first_is_waited_for_by_those_who_had_their_place():
    """A nested call that goes before them runs, and then they do."""
    room = Room(1)
    room.come("1", WRITE_B)
    room.come("w", WRITE)  # has the key, and waits for a slot
    room.come("r", WRITE)
    room.come("2", WRITE, "1")
    assert room.running == "12"
    await room.end("1")
    assert room.running == "2"
    await room.end("2")
    assert room.running == "w"
    await room.end("w")
    assert room.running == "r"


@in_a_loop
async def test_a_nested_call_waits_for_earlier_ones_that_have_the_lock_and_wait_for_a_slot():
    room = Room()
    room.come("s", SLOT)
    room.come("w", Claims(key="a", slots=("tool", 1)))
    room.come("1")
    room.come("2", READ, "1")
    assert room.running == "s1"
    await room.end("s")
    assert room.running == "w1"
    await room.end("w")
    assert room.running == "12"


@in_a_loop
async def test_nested_calls_wait_for_earlier_nested_ones_that_wait():
    room = Room()
    room.come("s", SLOT)
    room.come("1")
    room.come("r", Claims(key="a", writes=False, slots=("tool", 1)), "1")
    room.come("2")
    room.come("w", WRITE, "2")
    assert room.running == "s12"
    await room.end("s")
    assert room.running == "1r2"
    await room.end("r")
    assert room.running == "12w"


@in_a_loop
async def test_a_slot_that_a_caller_has_is_enough_for_all_its_nested_calls():
    room = Room()
    room.come("1", SLOT)
    room.come("2", SLOT, "1")
    room.come("3", SLOT, "1")
    room.come("4", SLOT)
    assert room.running == "123"
    await room.end("2", "3", "1")
    assert room.running == "4"


@in_a_loop
async def test_a_nested_call_that_has_to_wait_stops_none_that_its_caller_makes_free():
    """Two readers of a key: one waits for the writer, one is called by it and waits for less."""
    room = Room()
    room.come("1")
    room.come("w", WRITE, "1")
    room.come("r", READ, "1")
    room.come("x", WRITE, "w")
    room.come("y", READ, "w")
    await steps()
    assert room.running == "1wx"
    await room.end("x")
    assert room.running == "1wy"
    await room.end("y", "w")
    assert room.running == "1r"


@in_a_loop
async def test_a_call_that_outlives_its_caller_keeps_nobody_waiting_further_up():
    room = Room()
    room.come("1", WRITE)
    room.come("2", None, "1")
    room.come("3", None, "2")
    room.come("o", WRITE_B)
    await room.end("2")
    room.come("4", WRITE_B, "3")  # its caller's caller has ended: "1" doesn't wait for it
    room.come("p", WRITE, "o")  # so this is no circle
    await room.end("1")
    assert room.running == "3op"


@in_a_loop
async def test_many_nested_exclusive_calls_go_one_by_one():
    room = Room()
    names = [f"{number}" for number in range(20)]
    for name in names:
        room.come(name)
    for name in names:
        room.come(f"x{name}", ALONE, name)
    for name in names:
        await steps()
        assert [each for each in room.calls if each[0] == "x" and isinstance(room.calls[each], Hold)] == [f"x{name}"]
        await room.end(f"x{name}", name)
    assert room.gate.is_empty
