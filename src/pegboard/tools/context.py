"""`ReadonlyContext`, for which tools are resolved; `ToolContext`, of a running call."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeVar

from attrs import Factory, field

from pegboard.errors import CallStoppedError
from pegboard.schema.converter import JsonRecord
from pegboard.tools.call import Confirmation, PendingActions, State, StateView
from pegboard.tools.content import SayableRecord
from pegboard.typing import define, frozen

if TYPE_CHECKING:
    from pegboard.tools.content import ToolResult
    from pegboard.tools.portal import LoopPortal
    from pegboard.tools.services import Kind, ServiceContainer, Services
    from pegboard.tools.stores import CallArtifacts, CallMemory

T = TypeVar("T")
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_NO_SERVICES: Final[Mapping[Any, Any]] = {}
_creating: Final = threading.Lock()  # held while a context creates an attribute lazily: a tool may use several threads


@frozen(kw_only=True)
class ReadonlyContext:
    """The user and the model that tools are resolved for. All attributes are optional.

    Attributes:
        user: The user's id.
        agent: The agent's name.
        model: The model's name.
        provider: The model's provider, such as `"anthropic"`.
        session: The conversation's id.
        state: The session's state: a read-only view of the host's mapping, which the host may change.
        extra: Other data that the host passes to toolsets, predicates and tools: a read-only view.
        agent_description: The agent's purpose.
        invocation: The id of the turn: everything from a message of the user to the last answer to it.
        message: The id of the model's message with the calls.
        branch: Which agent called which (`"planner.writer"`), where agents call agents.
        messages: The conversation so far, in the host's form.
        work_dir: The base folder of relative paths; `None`: the process's working directory.
        values: Shared by the processors, callbacks and tools of one turn, which sets it; else `None`.
        root: The context of the turn at the top, of an agent that is called in it; `None`: this is the top.
    """

    user: str | None = None
    agent: str | None = None
    model: str | None = None
    provider: str | None = None
    session: str | None = None
    state: Mapping[str, Any] = field(default=_NOTHING, repr=False, converter=StateView)
    extra: Mapping[str, Any] = field(default=_NOTHING, repr=False, converter=StateView)
    agent_description: str | None = None
    invocation: str | None = None
    message: str | None = None
    branch: str | None = None
    messages: Sequence[Any] = field(default=(), repr=False)
    work_dir: str | None = None
    values: dict[str, Any] | None = field(default=None, repr=False, eq=False)
    root: ReadonlyContext | None = field(default=None, repr=False, eq=False)


EMPTY_CONTEXT: Final = ReadonlyContext()  # no user, session or model


@frozen
class Progress(JsonRecord):
    """Progress of a running call.

    Attributes:
        progress: The work done so far, in units of `total`.
        total: The whole, or `None` if unknown.
        message: The current step, or `None`.
    """

    type: ClassVar = "progress"
    progress: float
    total: float | None = None
    message: str | None = None


@frozen
class DisplayUpdate(SayableRecord):
    """A heading and facts that a running call shows to people.

    Attributes:
        title: A short heading, or `None` to leave it unchanged.
        facts: For the user interface; never sent to the model.
    """

    type: ClassVar = "display"
    title: str | None = None
    facts: Mapping[str, Any] = field(factory=dict[str, Any])


@define(eq=False)
class CallInternals:
    """Internal state of the host in the context of a running call."""

    frame: Any = None  # the host's own state of the call, a `CallState`
    pending_actions: PendingActions | None = None  # the requested actions; `None` until the first
    container: ServiceContainer | None = None  # the services that are open for the call; `None` until the first
    portal: LoopPortal | None = None  # the portal to the call's event loop, if the tool runs in a thread

    async def close_services(self, error: BaseException | None = None) -> None:
        """Closes the services of the call, as `ServiceContainer.close`."""
        if self.container is not None:
            await self.container.close(error)


def _of_request(name: str) -> Any:
    """A property that reads this attribute of the request. Annotate it as `ClassVar`, or attrs takes it for a field."""
    return property(attrgetter(f"request.{name}"), doc="")


@define
class ToolContext:
    """Context of one running call; use `ToolContext()` in tests.

    A tool gets it in a parameter of this type, which the model never sees. A context made by hand allows everything,
    stores memory and artifacts as long as it exists, and has no other tools.

    Attributes:
        request: The user and the model that the call runs for. The context has its attributes, too: `context.user`.
        call_id: The call's id.
        tool: The tool's name.
        values: Shared by the processors, callbacks and tools of the turn; without a turn, by those of the batch or the
            call.
        services: The host's services by type: values or factories, as `registry.provide` takes them.
        listener: Called with each `Progress`, `DisplayUpdate` and partial result as it happens, in the call's event
            loop; must not raise.
        offered: The tools of the request that the call answers, each a `Tool`.
        host: Runs the call: has `ask`, `allows`, `request_confirmation`, `suspend`, `inherited`, `call`, `background`,
            with all arguments of the methods below, after the context; may have `allowed_names` and `unlocked`. `None`
            in a context made by hand.
        cancelled: Whether the call was cancelled or has timed out, while its thread may still run.
        deadline: The end of the call's time limit, in seconds of `time.monotonic()`, or `None`.
        confirmation: A person's answer before the call was run again, or `None`; in a test, the answer to give.
        depth: The number of calls that enclose this one: 0 for a call by the model.
        trace: The call's trace context for what it calls, such as child processes and MCP servers: `traceparent`,
            `tracestate` and `baggage`, as the W3C defines them; set by a tracing plugin.
        fencing_token: The number of the call's locks, or of its caller's, where a `LockBackend` shares them with other
            processes: higher than those of all earlier holders, so that what the tool writes to can refuse a call that
            has lost its locks. `None` without a backend.
        internals: Internal state of the host; not for tools.
    """

    request: ReadonlyContext = EMPTY_CONTEXT
    call_id: str = ""
    tool: str = ""
    values: dict[str, Any] = field(
        default=Factory(lambda own: {} if own.request.values is None else own.request.values, takes_self=True)
    )
    services: Services | Mapping[Any, Any] = field(default=_NO_SERVICES, repr=False)
    listener: Callable[[object], None] | None = field(default=None, repr=False)
    offered: Sequence[Any] = field(default=(), repr=False)
    host: Any = field(default=None, repr=False)
    cancelled: bool = False
    deadline: float | None = None
    confirmation: Confirmation | None = None
    depth: int = 0
    trace: dict[str, str] = field(factory=dict[str, str], repr=False)
    fencing_token: int | None = None
    internals: CallInternals = field(factory=CallInternals, init=False, repr=False, eq=False)

    user: ClassVar[str | None] = _of_request("user")
    agent: ClassVar[str | None] = _of_request("agent")
    agent_description: ClassVar[str | None] = _of_request("agent_description")
    model: ClassVar[str | None] = _of_request("model")
    provider: ClassVar[str | None] = _of_request("provider")
    session: ClassVar[str | None] = _of_request("session")
    invocation: ClassVar[str | None] = _of_request("invocation")
    message: ClassVar[str | None] = _of_request("message")
    branch: ClassVar[str | None] = _of_request("branch")
    messages: ClassVar[Sequence[Any]] = _of_request("messages")
    work_dir: ClassVar[str | None] = _of_request("work_dir")
    root: ClassVar[ReadonlyContext | None] = _of_request("root")
    extra: ClassVar[Mapping[str, Any]] = _of_request("extra")

    @property
    def state(self) -> State:
        """The session's state, to read and change; the host gets the changes as a delta."""
        return self.actions.state

    @property
    def actions(self) -> PendingActions:
        """The actions for the host: changes of state, `transfer_to`, `escalate`, `skip_summarization`."""
        internals = self.internals
        if internals.pending_actions is None:
            with _creating:
                internals.pending_actions = internals.pending_actions or PendingActions(self.request.state)
        return internals.pending_actions

    @property
    def memory(self) -> CallMemory:
        """The user's memory: `await context.memory.search("...")`."""
        from pegboard.tools.stores import CallMemory

        return CallMemory(self)

    @property
    def artifacts(self) -> CallArtifacts:
        """The files of the conversation and of the user: `await context.artifacts.save("a.txt", "...")`."""
        from pegboard.tools.stores import CallArtifacts

        return CallArtifacts(self)

    def report(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Reports the call's progress."""
        self.emit(Progress(progress, total, message))

    def emit(self, partial: object) -> None:
        """Emits a partial result before the call ends."""
        listener, portal = self.listener, self.internals.portal
        if listener is not None and portal is not None:
            portal.emit(listener, partial)
        elif listener is not None:
            listener(partial)

    def metadata(self, title: str | None = None, **facts: Any) -> None:
        """Shows a title and facts to people while the call runs; its result gets them, too."""
        self.actions.show(title, facts)
        self.emit(DisplayUpdate(title, facts))

    async def ask(
        self,
        permission: str,
        patterns: Sequence[str] = ("*",),
        always: Sequence[str] = (),
        metadata: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """Asks for a permission that the call needs beyond its arguments.

        Args:
            permission: The permission's name, such as `"edit"`.
            patterns: What it is needed for, such as paths.
            always: Wider patterns that a person may allow instead.
            metadata: For the decision, such as a diff.

        Raises:
            ToolError: It is denied; don't catch it, so that the model reads the reason.
        """
        if self.host is not None:
            await self.host.ask(self, permission, patterns, always, metadata)

    def allows(self, permission: str, subject: str | None) -> bool:
        """Whether the rules allow access to one of many items that the arguments don't name, such as a found file.

        A tool leaves out items that aren't allowed. Rules about this call's tool apply, and those about the permission.
        A rule that asks doesn't allow it, unless it asked about the whole call.

        Args:
            permission: A permission or tool name; rules about it apply as well.
            subject: The item; read as the tool's declared argument kind, if it declares one; else as text. `None` is
                every item: true only if no rule has to be asked about each.
        """
        return self.host is None or self.host.allows(self, permission, subject)

    def allowed_names(self, permission: str, folder: str, names: Sequence[str]) -> tuple[str, ...]:
        """The names in a folder whose paths the rules allow access to: as `allows` for each, but quicker.

        The folder is resolved once; each name below it may be a link, which is followed.

        Args:
            permission: As for `allows`.
            folder: The folder's path.
            names: The names of files and folders in it.
        """
        if check_at_once := getattr(self.host, "allowed_names", None):
            return check_at_once(self, permission, folder, names)
        return tuple(name for name in names if self.allows(permission, f"{folder}/{name}"))

    async def request_confirmation(self, hint: str, payload: Any = None) -> Confirmation:
        """Asks a person a question; returns the answer.

        If the answer comes in another turn or process, this call ends here, and the tool is run again from its start
        with the answer. In a context made by hand, the answer is `confirmation`, by default yes.

        Args:
            hint: The question; distinct for each question of a call.
            payload: JSON data with the question.
        """
        if self.host is None:
            return self.confirmation or Confirmation(hint=hint, confirmed=True, payload=payload)
        answered = self.confirmation and self.confirmation.to_question(hint)
        return answered or await self.host.request_confirmation(self, hint, payload)

    def suspend(self, hint: str, payload: Any = None, *, stored: Any = None, request: str | None = None) -> NoReturn:
        """Ends this call here. It runs again from its start once a question is answered, perhaps in another process.

        The approver isn't asked now: the host finds the question in the pending calls of the outcome.

        Args:
            hint: The question.
            payload: JSON data with the question.
            stored: JSON data for that run, such as the tool's progress: its `confirmation.stored`. It is never shown.
            request: The id of the question, if a person was asked already.

        Raises:
            LookupError: The call has no host: the context was made by hand.
        """
        if self.host is not None:
            self.host.suspend(self, hint, payload, stored, request)  # which always raises
        raise LookupError(f"{self.tool} can't be suspended: its context was made by hand; run it by a registry")

    def inherited(self) -> Mapping[str, Any]:
        """The options to pass to batches and turns that this call runs: `run_turn(..., **context.inherited())`.

        The approver and until when it is asked, and the permissions and time limit of its batch, if set.
        """
        return {} if self.host is None else self.host.inherited(self)

    async def call(self, name: str, arguments: Mapping[str, Any] | str = _NOTHING) -> ToolResult:
        """Runs another tool inside this call, under the same rules.

        Raises:
            LookupError: The call has no host: the context was made by hand, without a `host`.
        """
        if self.host is None:
            hint = "pass ToolContext(host=...), or run the tool through a registry"
            raise LookupError(f"this context has no tool {name!r}: it was made by hand; {hint}")
        return await self.host.call(self, name, arguments)

    def background(self, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Runs `work` in the background after the call's first result; completion is an event and a later message.

        In a context made by hand, a coroutine runs in the running event loop; anything else runs immediately. Returns
        the id of the operation.
        """
        if self.host is not None:
            return self.host.background(self, work)
        from pegboard.tools.portal import run_in_background

        return run_in_background(work)

    def unlocked(self) -> AbstractContextManager[None]:
        """A `with` block in which this call waits for other calls, and doesn't keep exclusive ones from running.

        A call that is exclusive itself, or has a key, keeps that.
        """
        unlock = getattr(self.host, "unlocked", None)
        return nullcontext() if unlock is None else unlock(self)

    def provides(self, kind: Kind[Any]) -> bool:
        """Whether the host provides a service of this type."""
        return kind in self._services()

    def service(self, kind: Kind[T]) -> T:
        """The service of this type, opened here if that needs no event loop.

        Raises `MissingServiceError`, a `LookupError`, if none is provided or it has to be awaited.
        """
        return self._services().use_now(kind, self)

    async def use(self, kind: Kind[T]) -> T:
        """The service of this type, opened if needed; it is closed after the call.

        Raises `MissingServiceError`, a `LookupError`, if the host hasn't called `registry.provide(kind, ...)`.
        """
        return await self._services().use(kind, self)

    async def use_or(self, kind: Kind[T], make: Callable[[], T]) -> T:
        """The service of this type; if none is provided, a default by `make`, shared by all calls of the registry."""
        services = self._services()
        return await services.use(kind, self) if kind in services else services.default(kind, make)

    @property
    def has_started(self) -> bool:
        """Whether the call's tool has begun to run; of a context made by hand it is true."""
        return getattr(self.internals.frame, "started_at", 0) is not None  # without a frame, 0

    @property
    def remaining(self) -> float | None:
        """The seconds left of the call's time limit; `None` if it has none."""
        deadline = self.deadline  # read once: the event loop may change it while this is a thread
        return None if deadline is None else max(deadline - time.monotonic(), 0.0)

    def check(self) -> None:
        """Cancellation point for plain functions: call it repeatedly in long work, as a thread can't be killed.

        Raises:
            CallStoppedError: The call was cancelled or has timed out; don't catch it.
        """
        if self.remaining == 0.0:
            raise CallStoppedError("the call's time limit has passed", kind="timeout")
        if self.cancelled:
            raise CallStoppedError("the call was cancelled", kind="aborted")

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Waits for an awaitable in a plain function: `context.wait(context.call("add", {...}))`.

        It is awaited in the call's event loop; in a context made by hand, in a new one.

        Raises:
            CallStoppedError: The call was cancelled or has timed out; don't catch it.
            RunningLoopError: Called in the event loop: there, write `await`.
            BaseException: Any exception of the awaitable.
        """
        from pegboard.tools.portal import wait_in_thread

        return wait_in_thread(self, awaitable)

    def _services(self) -> Services:
        from pegboard.tools.services import Services

        with _creating:
            if not isinstance(self.services, Services):
                self.services = Services(self.services)
            return self.services
