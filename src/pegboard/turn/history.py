"""State of a running turn: the conversation, with a result for every call, and its usage."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

import attrs
from attrs import define, field

from pegboard.dispatch.approval.pending import PendingCalls
from pegboard.dispatch.background import Completion
from pegboard.dispatch.batch import Outcome
from pegboard.errors import TurnAbortedError
from pegboard.messages import NO_USAGE, CallPart, Message, ModelResponse, ResultPart, Usage
from pegboard.tools.call import TEMPORARY, Actions, CallFault, ToolCall, merge_actions
from pegboard.tools.content import TextContent, ToolResult
from pegboard.tools.context import ReadonlyContext
from pegboard.turn.events import Ended, TurnOutcome
from pegboard.turn.options import TurnLimits

_SHARED: Final = ("began", "rounds", "calls", "usage", "actions", "response", "pending", "for_host", "reports")


@define(eq=False)
class TurnProgress:
    """State of a running turn, which becomes a `TurnOutcome`; in its conversation, every call gets its result."""

    messages: list[Message] = field(converter=list[Message])
    state: dict[str, Any]
    began: int = 0
    rounds: int = 0
    calls: int = 0
    broken: int = 0  # the number of answers with calls that were cut off, or broke off
    continued: int = 0  # the number of times that `on_stop` has continued the turn
    ended: tuple[Ended, str | None] | None = None  # why the turn ends, and details for people; `None`: it doesn't yet
    error: BaseException | None = None  # the exception that ends it, or `None`
    usage: Usage = NO_USAGE
    actions: Actions = field(factory=Actions)
    response: ModelResponse | None = None
    pending: PendingCalls = field(factory=PendingCalls)
    ignored: tuple[str, ...] = ()
    for_host: tuple[ToolCall, ...] = ()
    reports: Mapping[str, Mapping[str, Any]] = field(factory=dict[str, Mapping[str, Any]])
    deadline: float | None = None  # the end of its time limit, by `time.monotonic()`, or `None`

    @classmethod
    def start(cls, messages: tuple[Message, ...], context: ReadonlyContext, before: TurnOutcome | None) -> TurnProgress:
        """The state of a new turn, or of one that resumes another's outcome."""
        if before is None:
            return cls(messages, dict(context.state), len(messages))
        shared = {name: getattr(before, name) for name in _SHARED}
        return cls(before.messages, {**context.state, **before.state}, **shared)

    def with_own_ids(self, message: Message) -> Message:
        """The answer, with call ids that aren't empty and are unique in the conversation.

        Some providers give no ids, and those that clients generate instead repeat in each answer.
        """
        seen = set(self.call_ids)
        taken = seen.union(call.id for call in message.calls)
        numbers, parts = defaultdict[str, Iterator[int]](lambda: count(2)), list(message.parts)
        for place, part in enumerate(parts):
            if isinstance(part, CallPart):
                if not (id_ := part.call.id) or id_ in seen:
                    stem = id_ or "call"
                    id_ = next(new for number in numbers[stem] if (new := f"{stem}_{number}") not in taken)
                    taken.add(id_)
                    parts[place] = CallPart(attrs.evolve(part.call, id=id_))
                seen.add(id_)
        return message.evolve(parts=parts)

    def take_answer(self, response: ModelResponse) -> Message:
        """Adds an answer; an incomplete one is marked, as its calls never run."""
        self.response = response
        self.usage += response.usage
        message = self.with_own_ids(response.message)
        if not response.complete:
            message = message.evolve(metadata={**message.metadata, "complete": False})
        self.messages.append(message)
        return message

    def take_results(self, outcome: Outcome) -> Message:
        """Adds the results of the last answer's calls, and their actions."""
        self.calls += len(outcome)
        self._take_actions(outcome, skips=True)
        return self._add_results(outcome)

    def take_late_results(self, outcome: Outcome) -> list[Message]:
        """Sets the results of calls that waited for an approval or the host; returns the messages that hold them."""
        given = {call.id for call in outcome.calls}
        self.for_host = tuple(call for call in self.for_host if call.id not in given)
        self._take_actions(outcome, skips=self.actions.skip_summarization)
        return self.replace_results({call.id: result for call, result in outcome})

    def _take_actions(self, outcome: Outcome, *, skips: bool) -> None:
        """`skips` is whether the earlier results of this answer agree to skip the summary."""
        none_has_ended = all(result.kind == "confirmation_required" for result in outcome.results)
        skips = skips and (none_has_ended or outcome.actions.skip_summarization)
        merged = merge_actions([self.actions, outcome.actions], self.state)
        self.actions = attrs.evolve(merged, skip_summarization=skips)
        for changes in (outcome.actions, Actions(outcome.actions.temporary)):
            changes.apply_to(self.state)
        self.pending = outcome.pending
        self.ignored += outcome.ignored
        self.for_host += outcome.for_host

    def _add_results(self, answers: Iterable[tuple[ToolCall, ToolResult]]) -> Message:
        self.messages.append(Message.tool(answers))
        return self.messages[-1]

    def replace_results(self, results: Mapping[str, ToolResult]) -> list[Message]:
        """Replaces the latest results of these calls, by id; returns the changed messages."""
        left, changed = dict(results), list[Message]()
        for place, message in reversed([*enumerate(self.messages)]):
            if found := {part.call_id: left.pop(part.call_id) for part in message.results if part.call_id in left}:
                parts = [
                    attrs.evolve(part, result=found[part.call_id])
                    if isinstance(part, ResultPart) and part.call_id in found
                    else part
                    for part in message.parts
                ]
                self.messages[place] = message.evolve(parts=parts)
                changed.append(self.messages[place])
        return changed

    def complete(self, completion: Completion) -> Message | None:
        """Adds the result of a long-running call: replaces its first result, or returns a new message."""
        id_ = completion.call_id
        if completion.replaces and any(part.call_id == id_ for each in self.messages for part in each.results):
            self.replace_results({id_: completion.result})
            return None
        text = f"Operation {completion.operation.id} of {completion.tool} (call {id_}) has ended:"
        self.messages.append(Message.user(TextContent(text), *completion.result.content))
        return self.messages[-1]

    @property
    def call_ids(self) -> frozenset[str]:
        """The ids of all calls in the conversation."""
        return frozenset(call.id for message in self.messages for call in message.calls)

    def close(self) -> Message | None:
        """Adds a result for each call of the last answer without one; returns the message that holds them, if any."""
        answered: set[str] = set()
        for message in reversed(self.messages):  # only results may follow the last answer
            if message.role == "assistant":
                text = "{} was not run: the turn had ended."
                left = [call for call in calls_of(message) if call.id not in answered]
                skipped = [(call, ToolResult.error("skipped", text.format(call.name))) for call in left]
                return self._add_results(skipped) if skipped else None
            answered.update(part.call_id for part in message.results)
        return None

    def seconds_left(self) -> float | None:
        """Seconds until the deadline; `None` is no limit."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    def find_limit(self, limits: TurnLimits) -> str | None:
        """The limit that has been reached, for people; or `None`."""
        if limits.rounds is not None and self.rounds >= limits.rounds:
            return f"{limits.rounds} rounds"
        if limits.tokens is not None and self.usage.total_tokens >= limits.tokens:
            return f"{limits.tokens} tokens"
        left = self.seconds_left()
        return f"{limits.seconds:g} seconds" if left is not None and left <= 0 else None

    def limit_calls(self, calls: tuple[ToolCall, ...], most: int | None) -> tuple[ToolCall, ...]:
        """The calls; those beyond the limit get a fault, so that they aren't run."""
        if most is None or self.calls + len(calls) <= most:
            return calls
        room = max(most - self.calls, 0)
        fault = CallFault("limit", f"This call was not run: the turn is limited to {most} calls.")
        return (*calls[:room], *(attrs.evolve(call, error=fault) for call in calls[room:]))

    def end(self, ended: Ended, detail: str | None = None) -> None:
        """Sets why the turn ends, unless a reason is set already."""
        if self.ended is None:
            self.ended = ended, detail

    def end_by_error(self, fatal: BaseException | None) -> None:
        """Ends the turn by the fatal error of a call, if there is one."""
        if fatal is not None:
            self.error = fatal
            self.end("aborted" if isinstance(fatal, TurnAbortedError) else "fatal", str(fatal))

    def end_by_results(self, outcome: Outcome) -> bool:
        """Ends the turn if the results of an answer's calls do, by the first of their reasons; returns whether."""
        self.end_by_error(outcome.fatal)
        waits, hosts, actions = len(outcome.pending), len(outcome.for_host), self.actions
        reasons: Sequence[tuple[object, Ended, str | None]] = (
            (waits, "suspended", f"{waits} waiting for an approval"),
            (hosts, "pending", f"{hosts} for the host to run"),
            (outcome.ended == "rejected", "rejected", None),
            (actions.transfer_to is not None, "transferred", actions.transfer_to),
            (actions.escalate, "escalated", None),
            (actions.skip_summarization, "results", None),
        )
        for applies, ended, detail in reasons:
            if applies:
                self.end(ended, detail)
                return True
        return outcome.fatal is not None

    def outcome(self, ended: Ended, detail: str | None = None, **facts: Any) -> TurnOutcome:
        """The outcome of the turn at this point."""
        shared = {name: getattr(self, name) for name in (*_SHARED, "ignored")}
        state = {key: value for key, value in self.state.items() if not key.startswith(TEMPORARY)}
        return TurnOutcome(tuple(self.messages), ended, detail=detail, state=state, **shared, **facts)


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    """The calls of an answer, without those that the provider has executed."""
    return tuple(call for call in message.calls if not call.provider_executed)
