"""pegboard's tools in other frameworks: their calls, the questions of these, and schemas without references."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

from attrs import define, evolve, field

from pegboard import (
    Always,
    Later,
    Once,
    ReadonlyContext,
    Reject,
    ResolvedTools,
    Tool,
    ToolContext,
    ToolRegistry,
    ToolResult,
)
from pegboard.approval import Answer, ApprovalRequest, PendingCall, answer_from_json
from pegboard.callbacks import maybe_await
from pegboard.errors import PendingError, log_failure
from pegboard.json import digest_of, is_object
from pegboard.schema import References, mapped
from pegboard.typing import JsonObject, JsonSchema

_T = TypeVar("_T")
Arguments: TypeAlias = str | Mapping[str, Any]

_MOST_QUESTIONS: Final = 20  # of one call
_MOST_SCHEMAS: Final = 10_000  # within one without references
_LEVELS: Final = 3  # of a recursive schema


def registry_of(resolved: ResolvedTools) -> ToolRegistry:
    """The registry that resolved these tools.

    Raises:
        ValueError: No registry resolved them.
    """
    if not isinstance(resolved.registry, ToolRegistry):
        text = "these tools have no registry that runs them; take those of `await registry.resolve()`"
        raise ValueError(text)  # noqa: TRY004  the host has made them by hand
    return resolved.registry


def offer_each(resolved: ResolvedTools, offer: Callable[[Tool], _T], framework: str) -> list[_T]:
    """What a framework is offered for each tool; one that it refuses is left out, with an entry in the log.

    Tools that a provider runs are left out, too.

    Raises:
        ValueError: No registry resolved them.
    """
    registry_of(resolved)
    offered: list[_T] = []
    for tool in resolved:
        if tool.spec.kind == "provider":
            continue
        try:
            offered.append(offer(tool))
        except Exception as error:  # noqa: BLE001  one tool doesn't affect the others
            log_failure(f"{tool.name} can't be offered to {framework}", error)
    return offered


async def run_call(  # noqa: PLR0913  what a framework knows of a call
    resolved: ResolvedTools,
    name: str,
    arguments: Arguments,
    context: ReadonlyContext | ToolContext,
    *,
    call_id: str = "",
    ask: Callable[[PendingCall], Answer | Awaitable[Answer | None] | None] | None = None,
) -> ToolResult:
    """The result of a call. Where it needs an answer, it runs again, from its start, with the answer.

    Args:
        resolved: The tools that were offered.
        name: The tool's name.
        arguments: As the model wrote them.
        context: Of the framework's user and session; a `ToolContext` may have a `listener`, and gets the actions.
        call_id: The framework's id of the call.
        ask: Asks a person by the framework's own means, where the registry has no approver; it may raise what the
            framework pauses by. `None`, as its answer too, denies what asks.

    Raises:
        BaseException: What `ask` raises; the call has no outcome then.
    """
    registry = registry_of(resolved)
    answers = None if ask is None or registry.approver is not None else Answers()
    while True:
        own = evolve(context) if isinstance(context, ToolContext) else context  # without the actions of earlier runs
        result = await registry.call(name, arguments, own, call_id=call_id, resolved=resolved, approver=answers)
        if ask is None or answers is None or (pending := answers.missing(result)) is None:
            if isinstance(context, ToolContext) and isinstance(own, ToolContext):
                context.actions.add(own.actions.actions)
            return result
        answers.add(pending, await maybe_await(ask(pending)))


def run_call_sync(  # noqa: PLR0913  as above
    resolved: ResolvedTools,
    name: str,
    arguments: Arguments,
    context: ReadonlyContext | ToolContext,
    *,
    call_id: str = "",
    ask: Callable[[PendingCall], Answer | None] | None = None,
) -> ToolResult:
    """`run_call` for frameworks that call plain functions, beside a running event loop or without one."""
    registry = registry_of(resolved)
    answers = None if ask is None or registry.approver is not None else Answers()
    while True:
        result = registry.call_sync(name, arguments, context, call_id=call_id, resolved=resolved, approver=answers)
        if ask is None or answers is None or (pending := answers.missing(result)) is None:
            return result
        answers.add(pending, ask(pending))


@define
class Answers:
    """An approver that gives the answers that a framework's person has given to one call, and asks for the others."""

    _given: dict[tuple[object, ...], Answer | None] = field(factory=dict[tuple[object, ...], Answer | None], init=False)

    async def approve(self, request: ApprovalRequest, context: ToolContext) -> Answer | None:
        """The answer to exactly this question about exactly this call, or `Later`."""
        del context
        return self._given.get(question_key(request), Later())

    def missing(self, result: ToolResult) -> PendingCall | None:
        """The question that a call waits for; `None` if it has ended, or asks again what was answered."""
        pending = result.pending if result.kind == "confirmation_required" else None
        is_new = pending is not None and question_key(pending) not in self._given and len(self._given) < _MOST_QUESTIONS
        return pending if is_new else None

    def add(self, pending: PendingCall, answer: Answer | None) -> None:
        """Adds the answer to a question; `None`: nobody can be asked."""
        self._given[question_key(pending)] = answer


def question_key(request: ApprovalRequest) -> tuple[object, ...]:
    """What makes two questions the same: one answer counts for both."""
    return request.digest, request.subject, request.permission, request.patterns, request.hint


def question_digest(request: ApprovalRequest) -> str:
    """`question_key` as a text, for frameworks that store questions."""
    return digest_of([*question_key(request)])


def without_references(schema: JsonSchema) -> JsonSchema:
    """A schema with each reference replaced by its target; where it refers to itself, three levels deep.

    For frameworks that can't send references to a model; pegboard validates by the schema itself.

    Raises:
        ValueError: It would have more than 10,000 schemas.
    """
    references, count = References(schema), 0

    def replace(part: JsonSchema, depths: Mapping[str, int]) -> JsonSchema:
        nonlocal count
        if (count := count + 1) > _MOST_SCHEMAS:
            raise ValueError(f"the schema has more than {_MOST_SCHEMAS:,} schemas without references")
        rest = {keyword: rule for keyword, rule in part.items() if keyword not in ("$defs", "definitions")}
        while isinstance(reference := rest.pop("$ref", None), str):
            depth = depths.get(reference, 0)
            target = references.target(reference)
            if not is_object(target):
                continue
            if depth == _LEVELS:  # as any value of its type
                target = {keyword: target[keyword] for keyword in ("type", "description") if keyword in target}
            depths = {**depths, reference: depth + 1}
            rest = {**{keyword: rule for keyword, rule in target.items() if keyword != "$defs"}, **rest}
        return mapped(rest, lambda inner, _: replace(inner, depths))

    return replace(schema, {})


def question_of(pending: PendingCall) -> JsonObject:
    """A question for a framework's own means: `text`, for a person, and `request`, all facts about it."""
    return {"text": pending.to_text(), "request": pending.to_json()}


def answer_of(value: object) -> Answer:
    """A person's answer from what a framework gives back: a boolean, an answer, or its JSON; anything else is a no."""
    if isinstance(value, Once | Always | Reject):
        return value
    if isinstance(value, Mapping):
        try:
            return answer_from_json(cast("Mapping[str, Any]", value))
        except PendingError:
            return Reject()
    return Once() if value is True else Reject()
