"""What a running call asks: permissions and questions; answered now, or when it runs again."""

from __future__ import annotations

import asyncio

import pytest

from dispatch.approval.samples import a_tool, a_work, surroundings
from pegboard.dispatch.approval.grants import MemoryGrants
from pegboard.dispatch.approval.pending import PendingCalls, resumed_call
from pegboard.dispatch.approval.request import Always, Later, Once, Reject
from pegboard.dispatch.approve import ask_inside, confirm_inside
from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.work import CallError
from pegboard.errors import ToolError
from pegboard.testing.scripted import ScriptedApprover
from pegboard.tools.confirmation import Confirmation


def a_call(script=(), **options):
    return a_work(surroundings(ScriptedApprover(script), **options), a_tool("work"))


def asks(work, permission="edit", patterns=("a.txt",), **facts):
    return asyncio.run(ask_inside(work, permission, patterns, **facts))


def confirms(work, hint="Sure?", payload=None):
    return asyncio.run(confirm_inside(work, hint, payload))


def refused(function, *arguments, **facts):
    with pytest.raises(CallError) as caught:
        function(*arguments, **facts)
    return caught.value


def resumed(work, answer, script=(), **options):
    """The same call, run again in another process."""
    (pending,) = PendingCalls.loads(PendingCalls([work.pending]).dumps("k" * 32), "k" * 32)
    again = a_call(script, **options)
    again.call, again.approval, again.context.confirmation = resumed_call(pending, answer)
    return again


# Permissions --------------------------------------------------------------------------------------------------------


def test_rules_come_first():
    """What they allow isn't asked, what they deny is denied; without permissions everything runs."""
    asks(a_call(rules=[Rule("edit", "*.txt", "allow")]))
    error = refused(asks, a_call(rules=[Rule("edit", "*.txt", "deny")]))
    assert error.kind == "denied"
    assert "the permission 'edit' isn't given" in error.text
    asks(a_call(permissions=None))
    asks(a_call(permissions=Permissions(mode="bypass")))
    assert refused(asks, a_call(permissions=Permissions(mode="never_ask"))).kind == "denied"


def test_a_person_is_asked_what_the_tool_asks():
    work = a_call([Once()])
    asks(work, always=("*.txt",), metadata={"diff": "+1"})
    (request,) = work.around.approver.requests
    assert (request.permission, request.patterns, request.always) == ("edit", ("a.txt",), ("*.txt",))
    assert (request.subject, request.metadata) == ("permission", {"diff": "+1"})
    assert "+1" in request.to_text()


def test_once_is_once():
    """The same permission asked for again is asked again."""
    work = a_call([Once(), Once()])
    asks(work)
    asks(work)
    work.around.approver.close()


def test_always_is_for_the_session():
    grants = MemoryGrants()
    work = a_call([Always()], grants=grants)
    asks(work)
    asks(work)
    asks(a_call(grants=grants))
    work.around.approver.close()
    assert [rule.pattern for rule in grants.rules("s")] == ["a.txt"]


@pytest.mark.parametrize(
    ("patterns", "always", "proposed"),
    [
        (["a.txt"], [], ("a.txt",)),
        (["rm *"], [], ()),
        (["rm *"], ["rm *"], ()),
        (["a", "b?"], [], ()),
        (["*"], ["*"], ("*",)),
        (["git push"], ["git *"], ("git *",)),
        (["git push", "ls"], ["git *"], ()),
    ],
)
def test_always_allows_what_the_tool_says_and_no_more(patterns, always, proposed):
    """A wildcard that may be the model's is never granted; nor anything that wouldn't let this very ask pass."""
    work = a_call([Once()])
    asks(work, "bash", patterns, always=always)
    assert work.around.approver.requests[0].always == proposed


def test_a_rejection_ends_the_turn_as_any():
    work = a_call([Reject()])
    assert refused(asks, work).kind == "rejected"
    assert work.ends == "rejected"
    work = a_call([Reject("not that file")])
    assert "not that file" in refused(asks, work).text
    assert work.ends is None


def test_a_tool_may_go_on_without_what_it_wasnt_allowed():
    """But not before an answer that comes later."""
    for work in (a_call([Reject()]), a_call([None]), a_call(rules=[Rule("edit", "*", "deny")])):
        with pytest.raises(ToolError) as caught:
            asks(work)
        assert caught.value.kind in ("rejected", "denied")
        assert not caught.value.retryable
    assert not isinstance(refused(asks, a_call([Later()])), ToolError)


def test_nobody_there_denies():
    work = a_work(surroundings(None), a_tool("work"))
    assert "nobody is there to ask" in refused(asks, work).text


def test_a_permission_that_is_given_later_is_used_once():
    work = a_call([Later()])
    assert refused(asks, work).kind == "confirmation_required"
    assert (work.pending.subject, work.pending.permission) == ("permission", "edit")
    again = resumed(work, Once(), [Once()])
    asks(again)
    assert again.around.approver.requests == []
    asks(again)
    again.around.approver.close()


def test_a_permission_that_was_given_is_for_nothing_else():
    work = a_call([Later()])
    refused(asks, work, patterns=["a", "b"])
    again = resumed(work, Once(), [Once(), Once()])
    asks(again, patterns=["a", "c"])
    asks(again, "bash", ["a"])
    asks(again, patterns=["b"])
    assert len(again.around.approver.requests) == 2


def test_a_rule_that_denies_by_now_beats_an_answer():
    work = a_call([Later()])
    refused(asks, work)
    again = resumed(work, Once(), rules=[Rule("edit", "*", "deny")])
    assert refused(asks, again).kind == "denied"


def test_answers_of_several_turns_add_up():
    """Whether they came now or later; each ask finds its own."""
    work = a_call([Once(), Later()])
    asks(work, patterns=["a"])
    refused(asks, work, patterns=["b"])
    again = resumed(work, Once(), [Later()])
    asks(again, patterns=["a"])
    asks(again, patterns=["b"])
    refused(confirms, again)
    last = resumed(again, Reject())
    asks(last, patterns=["a"])
    asks(last, patterns=["b"])
    assert confirms(last).confirmed is False


def test_an_approved_call_stays_approved_when_it_runs_again():
    work = a_call([Later()])
    work.approval = object()
    refused(asks, work)
    assert work.pending.approved
    assert resumed(work, Once()).approval.consume(work.tool, {"path": "a.txt"}) == {"path": "a.txt"}


@pytest.mark.parametrize(
    ("permission", "patterns", "fault"),
    [
        ("", ["a"], ValueError),
        ("*", ["a"], ValueError),
        ("ed?t", ["a"], ValueError),
        (7, ["a"], TypeError),
        ("edit", [], ValueError),
        ("edit", [""], ValueError),
        ("edit", [7], TypeError),
    ],
)
def test_nonsense_is_the_tools_fault(permission, patterns, fault):
    with pytest.raises(fault):
        asks(a_call(), permission, patterns)


def test_one_pattern_may_stand_alone():
    work = a_call([Once()])
    asks(work, "edit", "a.txt")
    assert work.around.approver.requests[0].patterns == ("a.txt",)


def test_a_path_that_no_wire_takes_is_mended():
    work = a_call([Later()])
    refused(asks, work, patterns=["a\udcff"])
    again = resumed(work, Once())
    asks(again, patterns=["a\udcff"])


# Questions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "confirmation"),
    [
        (Once(), Confirmation("Sure?", confirmed=True, payload={"n": 1})),
        (Once({"n": 2}), Confirmation("Sure?", confirmed=True, payload={"n": 2})),
        (Always(), Confirmation("Sure?", confirmed=True, payload={"n": 1})),
        (Reject("why?"), Confirmation("Sure?", confirmed=False, payload={"n": 1}, feedback="why?")),
        (Reject(), Confirmation("Sure?", confirmed=False, payload={"n": 1})),
    ],
)
def test_a_question_is_answered(answer, confirmation):
    """No is an answer: it doesn't end the turn."""
    work = a_call([answer])
    assert confirms(work, payload={"n": 1}) == confirmation
    assert (work.ends, work.context.confirmation) == (None, confirmation)
    (request,) = work.around.approver.requests
    assert (request.subject, request.hint, request.payload, request.always) == ("question", "Sure?", {"n": 1}, ())


def test_a_question_is_asked_once_in_a_call():
    work = a_call([Once(), Reject()])
    assert confirms(work, "A?").confirmed
    assert not confirms(work, "B?").confirmed
    assert confirms(work, "A?").confirmed
    work.around.approver.close()


def test_a_question_that_is_answered_later():
    """The tool runs again from its start, and finds the answer; another question is another."""
    work = a_call([Later()])
    assert refused(confirms, work, "A?", [1]).kind == "confirmation_required"
    again = resumed(work, Once([2]), [Reject()])
    assert confirms(again, "A?", [1]).payload == [2]
    assert confirms(again, "B?").confirmed is False


def test_modes_and_rules_answer_questions_too():
    """For the permission `confirmation` and the tool's name."""
    assert confirms(a_call(permissions=Permissions(mode="bypass")), payload=7) == Confirmation(
        "Sure?", confirmed=True, payload=7
    )
    assert confirms(a_call(rules=[Rule("confirmation", "work", "allow")])).confirmed
    assert refused(confirms, a_call(rules=[Rule("confirmation", "work", "deny")])).kind == "denied"
    assert refused(confirms, a_call(permissions=Permissions(mode="never_ask"))).kind == "denied"
    assert confirms(a_call([Once()], permissions=None)).confirmed


@pytest.mark.parametrize(
    ("hint", "payload", "fault"),
    [("", None, ValueError), (7, None, TypeError), ("a" * 10_001, None, ValueError), ("Sure?", object(), ValueError)],
)
def test_a_question_that_cant_travel_is_the_tools_fault(hint, payload, fault):
    with pytest.raises(fault):
        confirms(a_call(), hint, payload)
