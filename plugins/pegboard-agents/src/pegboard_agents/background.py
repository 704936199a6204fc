"""`BackgroundAgent`: an agent that works beside its caller, reads new messages meanwhile, and may wait for a person."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from attrs import define, evolve, field

from pegboard import (
    Confirmation,
    Message,
    ReadonlyContext,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    Turn,
    TurnOutcome,
)
from pegboard.errors import FatalToolError, PegboardError
from pegboard_agents.agent import SECONDS, Agent, AgentEvent, AgentResult, AgentRun, AnyAgent, Suspension
from pegboard_agents.agent_call import last_messages
from pegboard_agents.run import context_for, inside, run_safely
from pegboard_agents.stored import StoredAgent

GRACE_SECONDS: Final = 5.0
"""Seconds in which an agent that is ended may complete its turn."""

Status: TypeAlias = Literal["working", "waiting", "ended"]
Owner: TypeAlias = tuple[str | None, str | None]
Root: TypeAlias = tuple[str | None, str | None, str | None]


@define(eq=False)
class BackgroundAgent:
    """An agent that works beside its caller.

    Attributes:
        id: Its id.
        agent: The agent.
        owner: The user and the session of its caller: only there it can be reached.
        session: Its own session.
        keep: Whether it outlives its caller's turn.
        seconds: How long it may work at a time.
        status: Whether it works, waits for a person, or has ended.
        turn: The id of its caller's turn, with which it ends unless it is kept; `None`: no turn.
        within: The context of that turn, or of one around it: two turns may have one id.
        is_left: Whether that turn was suspended or handed over, and its session may abandon it.
        root: The user, the session and the turn at the top.
        end_below: Ends the agents that it has started, when it ends or begins anew.
        messages: Its conversation.
        answer: Its last answer, or why there is none.
        failed: Whether that is an error.
        waits: What it waits for, or `None`.
        asked_by: The message and the call that were suspended last for what it waits for.
        inbox: Messages for it that it hasn't read.
        used: When it was stored last, in seconds since 1970 (UTC).
        fatal: The error by which one of its tools ended the turn, until a call has raised it; or `None`.
        changed: Done at its next change of status.
        listener: Gets its events, as partial results of the call that started it, until that turn ends; or `None`.
    """

    id: str
    agent: AnyAgent
    owner: Owner
    session: str
    keep: bool = False
    seconds: float = SECONDS
    status: Status = "ended"
    turn: str | None = None
    within: ReadonlyContext | None = None
    is_left: bool = False
    root: Root = (None, None, None)
    end_below: Callable[[BackgroundAgent], None] = lambda _agent: None
    messages: tuple[Message, ...] = ()
    answer: str = ""
    failed: bool = False
    waits: Suspension | None = None
    asked_by: tuple[str | None, str] = (None, "")
    inbox: deque[Message] = field(factory=deque[Message])
    used: float = -1.0
    fatal: FatalToolError | None = None
    changed: Future[None] = field(factory=Future[None])
    listener: Callable[[object], None] | None = None
    _forget: Callable[[], None] | None = field(default=None, init=False)  # drops its result, which a call has reported
    _ask_until: Future[None] = field(factory=Future[None], init=False)
    _taken: list[Message] = field(factory=list[Message], init=False)
    _turn: Turn | None = field(default=None, init=False)
    _task: asyncio.Task[AgentResult] | None = field(default=None, init=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _stopped: str | None = field(default=None, init=False)  # why it is being ended, or `None`
    _interrupted: bool = field(default=False, init=False)

    @property
    def place(self) -> Owner:
        """The user and the session of the agents that it starts."""
        return self.owner[0], self.session

    # As data -------------------------------------------------------------------------------------------------------

    def to_stored(self) -> StoredAgent:
        """The agent as JSON data, which count as later than those before."""
        self.used = max(time.time(), math.nextafter(self.used, math.inf))
        messages = () if self.waits is not None else last_messages(self.messages)
        inbox = (*self._taken, *self.inbox)  # what its turn does with those that it has taken isn't stored either
        facts = self.answer, self.failed, self.waits, self.status == "working", self.used
        return StoredAgent(self.agent.name, self.session, messages, inbox, *facts)

    def restore(self, stored: StoredAgent) -> None:
        """Takes over what another process has stored, unless it works here, or this process has stored it later."""
        if self.status == "working" or stored.used <= self.used:
            return
        self.turn, self.used = None, stored.used
        self.messages, self.inbox = stored.messages, deque(stored.inbox)
        self.answer, self.failed, self.waits = stored.answer, stored.failed, stored.waits
        self._change("ended" if stored.waits is None else "waiting")
        if stored.waits is not None:
            with suppress(PegboardError):
                self.messages = TurnOutcome.from_json(stored.waits.stored.get("outcome")).messages
        if stored.working:
            self.failed = True
            self.answer = (
                "It was working when its process ended, so its answer is lost. Send it new input to resume it."
            )

    @property
    def report(self) -> str:
        """What its caller's model has to know about it."""
        if self.status == "working":
            return f"{self.id} is working."
        if self.waits is not None:
            return f"{self.id} waits for the user: {self.waits.hint}"
        return f"{self.id} {'failed' if self.failed else 'has ended'}:\n{self.answer}"

    # Control -------------------------------------------------------------------------------------------------------

    def start(
        self,
        context: ToolContext,
        *,
        stored: Mapping[str, Any] | None = None,
        answer: Confirmation | None = None,
    ) -> None:
        """Starts it for a call, beside it: with what is in its inbox, or with an answer to what it waits for.

        Raises:
            ToolError: There can't be background work here.
            CallError: `limit`: there is too much of it.
        """
        inherited, ask_until = dict(context.inherited()), Future[None]()
        if (outer := inherited.get("ask_until")) is not None:
            outer.add_done_callback(self.postpone)
        call = ToolContext(context.request, context.call_id, context.tool, {}, context.services)
        call.offered = context.offered
        options: dict[str, Any] = {"ask_until": ask_until}
        own: dict[str, Any] = {}
        if isinstance(self.agent, Agent):  # the turns in a workflow aren't its own
            options |= {"steering": self._take_inbox, "on_steering": "finish"}
            own["on_turn"] = partial(setattr, self, "_turn")
        run = AgentRun(
            agent=self.agent,
            call=call,
            context=context_for(self.agent, context.request, self.session, context.request.state),
            request=None,
            inherited=inherited,
            emit=self._emit,
            history=self.messages,
            stored=stored,
            answer=answer,
            options=options,
            **own,
        )
        try:
            operation = context.background(self._work(run, inside.get() + 1))
        except LookupError as error:
            text = f"{self.agent.name} was not run: agents can't run in the background here. Do the task yourself."
            raise ToolError(text) from error
        if context.provides(ToolRegistry):
            self._forget = partial(context.service(ToolRegistry).operations.forget, operation)
        self.turn, self.listener, self._ask_until = context.invocation, context.listener, ask_until
        self.status, self.waits = "working", None
        self._task, self._loop, self._stopped, self._interrupted = None, None, None, False
        if stored is None:
            self.answer = ""

    def send(self, context: ToolContext, text: str, *, interrupt: bool = False) -> None:
        """Gives it a message: now, at its next request to its model, or to begin with if it doesn't work.

        If it waits for a person, it reads the message after the answer; interrupting withdraws the question.

        Raises:
            ToolError, CallError: As `start`.
        """
        self.inbox.append(Message.user(text))
        if self.status == "working":
            if interrupt:
                self._interrupted = True
                self._call(self._interrupt)
        elif self.status == "ended" or interrupt:
            try:
                self.start(context)
            except Exception:
                self.inbox.pop()
                raise

    def stop(self, reason: str) -> None:
        """Ends it; it has ended once `changed` is done, or its status is `"ended"`. Thread-safe."""
        self.check_loop()
        if self.status == "working":
            self._stopped = self._stopped or reason
            self._call(self._cancel)
        else:
            was_waiting = self.waits is not None
            self.waits = None
            if was_waiting:
                self._add(f"It was ended, as {reason}.")
                self.failed = True
            self._change("ended")

    def take_report(self) -> None:
        """Sees to it that what is reported of it now doesn't come as a message as well."""
        if self.status != "working" and self._forget is not None:
            self._forget()
            self._forget = None

    def check_loop(self) -> None:
        """Ends it if its event loop was closed while it worked, without cancelling it."""
        if self.status == "working" and self._loop is not None and self._loop.is_closed():
            self.answer, self.failed = "Its event loop was closed while it worked, so its answer is lost.", True
            self._change("ended")

    def postpone(self, _outer: object = None) -> None:
        """Its caller's turn has ended: nobody is asked from now on, and nobody gets its events."""
        self.listener = None
        with suppress(InvalidStateError):
            self._ask_until.set_result(None)

    async def wait_end(self, seconds: float = GRACE_SECONDS) -> bool:
        """Whether it ends within so many seconds."""
        while self.status == "working":
            done, _ = await asyncio.wait([asyncio.wrap_future(self.changed)], timeout=seconds)
            if not done:
                return False
        return True

    def _call(self, function: Callable[[], object]) -> None:
        """Calls a function in its event loop, if it has begun."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _interrupt(self) -> None:
        if not self._interrupted:
            return  # the run has ended meanwhile, and the next one reads the message
        if self._turn is None:
            self._cancel()
        else:
            self._turn.interrupt("new input")

    def _emit(self, event: AgentEvent) -> None:
        if self.listener is not None:
            self.listener(event.evolve(id=self.id))

    def _change(self, status: Status) -> None:
        self.status, self.listener, self._task, self._turn = status, None, None, None
        changed, self.changed = self.changed, Future()
        changed.set_result(None)
        if status == "ended":
            self.end_below(self)

    # Messages ------------------------------------------------------------------------------------------------------

    def _take_inbox(self) -> list[Message]:
        """The messages that it hasn't read, for its turn."""
        messages = list(self.inbox)
        self.inbox.clear()
        self._taken += messages
        return messages

    def _next(self, run: AgentRun) -> AgentRun:
        """A run with what is in the inbox."""
        self.end_below(self)
        messages = tuple(self._take_inbox())
        self._taken = []
        if isinstance(self.agent, Agent):
            self.messages = (*self.messages, *messages)
            return evolve(run, history=self.messages, request=None, stored=None, answer=None)
        text = "\n\n".join(each.text for each in messages) or run.request
        return evolve(run, request=text, stored=None, answer=None)

    # Work ----------------------------------------------------------------------------------------------------------

    async def _work(self, run: AgentRun, depth: int) -> ToolResult:
        """Runs the agent until it has ended and read everything, or waits; returns what its caller's model reads."""
        loop = self._loop = asyncio.get_running_loop()
        inside.set(depth)
        due = loop.time() + self.seconds
        try:
            if run.stored is None:
                run = self._next(run)
            while True:
                self._turn = None
                task = self._task = loop.create_task(run_safely(run))
                if self._stopped is not None:
                    task.cancel()
                await asyncio.wait([task], timeout=max(due - loop.time(), 0.0))
                if not task.done():
                    self._stopped = self._stopped or f"it took longer than {self.seconds:g} s"
                    await self._abandon(task)
                if not self._settle(task, run):
                    break
                run = self._next(run)
        except asyncio.CancelledError:
            self._stopped = self._stopped or "its work in the background was cancelled or took too long"
            if self._task is not None:
                await self._abandon(self._task)
                self._settle(self._task, run)
            raise
        finally:
            await run.call.internals.close_services()
        more = "" if self.waits is None else "\nCall wait_agents to ask the user."
        return ToolResult(f"{self.report}{more}")  # pyright: ignore[reportArgumentType]  converted

    async def _abandon(self, task: asyncio.Task[AgentResult]) -> None:
        task.cancel()
        if not task.done():
            await asyncio.wait([task], timeout=GRACE_SECONDS)

    def _settle(self, task: asyncio.Task[AgentResult], run: AgentRun) -> bool:
        """Takes over the end of a run; returns whether it goes on with what it hasn't read."""
        outcome = None if self._turn is None else self._turn.outcome
        if outcome is not None:
            self.messages = outcome.messages
        elif isinstance(self.agent, Agent) and run.stored is None:
            self.messages = tuple(Message.user(each) if isinstance(each, str) else each for each in run.messages)
        known = {id(each) for each in self.messages}
        self.inbox.extendleft(reversed([each for each in self._taken if id(each) not in known]))
        self._taken = []
        was_interrupted, self._interrupted = self._interrupted, False
        is_cut = was_interrupted and (outcome is None or outcome.ended == "interrupted")
        earlier, suspension = self.answer, self._take_result(task)
        if self._stopped is None and (is_cut or (self.inbox and suspension is None)):
            self.answer = earlier if is_cut else self.answer
            return True
        self.waits = None if self._stopped is not None else suspension
        self._change("ended" if self.waits is None else "waiting")
        return False

    def _take_result(self, task: asyncio.Task[AgentResult]) -> Suspension | None:
        """Adds to the answer; returns what the agent waits for instead, or `None`."""
        self.failed = True
        if self._stopped is not None:
            text = "" if self._turn is None or self._turn.outcome is None else self._turn.outcome.text
            self._add(f"It was ended, as {self._stopped}." + (f"\nIts text so far: {text}" if text else ""))
            task.add_done_callback(_retrieve)  # perhaps later
            return None
        try:
            result = task.result()
            if result.suspension is not None:
                self.failed = False
                return result.suspension
            self._add(result.text)
            self.failed = False
        except ToolError as error:
            self._add(error.text)
        except FatalToolError as error:
            self._add(f"One of its tools ended the turn: {error}")
            self.fatal = error
        except asyncio.CancelledError:  # by an interruption: a message follows
            pass
        return None

    def _add(self, text: str) -> None:
        """Adds to an answer that its caller hasn't read: it has gone on with a message since."""
        self.answer = "\n\n".join(filter(None, (self.answer, text)))


def _retrieve(task: asyncio.Task[AgentResult]) -> None:
    """Marks the exception of a task as retrieved: its agent was ended."""
    if not task.cancelled():
        task.exception()
