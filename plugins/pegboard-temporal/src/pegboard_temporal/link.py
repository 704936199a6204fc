"""Connections to the server: `connect`; and `Link`, a caller's, in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import gc
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

from attrs import define, field
from temporalio import activity
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import ActivityHandle, Client
from temporalio.common import RawValue, RetryPolicy, WorkerDeploymentVersion
from temporalio.envconfig import ClientConfigProfile, ClientConfigTLS
from temporalio.exceptions import ActivityAlreadyStartedError, ApplicationError, ApplicationErrorCategory
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RetryConfig, RPCError, RPCStatusCode
from temporalio.worker import Worker, WorkerDeploymentConfig

from pegboard.errors import log_failure
from pegboard_temporal.settings import Settings

T = TypeVar("T")
Activity: TypeAlias = Callable[[Sequence[RawValue]], Awaitable[RawValue]]
LONGEST: Final = timedelta(days=30)
"""For what runs; Temporal's limits can't stop while the user is asked, so the worker keeps the tool's own."""
_CLOSE_SECONDS: Final = 5.0
_PAUSE: Final = 0.5
_RETRY_MILLISECONDS: Final = 1_000  # after which the SDK repeats a request that has failed, about
FIRST_TRY_SECONDS: Final = 0.75
"""In which a request that has ended was sent once."""
_STARTING: Final = "pegboard-temporal-starting"
_CLOSED: Final = "the connection was closed"
_HERE: Final = "localhost:7233"
_AWAY: Final = "the Temporal server can't be reached"
_REFUSED: Final = "the Temporal server refuses the API key or the certificate"
_UNKNOWN: Final = "the Temporal server doesn't know the namespace"
_REFUSALS: Final = {"unauthenticated": _REFUSED, "permissiondenied": _REFUSED, "notfound": _UNKNOWN}  # by the status
_PATIENCE: Final = {_AWAY: 8.0, _UNKNOWN: 2.0}
"""Seconds for which it tries again; `--status` waits 10 s. A server that starts has its namespaces a moment later."""


async def connect(settings: Settings, identity: str | None = None) -> Client:
    """A client of the server, in a runtime of its own.

    Raises:
        ConnectionError: The server can't be reached, or refuses; the text has nothing of the settings.
    """
    try:
        options = _options(settings)
    except (RuntimeError, OSError, ValueError) as error:  # the SDK's texts have names, paths and addresses
        raise ConnectionError(f"the settings for Temporal are invalid: {type(error).__name__}") from None
    began = monotonic()
    while isinstance(found := await _try_to_connect(options, identity), str):
        if monotonic() - began > _PATIENCE.get(found, 0.0):
            raise ConnectionError(found)
        await asyncio.sleep(_PAUSE)
    return found


async def _try_to_connect(options: Mapping[str, Any], identity: str | None) -> Client | str:
    """A client; or why there is none. An error would keep the runtime alive by its traceback."""
    # The default runtime outlives the interpreter, which then may abort. Its logs have addresses.
    runtime = Runtime(telemetry=TelemetryConfig(logging=None))
    retries = RetryConfig(initial_interval_millis=_RETRY_MILLISECONDS)
    try:
        client = await Client.connect(**options, identity=identity, runtime=runtime, retry_config=retries)
        # Here, as a worker that learns of it later ends by a cancellation of its task.
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except ValueError:
        return "the settings for Temporal are invalid: ValueError"
    except (RuntimeError, OSError, RPCError) as error:
        # An `RPCError` has its status; the SDK's other errors of connecting have it in their text.
        name = error.status.name if isinstance(error, RPCError) else f"{error}".partition("code: ")[2].partition(",")[0]
        return _REFUSALS.get(name.replace("_", "").lower(), _AWAY)
    return client


def _options(settings: Settings) -> dict[str, Any]:
    """The arguments of `Client.connect`, of the settings and of Temporal's own environment and file."""
    names = ("address", "namespace", "api_key")
    given: dict[str, Any] = {name: found for name in names if (found := getattr(settings, name)) is not None}
    if settings.tls:
        given["tls"] = _tls(settings.tls if isinstance(settings.tls, Mapping) else {})
    profile = dataclasses.replace(ClientConfigProfile.load(settings.profile), **given)
    return {"target_host": _HERE, **profile.to_client_connect_config()}


def _tls(tls: Mapping[str, str]) -> ClientConfigTLS:
    ca, cert, key = (None if tls.get(name) is None else Path(tls[name]) for name in ("ca", "cert", "key"))
    name = tls.get("server_name")
    return ClientConfigTLS(
        disabled=False, server_name=name, server_root_ca_cert=ca, client_cert=cert, client_private_key=key
    )


def refusal(status: RPCStatusCode) -> str:
    """What the server says by this status to a request."""
    if status is RPCStatusCode.UNIMPLEMENTED:
        return "this Temporal server lacks standalone activities; they need server 1.31 or newer"
    return f"the Temporal server refuses ({status.name})"


_is_ours: Final = ContextVar("pegboard-temporal-worker", default=False)  # whether the SDK's worker is pegboard's


def _may_be_logged(record: logging.LogRecord) -> bool:
    """Whether a record of the SDK has no error, whose text has the namespace; or is of a worker of others."""
    return not (record.exc_info and _is_ours.get())


logging.getLogger(Worker.__module__).addFilter(_may_be_logged)


def new_worker(client: Client, queue: str, run: Activity, **options: Any) -> Worker:
    """A worker of the SDK, to be entered, whose calls end before it does."""

    @activity.defn(dynamic=True)
    async def any_activity(args: Sequence[RawValue]) -> RawValue:
        try:
            return await run(args)
        except (Exception, asyncio.CancelledError) as error:  # of whatever kind
            is_cut = isinstance(error, asyncio.CancelledError)  # by its process, unless the server has cancelled it
            if is_cut and activity.is_cancelled():
                raise
            if not is_cut and not isinstance(error, LookupError):  # else the caller that a message is for has ended
                log_failure("an activity", error)
            # Its tool has run, if any, unless it was cut. The SDK would log another error, with the namespace.
            options: Any = {"category": ApplicationErrorCategory.BENIGN, "non_retryable": not is_cut}
            raise ApplicationError(type(error).__name__, **options) from None

    _is_ours.set(True)
    version = WorkerDeploymentConfig(WorkerDeploymentVersion("pegboard", "1"), use_worker_versioning=False)
    return Worker(
        client,
        task_queue=queue,
        activities=[any_activity],
        deployment_config=version,  # else it reads all modules to make one
        **options,
    )


@asynccontextmanager
async def started(
    client: Client, settings: Settings, name: str, *args: Any, wait: float, attempts: int = 1, **options: Any
) -> AsyncGenerator[ActivityHandle[RawValue]]:
    """A new activity; cancelling the block cancels it, also where only the server knows yet that it has begun.

    Args:
        client: The client.
        settings: Where the heartbeat is.
        name: The activity's type.
        args: Its arguments.
        wait: Seconds in which a worker has to take it.
        attempts: How often it may run.
        options: More of `Client.start_activity`.

    Raises:
        ActivityAlreadyStartedError: There is one with this id.
        RPCError: The server can't be reached, or refuses.
    """
    limits: Any = {
        "schedule_to_start_timeout": timedelta(seconds=wait),
        "start_to_close_timeout": LONGEST,
        "heartbeat_timeout": timedelta(seconds=settings.heartbeat),
        "retry_policy": RetryPolicy(maximum_attempts=attempts, backoff_coefficient=1.0),
    }
    begun = client.start_activity(name, args=args, result_type=RawValue, **limits, **options)
    starting = asyncio.create_task(begun, name=_STARTING)
    try:
        yield await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(RPCError, TimeoutError, ActivityAlreadyStartedError):  # it has ended, or the server is away
            async with asyncio.timeout(_CLOSE_SECONDS):  # in this task, which `Link` cancels only once
                await (await starting).cancel()
        raise


async def result_of(run: ActivityHandle[RawValue]) -> RawValue:
    """The result of an activity.

    Raises:
        ActivityFailureError: It has none.
        RPCError: The server can't be reached, or refuses; also where the request alone was cancelled on its way, which
            the SDK raises as a cancellation of the task.
    """
    try:
        return await run.result()
    except asyncio.CancelledError as error:
        if isinstance(error.__cause__, RPCError):
            raise error.__cause__ from None
        raise


class ClosedError(ConnectionError):
    """The connection was closed while a call ran."""


@define(eq=False)
class Link:
    """A caller's connection, in an event loop in a daemon thread: calls may come from several loops, and leave theirs.

    Attributes:
        settings: Where the server is.
        answer: The activity by which workers reach the caller; it runs in the thread's loop.
        queue: The name of the queue of these activities.
        is_open: Whether it can be used.
        ready: The connection, once it is there: the client, the thread's loop, and what ends both.
    """

    settings: Settings
    answer: Activity
    queue: str = field(factory=lambda: f"pegboard.caller.{uuid4().hex}")
    is_open: bool = True
    ready: Future[tuple[Client, asyncio.AbstractEventLoop, asyncio.Event]] = field(factory=Future[Any], init=False)
    _thread: threading.Thread = field(init=False)
    _beginning: threading.Lock = field(factory=threading.Lock, init=False)  # while a coroutine is passed to the loop

    def __attrs_post_init__(self) -> None:
        self.ready.set_running_or_notify_cancel()  # else a call that is cancelled meanwhile would cancel it for all
        atexit.register(self.close)
        self._thread = threading.Thread(target=self._live, name="pegboard-temporal", daemon=True)
        self._thread.start()

    async def run(self, make: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine with the client, in the thread's loop; cancelling cancels it there.

        Raises:
            ConnectionError: The server can't be reached, or the connection is closed; then nothing was begun.
            ClosedError: The connection was closed meanwhile, and the coroutine cancelled.
            BaseException: The coroutine's exception.
        """
        if not self.ready.done():
            await asyncio.wrap_future(self.ready)
        with self._beginning:
            client, loop, _ = self.ready.result()
            if not self.is_open:
                raise ConnectionError(_CLOSED)
            running = asyncio.run_coroutine_threadsafe(make(client), loop)
            del client  # to be freed when this is closed
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.is_open or task is None or task.cancelling():
                raise
        raise ClosedError(_CLOSED)

    def close(self) -> None:
        """Cancels what runs, and ends the thread and the connection; blocks until then, at most 10 s."""
        self.is_open = False
        with suppress(ConnectionError, TimeoutError, RuntimeError):  # there is no connection; or the loop is closed
            loop, stopping = self.ready.result(_CLOSE_SECONDS)[1:]  # without the client, to be freed
            with self._beginning:  # what was begun before is there to be cancelled
                loop.call_soon_threadsafe(stopping.set)
        self._thread.join(_CLOSE_SECONDS)

    def _live(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._stay())
        except OSError as error:  # of the loop: too many files are open
            self.is_open = False
            if not self.ready.done():
                self.ready.set_exception(ConnectionError(f"{_AWAY}: {error.strerror}"))
        atexit.unregister(self.close)
        if self.ready.exception() is None:
            self.ready = Future[Any]()
            self.ready.set_exception(ConnectionError(_CLOSED))
        gc.collect()  # frees the client, whose threads may abort the interpreter if they outlive it

    async def _stay(self) -> None:
        """Connects, and stays so until it is to close; then it cancels the calls, which tell the server."""
        stopping = asyncio.Event()
        try:
            client = await connect(self.settings)
            async with new_worker(client, self.queue, self.answer, graceful_shutdown_timeout=timedelta(0)):
                self.ready.set_result((client, asyncio.get_running_loop(), stopping))
                if self.is_open:  # else it was closed before it could be told
                    await stopping.wait()
        except BaseException as error:  # noqa: BLE001  the next call gets it, and connects again
            if not self.ready.done():
                self.ready.set_exception(error)
        finally:
            with self._beginning:
                self.is_open = False
            await asyncio.sleep(0)  # what was begun before becomes a task, to be cancelled
            calls = asyncio.all_tasks() - {asyncio.current_task()}
            for each in calls:
                # Else it tells the server already; or is to end, as its call has to know what to cancel.
                if not each.cancelling() and each.get_name() != _STARTING:
                    each.cancel()
            if calls:
                await asyncio.wait(calls, timeout=_CLOSE_SECONDS)
