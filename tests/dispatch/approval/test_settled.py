"""Answers find their calls, in parts and in any order; anything else changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from dispatch.approval.samples import NOW, a_pending
from pegboard.dispatch.approval.pending import PendingCalls, match_answers
from pegboard.dispatch.approval.request import Always, Later, Once, Reject

ANSWERS = st.sampled_from([Once(), Always(["x"]), Reject("no"), Later(), Once().to_json(), Reject().to_json()])
FORGED = st.sampled_from([None, True, "yes", {}, {"answer": "yes"}, {"answer": "once", "digest": "x"}, Once, 1])


def settled(calls, answers, **options):
    return match_answers(PendingCalls(calls), answers, now=NOW, **options)


def ids(pairs):
    return [call.id for call, _ in pairs]


def test_each_call_is_approved_rejected_or_left():
    one, two, three = a_pending(), a_pending(), a_pending()
    done = settled([one, two, three], {three.id: Reject("no"), one.id: Once()})
    assert done.approved == ((one, Once()),)
    assert done.rejected == ((three, Reject("no")),)
    assert (done.left, done.ignored) == (PendingCalls([two]), ())


def test_the_first_answer_counts():
    call = a_pending()
    done = settled([call], [(call.id, Reject()), (call.id, Once())])
    assert (ids(done.approved), ids(done.rejected), done.ignored) == ([], [call.id], (call.id,))


def test_unknown_and_unreadable_answers_are_ignored():
    """And a readable one after them counts."""
    call = a_pending()
    given_ = [("unknown", Once()), (call.id, True), (7, Once()), (["x"], Once()), (call.id, {"answer": "once"})]
    done = settled([call], given_)
    assert ids(done.approved) == [call.id]
    assert done.ignored == ("unknown", call.id, "7", "['x']")


def test_an_answer_may_be_put_off_again():
    call = a_pending()
    done = settled([call], {call.id: Later()})
    assert (done.left, done.ignored) == (PendingCalls([call]), ())


def test_an_answer_to_a_call_that_waited_too_long_is_ignored():
    call = a_pending(created=NOW - 31 * 24 * 3600)
    assert settled([call], {call.id: Once()}).ignored == (call.id,)
    assert settled([call], {call.id: Once()}).left == PendingCalls([call])
    assert ids(settled([call], {call.id: Once()}, most_seconds=1e9).approved) == [call.id]
    assert match_answers(PendingCalls([call]), {call.id: Once()}).ignored == (call.id,)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["0", "1", "2", "else"]), ANSWERS | FORGED), max_size=8))
def test_whatever_order_and_repetition(answers):
    """Every call stands in one place; a call is approved only by the first answer to it that can be read; the order of
    answers to different calls makes no difference."""
    calls = {name: a_pending() for name in "012"}
    named = [(calls[name].id if name in calls else name, answer) for name, answer in answers]
    done = settled(calls.values(), named)
    places = [*ids(done.approved), *ids(done.rejected), *(call.id for call in done.left)]
    assert sorted(places) == sorted(call.id for call in calls.values())
    for call in calls.values():
        first = next((_read(a) for name, a in named if name == call.id and _read(a) not in (None, "later")), None)
        assert (call.id in ids(done.approved)) is (first in ("once", "always"))
        assert (call.id in ids(done.rejected)) is (first == "reject")
    by_call = sorted(named, key=lambda pair: pair[0])
    again = settled(calls.values(), by_call)
    assert (again.approved, again.rejected, again.left) == (done.approved, done.rejected, done.left)


def _read(answer):
    if isinstance(answer, Once | Always | Reject | Later):
        return answer.to_json()["answer"]
    return answer["answer"] if answer in (Once().to_json(), Reject().to_json()) else None


@pytest.mark.parametrize("answers", [{}, [], ()])
def test_no_answers_leave_all(answers):
    call = a_pending()
    assert settled([call], answers).left == PendingCalls([call])
