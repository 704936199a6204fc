"""State of one call, and what calls share: `Runtime`, `CallSnapshot` and `Settings`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from attrs import field

from pegboard.callbacks import Callback
from pegboard.dispatch.locks import BatchScheduler, LockHandle, LockManager, LockRequest, Semaphore
from pegboard.timeout import Watchdog
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.limits import DEFAULT_LIMITS, Limits
from pegboard.typing import define, frozen

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from pegboard.dispatch.approval.grants import Grants
    from pegboard.dispatch.approval.pending import ApprovalState, PendingCall
    from pegboard.dispatch.approval.queue import AnyApprover, ApprovalQueue
    from pegboard.dispatch.permissions.permissions import Permissions
    from pegboard.dispatch.truncate import ResultStore, ResultTexts
    from pegboard.threads import LoopThreads, WorkerPool
    from pegboard.timeout import Deadline
    from pegboard.tools.services import Services
    from pegboard.tools.tool import Tool


HERE: Final = (None, "loop", "thread")  # the executors that are this process
BATCH: Final = "batch_"  # of the message id of a batch, if the host gave none
NO_ARGUMENTS: Final[Mapping[str, Any]] = MappingProxyType({})
_NO_SERVICES: Final[Mapping[Any, Any]] = MappingProxyType({})
_FLAT: Final = frozenset({str, int, float, bool, type(None)})


def _refuse(*_given: object, **_named: object) -> NoReturn:
    raise TypeError("arguments are read-only here; answer ChangeArguments({...}) to change them")


class _ReadOnlyDict(dict[Any, Any]):
    """Read-only dict; copies are plain dicts."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class _ReadOnlyList(list[Any]):
    """Read-only list; copies are plain lists."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = extend = insert = _refuse  # pyright: ignore[reportAssignmentType]
    remove = pop = clear = sort = reverse = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def read_only(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read-only view of the arguments, also of nested values; equal to them, and plain when copied."""
    if all(type(value) in _FLAT for value in arguments.values()):
        return MappingProxyType(arguments)
    return MappingProxyType(_copy(dict(arguments), _ReadOnlyDict, _ReadOnlyList))


def plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy in plain dicts and lists."""
    return _copy(dict(arguments), dict, list)


def _copy(value: Any, dict_type: type[dict[Any, Any]], list_type: type[list[Any]]) -> Any:
    """A deep copy in other containers, of any depth; shared and cyclic parts stay so."""
    done: dict[int, Any] = {}
    pending: list[tuple[Any, Any]] = []

    def copy_of(item: Any) -> Any:
        kind = cast("type[Any]", type(item))
        if not issubclass(kind, dict | list | tuple):
            return item
        if id(item) not in done:
            done[id(item)] = dict_type() if issubclass(kind, dict) else list_type()
            pending.append((item, done[id(item)]))
        return done[id(item)]

    whole = copy_of(value)
    while pending:
        source, target = pending.pop()
        if isinstance(source, dict):
            dict[Any, Any].update(
                target, {key: copy_of(member) for key, member in cast("dict[Any, Any]", source).items()}
            )
        else:
            list[Any].extend(target, [copy_of(member) for member in source])
    return whole


@define(eq=False)
class CurrentPermissions:
    """Current permissions, of the registry or one batch: a host may change the registry's while calls are running."""

    permissions: Permissions | None = None
    are_own: bool = False


@frozen(eq=False, slots=False)
class Runtime:
    """What the calls of a registry share as long as it lives.

    Most is made at first use. Threads that ask at once get the same object, as `setdefault` keeps the first.
    """

    locks: LockManager = field(factory=LockManager)
    watchdog: Watchdog = field(factory=Watchdog)
    _grants: Grants | None = field(default=None, alias="grants")
    awaits_grants: bool = False  # whether the store of grants has an async `rules`
    texts: Callable[[], ResultTexts | None] | None = None  # persistent store of results; `None`: nothing is stored
    new_operations: Callable[[], Any] | None = None  # makes its `Operations`; `None`: nothing goes on after its call
    executor: Callable[[str], Awaitable[Any]] | None = None  # by name, loading its plugin; `None`: tools run here only
    provided: Services | None = None  # the services that the host provides to tools, by type

    @cached_property
    def threads(self) -> WorkerPool:
        """Threads for plain callbacks."""
        from pegboard.threads import WorkerPool  # loaded with the first of them

        return vars(self).setdefault("threads", WorkerPool())

    @cached_property
    def tool_threads(self) -> WorkerPool:
        """Threads for plain tools: hanging ones don't block callbacks."""
        from pegboard.threads import WorkerPool  # loaded with the first of them

        return vars(self).setdefault("tool_threads", WorkerPool())

    @property
    def pools(self) -> list[WorkerPool]:
        """Those of its pools of threads that were used."""
        return [vars(self)[name] for name in ("threads", "tool_threads") if name in vars(self)]

    @cached_property
    def loops(self) -> LoopThreads:
        """Event loops for `call_sync` in a running loop."""
        from pegboard.threads import LoopThreads  # loaded with the first of them

        return vars(self).setdefault("loops", LoopThreads())

    @cached_property
    def store(self) -> ResultStore | None:
        """The full texts of truncated results."""
        from pegboard.dispatch.truncate import ResultStore  # loaded with the first long result

        return vars(self).setdefault("store", None if self.texts is None else ResultStore(texts=self.texts))

    @cached_property
    def operations(self) -> Any:
        """The long-running operations, `Operations`, which run the last stages of calls themselves; or `None`."""
        return vars(self).setdefault("operations", self.new_operations and self.new_operations())

    @cached_property
    def grants(self) -> Grants:
        """Approvals for longer than one call."""
        from pegboard.dispatch.approval.grants import MemoryGrants  # loaded when a call isn't simply allowed

        return vars(self).setdefault("grants", MemoryGrants() if self._grants is None else self._grants)

    @cached_property
    def approvals(self) -> ApprovalQueue:
        """Queue of requests that wait for the user."""
        from pegboard.dispatch.approval.queue import ApprovalQueue  # loaded when the user is asked

        return vars(self).setdefault("approvals", ApprovalQueue())


@frozen(eq=False)
class CallSnapshot:
    """What calls can reach: the tools and callbacks of one catalogue, or the tools that one request offered."""

    runtime: Runtime
    find: Callable[[str], Tool]  # returns the tool of a name, or raises `CallError`
    tools: tuple[Tool, ...] = ()  # the offered tools
    named: Mapping[str, Tool] = MappingProxyType({})  # tools by name, looked up before calling `find`
    callbacks: Mapping[str, tuple[Callback, ...]] = MappingProxyType({})  # by hook; plugins' first


@frozen(eq=False)
class Settings:
    """What the host has set for calls: for all of a registry, or for one batch."""

    limits: Limits = DEFAULT_LIMITS
    current: CurrentPermissions = field(factory=CurrentPermissions)
    approver: AnyApprover | None = None  # asks the user; `None` if that isn't possible
    ask_until: Future[None] | None = None  # once it is done, nobody is asked: answers come later
    slots: Semaphore | None = None  # how many calls of the batch run at once; `None` is no limit
    longest: float | None = None  # upper bound in seconds on every tool's time limit; `None` is no bound
    instructions: str | None = None  # the request's instructions, for repairers
    emit: Callable[[Any], None] | None = None  # gets each event of a call; `None`: there is no observer or listener
    host: Any = None  # serves requests of running calls


@define(eq=False)
class BatchPosition:
    """Position of a call among others; never changed."""

    index: int = 0  # in its batch, from 0; of a nested call, that of its caller
    scheduler: BatchScheduler | None = None
    parent: LockHandle | None = None  # the locks of the calling tool, for a nested call
    hold_until: asyncio.Event | None = None  # if it was started early: set when the user may be asked


@define(eq=False)
class Running:
    """What a call has while its tool runs; written by `running.py`."""

    deadline: Deadline | None = None  # the time limit; paused while the user is asked
    lock: LockHandle | None = None
    lock_request: tuple[Mapping[str, Any], LockRequest] | None = None  # with the arguments that it is for
    thread: Future[None] | None = None  # done when that of a tool with an exclusive lock or key has ended
    nested: int = 0  # number of nested calls that its tool has made
    attempts: int = 0  # number of attempts in the tool's executor, if it runs elsewhere
    runs_on_host: bool = False  # whether the host has to run the tool, which has no handler here


@define(eq=False)
class CallbackState:
    """What the callbacks of a call have: arguments, their read-only view, and the time limit of the running callback.

    Written by `callbacks.py`; wrappers of calls fill `trace`, see `ToolContext.trace`.
    """

    arguments: Mapping[str, Any] | None = None
    view: Mapping[str, Any] = NO_ARGUMENTS
    deadline: Callable[[], Deadline] | None = None
    trace: dict[str, str] = field(factory=lambda: {})  # noqa: PIE807  `dict[str, str]` is slow


_ALONE: Final = BatchPosition()


class CallState:
    """State of one call.

    Each attribute is written by one file: `stages.py`, which runs the stages, or the one that is named beside it. A
    record is `None` until its stage has something to keep.
    """

    __slots__ = (
        *("name", "raw", "id", "runtime", "snapshot", "settings", "request", "made_call", "made_context"),
        *("depth", "enclosing", "position", "received_at"),
        *("tool", "arguments", "started_at", "value", "result", "error"),
        *("is_prepared", "coercions", "repaired", "asking", "running", "callbacks", "is_seen", "end_reason", "fatal"),
        "__weakref__",
    )

    def __init__(  # noqa: PLR0913, PLR0917  what each call has
        self,
        name: Any,
        raw: Any,
        call_id: str,
        context: ReadonlyContext | ToolContext,
        snapshot: CallSnapshot,
        settings: Settings,
    ) -> None:
        # The called name, the arguments as text or as a mapping, the call's id: `replace` sets those of a repair.
        self.name, self.raw, self.id = name, raw, call_id
        self.runtime: Runtime = snapshot.runtime
        self.snapshot, self.settings = snapshot, settings  # `batch.py` adds its listener to the settings
        self.made_call: ToolCall | None = None  # the call as data, once something has asked for it
        self.enclosing: CallState | None = None  # the innermost enclosing call; `depth` is the number of all
        self.position = _ALONE
        self.received_at = 0.0  # in seconds of `time.monotonic()`; set for listeners (`events.py`)
        self.tool: Tool | None = None
        self.arguments: Mapping[str, Any] = NO_ARGUMENTS  # as they run; a callback changes them by `change_arguments`
        self.started_at: float | None = None  # when the tool was started, in seconds of `time.monotonic()` (`run.py`)
        self.value: Any = None  # what its function has returned
        self.result: ToolResult | None = None  # others return it, or call `conclude`
        self.error: BaseException | None = None  # the current one, until a callback recovers from it
        self.is_prepared = False  # whether the tool has prepared the arguments already (`mark_prepared`)
        self.coercions: tuple[str, ...] = ()  # `"path: from -> to"` each (`arguments.py`)
        self.repaired: str | None = None  # a description of the repair (`find.py`)
        self.asking: ApprovalState | None = None  # what it asks the rules and the user, if it has to (`approve.py`)
        self.running: Running | None = None  # for a lock of its own, or once it waits (`running.py`)
        self.callbacks: CallbackState | None = None  # (`callbacks.py`)
        self.is_seen = False  # whether the last callbacks have seen the result, so that it stays (`mark_seen`)
        # What ends the turn once every call has its result: a reason, or an error (`end_turn`).
        self.end_reason: str | None = None
        self.fatal: BaseException | None = None
        self.made_context: ToolContext | None  # the context, once something has asked for it
        if isinstance(context, ToolContext):
            self.request, self.made_context, self.depth = context.request, context, context.depth
            context.internals.frame = self
        else:
            self.request, self.made_context, self.depth = context, None, 0

    def replace(self, call: ToolCall) -> None:
        """Replaces the call, such as by its repair."""
        self.is_prepared = self.is_prepared and call.name == self.name  # another tool prepares what is its own
        self.made_call, self.name, self.raw, self.id, self.coercions = call, call.name, call.arguments, call.id, ()

    def mark_prepared(self) -> None:
        """Records that the tool has prepared the arguments, which it does once, before a call is kept or sent."""
        self.is_prepared = True

    def change_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Changes the arguments, as a callback answers; the next callbacks see them."""
        self.arguments = arguments

    def set_tool(self, tool: Tool | None) -> None:
        """Sets the tool of a call whose stages don't run here, as the host or another process has run it."""
        self.tool = tool

    def mark_seen(self) -> None:
        """Marks the result as seen by the last callbacks: whatever comes later doesn't lose it."""
        self.is_seen = True

    def end_turn(self, reason: str | None = None, error: BaseException | None = None) -> None:
        """Ends the turn once every call has its result: for a reason, or by an error."""
        self.end_reason, self.fatal = reason or self.end_reason, error or self.fatal

    @property
    def call(self) -> ToolCall:
        """The call as data."""
        if self.made_call is None:
            self.made_call = ToolCall(self.name, self.raw, self.id)
        return self.made_call

    @property
    def pending(self) -> PendingCall | None:
        """The pending call, if the user's answer comes later."""
        return None if self.asking is None else self.asking.pending

    @property
    def context(self) -> ToolContext:
        """The context that the call's tool and callbacks get, made when something asks for it."""
        made = self.made_context
        if made is None:
            request, provided = self.request, self.runtime.provided
            made = ToolContext(
                request,
                self.id,
                self.name,
                {} if request.values is None else request.values,
                _NO_SERVICES if provided is None else provided,
                offered=self.snapshot.tools,
                host=self.settings.host,
            )
            made.depth, made.internals.frame = self.depth, self
            if self.callbacks is not None:
                made.trace = self.callbacks.trace
            started_at, tool = self.started_at, self.tool
            if started_at is not None and tool is not None and (limit := time_limit(self, tool)) is not None:
                made.deadline = started_at + limit
            self.made_context = made
        return made


def time_limit(state: CallState, tool: Tool) -> float | None:
    """The time limit of the call in seconds."""
    limit, longest = tool.policy.timeout, state.settings.longest
    if limit is None:
        limit = state.settings.limits.timeout
    return limit if longest is None else longest if limit is None else min(limit, longest)


def needs_asking(state: CallState, tool: Tool) -> bool:
    """Whether the call has asked something, or its rules don't simply allow it: then `Asking` has to decide."""
    permissions = state.settings.current.permissions
    if state.asking is not None or permissions is None:
        return state.asking is not None or tool.may_ask
    if state.runtime.awaits_grants:
        return True
    from pegboard.dispatch.permissions.permissions import policy_of  # loaded where there are rules

    policy = policy_of(permissions, tool)
    return not (policy.conditions == () or policy.runs(state.arguments, state.request))
