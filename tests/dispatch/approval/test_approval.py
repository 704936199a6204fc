"""An approval is good for exactly what was approved, once."""

from __future__ import annotations

import contextlib
import copy
import threading

import pytest
from hypothesis import given, settings, strategies as st

from dispatch.approval.samples import a_tool
from pegboard.dispatch.approval.pending import Approval
from pegboard.dispatch.work import CallError
from pegboard.schema.json import canonical_json, json_text
from strategies import json_values, mutated

OBJECTS = st.dictionaries(st.text(max_size=4), json_values(), max_size=3)


def refused(approval, tool, arguments):
    with pytest.raises(CallError) as caught:
        approval.consume(tool, arguments)
    assert caught.value.kind == "denied"
    return caught.value.text


def test_the_arguments_that_run_are_nobodys():
    """They are read anew: what others hold of them changes nothing; order of keys and 1.0 stay."""
    arguments = {"z": {"paths": ["a"]}, "a": 1.0}
    approval = Approval.of(a_tool(), arguments)
    run = approval.consume(a_tool(), copy.deepcopy(arguments))
    arguments["z"]["paths"].append("b")
    assert run == {"z": {"paths": ["a"]}, "a": 1.0}
    assert (list(run), type(run["a"])) == (["z", "a"], float)


def test_it_is_used_once():
    approval = Approval.of(a_tool(), {})
    approval.consume(a_tool(), {})
    assert refused(approval, a_tool(), {}) == "delete was not run: its approval has been used. Ask again."


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (a_tool(), {"path": "b"}),
        (a_tool(), {"path": "a", "force": True}),
        (a_tool(), {"path": object()}),
        (a_tool(), {"path": float("nan")}),
        (a_tool("other"), {"path": "a"}),
        (a_tool(description="it has changed"), {"path": "a"}),
    ],
)
def test_it_is_good_for_nothing_else(tool, arguments):
    """And it is used up by the attempt."""
    approval = Approval.of(a_tool(), {"path": "a"})
    assert "it isn't what was approved any more" in refused(approval, tool, arguments)
    assert "has been used" in refused(approval, a_tool(), {"path": "a"})


def test_cyclic_arguments_were_never_approved():
    arguments = {}
    approval = Approval.of(a_tool(), arguments)
    arguments["self"] = arguments
    assert "isn't what was approved" in refused(approval, a_tool(), arguments)


def test_of_many_threads_one_may_use_it():
    approval = Approval.of(a_tool(), {})
    start, used = threading.Barrier(8), []

    def work():
        start.wait()
        with contextlib.suppress(CallError):
            used.append(approval.consume(a_tool(), {}))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert used == [{}]


@settings(max_examples=50, deadline=None)
@given(OBJECTS, st.data())
def test_no_approval_is_good_for_another_digest(approved, data):
    """Whatever is changed in the arguments."""
    other = data.draw(mutated(approved).filter(lambda value: isinstance(value, dict)))
    approval = Approval.of_text(a_tool().spec.digest, json_text(approved))
    if canonical_json(other) == canonical_json(approved):
        assert canonical_json(approval.consume(a_tool(), other)) == canonical_json(approved)
    else:
        refused(approval, a_tool(), other)
