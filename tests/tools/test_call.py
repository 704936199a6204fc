from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from pegboard.tools.call import CallFault, ToolCall

json_objects = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5))
faults = st.builds(
    CallFault,
    st.sampled_from(["unknown_tool", "invalid_arguments", "cut_off"]),
    st.text(max_size=20),
    st.lists(st.text(max_size=10), max_size=3).map(tuple),
)
calls = st.builds(
    ToolCall,
    st.text(max_size=10),
    st.text(max_size=20) | json_objects,
    st.text(max_size=10),
    title=st.none() | st.text(max_size=10),
    dynamic=st.booleans(),
    error=st.none() | faults,
    provider_executed=st.booleans(),
    provider_metadata=st.none() | json_objects,
)


def test_a_call_needs_only_its_name():
    assert ToolCall("ping") == ToolCall("ping", {}, "")
    assert ToolCall("ping").arguments is not ToolCall("ping").arguments


def test_a_call_is_invalid_where_it_has_an_error():
    assert not ToolCall("ping").invalid
    assert ToolCall("ping", error=CallFault("unknown_tool", "No such tool.")).invalid


def test_only_what_is_set_is_written():
    assert ToolCall("ping", id="1").to_json() == {"id": "1", "name": "ping", "arguments": {}}


def test_all_that_is_set_is_written():
    call = ToolCall(
        "ping",
        '{"a": 1}',
        "1",
        title="Ping",
        dynamic=True,
        error=CallFault("invalid_arguments", "Wrong.", ("a: wrong",)),
        provider_executed=True,
        provider_metadata={"signature": "x"},
    )
    assert call.to_json() == {
        "id": "1",
        "name": "ping",
        "arguments": '{"a": 1}',
        "title": "Ping",
        "dynamic": True,
        "error": {"kind": "invalid_arguments", "text": "Wrong.", "problems": ["a: wrong"]},
        "providerExecuted": True,
        "providerMetadata": {"signature": "x"},
    }


@given(calls)
def test_a_call_survives_the_wire(call):
    assert ToolCall.from_json(json.loads(json.dumps(call.to_json()))) == call


def test_the_providers_metadata_is_given_back_as_it_came():
    metadata = object()
    assert ToolCall("ping", provider_metadata=metadata).to_json()["providerMetadata"] is metadata


@pytest.mark.parametrize(
    ("arguments", "written"), [(b'{"a": "\xff"}', '{"a": "\\xff"}'), ('{"a": "\ud800"}', '{"a": "\\ud800"}')]
)
def test_arguments_that_are_no_unicode_are_escaped_and_stay_refused(arguments, written):
    """Replaced by U+FFFD they would become valid JSON, which they were not."""
    assert ToolCall("ping", arguments).to_json()["arguments"] == written


def test_names_that_are_no_unicode_can_be_written():
    data = ToolCall("p\ud800", id="\udfff", error=CallFault("unknown_tool", "\ud800?")).to_json()
    assert json.dumps(data, ensure_ascii=False).encode()
    assert (data["name"], data["id"]) == ("p\ufffd", "\ufffd")


def test_a_mapping_is_written_as_an_object_of_its_own():
    arguments = {"a": 1}
    written = ToolCall("ping", arguments).to_json()["arguments"]
    assert (written, written is arguments) == (arguments, False)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([], "expected an object, found list"),
        ({}, "name: missing"),
        ({"name": 3}, "name: expected a text, found int"),
        ({"name": "x", "id": None}, "id: expected a text, found NoneType"),
        ({"name": "x", "arguments": []}, "arguments: expected a text or an object, found list"),
        ({"name": "x", "title": 3}, "title: expected a text or null, found int"),
        ({"name": "x", "dynamic": 1}, "dynamic: expected a boolean, found int"),
        ({"name": "x", "providerExecuted": "yes"}, "providerExecuted: expected a boolean, found str"),
        ({"name": "x", "error": "bad"}, "error: expected an object or null, found str"),
        ({"name": "x", "error": {}}, "kind: missing"),
        ({"name": "x", "error": {"kind": "odd", "text": ""}}, "kind: 'odd' is no kind of error result"),
        ({"name": "x", "error": {"kind": "limit", "text": 1}}, "text: expected a text, found int"),
        ({"name": "x", "error": {"kind": "limit", "text": "", "problems": [1]}}, "problems: expected a list of texts"),
    ],
)
def test_what_is_no_call_is_refused_by_its_key(data, why):
    with pytest.raises(ValueError, match="^" + why):
        ToolCall.from_json(data)


def test_other_keys_are_passed_over():
    assert ToolCall.from_json({"name": "x", "later": 1}) == ToolCall("x")
