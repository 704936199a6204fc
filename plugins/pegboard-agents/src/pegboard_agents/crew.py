"""`Crew`: the agents in the background below one registry, and the turns with which they end."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextvars import ContextVar
from threading import Lock
from typing import Final
from weakref import WeakSet

from attrs import define, field

from pegboard import ReadonlyContext, ToolContext, ToolRegistry, TurnOutcome
from pegboard_agents.background import GRACE_SECONDS, BackgroundAgent, Root
from pegboard_agents.handover import may_return
from pegboard_agents.run import calling_registries
from pegboard_agents.stored import is_stored

_turns: Final[ContextVar[tuple[ReadonlyContext | None, ...]]] = ContextVar("pegboard_agents_turns", default=(None,))
"""The contexts of the turns around this code, the innermost last; only of turns that have begun in watched registries.

Of two turns with one id, one of them in a call of the other, this tells which one has started an agent.
"""


class _End:
    """Service that is closed with the registry."""


@define(eq=False)
class Crew:
    """The agents that work, or wait for a person, below one registry: also in registries that agents have.

    An agent is below another one that has started it, or has called an agent that has; its session is below, too.
    """

    _agents: dict[str, BackgroundAgent] = field(factory=dict[str, BackgroundAgent], init=False)
    _watched: WeakSet[ToolRegistry] = field(factory=WeakSet[ToolRegistry], init=False)
    _lock: Lock = field(factory=Lock, init=False)

    @classmethod
    def of(cls, context: ToolContext) -> Crew:
        """The crew of the outermost registry around a call; from now on it knows of the turns in all of them."""
        registries = (*calling_registries(), context.service(ToolRegistry))
        crew = registries[0].services.default(cls, cls)
        crew.watch(registries, context)
        return crew

    def watch(self, registries: Sequence[ToolRegistry], context: ToolContext) -> None:
        """Follows the turns in registries, the first of which is its own: when that is closed, its agents end."""
        with self._lock:
            for each in registries:
                if each not in self._watched:
                    self._watched.add(each)
                    each.add_callback("before_turn", self.begin_turn)
                    each.add_callback("resume_turn", self.resume_turn)
                    each.add_callback("report_turn", self.end_turn)
            if _End not in registries[0].services:
                registries[0].provide(_End, self._close, scope="registry")
            registries[0].services.use_now(_End, context)

    @property
    def agents(self) -> list[BackgroundAgent]:
        """Those that haven't ended, or whose turn hasn't; a copy, as other threads may add some."""
        return list(self._agents.values())

    def add(self, context: ToolContext, agent: BackgroundAgent) -> None:
        """Adds an agent that a call has started, or found waiting in its session's state."""
        for each in self.agents:
            if each.status == "ended" and (each.keep or each.is_left or each.turn is None):
                self._agents.pop(each.id, None)
        self._agents[agent.id] = agent
        agent.root, agent.within, agent.is_left = _root_of(context.request), _turns.get()[-1], False
        agent.end_below = self._end_below

    def beside(self, context: ToolContext) -> list[BackgroundAgent]:
        """The agents of the session at the top of a call; without a session, of the turn there."""
        for each in self.agents:
            each.check_loop()
        user, session, turn = _root_of(context.request)
        same = [each for each in self.agents if each.status != "ended" and each.root[:2] == (user, session)]
        return same if session is not None else [each for each in same if each.root[2] == turn]

    def below(self, agent: BackgroundAgent) -> list[BackgroundAgent]:
        """The agents below another one."""
        return [each for each in self.agents if _is_below(each, *agent.place)]

    # Turns ---------------------------------------------------------------------------------------------------------

    async def begin_turn(self, context: ReadonlyContext) -> None:
        """Ends the agents of turns that the session hasn't continued: another turn begins."""
        self._enter(context)
        left = [each for each in self.agents if each.is_left]
        abandoned = [each for each in left if is_owner(context, each) and each.turn != context.invocation]
        if context.root is not None:
            abandoned += self._below_turn(context)
        elif context.session is not None:
            abandoned += [each for each in self._below_turn(context) if each.root[2] != context.invocation]
        abandoned = [each for each in abandoned if each.is_left]
        for each in abandoned:
            each.postpone()
        await _end(abandoned)

    async def resume_turn(self, context: ReadonlyContext) -> None:
        """Takes over the agents of a turn that is continued."""
        self._enter(context)

    async def end_turn(self, context: ReadonlyContext, outcome: TurnOutcome) -> None:
        """Ends the agents of a turn, and those below, that aren't kept; nobody is asked by the others any more.

        Unless the conversation is handed over: then the turn of the user continues, and another agent's may end it.
        """
        mine, is_top, ended = self._leave(context), context.root is None, outcome.ended
        continues = is_top and (ended == "transferred" or (ended == "escalated" and may_return.get()))
        is_left = continues or ended in ("suspended", "pending")
        for each in mine:
            each.is_left = is_left
            if not continues:
                each.postpone()
        if is_left:
            return
        below = [each for each in self._below_turn(context) if not is_top or each.root[2] == context.invocation]
        await _end([*mine, *below])
        for each in (*mine, *below):
            if not is_top or each.owner != (context.user, context.session):
                each.take_report()  # no later turn would: an agent's session ends with its turn
            if each.status == "ended":
                self._agents.pop(each.id, None)

    def _enter(self, context: ReadonlyContext) -> None:
        """Notes that a turn begins, and takes over the agents that were left in one of the same id."""
        _turns.set((*_turns.get(), context))
        for each in self.agents:
            if each.is_left and _is_of_turn(each, context):
                each.within, each.is_left = context, False

    def _leave(self, context: ReadonlyContext) -> list[BackgroundAgent]:
        """Notes that a turn ends; returns the agents that its calls have started."""
        within = _turns.get()[-1]
        if within is context:
            _turns.set(_turns.get()[:-1])
        same = [each for each in self.agents if _is_of_turn(each, context)]
        return [each for each in same if each.is_left or each.within is within]

    def _below_turn(self, context: ReadonlyContext) -> list[BackgroundAgent]:
        """The agents below a turn's session, without those whose caller is kept."""
        if context.message is not None:  # the turn runs in a call of another one, in its session
            return []
        owner = context.user, context.session
        if context.root is None:
            inside = [each for each in self.agents if each.root[:2] == owner]
        else:
            inside = [each for each in self.agents if _is_below(each, *owner)]
        keepers = [each for each in inside if each.keep and each.status != "ended"]
        below = [each for each in inside if each.owner != owner]
        return [each for each in below if not any(_is_below(each, *keeper.place) for keeper in keepers)]

    # The end -------------------------------------------------------------------------------------------------------

    def _close(self) -> Generator[_End]:
        try:
            yield _End()
        finally:
            for each in self.agents:
                if each.status == "working":
                    each.stop("the registry was closed")

    def _end_below(self, agent: BackgroundAgent) -> None:
        """Ends the agents below one that has ended, or begins anew, which aren't kept."""
        for each in self.below(agent):
            if not each.keep:
                each.stop("its caller ended")


async def _end(agents: Sequence[BackgroundAgent]) -> None:
    """Ends those of these agents that aren't kept."""
    ending = [each for each in agents if not each.keep and each.status != "ended"]
    for each in ending:
        each.stop("its caller's turn ended")
    await asyncio.gather(*(each.wait_end(GRACE_SECONDS + 1) for each in ending))


def is_owner(context: ToolContext | ReadonlyContext, agent: BackgroundAgent) -> bool:
    """Whether an agent was started in this session; without one, in this turn, or as its state says."""
    if agent.owner != (context.user, context.session):
        return False
    return context.session is not None or agent.turn == context.invocation or is_stored(context.state, agent.id)


def _is_of_turn(agent: BackgroundAgent, context: ReadonlyContext) -> bool:
    return (*agent.owner, agent.turn) == (context.user, context.session, context.invocation)


def _is_below(agent: BackgroundAgent, user: str | None, session: str | None) -> bool:
    """Whether an agent was started in a session below this one, or by the agent that has this one."""
    return agent.owner[0] == user and agent.session.startswith(f"{session}/")


def _root_of(context: ReadonlyContext) -> Root:
    """The user, the session and the turn at the top."""
    top = context.root or context
    return top.user, top.session, top.invocation
