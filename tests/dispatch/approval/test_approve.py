"""The stage `approve`, behind `permit`: no run of what asks without a person's yes, and each yes is for one run."""

from __future__ import annotations

import asyncio

import pytest

from dispatch.approval.samples import a_tool, a_work, approved, surroundings
from pegboard.dispatch.approval.grants import MemoryGrants
from pegboard.dispatch.approval.pending import Approval, resumed_call
from pegboard.dispatch.approval.request import Always, Later, Once, Reject
from pegboard.dispatch.approve import approve, consume_approval, permit
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.work import CallError
from pegboard.testing.scripted import ScriptedApprover
from pegboard.tools.tool import Preview


def sent(work):
    asyncio.run(approved(work))
    return work


def refused(work):
    with pytest.raises(CallError) as caught:
        sent(work)
    assert work.approval is None
    return caught.value


def test_what_doesnt_ask_isnt_asked():
    work = a_work(surroundings(ScriptedApprover([])), a_tool())
    assert approve(work) is None
    assert sent(work).approval is None
    consume_approval(work)
    assert work.arguments == {"path": "a.txt"}


@pytest.mark.parametrize(
    "facts",
    [
        {"destructive": True},
        {"permission": "edit"},
        {"requires_confirmation": True},
        {"confirms": lambda arguments: True},
    ],
)
def test_what_asks_is_asked_and_approved(facts):
    """What a person was shown is what runs; the arguments are nobody else's."""
    arguments = {"path": "a.txt", "lines": [1]}
    with ScriptedApprover([Once()]) as approver:
        work = sent(a_work(surroundings(approver), a_tool(**facts), arguments))
    (request,) = approver.requests
    assert request.arguments == arguments
    assert (request.digest, request.id) == (work.approval.digest, work.approval.request)
    assert (request.subject, request.call.id, request.session) == ("call", "call-1", "s")
    consume_approval(work)
    assert work.arguments == arguments
    assert work.arguments["lines"] is not arguments["lines"]


def test_arguments_that_change_after_the_approval_dont_run():
    arguments = {"lines": [1]}
    work = sent(a_work(surroundings(ScriptedApprover([Once()])), arguments=arguments))
    arguments["lines"].append(2)
    with pytest.raises(CallError, match="isn't what was approved any more") as caught:
        consume_approval(work)
    assert caught.value.kind == "denied"


def test_an_approved_call_runs_once():
    work = sent(a_work(surroundings(ScriptedApprover([Once()]))))
    consume_approval(work)
    with pytest.raises(CallError, match="its approval has been used"):
        consume_approval(work)


def test_nothing_that_asks_runs_without_an_approval():
    work = sent(a_work(surroundings(ScriptedApprover([Once()]))))
    work.approval = None
    with pytest.raises(CallError, match="nobody has approved it"):
        consume_approval(work)


def test_an_earlier_approval_isnt_asked_for_again():
    work = a_work(surroundings(ScriptedApprover([])))
    work.approval = Approval.of(work.tool, work.arguments)
    sent(work)
    consume_approval(work)


def test_nobody_to_ask_denies_and_says_so():
    for around in (
        surroundings(None),
        surroundings(lambda *_: None),
        surroundings(lambda *_: Once()).evolve(asking=None),
    ):
        error = refused(a_work(around))
        assert (error.kind, error.text) == (
            "denied",
            "delete needs approval and nobody is there to ask. It was denied; go on without it.",
        )


@pytest.mark.parametrize(
    ("feedback", "settable", "ends", "text"),
    [
        (None, True, "rejected", "The user rejected this call of delete."),
        ("", True, "rejected", "The user rejected this call of delete."),
        (None, False, None, "The user rejected this call of delete."),
        ("use trash", True, None, "The user rejected this call of delete: use trash"),
    ],
)
def test_a_rejection_without_feedback_ends_the_turn(feedback, settable, ends, text):
    """One with feedback goes to the model."""
    limits = {"rejection_ends_turn": settable}
    work = a_work(surroundings(ScriptedApprover([Reject(feedback)]), limits=limits))
    error = refused(work)
    assert (error.kind, error.text, work.ends) == ("rejected", text, ends)


def test_always_holds_for_this_session():
    """And for no other."""
    grants = MemoryGrants()
    tool = a_tool(permission="delete", permission_arguments={"path": "text"})
    with ScriptedApprover([Always(), Once()]) as approver:
        around = surroundings(approver, grants=grants)
        first = sent(a_work(around, tool))
        assert first.approval is not None
        again = sent(a_work(around, tool))
        assert (again.asks, again.approval) == (None, None)
        assert sent(a_work(around, tool, session="t")).approval is not None
    assert approver.requests[0].always == ("a.txt",)


def test_a_forbid_rule_beats_what_was_allowed():
    grants = MemoryGrants()
    grants.add("s", "delete", ["*"])
    tool = a_tool(permission="delete", permission_arguments={"path": "text"})
    rules = [Rule("delete", "a*", "deny", forbid=True)]
    error = refused(a_work(surroundings(ScriptedApprover([]), grants=grants, rules=rules), tool))
    assert error.kind == "denied"


def test_always_settles_the_calls_that_wait_and_are_covered():
    """By the rules, with the new grants; the others wait on."""
    tool = a_tool(permission="delete", permission_arguments={"path": "text"})

    async def main():
        with ScriptedApprover([Always(["src/*"]), Once()]) as approver:
            around = surroundings(approver)
            works = [a_work(around, tool, {"path": path}) for path in ("src/a", "src/b", "docs/c", "src/d")]
            await asyncio.gather(*map(approved, works))
            assert [request.patterns for request in approver.requests] == [("src/a",), ("docs/c",)]
        for work in works:
            consume_approval(work)

    asyncio.run(main())


def test_reject_rejects_the_calls_that_wait():
    async def main():
        with ScriptedApprover([Reject("leave them")]) as approver:
            works = [a_work(surroundings(approver, asking=asking), arguments={"path": name}) for name in "ab"]
            errors = await asyncio.gather(*map(approved, works), return_exceptions=True)
        assert [error.kind for error in errors] == ["rejected", "rejected"]
        assert errors[1].text == ("The user rejected a call of delete, and this call of delete with it: leave them")

    asking = surroundings().asking
    asyncio.run(main())


def test_an_answer_may_come_later():
    """The call is kept with all that it takes to run it then, elsewhere."""
    tool = a_tool(destructive=True, preview=lambda arguments: Preview(f"deletes {arguments['path']}"))
    work = a_work(surroundings(ScriptedApprover([Later()])), tool, user="ann")
    error = refused(work)
    assert error.kind == "confirmation_required"
    assert "Don't call it again meanwhile" in error.text
    assert (work.pending.preview, work.pending.user, work.pending.session) == (Preview("deletes a.txt"), "ann", "s")
    assert (work.pending.subject, work.pending.approved, work.pending.earlier) == ("call", False, ())
    again = a_work(surroundings(ScriptedApprover([])), tool, user="ann")
    _, again.approval, _ = resumed_call(work.pending, Once())
    consume_approval(sent(again))


def test_a_payload_reaches_the_tool():
    work = sent(a_work(surroundings(ScriptedApprover([Once({"limit": 3})]))))
    assert work.context.confirmation.payload == {"limit": 3}
    assert sent(a_work(surroundings(ScriptedApprover([Once()])))).context.confirmation is None


def test_without_rules_what_was_asked_is_asked():
    """Nothing can say that it is covered by now."""
    tool = a_tool(permission="delete", permission_arguments={"path": "text"})

    async def main():
        with ScriptedApprover([Always(), Always()]) as approver:
            works = [a_work(surroundings(approver, asking=asking, grants=grants), tool) for _ in range(2)]
            for work in works:
                permit(work)
                work.around = work.around.evolve(permissions=None)
            await asyncio.gather(*map(approve, works))
        assert all(work.approval is not None for work in works)

    asking, grants = surroundings().asking, MemoryGrants()
    asyncio.run(main())
