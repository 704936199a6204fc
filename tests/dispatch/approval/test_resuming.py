"""How a call goes on once its answer is there."""

from __future__ import annotations

import pytest

from dispatch.approval.samples import a_pending, a_request, a_tool
from pegboard.dispatch.approval.pending import RejectedError, SuspendedError, confirmation_of, resumed_call
from pegboard.dispatch.approval.request import Always, Later, Once, Reject
from pegboard.dispatch.work import CallError
from pegboard.tools.confirmation import Confirmation


@pytest.mark.parametrize("answer", [Once(), Always()])
def test_an_approved_call_runs_with_what_was_approved(answer):
    pending = a_pending(arguments={"path": "a"})
    call, approval, confirmation = resumed_call(pending, answer)
    assert (call, confirmation) == (pending.call, None)
    assert approval.consume(a_tool(), {"path": "a"}) == {"path": "a"}
    assert approval.request == pending.id


def test_the_approval_is_for_the_tool_as_it_was():
    _, approval, _ = resumed_call(a_pending(), Once())
    with pytest.raises(CallError, match="isn't what was approved"):
        approval.consume(a_tool(description="it says something else now"), {"path": "a.txt"})


@pytest.mark.parametrize("subject", ["call", "permission"])
def test_a_rejected_call_doesnt_run(subject):
    with pytest.raises(RejectedError) as caught:
        resumed_call(a_pending(subject=subject), Reject("use trash"))
    assert (caught.value.kind, caught.value.text) == ("rejected", "The user rejected this call of delete: use trash")


def test_a_call_whose_answer_comes_later_still_waits():
    pending = a_pending()
    with pytest.raises(SuspendedError) as caught:
        resumed_call(pending, Later())
    assert (caught.value.kind, caught.value.pending) == ("confirmation_required", pending)


@pytest.mark.parametrize(
    ("answer", "confirmation"),
    [
        (Once(), Confirmation("Sure?", confirmed=True, payload={"n": 1})),
        (Once({"n": 2}), Confirmation("Sure?", confirmed=True, payload={"n": 2})),
        (Always(), Confirmation("Sure?", confirmed=True, payload={"n": 1})),
        (Reject(), Confirmation("Sure?", confirmed=False, payload={"n": 1})),
        (Reject("why?"), Confirmation("Sure?", confirmed=False, payload={"n": 1}, feedback="why?")),
    ],
)
def test_a_question_is_answered_by_yes_and_by_no(answer, confirmation):
    """The tool runs again either way; with an approval only where the call had one."""
    pending = a_pending(subject="question", hint="Sure?", payload={"n": 1})
    assert resumed_call(pending, answer) == (pending.call, None, confirmation)


def test_a_permission_from_inside_is_given_for_what_was_asked():
    pending = a_pending(subject="permission", permission="edit", patterns=("a", "b"), approved=True)
    _, approval, confirmation = resumed_call(pending, Once())
    assert approval.digest == pending.digest
    assert confirmation.to_permission("edit", ["a"]).confirmed
    assert confirmation.to_question("") is None


def test_earlier_answers_stay_known():
    earlier = Confirmation("First?", confirmed=True)
    pending = a_pending(subject="question", hint="Second?", earlier=[earlier])
    confirmation = resumed_call(pending, Reject())[2]
    assert confirmation.to_question("First?") == earlier
    assert confirmation.to_question("Second?").confirmed is False


def test_a_payload_comes_with_a_yes_to_the_call():
    pending = a_pending()
    confirmation = resumed_call(pending, Once({"limit": 3}))[2]
    assert (confirmation.confirmed, confirmation.payload) == (True, {"limit": 3})
    assert confirmation.to_question("") is None


def test_a_request_is_confirmed_the_same_way():
    """Live, and later."""
    request = a_request(subject="question", hint="Sure?")
    assert confirmation_of(request, Once()) == Confirmation("Sure?", confirmed=True)
