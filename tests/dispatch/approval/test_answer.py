"""What a person may answer, and as JSON."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch.approval.request import Always, Later, Once, Reject, answer_from_json
from pegboard.errors import PendingError
from strategies import json_values

PATTERNS = st.none() | st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=3)
SECONDS = st.none() | st.floats(0.001, 1e6)
ANSWERS = (
    st.builds(Once, json_values())
    | st.builds(Always, PATTERNS, SECONDS)
    | st.builds(Reject, st.none() | st.text(max_size=20))
    | st.just(Later())
)


@settings(deadline=None)
@given(ANSWERS)
def test_json_keeps_an_answer(answer):
    assert answer_from_json(answer.to_json()) == answer


def test_json_says_no_more_than_there_is():
    assert Once().to_json() == {"answer": "once"}
    assert Always("git *", 60).to_json() == {"answer": "always", "patterns": ["git *"], "seconds": 60}
    assert Reject("why", along_with="board's own").to_json() == {"answer": "reject", "feedback": "why"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "an answer is an object"),
        ([], "an answer is an object"),
        ({}, "there is no answer None; there are once, always, reject, later"),
        ({"answer": "yes"}, "there is no answer 'yes'"),
        ({"answer": ["once"]}, "there is no answer"),
        ({"answer": "once", "patterns": ["*"]}, "the answer 'once' has no 'patterns'"),
        ({"answer": "reject", "along_with": "x"}, "has no 'along_with'"),
        ({"answer": "later", 3: 4}, "has no '3'"),
        ({"answer": "always", "patterns": "*"}, "patterns must be a list"),
        ({"answer": "always", "patterns": []}, "patterns must be 1 to 200, got 0"),
        ({"answer": "always", "patterns": ["a"] * 201}, "got 201"),
        ({"answer": "always", "patterns": [""]}, "a pattern must be a text of 1 to 4096 characters, got ''"),
        ({"answer": "always", "patterns": [1]}, "a pattern must be a text"),
        ({"answer": "always", "patterns": ["a" * 4097]}, "a pattern must be a text"),
        ({"answer": "always", "patterns": 7}, "not an answer"),
        ({"answer": "always", "seconds": 0}, "seconds must be more than 0"),
        ({"answer": "always", "seconds": True}, "seconds must be"),
        ({"answer": "always", "seconds": "60"}, "seconds must be"),
        ({"answer": "always", "seconds": float("inf")}, "seconds must be"),
        ({"answer": "always", "seconds": float("nan")}, "seconds must be"),
        ({"answer": "reject", "feedback": 1}, "feedback must be a text"),
        ({"answer": "reject", "feedback": "a" * 20_001}, "feedback must be a text of at most 20,000"),
        ({"answer": "once", "payload": object()}, "a payload must be JSON"),
    ],
)
def test_nonsense_is_refused_with_a_reason(data, reason):
    with pytest.raises(PendingError, match=reason.replace("(", r"\(")):
        answer_from_json(data)
