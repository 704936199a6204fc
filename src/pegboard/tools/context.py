"""`ReadonlyContext` while resolving, `ToolContext` while running."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol, TypeVar

from attrs import Factory, define, field, frozen

from pegboard.errors import CallStoppedError
from pegboard.schema.converter import JsonRecord
from pegboard.tools.call import Confirmation, PendingActions, State, StateView
from pegboard.tools.content import SayableRecord

if TYPE_CHECKING:
    from pegboard.tools.content import ToolResult
    from pegboard.tools.portal import LoopPortal
    from pegboard.tools.services import Kind, ServiceContainer, Services
    from pegboard.tools.stores import CallArtifacts, CallMemory

T = TypeVar("T")
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


_NO_SERVICES: Final[Mapping[Any, Any]] = {}
_making: Final = threading.Lock()
"""Held while a context makes what only few calls need: a tool may ask from several threads at once."""


@frozen(kw_only=True)
class ReadonlyContext:
    """The user and the model that tools are resolved for. Everything may be left out.

    Attributes:
        user: Who asks.
        agent: The agent's name.
        model: The model's name.
        provider: The model's provider, such as `"anthropic"`.
        session: The conversation's id.
        state: What the session knows: a read-only view of what the host gives, and may change.
        extra: Anything else that the host hands to toolsets, predicates and tools: a read-only view.
        agent_description: What the agent is for.
        invocation: The id of the turn: everything between a message of the user and the last answer to it.
        message: The id of the model's message that holds the calls.
        branch: Which agent called which (`"planner.writer"`), where agents call agents.
        messages: The conversation so far, as the host keeps it.
        work_dir: The folder that relative paths start from; the process's own where it is `None`.
        values: Shared by the processors, the callbacks and the tools of one turn, which sets it; else `None`.
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


EMPTY_CONTEXT: Final = ReadonlyContext()


@frozen
class Progress(JsonRecord):
    """Progress of a running call.

    Attributes:
        progress: Done so far, in units of `total`.
        total: The whole, or `None` where it isn't known.
        message: What it is doing, or `None`.
    """

    type: ClassVar = "progress"
    progress: float
    total: float | None = None
    message: str | None = None


@frozen
class DisplayUpdate(SayableRecord):
    """A heading and facts that a running call shows to people.

    Attributes:
        title: A short heading, or `None` to leave the one that stands.
        facts: For the user interface; never sent to the model.
    """

    type: ClassVar = "display"
    title: str | None = None
    facts: Mapping[str, Any] = field(factory=dict[str, Any])


class CallHost(Protocol):
    """Host of a running call, as the call may use it; `dispatch` is one."""

    async def ask(
        self,
        context: ToolContext,
        permission: str,
        patterns: Sequence[str],
        always: Sequence[str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Comes back where the call may go on; raises where it may not."""
        ...

    def allows(self, context: ToolContext, permission: str, subject: str) -> bool:
        """Whether the rules let the call access this."""
        ...

    async def request_confirmation(self, context: ToolContext, hint: str, payload: Any) -> Confirmation:
        """A person's answer to `hint`."""
        ...

    def suspend(self, context: ToolContext, hint: str, payload: Any, kept: Any, request: str | None) -> NoReturn:
        """Ends the call until `hint` is answered."""
        ...

    def inherited(self, context: ToolContext) -> Mapping[str, Any]:
        """The options by which batches and turns inside this call have to be run."""
        ...

    async def call(self, context: ToolContext, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
        """Runs another tool inside this call."""
        ...

    def background(self, context: ToolContext, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Goes on with `work` after the call's first result; gives the operation's id."""
        ...


@define(eq=False)
class CallInternals:
    """Internal state that the host keeps in the context of a running call.

    Attributes:
        frame: The host's own state of the call.
        pending_actions: What the call asks of its host; `None` as long as that is nothing.
        container: The services that are open for the call; `None` as long as there are none.
        portal: The way back to the call's event loop, where the tool runs in a thread.
    """

    frame: Any = None
    pending_actions: PendingActions | None = None
    container: ServiceContainer | None = None
    portal: LoopPortal | None = None

    async def close_services(self, error: BaseException | None = None) -> None:
        """Closes what was opened for the call, the last first.

        `error` is what the call ended with, so that a transaction can undo its work. Where the caller is cancelled
        meanwhile, everything is closed all the same.
        """
        if self.container is not None:
            await self.container.close(error)


def _of_request(name: str) -> Any:
    """A property of a call's context that is the request's of this name; to attrs it's a `ClassVar`, and no field."""
    return property(attrgetter(f"request.{name}"), doc="")


@define
class ToolContext:
    """Context of one running call; `ToolContext()` is good for a test.

    A tool gets it in a parameter of this type, which the model never sees. By itself it lets everything pass, keeps
    memory and artifacts for as long as it lives, and knows no other tools.

    Attributes:
        request: The user and the model that the call runs for. The context has its attributes, too: `context.user`.
        call_id: The call's id.
        tool: The tool's name.
        values: Shared by the processors, the callbacks and the tools of the turn; without a turn, by those of the
            batch or the call.
        services: What the host provides, by type: values or factories, as `registry.provide` takes them.
        listener: Gets each `Progress`, each `DisplayUpdate` and each partial result as it happens, in the call's event
            loop; must not raise.
        offered: The tools of the request that the call answers, each a `Tool`.
        host: What runs the call, and answers `ask`, `call` and so on.
        cancelled: Whether the call was cancelled, or is past its limit, while a thread still works at it.
        deadline: When the call's limit passes, in seconds of `time.monotonic()`, or `None`.
        confirmation: What a person answered before the call was run again, or `None`; in a test, what one answers.
        depth: How many calls stand round this one: 0 for a model's own.
        internals: What the host keeps in it while the call runs; no tool needs it.
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
    host: CallHost | None = field(default=None, repr=False)
    cancelled: bool = False
    deadline: float | None = None
    confirmation: Confirmation | None = None
    depth: int = 0
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
    extra: ClassVar[Mapping[str, Any]] = _of_request("extra")

    # What the call leaves behind ---------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """What the session knows, to read and to change; the host gets the changes as a delta."""
        return self.actions.state

    @property
    def actions(self) -> PendingActions:
        """What the call asks of its host: changes of state, `transfer_to`, `escalate`, `skip_summarization`."""
        internals = self.internals
        if internals.pending_actions is None:
            with _making:
                internals.pending_actions = internals.pending_actions or PendingActions(self.request.state)
        return internals.pending_actions

    @property
    def memory(self) -> CallMemory:
        """What is remembered of the user: `await context.memory.search("...")`."""
        from pegboard.tools.stores import CallMemory

        return CallMemory(self)

    @property
    def artifacts(self) -> CallArtifacts:
        """The files of the conversation and of the user: `await context.artifacts.save("a.txt", "...")`."""
        from pegboard.tools.stores import CallArtifacts

        return CallArtifacts(self)

    # What it shows on the way ------------------------------------------------------------------------------------

    def report(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Shows how far the call is."""
        if self.listener is not None:
            self._emit(Progress(progress, total, message))

    def emit(self, partial: object) -> None:
        """Hands out a partial result before the call ends."""
        if self.listener is not None:
            self._emit(partial)

    def metadata(self, title: str | None = None, **facts: Any) -> None:
        """Shows something of the call to people, as it happens; its result gets the title and the facts too."""
        self.actions.show(title, facts)
        if self.listener is not None:
            self._emit(DisplayUpdate(title, facts))

    # What it may ask for -----------------------------------------------------------------------------------------

    async def ask(
        self,
        permission: str,
        patterns: Sequence[str] = ("*",),
        always: Sequence[str] = (),
        metadata: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """Asks whether the call may go on with something that its arguments don't show.

        Args:
            permission: The permission's name, such as `"edit"`.
            patterns: What it is asked for, such as paths.
            always: Wider patterns, offered to a person beside exactly this.
            metadata: For the decision, such as a diff.

        Raises:
            ToolError: It may not; leave it unhandled, and the model reads why.
        """
        if self.host is not None:
            await self.host.ask(self, permission, patterns, always, metadata)

    def allows(self, permission: str, subject: str) -> bool:
        """Whether the rules let the call access one of many things that its arguments don't name, such as a file found.

        What isn't allowed is left out. Rules about this call's tool count, and those about the permission. What they
        ask about isn't allowed, unless they asked about the whole call.

        Args:
            permission: A permission or the name of a tool: what else rules may name that forbids this access.
            subject: What is accessed; read as the tool's declared argument is, if it declares one kind; else as text.
        """
        return self.host is None or self.host.allows(self, permission, subject)

    async def request_confirmation(self, hint: str, payload: Any = None) -> Confirmation:
        """A person's answer to a question of this call.

        Where the answer comes in another turn or process, this call ends here, and the tool is run again from its
        start once there is one. In a context made by hand, `confirmation` is the answer, or else yes.

        Args:
            hint: The question. Of several questions of one call each has its own.
            payload: JSON data beside the question.
        """
        if self.host is None:
            return self.confirmation or Confirmation(hint=hint, confirmed=True, payload=payload)
        answered = self.confirmation and self.confirmation.to_question(hint)
        return answered or await self.host.request_confirmation(self, hint, payload)

    def suspend(self, hint: str, payload: Any = None, *, kept: Any = None, request: str | None = None) -> NoReturn:
        """Ends this call here. It runs again from its start once a question is answered, perhaps in another process.

        The approver is not asked now: the question stands among the pending calls of the outcome, for the host.

        Args:
            hint: The question.
            payload: JSON data beside the question.
            kept: JSON data for that run, such as how far the tool was: its `confirmation.kept`. It is never shown.
            request: The id of the question, where it has been put to a person already.

        Raises:
            LookupError: The call has no host: the context was made by hand.
        """
        if self.host is None:
            raise LookupError(f"{self.tool} can't be suspended: its context was made by hand; run it by a registry")
        self.host.suspend(self, hint, payload, kept, request)

    def inherited(self) -> Mapping[str, Any]:
        """What binds this call, as options of batches and turns that it runs: `run_turn(..., **context.inherited())`.

        The approver, and permissions and the time limit of its batch, where that has its own.
        """
        return {} if self.host is None else self.host.inherited(self)

    async def call(self, name: str, arguments: Mapping[str, Any] | str = _NOTHING) -> ToolResult:
        """Runs another tool inside this call, by the same rules.

        Raises:
            LookupError: The call has no host: the context was made by hand, without a `host`.
        """
        if self.host is None:
            raise LookupError(
                f"this context knows no tool {name!r}: it was made by hand; give it some by "
                "ToolContext(host=...), or run the tool by a registry"
            )
        return await self.host.call(self, name, arguments)

    def background(self, work: Awaitable[Any] | Callable[[], Any]) -> str:
        """Goes on with `work` after the call's first result; its completion comes as an event and a later message.

        In a context made by hand, a coroutine goes on in the running event loop; anything else is done at once.

        Returns:
            The id of what goes on.
        """
        if self.host is not None:
            return self.host.background(self, work)
        from pegboard.tools.portal import go_on

        return go_on(work)

    # Services ----------------------------------------------------------------------------------------------------

    def provides(self, kind: Kind[Any]) -> bool:
        """Whether the host provides a service of this type."""
        return kind in self._services()

    def service(self, kind: Kind[T]) -> T:
        """What the host provided for this type, opened here if that takes no event loop.

        Raises `MissingServiceError`, a `LookupError`, where it provides nothing or it has to be awaited.
        """
        return self._services().use_now(kind, self)

    async def use(self, kind: Kind[T]) -> T:
        """What the host provided for this type, opened if need be; it is closed after the call.

        Raises `MissingServiceError`, a `LookupError`, where the host hasn't called `registry.provide(kind, ...)`.
        """
        return await self._services().use(kind, self)

    async def use_or(self, kind: Kind[T], make: Callable[[], T]) -> T:
        """The same; where none is provided, what `make` gives, once for all calls of the registry."""
        services = self._services()
        return await services.use(kind, self) if kind in services else services.default(kind, make)

    # Time --------------------------------------------------------------------------------------------------------

    @property
    def remaining(self) -> float | None:
        """How many seconds are left until the call's limit passes; `None` where it has none."""
        deadline = self.deadline  # read once: it is moved in the loop, and this may be a thread
        return None if deadline is None else max(deadline - time.monotonic(), 0.0)

    def check(self) -> None:
        """Lets a tool that works long end in good order: a thread can't be ended from outside.

        Raises:
            CallStoppedError: The call was cancelled, or its limit has passed; leave it unhandled.
        """
        if self.remaining == 0.0:
            raise CallStoppedError("the call's time limit has passed", kind="timeout")
        if self.cancelled:
            raise CallStoppedError("the call was cancelled", kind="aborted")

    def wait(self, awaitable: Awaitable[T]) -> T:
        """What an awaitable gives, for plain functions: `context.wait(context.call("add", {...}))`.

        It is awaited in the call's event loop, in a context made by hand in one of its own.

        Raises:
            CallStoppedError: The call was cancelled, or its limit has passed; leave it unhandled.
            RunningLoopError: This is the event loop: there, write `await`.
            BaseException: Whatever the awaitable raised.
        """
        from pegboard.tools.portal import discard, refuse_in_loop, wait_without_loop

        refuse_in_loop(awaitable)
        try:
            self.check()
        except CallStoppedError:
            discard(awaitable)
            raise
        if self.internals.portal is None:
            return wait_without_loop(awaitable)
        return self.internals.portal.wait(awaitable, lambda: self.remaining)

    # How it does it ----------------------------------------------------------------------------------------------

    def _emit(self, update: object) -> None:
        assert self.listener is not None
        if self.internals.portal is None:
            self.listener(update)
        else:
            self.internals.portal.emit(self.listener, update)

    def _services(self) -> Services:
        from pegboard.tools.services import Services

        services = self.services
        if not isinstance(services, Services):
            with _making:
                services = self.services = Services.of(self.services)
        return services
