"""`check_executor` on calls by Temporal: a part of its checks, or all with `PEGBOARD_EXECUTORS=all`."""

from __future__ import annotations

import os

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


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
async def test_calls_by_temporal_behave_as_calls_here(start):
    only = None if os.environ.get("PEGBOARD_EXECUTORS") == "all" else PART
    report = await check_executor(start, remote=True, durable=True, only=only)
    assert {*report.passed} >= {*PART}
