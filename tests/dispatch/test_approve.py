"""Calls that need approval run once per approval: the stages, and requests of a running call."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dispatch.approval.samples import a_request, a_tool, a_work, approved, consumed, resumed, shared_by_calls
from pegboard import (
    Always,
    Ask,
    CallError,
    Confirmation,
    Later,
    Limits,
    Once,
    PendingCalls,
    Permissions,
    Preview,
    ReadonlyContext,
    Reject,
    Rule,
    Tool,
    ToolContext,
    ToolSpec,
)
from pegboard.approval import MemoryGrants, session_key, tool_key
from pegboard.dispatch.approval.pending import Approval
from pegboard.dispatch.approve import (
    MOST_AT_ONCE,
    asking_of,
    denial,
)
from pegboard.dispatch.permissions.evaluation import Decision
from pegboard.dispatch.state import CallSnapshot, CallState, CurrentPermissions, Runtime, Settings
from pegboard.errors import ToolError
from pegboard.testing import ScriptedApprover
from pegboard.threads import WorkerPool

DEFAULT_LIMITS = Limits()

SHELL = Tool(
    ToolSpec("shell", input_schema={"type": "object"}, permission="bash", permission_arguments={"line": "command"})
)


@pytest.fixture
def prepared():
    threads = WorkerPool()

    def prepared(line, *rules, tool=SHELL, mode="default", grants=None, context=None, limits=DEFAULT_LIMITS):
        current = CurrentPermissions(Permissions(rules, mode))
        snapshot = CallSnapshot(Runtime(grants=grants or MemoryGrants()), lambda name: tool)
        vars(snapshot.runtime)["threads"] = threads
        own = ToolContext(context or ReadonlyContext())
        made = CallState(tool.name, {"line": line}, "1", own, snapshot, Settings(limits, current))
        made.tool, made.arguments = tool, {"line": line}
        return made

    yield prepared
    threads.close()


async def decide(state):
    """The request that the rules leave to the user, or `None`."""
    await asking_of(state).decide()
    return asking_of(state).request


def decided(state):
    return asyncio.run(decide(state))


def test_what_asks_is_left_to_be_asked(prepared):
    asks = prepared("git push")
    request = decided(asks)
    assert (request.permission, request.patterns, request.wider) == ("bash", ("git push",), ("git push *",))


def test_what_is_allowed_asks_nothing(prepared):
    for allowed in (
        prepared("ls", Rule("bash", "*", "allow")),
        prepared("ls", mode="bypass"),
    ):
        assert decided(allowed) is None


def test_a_tool_without_permission_or_rule_is_not_evaluated(prepared):
    plain = prepared("ls", Rule("bash", "*", "deny"), tool=Tool(ToolSpec("plain")))
    assert decided(plain) is None


@pytest.mark.parametrize("forbid", [False, True])
def test_a_denial_does_not_name_the_rule_to_the_model(prepared, forbid):
    with pytest.raises(CallError) as caught:
        decided(prepared("rm /srv/vault", Rule("b*", "rm /srv/*", "deny", forbid=forbid)))
    error = caught.value
    assert error.kind == "denied"
    assert error.text == (
        "shell was not run: the permission 'bash' is denied for this call. "
        "Continue without it, or tell the user what you need."
    )
    assert "rm /srv/*" in error.detail


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "ls; for i in 1; do ls; done",
            "the permission .*; only the pattern '\\*' allows 'ls': the line has 'for'. Continue",
        ),
        (
            "rm 'open",
            "is denied for this call; a rule may apply: it can't be read for sure \\(a quote isn't closed\\). ",
        ),
    ],
)
def test_a_refused_line_says_why_no_rule_allows_it(prepared, line, why):
    rules = [Rule("bash", "ls *", "allow"), Rule("bash", "rm *", "deny")]
    with pytest.raises(CallError, match=why):
        decided(prepared(line, *rules, mode="never_ask"))


def test_a_denial_by_the_mode_says_why(prepared):
    with pytest.raises(CallError, match="shell was not run: in plan mode only read-only tools run"):
        decided(prepared("ls", mode="plan"))
    with pytest.raises(CallError, match="the permission 'bash' is required, and the user isn't asked in this mode"):
        decided(prepared("ls", mode="never_ask"))
    with pytest.raises(CallError, match="the permission 'bash' is required, and the user isn't asked in this mode"):
        decided(prepared("ls", Rule("bash", "*", "ask"), mode="never_ask"))


def test_a_denial_may_name_another_permission_than_the_tools_own():
    plain = Tool(ToolSpec("plain"))
    decision = Decision("deny", Rule("net", "*", "deny"))
    assert "the permission 'net' is denied" in denial(Permissions(), plain, decision, "net").text
    assert "the permission 'plain' is denied" in denial(Permissions(), plain, decision).text


@pytest.mark.parametrize("line", ["ls " + "a" * MOST_AT_ONCE, ["ls", "a" * MOST_AT_ONCE], ["ls", *"a" * MOST_AT_ONCE]])
async def test_much_is_looked_at_in_a_thread(prepared, line):
    made = prepared(line, Rule("bash", "ls *", "allow"))
    made.arguments = {"line": line, "other": 5}
    await asking_of(made).decide()
    assert asking_of(made).request is None


def test_what_is_denied_in_a_thread_is_denied(prepared):
    async def ask():
        await decide(prepared("rm " + "a" * MOST_AT_ONCE, Rule("bash", "rm *", "deny")))

    with pytest.raises(CallError, match="is denied"):
        asyncio.run(ask())


@pytest.mark.parametrize("answer", [True, False])
async def test_a_tools_own_predicate_is_asked_off_the_loop(prepared, answer):
    asked = []

    def confirms(arguments):
        asked.append(threading.current_thread() is threading.main_thread())
        return answer

    made = prepared("ls", tool=Tool(ToolSpec("probe"), confirms=confirms))
    assert (await decide(made) is not None) is answer
    assert asked == [False]


def test_a_predicate_that_never_answers_costs_its_own_call(prepared):
    never = threading.Event()

    async def ask():
        made = prepared(
            "ls", tool=Tool(ToolSpec("probe"), confirms=lambda _: never.wait()), limits=Limits(callback_timeout=0.05)
        )
        await decide(made)

    with pytest.raises(CallError, match="probe was not run: checking whether it needs confirmation took too long"):
        asyncio.run(ask())
    never.set()


def sent(state):
    asyncio.run(approved(state))
    return state


def not_approved(state):
    with pytest.raises(CallError) as caught:
        sent(state)
    assert asking_of(state).approval is None
    return caught.value


def test_what_doesnt_ask_isnt_asked():
    state = a_work(shared_by_calls(ScriptedApprover([])), a_tool())
    assert asking_of(sent(state)).approval is None
    asyncio.run(consumed(state))
    assert state.arguments == {"path": "a.txt"}


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
    """What the user was shown is what runs, with arguments of its own."""
    arguments = {"path": "a.txt", "lines": [1]}
    with ScriptedApprover([Once()]) as approver:
        state = sent(a_work(shared_by_calls(approver), a_tool(**facts), arguments))
    (request,) = approver.requests
    assert request.arguments == arguments
    assert (request.digest, request.id) == (
        asking_of(state).approval.request.digest,
        asking_of(state).approval.request.id,
    )
    assert (request.subject, request.call.id, request.session) == ("call", "call-1", "s")
    asyncio.run(consumed(state))
    assert state.arguments == arguments
    assert state.arguments["lines"] is not arguments["lines"]


def test_arguments_that_change_after_the_approval_dont_run():
    arguments = {"lines": [1]}
    state = sent(a_work(shared_by_calls(ScriptedApprover([Once()])), arguments=arguments))
    arguments["lines"].append(2)
    with pytest.raises(CallError, match="isn't what was approved any more") as caught:
        asyncio.run(consumed(state))
    assert caught.value.kind == "denied"


def test_an_approved_call_runs_once():
    state = sent(a_work(shared_by_calls(ScriptedApprover([Once()]))))
    asyncio.run(consumed(state))
    with pytest.raises(CallError, match="its approval has been used"):
        asyncio.run(consumed(state))


def test_nothing_that_asks_runs_without_an_approval():
    state = sent(a_work(shared_by_calls(ScriptedApprover([Once()]))))
    asking_of(state).approval = None
    with pytest.raises(CallError, match="it isn't approved"):
        asyncio.run(consumed(state))


def test_an_earlier_approval_isnt_asked_for_again():
    state = a_work(shared_by_calls(ScriptedApprover([])))
    asking_of(state).approval = Approval(a_request(tool=state.tool, patterns=("*",)))
    sent(state)
    asyncio.run(consumed(state))


def test_without_an_approver_a_call_is_denied():
    for shared in (
        shared_by_calls(None),
        shared_by_calls(lambda *_: None),
    ):
        error = not_approved(a_work(shared))
        assert (error.kind, error.text) == (
            "denied",
            (
                "delete needs approval (it is marked destructive), and there is no approver. It was denied. "
                "Continue without it."
            ),
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
    state = a_work(shared_by_calls(ScriptedApprover([Reject(feedback)]), limits=limits))
    error = not_approved(state)
    assert (error.kind, error.text, state.end_reason) == ("rejected", text, ends)


@pytest.mark.parametrize("forbid", [True, False])
def test_a_rule_that_denies_beats_what_was_allowed(forbid):
    tool = a_tool(permission="delete", permission_arguments={"path": "text"})
    grants = MemoryGrants()
    grants.add(session_key(ReadonlyContext(session="s")), tool_key(tool), [Rule("delete", "*", "allow")])
    around = shared_by_calls(ScriptedApprover([]), grants=grants, rules=[Rule("delete", "a*", "deny", forbid=forbid)])
    assert not_approved(a_work(around, tool)).kind == "denied"
    assert sent(a_work(around, tool, {"path": "b"})).asking.request is None


def test_an_answer_may_come_later():
    """The pending call has all data to run it later, in another process."""
    tool = a_tool(destructive=True, preview=lambda arguments: Preview(f"deletes {arguments['path']}"))
    state = a_work(shared_by_calls(ScriptedApprover([Later()])), tool, user="ann")
    error = not_approved(state)
    assert error.kind == "confirmation_required"
    assert "Don't call it again until then" in error.text
    assert (state.pending.preview, state.pending.user, state.pending.session) == (Preview("deletes a.txt"), "ann", "s")
    assert (state.pending.subject, state.pending.approved, state.pending.earlier) == ("call", False, ())
    again = a_work(shared_by_calls(ScriptedApprover([])), tool, user="ann")
    asking_of(again).approval = resumed(state.pending, Once())[0]
    asyncio.run(consumed(sent(again)))


def test_a_payload_reaches_the_tool():
    state = sent(a_work(shared_by_calls(ScriptedApprover([Once({"limit": 3})]))))
    assert state.context.confirmation.payload == {"limit": 3}
    assert sent(a_work(shared_by_calls(ScriptedApprover([Once()])))).context.confirmation is None


def a_call(script=(), **options):
    return a_work(shared_by_calls(ScriptedApprover(script), **options), a_tool("work"))


def asks(state, permission="edit", patterns=("a.txt",), **facts):
    return asyncio.run(asking_of(state).ask("permission", Ask(permission, patterns, **facts)))


def confirms(state, hint="Sure?", payload=None):
    return asyncio.run(asking_of(state).confirm(hint, payload))


def refused(function, *arguments, **facts):
    with pytest.raises(CallError) as caught:
        function(*arguments, **facts)
    return caught.value


def again_with(state, answer, script=(), **options):
    """The same call, run again in another process."""
    (pending,) = PendingCalls.loads(PendingCalls([state.pending]).dumps("k" * 32), "k" * 32)
    again = a_call(script, **options)
    again.replace(pending.call)
    approval, again.context.confirmation = resumed(pending, answer)
    asking_of(again).approval = approval
    return again


def test_rules_come_first():
    """Before the user is asked."""
    asks(a_call(rules=[Rule("edit", "*.txt", "allow")]))
    error = refused(asks, a_call(rules=[Rule("edit", "*.txt", "deny")]))
    assert error.kind == "denied"
    assert "the permission 'edit' is denied" in error.text
    asks(a_call(permissions=Permissions(mode="bypass")))
    assert refused(asks, a_call(permissions=Permissions(mode="never_ask"))).kind == "denied"


def test_a_person_is_asked_what_the_tool_asks():
    state = a_call([Once()])
    asks(state, always=("*.txt",), metadata={"diff": "+1"})
    (request,) = state.settings.approver.requests
    assert (request.permission, request.patterns, request.wider) == ("edit", ("a.txt",), ("*.txt",))
    assert (request.subject, request.metadata) == ("permission", {"diff": "+1"})
    assert "+1" in request.to_text()


def test_once_is_once():
    """The same permission asked for again is asked again."""
    state = a_call([Once(), Once()])
    asks(state)
    asks(state)
    state.settings.approver.close()


def test_always_is_for_the_session():
    grants = MemoryGrants()
    state = a_call([Always()], grants=grants)
    asks(state)
    asks(state)
    asks(a_call(grants=grants))
    state.settings.approver.close()


@pytest.mark.parametrize(
    ("patterns", "always", "wider"),
    [
        (["a.txt"], [], ()),
        (["rm *"], [], ()),
        (["git push"], ["git *"], ("git *",)),
        (["git push", "ls"], ["git *"], ()),
    ],
)
def test_always_grants_exactly_the_request_and_offers_the_tools_wider_patterns(patterns, always, wider):
    """Where it would let this very ask pass. A wildcard that is asked for, which may be the model's, is none then."""
    grants = MemoryGrants()
    state = a_call([Always(), Once()], grants=grants)
    asks(state, "bash", patterns, always=always)
    assert state.settings.approver.requests[0].wider == wider
    asks(a_call(grants=grants), "bash", patterns)
    asks(state, "bash", [each.replace("*", "x") + "y" for each in patterns])
    state.settings.approver.close()


def test_a_rejection_ends_the_turn_as_any():
    state = a_call([Reject()])
    assert refused(asks, state).kind == "rejected"
    assert state.end_reason == "rejected"
    state = a_call([Reject("not that file")])
    assert "not that file" in refused(asks, state).text
    assert state.end_reason is None


def test_a_tool_may_go_on_without_what_it_wasnt_allowed():
    """But not while an answer is pending."""
    for state in (a_call([Reject()]), a_call([None]), a_call(rules=[Rule("edit", "*", "deny")])):
        with pytest.raises(ToolError) as caught:
            asks(state)
        assert caught.value.kind in ("rejected", "denied")
        assert not caught.value.retryable
    assert not isinstance(refused(asks, a_call([Later()])), ToolError)


def test_a_permission_that_is_given_later_is_used_once():
    state = a_call([Later()])
    assert refused(asks, state).kind == "confirmation_required"
    assert (state.pending.subject, state.pending.permission) == ("permission", "edit")
    again = again_with(state, Once(), [Once()])
    asks(again)
    assert again.settings.approver.requests == []
    asks(again)
    again.settings.approver.close()


def test_a_permission_that_was_given_is_for_nothing_else():
    state = a_call([Later()])
    refused(asks, state, patterns=["a", "b"])
    again = again_with(state, Once(), [Once(), Once()])
    asks(again, patterns=["a", "c"])
    asks(again, "bash", ["a"])
    asks(again, patterns=["b"])
    assert len(again.settings.approver.requests) == 2


def test_a_rule_that_denies_by_now_beats_an_answer():
    state = a_call([Later()])
    refused(asks, state)
    again = again_with(state, Once(), rules=[Rule("edit", "*", "deny")])
    assert refused(asks, again).kind == "denied"


def test_answers_of_several_turns_add_up():
    """Whether they came now or later; each request uses its own."""
    state = a_call([Once(), Later()])
    asks(state, patterns=["a"])
    refused(asks, state, patterns=["b"])
    again = again_with(state, Once(), [Later()])
    asks(again, patterns=["a"])
    asks(again, patterns=["b"])
    refused(confirms, again)
    last = again_with(again, Reject())
    asks(last, patterns=["a"])
    asks(last, patterns=["b"])
    assert confirms(last).confirmed is False


def test_an_approved_call_stays_approved_when_it_runs_again():
    state = a_call([Later()])
    asking_of(state).approval = object()
    refused(asks, state)
    assert state.pending.approved
    assert asking_of(again_with(state, Once())).approval.consume(state.tool, {"path": "a.txt"}) == {"path": "a.txt"}


@pytest.mark.parametrize(
    ("permission", "patterns", "fault"),
    [
        *((each, ["a"], ValueError) for each in ("", "*", "ed?t", "edit\nasked because safe", " edit")),
        (7, ["a"], TypeError),
        ("edit", [], ValueError),
        ("edit", [""], ValueError),
        ("edit", [7], TypeError),
    ],
)
def test_nonsense_is_the_tools_fault(permission, patterns, fault):
    with pytest.raises(fault):
        asks(a_call(), permission, patterns)


def test_a_single_pattern_may_be_a_string():
    state = a_call([Once()])
    asks(state, "edit", "a.txt")
    assert state.settings.approver.requests[0].patterns == ("a.txt",)


def test_a_path_that_no_wire_takes_is_mended():
    state = a_call([Later()])
    refused(asks, state, patterns=["a\udcff"])
    again = again_with(state, Once())
    asks(again, patterns=["a\udcff"])


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
    state = a_call([answer])
    assert confirms(state, payload={"n": 1}) == confirmation
    assert (state.end_reason, state.context.confirmation) == (None, confirmation)
    (request,) = state.settings.approver.requests
    assert (request.subject, request.hint, request.payload, request.always) == ("question", "Sure?", {"n": 1}, ())


def test_a_question_is_asked_once_in_a_call():
    state = a_call([Once(), Reject()])
    assert confirms(state, "A?").confirmed
    assert not confirms(state, "B?").confirmed
    assert confirms(state, "A?").confirmed
    state.settings.approver.close()


def test_a_question_that_is_answered_later():
    """The tool runs again from its start, and finds the answer; another question is another."""
    state = a_call([Later()])
    assert refused(confirms, state, "A?", [1]).kind == "confirmation_required"
    again = again_with(state, Once([2]), [Reject()])
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
    assert confirms(a_call([Once()])).confirmed


@pytest.mark.parametrize(
    ("hint", "payload", "fault"),
    [("", None, ValueError), (7, None, TypeError), ("a" * 10_001, None, ValueError), ("Sure?", object(), ValueError)],
)
def test_a_question_that_cant_travel_is_the_tools_fault(hint, payload, fault):
    with pytest.raises(fault):
        confirms(a_call(), hint, payload)
