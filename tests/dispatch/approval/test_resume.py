"""Answers find their calls, in parts and in any order; and how a call goes on with its answer."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dispatch.approval.samples import NOW, a_pending, a_tool, resumed
from pegboard.dispatch.approval.pending import PendingCalls, RejectedError
from pegboard.dispatch.approval.request import Always, Later, Once, Reject
from pegboard.dispatch.approval.resume import match_answers
from pegboard.tools.context import ReadonlyContext

ANSWERS = st.sampled_from([Once(), Always(["x"]), Reject("no"), Later(), Once().to_json(), Reject().to_json()])
FORGED = st.sampled_from([None, True, "yes", {}, {"answer": "yes"}, {"answer": "once", "digest": "x"}, Once, 1])


def matched(calls, answers, **options):
    return match_answers(PendingCalls(calls), answers, ReadonlyContext(), now=NOW, **options)


def ids(done, *kinds):
    return [each.pending.id for each in done.resumed if isinstance(each.answer, kinds or object)]


def test_each_call_is_approved_rejected_or_left():
    one, two, three = a_pending(), a_pending(), a_pending()
    done = matched([one, two, three], {three.id: Reject("no"), one.id: Once()})
    assert [(each.pending, each.answer) for each in done.resumed] == [(one, Once()), (three, Reject("no"))]
    assert done.calls == (one.call, three.call)
    assert (done.left, done.ignored) == (PendingCalls([two]), ())


def test_the_first_answer_counts():
    call = a_pending()
    done = matched([call], [(call.id, Reject()), (call.id, Once())])
    assert (ids(done), ids(done, Reject), done.ignored) == ([call.id], [call.id], (call.id,))


def test_unknown_and_unreadable_answers_are_ignored():
    """And a readable one after them counts."""
    call = a_pending()
    given_ = [("unknown", Once()), (call.id, True), (7, Once()), (["x"], Once()), (call.id, {"answer": "once"})]
    done = matched([call], given_)
    assert ids(done, Once) == [call.id]
    assert done.ignored == ("unknown", call.id, "7", "['x']")


def test_an_answer_may_be_put_off_again():
    call = a_pending()
    done = matched([call], {call.id: Later()})
    assert (done.left, done.ignored) == (PendingCalls([call]), ())


def test_an_answer_to_a_call_that_waited_too_long_is_ignored():
    call = a_pending(created=NOW - 31 * 24 * 3600)
    assert matched([call], {call.id: Once()}).ignored == (call.id,)
    assert matched([call], {call.id: Once()}).left == PendingCalls([call])
    assert ids(matched([call], {call.id: Once()}, most_seconds=1e9)) == [call.id]
    assert match_answers(PendingCalls([call]), {call.id: Once()}, ReadonlyContext()).ignored == (call.id,)


@given(st.lists(st.tuples(st.sampled_from(["0", "1", "2", "else"]), ANSWERS | FORGED), max_size=8))
def test_whatever_order_and_repetition(answers):
    """Every call stands in one place; a call is approved only by the first answer to it that can be read; the order of
    answers to different calls makes no difference."""
    calls = {name: a_pending() for name in "012"}
    named = [(calls[name].id if name in calls else name, answer) for name, answer in answers]
    done = matched(calls.values(), named)
    places = [*ids(done), *(call.id for call in done.left)]
    assert sorted(places) == sorted(call.id for call in calls.values())
    for call in calls.values():
        first = next((_read(a) for name, a in named if name == call.id and _read(a) not in (None, "later")), None)
        assert (call.id in ids(done, Once, Always)) is (first in ("once", "always"))
        assert (call.id in ids(done, Reject)) is (first == "reject")
    by_call = sorted(named, key=lambda pair: pair[0])
    again = matched(calls.values(), by_call)
    assert (again.resumed, again.left) == (done.resumed, done.left)


def _read(answer):
    if isinstance(answer, Once | Always | Reject | Later):
        return answer.to_json()["answer"]
    return answer["answer"] if answer in (Once().to_json(), Reject().to_json()) else None


@pytest.mark.parametrize("answers", [{}, [], ()])
def test_no_answers_leave_all(answers):
    call = a_pending()
    assert matched([call], answers).left == PendingCalls([call])


# One call ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [Once(), Always()])
def test_an_approved_call_runs_with_what_was_approved(answer):
    pending = a_pending(arguments={"path": "a"})
    approval, confirmation = resumed(pending, answer)
    assert confirmation is None
    assert approval.consume(a_tool(), {"path": "a"}) == {"path": "a"}
    assert approval.request == pending.id


@pytest.mark.parametrize("subject", ["call", "permission"])
def test_a_rejected_call_doesnt_run(subject):
    with pytest.raises(RejectedError) as caught:
        resumed(a_pending(subject=subject), Reject("use trash"))
    assert (caught.value.kind, caught.value.text) == ("rejected", "The user rejected this call of delete: use trash")


def test_a_payload_comes_with_a_yes_to_the_call():
    pending = a_pending()
    confirmation = resumed(pending, Once({"limit": 3}))[1]
    assert (confirmation.confirmed, confirmation.payload) == (True, {"limit": 3})
    assert confirmation.to_question("") is None
