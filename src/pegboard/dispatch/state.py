"""State of one call, and what calls share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

import attrs
from attrs import define, field, frozen

from pegboard.callbacks import Callback
from pegboard.dispatch.approval.grants import Grants, MemoryGrants
from pegboard.dispatch.approval.queue import ApprovalQueue
from pegboard.dispatch.locks import BatchScheduler, LockHandle, LockManager, LockRequest, Semaphore
from pegboard.dispatch.permissions.permissions import DEFAULT_PERMISSIONS, Permissions
from pegboard.threads import WorkerPool
from pegboard.timeout import Watchdog
from pegboard.tools.call import Confirmation, ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import CallHost, ReadonlyContext, ToolContext
from pegboard.tools.spec import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from pegboard.dispatch.approval.pending import Approval, PendingCall
    from pegboard.dispatch.approval.queue import AnyApprover
    from pegboard.dispatch.approval.request import ApprovalRequest
    from pegboard.dispatch.permissions.evaluation import Evaluation
    from pegboard.dispatch.truncate import ResultStore
    from pegboard.timeout import Deadline
    from pegboard.tools.services import Services
    from pegboard.tools.tool import Tool


StageFunction: TypeAlias = "Callable[[CallState], Awaitable[None] | None]"
"""Fills in its part of the state, or raises; gives an awaitable where it isn't done yet."""

BATCH: Final = "batch_"
"""What the id of a model's message begins with where the host gave none."""

_FLAT: Final = frozenset({str, int, float, bool, type(None)})


def _refuse(*_given: object, **_named: object) -> NoReturn:
    raise TypeError("arguments are read-only here; answer ChangeArguments({...}) to change them")


class _ReadOnlyDict(dict[Any, Any]):
    """A dict that refuses every change; a copy of it is a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class _ReadOnlyList(list[Any]):
    """A list that refuses every change; a copy of it is a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = extend = insert = _refuse  # pyright: ignore[reportAssignmentType]
    remove = pop = clear = sort = reverse = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def read_only(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments as callbacks see them: read-only all the way down, equal to what they show, plain when copied."""
    if all(type(value) in _FLAT for value in arguments.values()):
        return MappingProxyType(arguments)
    return MappingProxyType(_remade(dict(arguments), _ReadOnlyDict, _ReadOnlyList))


def plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A copy all the way down, in plain dicts and lists: changing the original doesn't change the copy."""
    return _remade(dict(arguments), dict, list)


def _remade(value: Any, dict_type: type[dict[Any, Any]], list_type: type[list[Any]]) -> Any:
    """A copy in other containers, of any depth; what holds itself holds its own copy."""
    done: dict[int, Any] = {}
    pending: list[tuple[Any, Any]] = []

    def begun(item: Any) -> Any:
        kind = cast("type[Any]", type(item))
        if not issubclass(kind, dict | list | tuple):
            return item
        if id(item) not in done:
            done[id(item)] = dict_type() if issubclass(kind, dict) else list_type()
            pending.append((item, done[id(item)]))
        return done[id(item)]

    whole = begun(value)
    while pending:
        source, target = pending.pop()
        if isinstance(source, dict):
            dict[Any, Any].update(
                target, {key: begun(member) for key, member in cast("dict[Any, Any]", source).items()}
            )
        else:
            list[Any].extend(target, [begun(member) for member in source])
    return whole


def _not_prepared(*_: object) -> NoReturn:
    raise RuntimeError("only a registry's own services begin and run calls")


@frozen
class CallPipeline:
    """Stages as calls pass them.

    Attributes:
        prepare: What the open calls pass first: a call that fails here may be repaired, and then passes them once more.
        execute: What the open calls pass then, until one fails or is answered.
        afterwards: The other stages.
    """

    prepare: tuple[StageFunction, ...] = ()
    execute: tuple[StageFunction, ...] = ()
    afterwards: tuple[StageFunction, ...] = ()


@define(eq=False)
class CurrentPermissions:
    """Permissions as they are now: a host may change the registry's while calls are under way.

    Attributes:
        permissions: What may run.
        are_own: Whether they are those of one batch, in place of the registry's.
    """

    permissions: Permissions = DEFAULT_PERMISSIONS
    are_own: bool = False


@frozen(eq=False)
class CallServices:
    """Services that calls share: all of one registry, or those of one batch.

    Attributes:
        find: Gives the tool of a name, or raises `CallError`.
        threads: Where plain functions run, but for those of tools.
        callbacks: By hook, those round each call that there are, plugins' first, in the order in which they are asked.
        limits: What a call may use.
        tool_threads: Where those of tools run: tools that hang take no thread from callbacks.
        locks: Where calls wait for each other.
        slots: How many of the batch may run at once; `None` is no limit.
        current: What may run.
        grants: What people have allowed for longer than one call.
        approvals: Queue of requests that wait for a person.
        approver: Asks a person; `None`: no person can be asked.
        remote: Runs a call in the executor that its tool names, for so many seconds; `None`: tools run here only.
        events: Gets each `CallEvent`, or `None`.
        result_store: Keeps the full text of results that were cut; `None` keeps none.
        begin_operation: Makes the result of a long-running tool a pending one; `None`: nothing can go on here.
        watchdog: Notices a coroutine that blocks the loop.
        host: What running calls may ask for.
        tools: The tools of the request that the calls answer; without one, those that are registered.
        instructions: The request's instructions, for repairers.
        longest: Seconds that no call may exceed, whatever its tool declares; `None` is no limit.
        catalogue: The registry's, for as long as this holds.
        named: Tools by name that `find` gives; it is asked for all others.
        provided: What the host provides to tools, by type.
        pipeline: The stages that have something to do.
        begin: Makes the state of one call: `(call, context, services)`.
        run: Runs one call that is in no batch.
    """

    find: Callable[[str], Tool]
    threads: WorkerPool = field(factory=WorkerPool)
    callbacks: Mapping[str, tuple[Callback, ...]] = MappingProxyType({})
    limits: Limits = DEFAULT_LIMITS
    tool_threads: WorkerPool = field(factory=WorkerPool)
    locks: LockManager = field(factory=LockManager)
    slots: Semaphore | None = None
    current: CurrentPermissions = field(factory=CurrentPermissions)
    grants: Grants = field(factory=MemoryGrants)
    approvals: ApprovalQueue = field(factory=ApprovalQueue)
    approver: AnyApprover | None = None
    remote: Callable[[CallState, float | None], Awaitable[ToolResult]] | None = None
    events: Callable[[Any], None] | None = None
    result_store: ResultStore | None = None
    begin_operation: Callable[[CallState], object] | None = None
    watchdog: Watchdog = field(factory=Watchdog)
    host: CallHost | None = None
    tools: tuple[Tool, ...] = ()
    instructions: str | None = None
    longest: float | None = None
    catalogue: Any = None
    named: Mapping[str, Tool] = MappingProxyType({})
    provided: Services | None = None
    pipeline: CallPipeline = CallPipeline()
    begin: Callable[[ToolCall, ReadonlyContext | ToolContext, CallServices], CallState] = _not_prepared
    run: Callable[[CallState], Awaitable[None]] = _not_prepared

    def evolve(self, **changes: Any) -> CallServices:
        """The same, with some attributes changed."""
        return attrs.evolve(self, **changes)


NO_ARGUMENTS: Final[Mapping[str, Any]] = MappingProxyType({})


class CallState:
    """One call on its way. Each stage fills in its own part and changes no other's.

    A plain class whose defaults stand in the class: making one sets three attributes, and a call that needs nothing
    else pays for nothing else.

    Attributes:
        call: What the model asked for; by `repair`, what was meant.
        context: What the tool gets to know.
        services: What calls share.
        index: The call's place in its batch, from 0.
        taken_in: When the call was taken in, in seconds of `time.monotonic()`, where an event listener needs it.
        scheduler: Keeps the batch's calls in their order, or `None`.
        parent: The locks of the calling tool, for a nested call.
        tool: By `find`.
        arguments: By `parse`, and by `before` where a callback changes them.
        parsed: By `parse`: whether the arguments were read from text, and so are JSON for sure.
        coercions: By `validate`: what was converted, `"path: from -> to"` each.
        repaired: By `repair`: what was changed, for people, or `None`.
        changed: By `before`: whether a callback changed the arguments.
        shown: By the callbacks' stages: the arguments, and as callbacks see them.
        asks: By `permit`: what a person has to allow, or `None`.
        judged: By `permit`: what it has decided by, with the places that it has found; `None`: nothing had to be.
        access: By the running tool: the permissions, and what decides by them about each thing that it accesses.
        approval: By `approve`: that a person has allowed exactly this, once.
        held: Set once a person may be asked, where the call was started before its answer was whole; else `None`.
        pending: By `approve`: what has to be kept where the answer comes later.
        answers: By `approve`: the answers that came with a call that runs again and that no ask has used yet, the
            oldest first; `None` before its first ask.
        calls: How many tools its tool has called.
        ends: Why the turn should end after this call, or `None`.
        locks_wanted: By `run`: the arguments, and the locks that the call needs with them.
        lock: By `run`: the locks that the call holds, where it had to wait for them.
        around: The call in whose tool or callback this one was made, or `None`.
        callback: The time limit of the callback that is asked about it now, or `None`.
        demands: By `before`: each `Ask`: what callbacks want to be allowed beside what the call asks for itself.
        thread: By `run`: done when the thread has ended that runs a tool beside which others can't run, or `None`.
        deadline: By `run`: what is left of the time limit; paused while a person is asked.
        since: By `run`: when the tool was started, in seconds of `time.monotonic()`, or `None`.
        goes_on: By `run`: whether the result will be a pending one.
        for_host: By `run`: whether the tool has no handler here, so that its host has to run it.
        value: By `run`: what the function gave back.
        result: By `shape`; or by a callback that answers.
        error: What ended the way forward, until a callback recovers.
        fatal: What ends the turn once every call has its result.
    """

    index: int = 0
    taken_in: float = 0.0
    scheduler: BatchScheduler | None = None
    parent: LockHandle | None = None
    tool: Tool | None = None
    arguments: Mapping[str, Any] = NO_ARGUMENTS
    parsed: bool = False
    coercions: tuple[str, ...] = ()
    repaired: str | None = None
    changed: bool = False
    shown: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    asks: ApprovalRequest | None = None
    judged: Evaluation | None = None
    access: tuple[Permissions, Callable[[str, str], bool]] | None = None
    approval: Approval | None = None
    held: asyncio.Event | None = None
    pending: PendingCall | None = None
    answers: list[Confirmation] | None = None
    calls: int = 0
    ends: str | None = None
    locks_wanted: tuple[Mapping[str, Any], LockRequest] | None = None
    lock: LockHandle | None = None
    around: CallState | None = None
    callback: Deadline | None = None
    demands: tuple[Any, ...] = ()
    thread: Future[None] | None = None
    deadline: Deadline | None = None
    since: float | None = None
    goes_on: bool = False
    for_host: bool = False
    value: Any = None
    result: ToolResult | None = None
    error: BaseException | None = None
    fatal: BaseException | None = None

    def __init__(self, call: ToolCall, context: ToolContext, services: CallServices) -> None:
        self.call = call
        self.context = context
        self.services = services
