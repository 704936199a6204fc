"""`read_status`: the workers, queues and running calls that a server knows."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import ActivityExecutionStatus, Client, PendingActivityState
from temporalio.service import RPCError

from pegboard.json import strict_json
from pegboard.worker import ExecutorStatus, WorkerInfo
from pegboard_temporal.link import refusal
from pegboard_temporal.serving import PREFIX

_MOST_LISTED: Final = 1_000  # activities, the newest; a server has no list of queues
_MOST_RUNNING: Final = 200  # activities that are looked at


async def read_status(queue: str, client: Client) -> ExecutorStatus:
    """The status: of this queue, and of those of the last calls.

    Raises:
        ConnectionError: The server can't be reached, or refuses.
    """
    try:
        return await _read(queue, client)
    except RPCError as error:
        raise ConnectionError(refusal(error.status)) from None


async def _read(queue: str, client: Client) -> ExecutorStatus:
    names, open_ids = {queue}, list[tuple[str, str | None]]()
    async for activity in client.list_activities(f"TaskQueue STARTS_WITH '{PREFIX}'", limit=_MOST_LISTED):
        names.add(activity.task_queue.removeprefix(PREFIX))
        if activity.status is ActivityExecutionStatus.RUNNING:
            open_ids.append((activity.activity_id, activity.activity_run_id))
    running = defaultdict[tuple[str, str], dict[str, str]](dict)
    for activity_id, run_id in open_ids[:_MOST_RUNNING]:
        found = await client.get_activity_handle(activity_id, run_id=run_id).describe()
        if found.run_state not in (None, PendingActivityState.SCHEDULED):
            place = found.last_worker_identity or "", found.task_queue.removeprefix(PREFIX)
            name = _call_id(found.raw_info.user_metadata.summary.data) or activity_id
            running[place][f"{name} ({activity_id})" if name in running[place] else name] = found.activity_type
    workers, lengths = list[WorkerInfo](), dict[str, int | None]()
    for name in sorted(names):
        described = await _describe(name, client)
        lengths[name] = described.stats.approximate_backlog_count
        for identity in sorted({poller.identity for poller in described.pollers}):
            workers.append(_worker(identity, name, running[identity, name]))
    return ExecutorStatus(workers=tuple(workers), queues=lengths)


async def _describe(queue: str, client: Client) -> DescribeTaskQueueResponse:
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=f"{PREFIX}{queue}"),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        report_stats=True,
    )
    return await client.workflow_service.describe_task_queue(request, retry=True)


def _call_id(summary: bytes) -> str:
    """The id of a call in an activity's summary; empty if there is none."""
    try:
        return f"{strict_json(summary)}"
    except ValueError:
        return ""


def _worker(identity: str, queue: str, running: dict[str, str]) -> WorkerInfo:
    """The worker with this identity, as `serve` has written it."""
    name, _, most = identity.rpartition("/")
    is_ours = bool(name) and most.isdecimal()
    return WorkerInfo(
        name=name if is_ours else identity,
        queue=queue,
        max_concurrency=int(most) if is_ours else None,
        running=running,
    )
