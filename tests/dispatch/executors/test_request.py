from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.executors.request import ExecutionRequest, request_for
from pegboard.tools.call import Confirmation
from pegboard.tools.context import ReadonlyContext, ToolContext

TEXTS = st.none() | st.text(max_size=5)
OBJECTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)
REQUESTS = st.builds(
    ExecutionRequest,
    tool=st.text(max_size=5),
    arguments=OBJECTS,
    call_id=st.text(max_size=5),
    session=TEXTS,
    work_dir=TEXTS,
    user=TEXTS,
    timeout=st.none() | st.floats(0, 1000),
    memory_limit=st.none() | st.integers(0),
    expose_errors=st.booleans(),
    state=OBJECTS,
    extra=OBJECTS,
    values=OBJECTS,
    approvals=st.lists(st.text(max_size=5), max_size=2),
    depth=st.integers(0, 9),
)


@given(REQUESTS)
def test_a_request_survives_json(request):
    assert ExecutionRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


def test_what_says_nothing_is_left_out():
    assert ExecutionRequest(tool="add").to_json() == {"tool": "add"}
    assert ExecutionRequest(tool="add", timeout=0.0).to_json() == {"tool": "add", "timeout": 0.0}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "tool: missing"),
        ({"tool": "a", "arguments": []}, "arguments: expected an object"),
        ({"tool": "a", "depth": True}, "depth: expected a whole number"),
        ({"tool": "a", "approvals": [1]}, "approvals: expected a list of texts"),
    ],
)
def test_what_is_no_request_is_refused_by_name(data, problem):
    with pytest.raises(ValueError, match=problem):
        ExecutionRequest.from_json(data)


def test_a_context_goes_there_and_comes_back_as_far_as_json_can_say_it():
    confirmation = Confirmation("sure?", confirmed=True, payload=[1], patterns=("a",), permission="edit").after(
        [Confirmation("before", confirmed=False, feedback="no")]
    )
    context = ToolContext(
        ReadonlyContext(user="ann", session="s", work_dir="/w", state={"a": 1, "b": object()}, messages=["secret"]),
        "c1",
        "add",
        values={"v": [1], "f": print},
        confirmation=confirmation,
        depth=3,
    )
    request = request_for("add", {"x": 1}, context, timeout=5.0)
    again = ExecutionRequest.from_json(request.to_json()).context()
    assert again.request == ReadonlyContext(user="ann", session="s", work_dir="/w", state={"a": 1})
    assert (again.call_id, again.tool, again.values, again.depth) == ("c1", "add", {"v": [1]}, 3)
    assert again.confirmation == confirmation
    assert again.confirmation.earlier == confirmation.earlier
    assert request.timeout == 5.0


def test_every_fact_of_a_request_is_on_the_wire():
    """A field that is added has to be read and written, too."""
    from pegboard.dispatch.executors import request

    assert set(request._TYPES) == {each.name for each in attrs.fields(ExecutionRequest)}


@pytest.mark.parametrize(
    "confirmation", [{}, {"hint": 1, "confirmed": True}, {"hint": "", "confirmed": True, "patterns": [1]}]
)
def test_a_confirmation_that_is_none_is_refused(confirmation):
    with pytest.raises(ValueError, match=r"hint|patterns"):
        ExecutionRequest(tool="a", confirmation=confirmation).context()
