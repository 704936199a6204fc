from __future__ import annotations

import asyncio

import pytest

from pegboard import ToolCall
from pegboard.testing import ScriptedModel
from ported_agents.time_off import answer, ask


def asked(tool, **arguments):
    return asyncio.run(ask(ScriptedModel([ToolCall(tool, arguments, "c1"), "Done."]), "Please."))


def answered(outcome, reply):
    (waiting,) = outcome.pending
    with ScriptedModel(["Done."]) as model:
        return asyncio.run(answer(model, outcome.dumps(), {waiting.id: reply}))


def result_of(outcome):
    return [result.result for message in outcome.messages for result in message.results][-1]


def test_a_few_days_need_no_manager():
    outcome = asked("request_time_off", days=2)
    assert (outcome.ended, outcome.text) == ("answered", "Done.")
    assert result_of(outcome).structured_content == {"status": "ok", "approved_days": 2}


@pytest.mark.parametrize(
    ("reply", "status", "days"),
    [
        ({"answer": "once", "payload": {"approved_days": 3}}, "ok", 3),
        ({"answer": "once", "payload": {"approved_days": 30}}, "ok", 5),
        ({"answer": "once", "payload": {"approved_days": 0}}, "rejected", 0),
        ({"answer": "reject", "feedback": "not this week"}, "rejected", 0),
    ],
)
def test_a_manager_grants_days_once_they_have_time(reply, status, days):
    outcome = asked("request_time_off", days=5)
    assert (outcome.ended, [each.hint for each in outcome.pending]) == (
        "suspended",
        ["May they take 5 days off? Say how many in approved_days."],
    )
    outcome = answered(outcome, reply)
    assert (outcome.ended, result_of(outcome).structured_content) == (
        "answered",
        {"status": status, "approved_days": days},
    )


def test_zero_days_are_an_error_for_the_model():
    assert result_of(asked("request_time_off", days=0)).text == "days have to be more than 0"


def test_a_small_expense_is_reimbursed_at_once():
    assert result_of(asked("reimburse", amount=999, purpose="a desk")).text == "reimbursed $999 for a desk"


def test_a_large_expense_is_confirmed_first():
    outcome = asked("reimburse", amount=1000, purpose="a desk")
    assert outcome.ended == "suspended"
    outcome = answered(outcome, {"answer": "once"})
    assert result_of(outcome).text == "reimbursed $1000 for a desk"


def test_a_rejected_expense_is_not_reimbursed():
    outcome = answered(asked("reimburse", amount=1000, purpose="a yacht"), {"answer": "reject", "feedback": "no"})
    assert (outcome.ended, result_of(outcome).kind) == ("answered", "rejected")
