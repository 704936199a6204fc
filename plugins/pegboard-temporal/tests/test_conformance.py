"""`check_executor` on calls by Temporal: a part of its checks, or all with `PEGBOARD_EXECUTORS=all`."""

from __future__ import annotations

import os
from functools import partial

import pytest

from pegboard.testing import check_executor

PART = (
    "all_parts_of_a_result",
    "progress_arrives_in_order_while_it_runs",
    "a_tool_that_asks_runs_once",
    "nested_calls_and_stores_are_the_callers",
    "another_definition_is_refused",
    "the_same_call_again_runs_once",
    "an_approved_call_survives_its_caller",
)
SLOW = {"a_worker_that_asks_and_tells_too_much_is_bounded": "10,000 questions are as many activities: ten minutes"}
WAIT = 15.0  # seconds for a worker; a check without one sends five calls in its two minutes


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
async def test_calls_by_temporal_behave_as_calls_here(start):
    is_whole = os.environ.get("PEGBOARD_EXECUTORS") == "all"
    begin = partial(start, wait=WAIT) if is_whole else start
    options = {"skip": SLOW} if is_whole else {"only": PART}
    report = await check_executor(begin, remote=True, durable=True, **options)
    assert {*report.passed} >= {*PART}
