"""Workflow agents: `SequentialAgent`, `LoopAgent` and `ParallelAgent`, which run other agents in a fixed order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, ClassVar, Final, cast

import attrs
from attrs import Attribute, field, frozen

from pegboard import Actions, ToolError
from pegboard.schema.converter import JsonRecord
from pegboard.tools import merge_actions
from pegboard_agents.agent import AgentEvent, AgentResult, AgentRun, AnyAgent, Suspension, Workflow
from pegboard_agents.run import (
    check_stored,
    context_for,
    diff_states,
    new_session,
    read_error,
    run_safely,
    session_of,
)

MOST_ROUNDS: Final = 1_000
MOST_HEARD: Final = 200
"""Answers of other agents that an agent of a workflow gets, the latest ones."""


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Actions:
    return Actions(diff_states(before, after))


def _apply(changes: Actions, state: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a state with changes."""
    changes.apply_to(after := dict(state))
    return after


def _quote(name: str, text: str) -> str:
    return f"The agent {name} answered:\n{text}"


def _forward(run: AgentRun, workflow: str, event: AgentEvent) -> None:
    run.emit(AgentEvent(workflow, event))


def _step(workflow: Workflow, run: AgentRun, agent: AnyAgent, state: Mapping[str, Any], **facts: Any) -> AgentRun:
    """The run of one agent in the run of its workflow."""
    session = session_of(facts.get("stored")) or new_session(agent, run.context.session)
    return attrs.evolve(
        run,
        agent=agent,
        context=context_for(agent, run.context, session, state),
        takes=str,
        gives=str,
        emit=partial(_forward, run, workflow.name),
        request=run.text if run.request is not None else None,
        **facts,
    )


def _suspend(workflow: Workflow, run: AgentRun, waits: Suspension, **facts: Any) -> AgentResult:
    """The suspended run of a workflow, one of whose agents waits for this."""
    stored = {
        "agent": workflow.name,
        "digest": workflow.digest(run.takes, run.gives),
        "session": run.context.session,
        **facts,
    }
    suspension = Suspension(f"{workflow.name} asks: {waits.hint}", waits.payload, stored, waits.request)
    return AgentResult(agent=workflow.name, ended="suspended", suspension=suspension)


# One after the other -----------------------------------------------------------------------------------------------


@frozen
class _Progress(JsonRecord):
    """How far the agents that run one after the other have come.

    Attributes:
        place: The number of agents that have ended.
        heard: Their answers, as the next agents get them.
        answer: The last answer that had a text.
        state: The changes of the state so far.
        waiting: The stored data of the agent at `place`, if it is suspended; or `None`.
    """

    place: int = 0
    heard: tuple[str, ...] = ()
    answer: str = ""
    state: Actions = field(factory=Actions)
    waiting: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class SequentialAgent(Workflow):
    """Agent that runs other agents one after the other.

    Each gets the request, and the answers of those before it; and their changes of the state. The last answer is this
    agent's. If one fails, the others don't run.
    """

    in_loop: ClassVar[bool] = False

    @property
    def turns(self) -> int:
        """How often an agent is run at most."""
        return len(self.agents)

    async def follow(self, run: AgentRun) -> AgentResult:
        """Runs the agents, from the suspended one on.

        Raises:
            ToolError: One failed; or the stored data can't be read.
            FatalToolError: A tool ended the turn.
        """
        progress, base = self._progress(run), run.context.state
        answer = run.answer
        while progress.place < self.turns:
            agent, state = self.agents[progress.place % len(self.agents)], _apply(progress.state, base)
            heard = (*run.heard, *progress.heard)[-MOST_HEARD:]
            own: dict[str, Any] = {"heard": heard, "stored": progress.waiting, "answer": answer}
            step = _step(self, run, agent, state, in_loop=run.in_loop or self.in_loop, **own)
            try:
                result = await run_safely(step)
                if (waits := result.suspension) is not None:
                    return _suspend(self, run, waits, progress=progress.evolve(waiting=waits.stored).to_json())
                progress, answer = self._advance(progress, agent, result, base), None
            except ToolError as error:
                before = f"\nThe last answer before that:\n{progress.answer}" if progress.answer else ""
                raise ToolError(f"{self.name} ended: {error.text}{before}", retryable=error.retryable) from error
            if result.ended == "escalated" and step.in_loop:
                return self._result(progress, base, "answered" if self.in_loop else "escalated")
        return self._result(progress.evolve(answer=f"{progress.answer}{self._note()}".lstrip()), base)

    def _progress(self, run: AgentRun) -> _Progress:
        if run.stored is None:
            return _Progress()
        try:
            return _Progress.from_json(check_stored(self, run).get("progress"))
        except ValueError as error:
            raise read_error(self) from error

    def _advance(self, progress: _Progress, agent: AnyAgent, result: AgentResult, base: Mapping[str, Any]) -> _Progress:
        has_left = result.ended == "escalated" and result.outcome is not None and not result.outcome.text
        text = "" if has_left else result.text
        return progress.evolve(
            place=progress.place + 1,
            heard=(*progress.heard, _quote(agent.name, text))[-MOST_HEARD:] if text else progress.heard,
            answer=text or progress.answer,
            state=_changes(base, result.state),
            waiting=None,
        )

    def _note(self) -> str:
        """What the answer says besides if nothing has ended it earlier."""
        return ""

    def _result(self, progress: _Progress, base: Mapping[str, Any], ended: str = "answered") -> AgentResult:
        state = _apply(progress.state, base)
        return AgentResult(agent=self.name, ended=ended, answer=progress.answer, state=state)


def _check_rounds(_self: Any, _attribute: Attribute[Any], value: Any) -> None:
    if type(value) is not int or not 1 <= value <= MOST_ROUNDS:
        raise ValueError(f"max_rounds must be a whole number from 1 to {MOST_ROUNDS:,}, got {value!r:.80}")


@frozen(kw_only=True)
class LoopAgent(SequentialAgent):
    """Agent that runs other agents one after the other, again and again.

    It ends when an agent in it calls `exit_loop`, also one of a workflow in it; or after `max_rounds`. Its answer is
    the last one that had a text.

    Attributes:
        max_rounds: How often it runs all agents at most, up to 1,000.

    Raises:
        ValueError: `max_rounds` isn't a number of that range.
    """

    in_loop: ClassVar[bool] = True
    max_rounds: int = field(validator=_check_rounds)

    @property
    def turns(self) -> int:
        """How often an agent is run at most."""
        return len(self.agents) * self.max_rounds

    def digest(self, takes: Any = None, gives: Any = str) -> str:
        """Digest of everything that has to be unchanged when a suspended call is resumed."""
        return f"{super().digest(takes, gives)} {self.max_rounds}"

    def _note(self) -> str:
        rounds = f"{self.max_rounds} round{'s' * (self.max_rounds > 1)}"
        return f"\n\n[{self.name} ended after {rounds}, which is the maximum.]"


# At the same time --------------------------------------------------------------------------------------------------


@frozen
class _Branch(JsonRecord):
    """The end of one of several agents that run at the same time, or what it waits for.

    Attributes:
        answer: Its answer.
        error: Why it failed, or `None`.
        escalated: Whether it called `exit_loop`.
        state: Its changes of the state.
        waiting: What it waits for, or `None`.
    """

    answer: str = ""
    error: str | None = None
    escalated: bool = False
    state: Actions = field(factory=Actions)
    waiting: Suspension | None = None


@frozen(kw_only=True)
class ParallelAgent(Workflow):
    """Agent that runs other agents at the same time, and returns all answers.

    Each has a copy of the state. Their changes are merged in the order of the agents: of a value that several changed,
    the last one's is used, and the answer names its key. If one fails, its error is part of the answer.
    """

    async def follow(self, run: AgentRun) -> AgentResult:
        """Runs the agents, or the suspended one whose question is answered.

        Raises:
            ToolError: All failed; or the stored data can't be read.
            FatalToolError: A tool ended the turn.
        """
        branches, places = self._read(run)
        for each in await asyncio.gather(
            *(self._run_branch(run, place, branches.get(place)) for place in places), return_exceptions=True
        ):
            if isinstance(each, BaseException):
                raise each  # all others have ended
            place, branches[place] = each
        ended = [branches[place] for place in range(len(self.agents))]
        for place, each in enumerate(ended):
            if each.waiting is not None:
                written = [one.to_json() for one in ended]
                return _suspend(self, run, each.waiting, branches=written, place=place)
        return self._merge(ended, run)

    def _read(self, run: AgentRun) -> tuple[dict[int, _Branch], Sequence[int]]:
        """The branches of a suspended run, by place, and the places of those to run."""
        if run.stored is None:
            return {}, range(len(self.agents))
        stored = check_stored(self, run)
        place, listed = stored.get("place"), cast("list[Any] | None", stored.get("branches"))
        if type(place) is not int or not isinstance(listed, list) or len(listed) != len(self.agents):
            raise read_error(self)
        try:
            return dict(enumerate(map(_Branch.from_json, listed))), [place]
        except ValueError as error:
            raise read_error(self) from error

    async def _run_branch(self, run: AgentRun, place: int, before: _Branch | None) -> tuple[int, _Branch]:
        waits, base = None if before is None else before.waiting, run.context.state
        own = {"stored": waits and waits.stored, "answer": None if waits is None else run.answer}
        try:
            result = await run_safely(_step(self, run, self.agents[place], base, **own))
            if result.suspension is not None:
                return place, _Branch(waiting=result.suspension)
            has_left = result.ended == "escalated"
            return place, _Branch(result.text, escalated=has_left, state=_changes(base, result.state))
        except ToolError as error:
            return place, _Branch(error=error.text)

    def _merge(self, ended: Sequence[_Branch], run: AgentRun) -> AgentResult:
        """The answers and changes of all agents.

        Raises:
            ToolError: All failed.
        """
        names = [agent.name for agent in self.agents]
        parts = [f"[{name}]\n{each.error or each.answer}" for name, each in zip(names, ended, strict=True)]
        if all(each.error is not None for each in ended):
            raise ToolError("\n\n".join((f"All agents of {self.name} failed.", *parts)))
        base = run.context.state
        merged = merge_actions([each.state for each in ended], base)
        for key, by in _conflicts([(name, each.state) for name, each in zip(names, ended, strict=True)], base):
            parts.append(f"[Conflict: {' and '.join(by)} changed {key!r} of the state; the value of {by[-1]} is used.]")
        left = run.in_loop and any(each.escalated for each in ended)
        return AgentResult(
            agent=self.name,
            ended="escalated" if left else "answered",
            answer="\n\n".join(parts),
            state=_apply(merged, base),
            conflicts=merged.conflicts,
        )


def _conflicts(changes: Sequence[tuple[str, Actions]], base: Mapping[str, Any]) -> Iterable[tuple[str, list[str]]]:
    """The keys that several agents changed, in order, with the names of these agents in theirs."""
    found = dict[str, set[str]]()
    for (one, first), (other, second) in combinations(changes, 2):
        for key in merge_actions([first, second], base).conflicts:
            found.setdefault(key, set()).update((one, other))
    for key in sorted(found):
        yield key, [name for name, _ in changes if name in found[key]]
