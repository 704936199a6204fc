"""What is left of a call whose worker, caller or server is killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from caller_program import CONTEXT, registry_for
from conftest import Workers

from pegboard_temporal import Settings
from pegboard_temporal.link import connect

pytestmark = pytest.mark.slow
QUEUE, HEARTBEAT = "killed", 3.0


@pytest.fixture(scope="module")
def worker(server):
    """The function that returns the process of a worker with short heartbeats; one that dies is replaced."""
    with Workers(server, QUEUE, HEARTBEAT).kept() as process:
        yield process


@pytest.fixture
def files(tmp_path):
    return {"file": str(tmp_path / "effects"), "release": str(tmp_path / "release")}


def lines(files):
    file = Path(files["file"])
    return file.read_text().splitlines() if file.exists() else []


async def started(files, times=1):
    while sum(line.startswith("started") for line in lines(files)) < times:  # noqa: ASYNC110  another process writes it
        await asyncio.sleep(0.02)


def release(files):
    Path(files["release"]).touch()


def caller(server, name, files, call_id):
    program = Path(__file__).with_name("caller_program.py")
    command = [sys.executable, program, server.address, QUEUE, name, call_id, json.dumps(files)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


@pytest.mark.parametrize(("name", "expected"), [("hold", ("unknown_outcome", 1)), ("hold_again", (None, 2))])
async def test_a_call_of_a_killed_worker_runs_again_only_if_its_tool_may(server, worker, files, name, expected):
    async with registry_for(server.address, QUEUE, heartbeat=HEARTBEAT, wait=120.0) as registry:
        call = asyncio.ensure_future(registry.call(name, files, CONTEXT, call_id=f"toolu_{name}"))
        await started(files)
        worker().kill()
        if name == "hold_again":
            await started(files, 2)
            release(files)
        result = await call
    assert (result.kind, sum(line.startswith("started") for line in lines(files))) == expected


@pytest.mark.usefixtures("worker")
async def test_the_result_for_a_killed_caller_is_there_for_the_next_one(server, files):
    first = caller(server, "hold", files, "toolu_caller")
    await started(files)
    first.kill()
    first.communicate()
    release(files)
    second = caller(server, "hold", files, "toolu_caller")
    output, _ = await asyncio.to_thread(second.communicate)
    assert (json.loads(output), second.returncode) == ([None, "held"], 0)
    assert [line.split()[0] for line in lines(files)] == ["started", "ended"]


@pytest.mark.usefixtures("worker")
async def test_a_call_goes_on_while_the_server_is_killed_and_started_again(server, files):
    async with registry_for(server.address, QUEUE, heartbeat=30.0, wait=120.0) as registry:
        call = asyncio.ensure_future(registry.call("hold", files, CONTEXT, call_id="toolu_server"))
        await started(files)
        server.kill()
        release(files)
        server.start()
        result = await call
    assert (result.kind, result.text) == (None, "held")
    assert [line.split()[0] for line in lines(files)] == ["started", "ended"]


@pytest.mark.usefixtures("worker")
async def test_the_status_has_workers_queues_and_running_calls(server, files, monkeypatch):
    monkeypatch.setattr("pegboard_temporal.status._MOST_LISTED", 1)
    async with registry_for(server.address, QUEUE, heartbeat=HEARTBEAT, wait=120.0) as registry:
        call = asyncio.ensure_future(registry.call("hold", files, CONTEXT, call_id="toolu_status"))
        await started(files)
        client, limit = await connect(Settings(address=server.address)), timedelta(minutes=1)
        place = {"id": "message", "task_queue": "pegboard.caller.gone"}  # newer than the call, and not listed
        await client.start_activity("pegboard-message", schedule_to_close_timeout=limit, **place)
        running = []
        while not running:  # the server lists a call a moment after it has it
            status = await registry.contributions.executor("temporal").status()
            running = [each for each in status.workers if each.running]
        (worker,) = running
        assert (worker.queue, worker.max_concurrency, worker.running) == (QUEUE, 8, {"toolu_status": "hold"})
        assert status.queues[QUEUE] == 0
        release(files)
        assert (await call).text == "held"
