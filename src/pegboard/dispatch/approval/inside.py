"""What a running call asks a person: a permission (`context.ask`), or a question (`context.request_confirmation`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from pegboard.dispatch.approval.person import ask_person, granted_to, request_of, tool_of
from pegboard.dispatch.approval.refusal import RefusedError
from pegboard.dispatch.permissions.match import exactly
from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.dispatch.permissions.permit import denial
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.permissions.rules import Decision
from pegboard.dispatch.work import Work
from pegboard.schema.json import json_faults
from pegboard.tools.call import writable
from pegboard.tools.confirmation import Confirmation

QUESTION: Final = "confirmation"
"""The permission that a question asks for; its pattern is the tool's name."""

MOST_HINT: Final = 10_000
_answers: Final[WeakKeyDictionary[Work, list[Confirmation]]] = WeakKeyDictionary()
"""Of calls that run again: the answers that came with them and that no ask has used yet, the oldest first."""


async def ask_inside(
    work: Work,
    permission: str,
    patterns: Sequence[str] = ("*",),
    always: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Comes back where the rules, or a person, let a running call go on.

    Where the call runs again because an answer came later, that answer is used, once.

    Args:
        work: The call.
        permission: What is asked for.
        patterns: What it is asked for.
        always: What an answer "always" would allow; `patterns` by default, as far as they are no wildcards.
        metadata: Facts for whoever decides.

    Raises:
        RefusedError: `denied` or `rejected`; a `ToolError` too, so that a tool may go on without.
        SuspendedError: `confirmation_required`: the answer comes later.
        ValueError: No patterns, an empty text, or a permission that is a pattern.
        TypeError: Something that is no text.
    """
    patterns = _texts("patterns", patterns)
    always = _texts("always", always) if always else ()
    (permission,) = _texts("permission", [permission])
    if exactly(permission) is None:
        raise ValueError(f"a permission is a name, not a pattern: {permission!r:.100}")
    tool, permissions, folder = tool_of(work), work.around.permissions, work.context.work_dir
    if permissions is None:
        return

    def decide(granted: tuple[Rule, ...]) -> Decision:
        return permissions.decide_asked(tool, permission, patterns, work_dir=folder, grants=granted)

    granted = granted_to(work)
    decision = decide(granted)
    if decision.action == "deny":
        raise RefusedError.of(denial(permissions, tool, decision, permission))
    if decision.action == "allow" or _was_allowed(work, permission, patterns):
        return
    lasting = _lasting(patterns, always)
    wider = (*granted, *(Rule(permission, each, "allow") for each in lasting))
    request = request_of(
        work,
        permission=permission,
        patterns=patterns,
        always=lasting if decide(wider).action == "allow" else (),
        reason=decision.reason,
        subject="permission",
        metadata=dict(metadata or {}),
    )
    await ask_person(work, request, decide)


async def confirm_inside(work: Work, hint: str, payload: Any = None) -> Confirmation:
    """What a person says to a question of a running call; a no is an answer too.

    Where the call runs again because an answer came later, that answer is given.

    Args:
        work: The call.
        hint: The question. Of several questions of one call each has its own.
        payload: JSON data for whoever answers.

    Raises:
        RefusedError: `denied`: nobody can be asked.
        SuspendedError: `confirmation_required`: the answer comes later.
        ValueError: An empty or very long hint, or a payload that isn't JSON.
        TypeError: A hint that is no text.
    """
    (hint,) = _texts("hint", [hint])
    if len(hint) > MOST_HINT:
        raise ValueError(f"the hint has {len(hint):,} characters; at most {MOST_HINT:,} are taken")
    if faults := json_faults(payload):
        raise ValueError(f"the payload must be JSON: {faults[0]}")
    told = work.context.confirmation and work.context.confirmation.to_question(hint)
    if told:
        return told
    tool, permissions = tool_of(work), work.around.permissions or Permissions()

    def decide(granted: tuple[Rule, ...]) -> Decision:
        return permissions.decide_asked(tool, QUESTION, (tool.name,), grants=granted)

    decision = decide(granted_to(work))
    if decision.action == "deny":
        raise RefusedError.of(denial(permissions, tool, decision, QUESTION))
    if decision.action == "allow":
        return Confirmation(hint, confirmed=True, payload=payload)
    request = request_of(
        work,
        permission=QUESTION,
        patterns=(tool.name,),
        reason=decision.reason,
        subject="question",
        hint=hint,
        payload=payload,
    )
    await ask_person(work, request, decide)
    assert work.context.confirmation is not None
    return work.context.confirmation


def _texts(what: str, given: Iterable[Any]) -> tuple[str, ...]:
    """Texts that JSON can say.

    Raises:
        ValueError: There is none, or an empty one.
        TypeError: Something that is no text.
    """
    texts = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{what} must be text, got {texts!r:.100}")
    if not texts or not all(texts):
        raise ValueError(f"{what} must say something, got {texts!r:.100}")
    return tuple(writable(text) for text in texts)


def _lasting(patterns: tuple[str, ...], always: tuple[str, ...]) -> tuple[str, ...]:
    """What "always" would allow.

    A pattern that is asked for may come from the model. In a rule its `*` and `?` would stand for anything, so only
    what the tool itself says is taken as a wildcard, and the bare `*`, which a person can't miss.
    """
    if always and always != patterns:
        return always
    return tuple(each for each in patterns if each == "*" or exactly(each) is not None)


def _was_allowed(work: Work, permission: str, patterns: tuple[str, ...]) -> bool:
    """Whether an answer that came with the call allows this; each is good for one ask."""
    if work not in _answers:
        told = work.context.confirmation
        _answers[work] = [] if told is None else list(reversed(told.history()))
    for answer in _answers[work]:
        if answer.confirmed and answer.to_permission(permission, patterns):
            _answers[work].remove(answer)
            return True
    return False
