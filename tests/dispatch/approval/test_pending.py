"""Calls that wait, as JSON: what comes back is what was written, or is refused."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from dispatch.approval.samples import NOW, a_pending, a_tool
from pegboard.dispatch.approval import pending as module
from pegboard.dispatch.approval.pending import Approval, PendingCall, PendingCalls, signature_of, signed_by
from pegboard.dispatch.approval.request import ApprovalRequest
from pegboard.errors import PendingError
from pegboard.tools.call import ToolCall
from pegboard.tools.confirmation import Confirmation
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Preview
from strategies import json_values, mutated

KEY = "a key of sixteen bytes or more"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
OBJECTS = st.dictionaries(TEXTS, json_values(), max_size=3)
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


def test_it_keeps_what_was_asked():
    pending = a_pending(user="ann", session="s", hint="h", reason="r", payload=1, preview=Preview("p"))
    assert pending.call == ToolCall("delete", '{"path":"a.txt"}', "call-1")
    assert (pending.arguments, pending.created, pending.spec_digest) == ({"path": "a.txt"}, NOW, a_tool().spec.digest)
    assert pending.is_for(ReadonlyContext(user="ann", session="s"))
    assert not pending.is_for(ReadonlyContext(user="bob", session="s"))
    assert not pending.is_for(ReadonlyContext(user="ann", session="t"))


def test_it_keeps_what_the_provider_wants_back():
    call = evolve(a_pending().call, provider_metadata={"signature": "abc"}, title="Delete a", dynamic=True)
    pending = evolve(a_pending(), call=call)
    assert PendingCalls.loads(PendingCalls([pending]).dumps()).calls[0].call == call


@settings(deadline=None)
@given(SEVERAL, st.sampled_from([None, KEY, KEY.encode()]))
def test_text_keeps_everything(pending, key):
    read = PendingCalls.loads(pending.dumps(key), key)
    assert read.to_json() == pending.to_json()
    assert [call.digest for call in read] == [call.digest for call in pending]


@settings(deadline=None)
@given(PENDING.map(lambda pending: PendingCalls([pending])), st.data())
def test_no_changed_byte_comes_through_a_key(pending, data):
    """What is read all the same is what was signed: a space between two members, say."""
    text = bytearray(pending.dumps(KEY).encode())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] = data.draw(st.integers(0, 255))
    try:
        read = PendingCalls.loads(bytes(text), KEY)
    except PendingError:
        return
    assert read.to_json() == pending.to_json()


@settings(deadline=None)
@given(PENDING.map(lambda pending: PendingCalls([pending])), st.data())
def test_no_changed_value_comes_through_a_key(pending, data):
    forged = data.draw(mutated(json.loads(pending.dumps(KEY))))
    try:
        read = PendingCalls.loads(json.dumps(forged), KEY)
    except PendingError:
        return
    assert read.to_json() == pending.to_json()


@settings(deadline=None)
@given(PENDING, OBJECTS)
def test_without_a_key_other_arguments_need_another_digest(pending, arguments):
    """So what is shown beside the digest is what would run."""
    data = pending.to_json()
    data["call"]["arguments"] = arguments
    try:
        read = PendingCall.from_json(data)
    except PendingError:
        return
    Approval.of_text(read.spec_digest, read.arguments_text).consume(a_tool(), pending.arguments)


@pytest.mark.parametrize("forge", [lambda data: data.pop("signature"), lambda data: data.update(signature=7)])
def test_with_a_key_what_isnt_signed_is_refused(forge):
    data = json.loads(PendingCalls([a_pending()]).dumps(KEY))
    forge(data)
    with pytest.raises(PendingError, match="aren't signed with this key, or were changed since"):
        PendingCalls.loads(json.dumps(data), KEY)


def test_another_keys_signature_is_refused():
    text = PendingCalls([a_pending()]).dumps(KEY)
    with pytest.raises(PendingError, match="aren't signed with this key"):
        PendingCalls.loads(text, KEY + "!")
    assert len(PendingCalls.loads(text)) == 1


def test_a_signature_stays_good_when_the_text_is_written_anew():
    """As databases do that keep JSON: other spaces, another order."""
    pending = PendingCalls([a_pending(arguments={"b": 1.0, "a": "ä"})])
    again = json.dumps(json.loads(pending.dumps(KEY)), indent=2, sort_keys=True)
    assert PendingCalls.loads(again, KEY).calls[0].digest == pending.calls[0].digest


@pytest.mark.parametrize("use", [PendingCalls().dumps, lambda key: PendingCalls.loads("{}", key)])
@pytest.mark.parametrize("key", ["", b"short", "fifteen bytes.."])
def test_a_short_key_is_refused(use, key):
    with pytest.raises(ValueError, match="a key must have at least 16 bytes"):
        use(key)


def test_what_has_no_signature_is_signed_by_nobody():
    assert not signed_by([], KEY)
    assert signed_by({"a": 1, "signature": signature_of({"a": 1}, KEY)}, KEY)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not pending calls"),
        ("{", "not pending calls"),
        ("[]", "version None"),
        ("{}", "version None; this pegboard knows version 1"),
        ('{"version": 2, "calls": []}', "version 2"),
        ('{"version": true, "calls": []}', "version True"),
        ('{"version": 1}', "there must be 'version', 'calls'"),
        ('{"version": 1, "calls": {}}', "there must be"),
        ('{"version": 1, "calls": [], "more": 1}', "and nothing else"),
        ('{"version": 1, "version": 1, "calls": []}', "not pending calls"),
        ('{"version": 1, "calls": [NaN]}', "not pending calls"),
        ('{"version": 1, "calls": [1e400]}', "not pending calls"),
        ('{"version": 1, "calls": [7]}', "not a pending call"),
        ('{"version": 1, "calls": [{}]}', "id: required, missing"),
        ("[" * 10_000, "not pending calls"),
        (b"\xff", "not pending calls"),
        ("\ud800", "not pending calls"),
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
        ({"call": {"name": "delete"}}, "call.arguments: must be an object"),
        ({"call": {"name": "delete", "arguments": "{}"}}, "call.arguments: must be an object"),
        ({"call": {"name": 7, "arguments": {"path": "a.txt"}}}, "call.name"),
        ({"call": {"name": "delete", "arguments": {"path": "b"}}}, "its digest is another"),
        ({"spec_digest": "sha256:0"}, "its digest is another"),
        ({"digest": "sha256:0"}, "its digest is another"),
    ],
)
def test_a_forged_call_is_refused_with_a_reason(change, reason):
    with pytest.raises(PendingError, match=reason):
        PendingCall.from_json({**a_pending().to_json(), **change})


def test_bounds(monkeypatch):
    pending = a_pending()
    with pytest.raises(PendingError, match="two pending calls have the same id"):
        PendingCalls([pending, pending])
    monkeypatch.setattr(module, "MOST_CALLS", 1)
    with pytest.raises(PendingError, match="2 pending calls; at most 1"):
        PendingCalls([pending, a_pending()])
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    with pytest.raises(PendingError, match="at most 10 are taken"):
        PendingCalls.loads(PendingCalls([pending]).dumps())


def test_nothing_pending():
    assert (len(PendingCalls()), list(PendingCalls()), bool(PendingCalls())) == (0, [], False)
    assert PendingCalls.loads(PendingCalls().dumps()) == PendingCalls()


def test_it_has_every_fact_of_a_request_but_what_is_the_processs_own():
    """So that nothing that a person was shown is forgotten when a fact is added."""
    facts = {attribute.name for attribute in ApprovalRequest.__attrs_attrs__}
    assert facts - {attribute.name for attribute in PendingCall.__attrs_attrs__} == {"tool", "metadata"}
