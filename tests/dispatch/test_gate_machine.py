"""Calls come, call tools, are cancelled and end in any order; a simple model beside them says what may be."""

from __future__ import annotations

import asyncio
from itertools import combinations

from attrs import define, field
from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from pegboard.dispatch.claims import ALONE, Claims
from pegboard.dispatch.gate import Gate, Hold, Slots
from pegboard.dispatch.work import CallError

KEYS = st.sampled_from("abc")
TOOLS = st.sampled_from([("t", 1), ("u", 2)])
CLAIMS = st.one_of(
    st.none(),
    st.just(ALONE),
    st.builds(Claims, key=KEYS, writes=st.booleans()),
    st.builds(Claims, slots=TOOLS),
    st.builds(Claims, key=KEYS, writes=st.booleans(), slots=TOOLS),
    TOOLS.map(lambda slots: Claims(exclusive=True, slots=slots)),
)


@define(eq=False)
class Call:
    """What the model knows of one call."""

    number: int
    claims: Claims
    parent: Call | None
    pools: dict  # what it takes a slot of, and how many there are
    state: str = "waiting"  # -> "running" -> "ended"; or "cancelled", "refused"
    hold: Hold | None = None
    task: asyncio.Task | None = None
    children: list[Call] = field(factory=list)
    beside: set[Call] = field(factory=set)  # who ran alone when this one gave up on its nested call

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
        return self.state == "running" and not (self.claims.is_shared and calls_others)

    @property
    def has_come_to_the_locks(self):
        return "batch" not in self.pools or self.state != "waiting" or self.hold.at > 0

    def conflicts(self, other):
        mine, theirs = self.claims, other.claims
        if self in other.callers or other in self.callers:
            return False
        if mine.exclusive or theirs.exclusive:
            return True
        return mine.key is not None and mine.key == theirs.key and (mine.writes or theirs.writes)


class GateMachine(RuleBasedStateMachine):
    calls = Bundle("calls")

    def __init__(self):
        super().__init__()
        self.loops = [asyncio.new_event_loop(), asyncio.new_event_loop()]
        self.known = []

    @initialize(most=st.sampled_from([None, None, 1, 2]), batches=st.lists(st.sampled_from([1, 2, 3]), max_size=2))
    def open(self, most, batches):
        self.gate, self.most = Gate(most), most
        self.batches = [None, *map(Slots, batches)]

    @rule(target=calls, claims=CLAIMS, batch=st.integers(0, 2), loop=st.integers(0, 1))
    def come(self, claims, batch, loop):
        return self.enter(claims, self.batches[batch % len(self.batches)], None, self.loops[loop])

    @rule(target=calls, claims=CLAIMS, batch=st.integers(0, 2), parent=calls, loop=st.integers(0, 1))
    def come_nested(self, claims, batch, parent, loop):
        if parent.hold is not None and parent.state != "waiting":
            return self.enter(claims, self.batches[batch % len(self.batches)], parent, self.loops[loop])
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

    def release(self, call):
        call.hold.release()
        call.state = "ended"
        if call.beside or any(child.is_under_way for child in call.children):
            self.goes_on(call.parent)

    def withdraw(self, call):
        call.task.cancel()
        call.state = "cancelled"
        self.goes_on(call.parent)

    def goes_on(self, caller):
        """A shared caller that gives up on a nested call goes on beside whoever has started meanwhile."""
        if caller is not None and caller.is_in_the_way:
            started = {other for other in self.known if other.is_under_way and not other.hold.is_waiting}
            caller.beside |= {other for other in started if other.conflicts(caller)}

    def enter(self, claims, batch, parent, loop):
        outer = None if parent is None else parent.hold

        async def enter():
            return self.gate.enter(claims, slots=batch, parent=outer)

        if parent is not None and parent.state != "running":
            parent = None
        call = Call(len(self.known), claims or Claims(), parent, {})
        call.pools = self.pools(call, batch)
        if parent is not None:
            parent.children.append(call)
        try:
            entering = loop.run_until_complete(enter())
        except CallError:
            assert all(call in self.stuck(call, place) for place in self.places())
            call.state = "refused"
            self.step()
            return call
        self.known.append(call)
        if isinstance(entering, Hold):
            call.hold = entering
            self.start(call)
        else:
            call.hold, call.task = entering._hold, loop.create_task(wait_for(entering))
        self.step()
        return call

    def pools(self, call, batch):
        pools = {}
        callers_pools = {pool for caller in call.callers if caller.state == "running" for pool in caller.pools}
        if call.claims.slots is not None and call.claims.slots[0] not in callers_pools:
            pools[call.claims.slots[0]] = call.claims.slots[1]
        if call.parent is None:
            pools |= {} if self.most is None else {"registry": self.most}
            pools |= {} if batch is None else {"batch": batch.most, batch: batch.most}
        return {pool: most for pool, most in pools.items() if pool != "batch"} | (
            {"batch": 1 << 60} if "batch" in pools else {}
        )

    def step(self):
        """Lets everything happen that can."""
        for _ in range(3):
            for loop in self.loops:
                loop.call_soon(loop.stop)
                loop.run_forever()
        for call in sorted(self.known, key=lambda call: call.hold.order):
            if call.state == "waiting" and call.task.done():
                assert call.task.result() is call.hold
                self.start(call)
        assert all(call.task.cancelled() for call in self.known if call.state == "cancelled")

    def start(self, call):
        """No call starts while one waits that goes before it, and that it conflicts with."""
        call.state = "running"
        for other in self.waiting():
            if other.hold.order < call.hold.order and other.has_come_to_the_locks and other.conflicts(call):
                assert other.parent is not None  # whoever had his place before a nested call came may keep it
                assert call.parent is None
                assert call.number < other.number

    def waiting(self):
        return [call for call in self.known if call.state == "waiting"]

    def running(self):
        return [call for call in self.known if call.state == "running"]

    def is_full(self, pool, most):
        return sum(pool in call.pools for call in self.running()) >= most

    def places(self):
        """Where a nested call could stand among those who wait: behind each of them, or before all."""
        return [(float("-inf"),), *((*call.hold.order, float("inf")) for call in self.waiting())]

    def stuck(self, new, place):
        """Who can't go on if a call stands at `place`, though everybody ends who waits for nobody."""
        order = {call: call.hold.order for call in self.known} | {new: place}
        stuck = {call for call in [*self.known, new] if call.is_under_way}
        before = None
        while before != len(stuck):
            before = len(stuck)
            stuck = {call for call in stuck if self.is_stuck(call, stuck, order)}
        return stuck

    def is_stuck(self, call, stuck, order):
        if call.state == "running":
            return any(child in stuck for child in call.children)
        older = [each for each in stuck if each.state == "waiting" and order[each] < order[call]]
        in_the_way = [each for each in stuck if each.is_in_the_way or (each in older and each.has_come_to_the_locks)]
        if any(each.conflicts(call) for each in in_the_way):
            return True
        users = [each for each in stuck if each.state == "running" or each in older]
        return any(sum(pool in each.pools for each in users) >= most for pool, most in call.pools.items())

    @invariant()
    def calls_that_conflict_never_run_together(self):
        for one, other in combinations([call for call in self.known if call.is_in_the_way], 2):
            assert not one.conflicts(other) or one in other.beside or other in one.beside

    @invariant()
    def no_more_run_than_there_are_slots(self):
        for call in self.running():
            for pool, most in call.pools.items():
                assert sum(pool in other.pools for other in self.running()) <= most

    @invariant()
    def nobody_waits_without_a_reason(self):
        """The reason is somebody who runs, or somebody who goes before and has a reason himself."""
        with_reason, before = set(), None
        while before != len(with_reason):
            before = len(with_reason)
            with_reason |= {call for call in self.waiting() if self.has_a_reason(call, with_reason)}
        assert with_reason == set(self.waiting())

    def has_a_reason(self, call, others):
        if any(other.is_in_the_way and other.conflicts(call) for other in self.known):
            return True
        if any(self.is_full(pool, most) for pool, most in call.pools.items()):
            return True
        before = [other for other in others if other.has_come_to_the_locks and other.hold.order < call.hold.order]
        return any(other.conflicts(call) for other in before) or any(
            other.pools.keys() & call.pools for other in others
        )

    def teardown(self):
        """Whoever waits for nobody ends, until all have ended: nobody is left behind, and nothing is kept."""
        try:
            while alive := [call for call in self.known if call.is_under_way]:
                free = [call for call in self.running() if not any(child.is_under_way for child in call.children)]
                assert free, alive
                self.release(free[0])
                self.step()
                self.nobody_waits_without_a_reason()
                self.calls_that_conflict_never_run_together()
            assert not self.known or self.gate.is_empty
        finally:
            for loop in self.loops:
                loop.close()


async def wait_for(entering):
    return await entering


TestGate = GateMachine.TestCase
TestGate.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
