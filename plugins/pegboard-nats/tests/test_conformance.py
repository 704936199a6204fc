"""`check_executor` on both executors: a part of its checks, or all with `PEGBOARD_EXECUTORS=all`."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager

import pytest
from nats_running import KINDS, Engine

from pegboard.testing import check_executor

PART = {
    "nats": (
        "all_parts_of_a_result",
        "progress_arrives_in_order_while_it_runs",
        "a_tool_that_asks_runs_once",
        "the_time_limit",
        "fifty_at_once",
        "a_worker_that_asks_nonsense_gets_errors",
        "an_invalid_answer_is_an_error",
        "a_killed_worker_runs_no_call_twice",
        "a_short_program_ends_cleanly",
    ),
    "jetstream": (
        "nested_calls_and_stores_are_the_callers",
        "cancelling_reaches_the_tool",
        "a_large_result_arrives_or_is_refused",
        "an_invalid_answer_is_an_error",
        "two_workers_run_each_call_once",
        "an_approved_call_survives_its_caller",
        "a_killed_worker_runs_no_call_twice",
        "a_killed_workers_idempotent_call_runs_again",
        "a_call_survives_its_server",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_calls_over_nats_behave_as_calls_here(kind, server):
    prefix = f"checks-{kind}"
    settings = {"servers": server.url, "prefix": prefix, "synced": True, "wait": 15, "dead_after": 3}
    engine = Engine(kind, server, settings, max_concurrency=8)

    @asynccontextmanager
    async def start():
        executor = KINDS[kind](server.settings(prefix=prefix, wait=15))
        try:
            yield executor
        finally:
            await executor.aclose()

    only = None if os.environ.get("PEGBOARD_EXECUTORS") == "all" else PART[kind]
    try:
        report = await check_executor(start, remote=True, durable=kind == "jetstream", engine=engine, only=only)
    finally:
        code = engine.stop()
    assert {*report.passed} >= {*PART[kind]}
    assert {*report.skipped.values()} <= {"not asked for", "for durable executors"}
    assert code == 0
