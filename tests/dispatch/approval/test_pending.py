"""Pending calls: approvals, digests, signatures, and confirmation as a message."""

from __future__ import annotations

import contextlib
import copy
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from dispatch.approval.samples import NOW, a_pending, a_request, a_tool, authorized, resumed
from pegboard import (
    Always,
    ApprovalRequest,
    CallError,
    Confirmation,
    Later,
    Once,
    PendingCalls,
    Preview,
    ReadonlyContext,
    Reject,
    Rule,
    ToolCall,
    ToolResult,
)
from pegboard.approval import (
    MemoryGrants,
    PendingCall,
    RefusedError,
    answer_from_result,
    confirmation_call,
    original_call_from,
    session_key,
    tool_key,
)
from pegboard.dispatch.approval import pending as module
from pegboard.dispatch.approval.pending import CONFIRMATION_CALL, Approval, digest_of_call, match_answers
from pegboard.errors import InvalidNameError, PendingError
from pegboard.json import canonical_json
from pegboard.tools import check_name
from strategies import json_values, mutated

OBJECTS = st.dictionaries(st.text(max_size=4), json_values(), max_size=3)


def test_key_order_and_number_format_do_not_change_the_digest():
    one, two = {"a": 1.0, "b": [2]}, {"b": [2.0], "a": 1}
    assert digest_of_call(tool_key(a_tool()), one) == digest_of_call(tool_key(a_tool()), two)


@pytest.mark.parametrize("value", [float("nan"), object(), {1}])
def test_what_is_no_json_has_no_digest(value):
    with pytest.raises((TypeError, ValueError)):
        digest_of_call(tool_key(a_tool()), {"a": value})


def refused(approval, tool, arguments):
    with pytest.raises(CallError) as caught:
        approval.consume(tool, arguments)
    assert caught.value.kind == "denied"
    return caught.value.text


def test_the_arguments_that_run_are_a_private_copy():
    """They are parsed again: other references change nothing; the order of keys and 1.0 stay."""
    arguments = {"z": {"paths": ["a"]}, "a": 1.0}
    approval = Approval(a_request(arguments=arguments))
    run = approval.consume(a_tool(), copy.deepcopy(arguments))
    arguments["z"]["paths"].append("b")
    assert run == {"z": {"paths": ["a"]}, "a": 1.0}
    assert (list(run), type(run["a"])) == (["z", "a"], float)


CYCLE = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        *((a_tool(), each) for each in ({"path": "b"}, {"path": "a", "force": True}, {"path": object()})),
        *((a_tool(), each) for each in ({"path": float("nan")}, {"path": CYCLE})),
        (a_tool("other"), {"path": "a"}),
        (a_tool(description="it has changed"), {"path": "a"}),
    ],
)
def test_an_approval_is_not_valid_for_another_call(tool, arguments):
    """And it is used up by the attempt."""
    approval = Approval(a_request(arguments={"path": "a"}))
    assert "it isn't what was approved any more" in refused(approval, tool, arguments)
    assert "has been used" in refused(approval, a_tool(), {"path": "a"})


def test_only_one_thread_may_use_an_approval():
    approval = Approval(a_request(arguments={}))
    start, used = threading.Barrier(8), []

    def use(_):
        start.wait()
        with contextlib.suppress(CallError):
            used.append(approval.consume(a_tool(), {}))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(8)))
    assert used == [{}]


@pytest.mark.slow
@given(OBJECTS, st.data())
def test_no_approval_is_valid_for_another_digest(approved, data):
    """For any change of the arguments."""
    other = data.draw(mutated(approved).filter(lambda value: isinstance(value, dict)))
    approval = Approval(a_request(arguments=approved))
    if canonical_json(other) == canonical_json(approved):
        assert canonical_json(approval.consume(a_tool(), other)) == canonical_json(approved)
    else:
        refused(approval, a_tool(), other)


KEY = "a key of sixteen bytes or more"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
CONFIRMATIONS = st.builds(
    Confirmation, TEXTS, st.booleans(), json_values(), st.none() | TEXTS, st.none() | TEXTS, st.lists(TEXTS, max_size=2)
)
PENDING = st.builds(
    a_pending,
    arguments=OBJECTS,
    approved=st.booleans(),
    created=st.floats(0, 1e10),
    earlier=st.lists(CONFIRMATIONS, max_size=2),
    permission=TEXTS,
    patterns=st.lists(TEXTS, max_size=2).map(tuple),
    always=st.lists(TEXTS, max_size=2).map(tuple),
    reason=TEXTS,
    subject=st.sampled_from(["call", "permission", "question"]),
    hint=TEXTS,
    payload=json_values(),
    preview=st.none() | st.builds(Preview, TEXTS, TEXTS),
    user=st.none() | TEXTS,
    session=st.none() | TEXTS,
)
SEVERAL = st.lists(PENDING, max_size=2).map(PendingCalls)


def test_a_pending_call_stores_the_request():
    pending = a_pending(user="ann", session="s", hint="h", reason="r", payload=1, preview=Preview("p"))
    assert pending.call == ToolCall("delete", '{"path":"a.txt"}', "call-1")
    assert (pending.arguments, pending.created, pending.spec_digest) == ({"path": "a.txt"}, NOW, tool_key(a_tool()))
    assert pending.is_for(ReadonlyContext(user="ann", session="s"))
    assert not pending.is_for(ReadonlyContext(user="bob", session="s"))
    assert not pending.is_for(ReadonlyContext(user="ann", session="t"))


def test_a_pending_call_stores_provider_metadata():
    call = evolve(a_pending().call, provider_metadata={"signature": "abc"}, title="Delete a", dynamic=True)
    pending = evolve(a_pending(), call=call)
    assert PendingCalls.loads(PendingCalls([pending]).dumps()).calls[0].call == call


@pytest.mark.slow
@given(SEVERAL, st.sampled_from([None, KEY, KEY.encode()]))
def test_text_keeps_everything(pending, key):
    read = PendingCalls.loads(pending.dumps(key), key)
    assert read.to_json() == pending.to_json()
    assert [call.digest for call in read] == [call.digest for call in pending]


@pytest.mark.slow
@given(PENDING.map(lambda pending: PendingCalls([pending])), st.data())
def test_a_key_detects_every_changed_byte_or_value(pending, data):
    """A change that is still read has the same content: a space between two members, say."""
    text = bytearray(pending.dumps(KEY).encode())
    forged = json.dumps(data.draw(mutated(json.loads(text))))
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] = data.draw(st.integers(0, 255))
    for each in (bytes(text), forged):
        with contextlib.suppress(PendingError):
            assert PendingCalls.loads(each, KEY).to_json() == pending.to_json()


@given(PENDING, OBJECTS)
def test_without_a_key_other_arguments_need_another_digest(pending, arguments):
    """So the arguments that are shown with the digest are those that would run."""
    data = pending.to_json()
    data["call"]["arguments"] = arguments
    try:
        read = PendingCall.from_json(data)
    except PendingError:
        return
    Approval(read).consume(a_tool(), pending.arguments)


@pytest.mark.parametrize("signature", [{}, {"signature": 7}, None])
def test_with_a_key_what_isnt_signed_with_it_is_refused(signature):
    data = json.loads(PendingCalls([a_pending()]).dumps(f"{KEY}!"))
    text = json.dumps(data if signature is None else {"version": 2, "calls": data["calls"], **signature})
    with pytest.raises(PendingError, match="not signed with this key, or changed since"):
        PendingCalls.loads(text, KEY)
    assert len(PendingCalls.loads(text)) == 1


def test_a_signature_stays_valid_when_the_json_is_reformatted():
    """As databases do that store JSON: other spaces, another order."""
    pending = PendingCalls([a_pending(arguments={"b": 1.0, "a": "ä"})])
    again = json.dumps(json.loads(pending.dumps(KEY)), indent=2, sort_keys=True)
    assert PendingCalls.loads(again, KEY).calls[0].digest == pending.calls[0].digest


@pytest.mark.parametrize("use", [PendingCalls().dumps, lambda key: PendingCalls.loads("{}", key)])
@pytest.mark.parametrize("key", ["", b"short", "fifteen bytes.."])
def test_a_short_key_is_refused(use, key):
    with pytest.raises(ValueError, match="a key must have at least 16 bytes"):
        use(key)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not pending calls"),
        ("{", "not pending calls"),
        ("[]", "version None"),
        ("{}", "version None; this pegboard knows version 2"),
        ('{"version": 3, "calls": []}', "version 3"),
        ('{"version": true, "calls": []}', "version True"),
        ('{"version": 1}', "there must be 'version', 'calls'"),
        ('{"version": 1, "calls": {}}', "calls: must be an array, got dict"),
        ('{"version": 1, "calls": [], "more": 1}', "and nothing else"),
        ('{"version": 1, "version": 1, "calls": []}', "not pending calls"),
        ('{"version": 1, "calls": [NaN]}', "not pending calls"),
        ('{"version": 1, "calls": [1e400]}', "not pending calls"),
        ('{"version": 1, "calls": [7]}', "calls.0.: must be an object"),
        ('{"version": 1, "calls": [{}]}', "call: missing"),
        *((each, "not pending calls") for each in ("[" * 10_000, b"\xff", "\ud800")),
    ],
)
def test_what_isnt_pending_calls_is_refused(text, reason):
    with pytest.raises(PendingError, match=reason):
        PendingCalls.loads(text)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"more": 1}, "more: unknown key"),
        ({"id": 7}, "id: must be a string"),
        ({"created": "now"}, "created: must be a number"),
        ({"created": float("inf")}, "not a pending call"),
        ({"subject": "else"}, "subject"),
        ({"payload": object()}, "not a pending call"),
        ({"preview": {"summary": 1}}, "preview.summary"),
        ({"earlier": [{"hint": "h", "confirmed": 1}]}, "earlier.0..confirmed"),
        ({"call": {"name": "delete"}}, "its digest isn't that of its tool and arguments"),
        ({"call": {"name": "delete", "arguments": "{}"}}, "call.arguments: must be an object"),
        ({"call": {"name": 7, "arguments": {"path": "a.txt"}}}, "call.name"),
        ({"call": {"name": "delete", "arguments": {"path": "b"}}}, "its digest isn't that of its tool and arguments"),
        ({"specDigest": "sha256:0"}, "its digest isn't that of its tool and arguments"),
        ({"digest": "sha256:0"}, "its digest isn't that of its tool and arguments"),
    ],
)
def test_a_forged_call_is_refused_with_a_reason(change, reason):
    with pytest.raises(PendingError, match=reason):
        PendingCall.from_json({**a_pending().to_json(), **change})


def test_pending_calls_are_limited_in_number_and_size(monkeypatch):
    pending = a_pending()
    with pytest.raises(PendingError, match="two pending calls have the same id"):
        PendingCalls([pending, pending])
    monkeypatch.setattr(module, "MOST_CALLS", 1)
    with pytest.raises(PendingError, match="2 pending calls; at most 1"):
        PendingCalls([pending, a_pending()])
    text = PendingCalls([pending]).dumps()
    monkeypatch.setattr(PendingCalls, "most_bytes", 10)
    with pytest.raises(PendingError, match="at most 10 are taken"):
        PendingCalls.loads(text)


def test_a_pending_call_has_every_fact_of_a_request_except_tool_and_metadata():
    """So that no fact that a person was shown is left out when one is added."""
    facts = {attribute.name for attribute in ApprovalRequest.__attrs_attrs__}
    everything = a_pending(
        always=["a"],
        wider=["a"],
        payload=1,
        preview=Preview("p"),
        presets={"a": 1},
        user="ann",
        session="s",
        agent="helper",
    )
    assert facts - everything.to_json().keys() == {"tool", "metadata"}


def test_the_virtual_call_contains_the_request():
    pending = a_pending(hint="Delete it?", payload={"n": 1})
    call = confirmation_call(pending)
    assert (call.name, call.id) == ("pegboard_request_confirmation", pending.id)
    assert call.arguments == {
        "originalCall": {"id": "call-1", "name": "delete", "arguments": {"path": "a.txt"}},
        "hint": "Delete it?",
        "payload": {"n": 1},
        "digest": pending.digest,
    }
    with pytest.raises(InvalidNameError):
        check_name(call.name)  # no tool has it
    assert confirmation_call(a_pending()).arguments["hint"] == "Please approve or reject the call of delete."


@given(OBJECTS)
def test_the_original_call_is_read_back(arguments):
    """From the call and from its JSON, with its arguments as objects and as text."""
    pending = a_pending(arguments=arguments)
    call = confirmation_call(pending)
    original = ToolCall("delete", pending.arguments, "call-1")
    text = json.dumps(call.arguments)
    assert original_call_from(call) == original
    assert original_call_from(call.to_json()) == original
    assert original_call_from(ToolCall(CONFIRMATION_CALL, text, call.id)) == original
    assert original_call_from({"name": CONFIRMATION_CALL, "arguments": text.encode()}) == original
    inner = {"originalCall": json.dumps(call.arguments["originalCall"])}
    assert original_call_from({"name": CONFIRMATION_CALL, "arguments": inner}) == original


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (ToolCall("delete", {}), "a call of 'delete', not of pegboard_request_confirmation"),
        (ToolCall(CONFIRMATION_CALL, {}), "originalCall: must be an object"),
        (ToolCall(CONFIRMATION_CALL, "{"), r"not an object \(arguments\)"),
        (ToolCall(CONFIRMATION_CALL, "[]"), "arguments: must be an object, not list"),
        ({"name": CONFIRMATION_CALL}, "arguments: must be an object, not NoneType"),
        ({}, "a call of None, not of"),
        (ToolCall(CONFIRMATION_CALL, {"originalCall": {}}), "originalCall: name: missing"),
        (ToolCall(CONFIRMATION_CALL, {"originalCall": {"name": 1}}), "originalCall: name"),
        (7, "call: must be an object, not int"),
    ],
)
def test_other_calls_are_refused_as_virtual_calls(call, reason):
    with pytest.raises(PendingError, match=reason):
        original_call_from(call)


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        ({"confirmed": True}, Once()),
        ({"confirmed": True, "payload": [1]}, Once([1])),
        ({"confirmed": True, "feedback": "fine"}, Once()),
        ({"confirmed": False}, Reject()),
        ({"confirmed": False, "feedback": "use trash"}, Reject("use trash")),
    ],
)
def test_a_clients_answer_is_read(result, answer):
    """In each form."""
    text = json.dumps(result)
    for form in (result, text, text.encode(), ToolResult(structured_content=result), ToolResult(text)):
        assert answer_from_result(form) == answer


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"confirmed": 1},
        {"confirmed": "true"},
        {"confirmed": None},
        {"confirmed": True, "digest": "x"},
        {"confirmed": False, "feedback": 1},
        {"confirmed": False, "feedback": "a" * 20_001},
        {"confirmed": True, "payload": float("nan")},
        "",
        "true",
        "yes",
        '{"confirmed": true, "confirmed": true}',
        None,
        [],
        ToolResult.error("tool_failure", '{"confirmed": true}'),
    ],
)
def test_an_invalid_result_of_a_client_is_refused(result):
    with pytest.raises(PendingError):
        answer_from_result(result)


ANSWERS = st.sampled_from([Once(), Always(["x"]), Reject("no"), Later(), Once().to_json(), Reject().to_json()])
UNREADABLE = st.sampled_from([None, True, "yes", {}, {"answer": "yes"}, {"answer": "once", "digest": "x"}, Once, 1])


def matched(calls, answers):
    resumed, ignored = match_answers(PendingCalls(calls), answers, ReadonlyContext(), now=NOW)
    assert [*resumed] == [each.pending.id for each in resumed.values()]
    left = [call for call in calls if call.id not in resumed]
    return SimpleNamespace(resumed=[*resumed.values()], left=left, ignored=ignored)


def ids(done, *kinds):
    return [each.pending.id for each in done.resumed if isinstance(each.answer, kinds or object)]


def test_each_call_is_approved_rejected_or_left():
    one, two, three = a_pending(), a_pending(), a_pending()
    done = matched([one, two, three], {three.id: Reject("no"), one.id: Once(), two.id: Later()})
    assert [(each.pending, each.answer) for each in done.resumed] == [(one, Once()), (three, Reject("no"))]
    assert (done.left, done.ignored) == ([two], ())


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


@pytest.mark.parametrize("patterns", [["*"], ["a.txt"], ["src/*"]])
def test_a_clients_json_never_widens_what_always_allows(patterns):
    """Even if it was offered: only the host answers `Always(patterns)`."""
    call = a_pending(always=("a.txt",), wider=("src/*",))
    done = matched([call], {call.id: {"answer": "always", "patterns": patterns}})
    assert (done.resumed, done.ignored) == ([], (call.id,))
    (resumed,) = matched([call], {call.id: {"answer": "always", "seconds": 5}}).resumed
    grants = MemoryGrants()
    authorized(resumed, grants, ReadonlyContext(session="s"), a_tool())
    literal = Rule("delete", "a.txt", "allow", literal=True)
    assert grants.rules(session_key(ReadonlyContext(session="s")), tool_key(a_tool())) == (literal,)


def test_a_tool_whose_definition_changed_is_granted_nothing():
    grants, context = MemoryGrants(), ReadonlyContext(session="s")
    for tool in (None, a_tool(description="else")):
        (resumed,) = matched([call := a_pending()], {call.id: Always(["*"])}).resumed
        authorized(resumed, grants, context, tool)
        assert grants.rules(session_key(context), tool_key(tool or a_tool())) == ()


def test_a_pending_call_without_wider_patterns_is_read():
    data = a_pending().to_json()
    data.pop("wider", None)
    assert PendingCall.from_json(data).wider == ()


def test_an_answer_to_a_call_that_waited_too_long_is_ignored():
    call = a_pending(created=NOW - 31 * 24 * 3600)
    assert matched([call], {call.id: Once()}).ignored == (call.id,)
    assert match_answers(PendingCalls([call]), {call.id: Once()}, ReadonlyContext()) == ({}, (call.id,))


@given(st.lists(st.tuples(st.sampled_from(["0", "1", "2", "else"]), ANSWERS | UNREADABLE), max_size=8))
def test_answers_match_in_any_order_and_repetition(answers):
    """Every call is resumed or left; a call is approved only by the first answer to it that can be read; the order of
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


@pytest.mark.parametrize("answer", [Once(), Always()])
def test_an_approved_call_runs_with_what_was_approved(answer):
    pending = a_pending(arguments={"path": "a"})
    approval, confirmation = resumed(pending, answer)
    assert confirmation is None
    assert approval.consume(a_tool(), {"path": "a"}) == {"path": "a"}
    assert approval.request is pending


@pytest.mark.parametrize("subject", ["call", "permission"])
def test_a_rejected_call_doesnt_run(subject):
    with pytest.raises(RefusedError) as caught:
        resumed(a_pending(subject=subject), Reject("use trash"))
    assert (caught.value.kind, caught.value.text) == ("rejected", "The user rejected this call of delete: use trash")


def test_a_payload_of_an_approval_reaches_the_tool():
    pending = a_pending()
    confirmation = resumed(pending, Once({"limit": 3}))[1]
    assert (confirmation.confirmed, confirmation.payload) == (True, {"limit": 3})
    assert confirmation.to_question("") is None
