from __future__ import annotations

import pytest

from pegboard.tools.call import REMOVED, Actions
from pegboard.tools.state import PendingActions


def test_what_was_said_becomes_the_actions():
    said = PendingActions({"a": 1})
    said.state["a"] = 2
    said.saved("f", 1)
    said.transfer_to, said.escalate, said.skip_summarization = "writer", True, True
    assert said.actions == Actions({"a": 2}, {"f": 1}, "writer", escalate=True, skip_summarization=True)


def test_actions_are_a_value_that_later_changes_do_not_reach():
    said = PendingActions({})
    said.state["a"] = [1]
    actions = said.actions
    said.state["a"].append(2)
    said.saved("f", 1)
    assert actions == Actions({"a": [1]})


def test_what_a_call_inside_has_asked_for_is_taken_over():
    said = PendingActions({"a": 1, "b": 1})
    said.saved("f", 3)
    said.transfer_to = "planner"
    said.add(
        Actions(
            {"a": REMOVED, "c": [2], "never": REMOVED},
            {"f": 2, "g": 1},
            "writer",
            escalate=True,
            skip_summarization=True,
        )
    )
    said.add(Actions())
    assert said.actions == Actions(
        {"a": REMOVED, "c": [2]}, {"f": 3, "g": 1}, "writer", escalate=True, skip_summarization=True
    )


def test_the_delta_is_changed_in_the_state_only():
    said = PendingActions({})
    with pytest.raises(TypeError, match="does not support item assignment"):
        said.state_delta["a"] = 1
    said.state["a"] = 1
    assert said.state_delta == {"a": 1}


@pytest.mark.parametrize(
    ("name", "value"), [("transfer_to", 1), ("escalate", "yes"), ("skip_summarization", None), ("title", 1)]
)
def test_what_the_host_could_not_understand_is_refused(name, value):
    with pytest.raises(TypeError, match=name):
        setattr(PendingActions({}), name, value)


def test_later_facts_win_and_a_heading_stays_until_there_is_another():
    said = PendingActions({})
    said.tell("first", {"a": 1, "b": 1})
    said.tell(None, {"b": 2})
    assert (said.title, said.facts) == ("first", {"a": 1, "b": 2})
    said.tell("second", {})
    assert said.title == "second"
