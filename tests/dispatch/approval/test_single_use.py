"""In any order: no approval is used twice, none is valid for another call, and nothing runs without one.

Model of a host: calls are asked about, answered at once or later, in any order, in parts, repeatedly, with forged
answers in between; pending calls travel as signed text to several processes that share one store; calls are resumed any
number of times.
"""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from dispatch.approval.samples import a_tool, a_work, approved, authorized, consumed, shared_by_calls
from pegboard import CallError, Later, Once, PendingCalls, ReadonlyContext, Reject
from pegboard.approval import MemoryGrants
from pegboard.dispatch.approval.pending import match_answers
from pegboard.dispatch.approve import asking_of
from pegboard.errors import PendingError

KEY = b"a key of sixteen bytes or more"
ARGUMENTS = st.sampled_from(["a", "b", "c"])
FORGED = st.sampled_from([True, None, {"answer": "once", "digest": "x"}, {"answer": "yes"}, {"confirmed": True}])


class Host(RuleBasedStateMachine):
    """`allowed` has what a person has allowed, and `run` what has run, both as (request, path)."""

    texts = Bundle("texts")
    states = Bundle("works")

    def __init__(self):
        super().__init__()
        self.grants = MemoryGrants()
        self.tool = a_tool(destructive=True)
        self.allowed, self.run, self.asked = set(), [], {}

    def answered(self, answer):
        async def approver(request, context):
            self.asked[request.id] = request.arguments["path"]
            if isinstance(answer, Once):
                self.allowed.add((request.id, request.arguments["path"]))
            return answer

        return approver

    def a_call(self, path, approver=None):
        return a_work(shared_by_calls(approver, grants=self.grants), self.tool, {"path": path})

    def attempt(self, state):
        """As the stage `run`: the last check, then the handler."""
        with contextlib.suppress(CallError):
            asyncio.run(consumed(state))
            self.run.append((asking_of(state).approval.request.id, state.arguments["path"]))

    @rule(path=ARGUMENTS, answer=st.sampled_from([Once(), Reject(), Reject("no"), None]), target=states)
    def ask(self, path, answer):
        state = self.a_call(path, self.answered(answer))
        with contextlib.suppress(CallError):
            asyncio.run(approved(state))
        assert (asking_of(state).approval is not None) is isinstance(answer, Once)
        return state

    @rule(paths=st.lists(ARGUMENTS, min_size=1, max_size=3), target=texts)
    def ask_later(self, paths):
        pending = []
        for path in paths:
            state = self.a_call(path, self.answered(Later()))
            with pytest.raises(CallError, match="waiting for the user's answer"):
                asyncio.run(approved(state))
            pending.append(state.pending)
        return PendingCalls(pending).dumps(KEY)

    @rule(state=states, path=ARGUMENTS)
    def change(self, state, path):
        """Through another reference to the arguments."""
        if isinstance(state.arguments, dict):
            state.arguments["path"] = path

    @rule(state=states)
    def try_to_run(self, state):
        self.attempt(state)

    @rule(state=states, other=states)
    def swap_approvals(self, state, other):
        one, another = asking_of(state), asking_of(other)
        one.approval, another.approval = another.approval, one.approval

    @rule(
        text=texts,
        given=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([Once(), Reject(), Later()]) | FORGED), max_size=5),
        repeated=st.booleans(),
    )
    def resume(self, text, given, repeated):
        pending = PendingCalls.loads(text, KEY)
        ids = [*(call.id for call in pending), "unknown", "unknown", "unknown"]
        answers = [(ids[place], answer) for place, answer in given]
        for _ in range(2 if repeated else 1):
            context = ReadonlyContext(session="s")
            for resumed in match_answers(pending, answers, context)[0].values():
                call = resumed.pending
                if isinstance(resumed.answer, Once):
                    self.allowed.add((call.id, call.arguments["path"]))
                with contextlib.suppress(CallError):
                    approval, _ = authorized(resumed, self.grants, context, self.tool)
                    state = self.a_call(call.arguments["path"])
                    state.replace(call.call)
                    asking_of(state).approval = approval
                    asyncio.run(approved(state))
                    self.attempt(state)
                    self.attempt(state)

    @rule(text=consumes(texts), place=st.integers(0, 10_000), byte=st.integers(0, 255), path=ARGUMENTS)
    def forge(self, text, place, byte, path):
        """One byte of the text, or an argument."""
        data = bytearray(text.encode())
        data[place % len(data)] = byte
        forged = json.loads(text)
        forged["calls"][0]["call"]["arguments"]["path"] = path
        for each in (bytes(data), json.dumps(forged)):
            try:
                read = PendingCalls.loads(each, KEY)
            except PendingError:
                continue
            assert read.to_json() == PendingCalls.loads(text, KEY).to_json()

    @invariant()
    def what_ran_was_allowed_and_ran_once(self):
        requests = [request for request, _ in self.run]
        assert len(requests) == len(set(requests))
        assert set(self.run) <= self.allowed
        assert all(self.asked[request] == path for request, path in self.run)


Host.TestCase.settings = settings(stateful_step_count=20)
TestNoApprovalIsUsedTwice = Host.TestCase
