"""The stages `permit` and `approve`, and requests of a running call: it runs, is denied, or asks the user."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, cast

import attrs

from pegboard.dispatch.approval.grants import session_key, tool_key
from pegboard.dispatch.approval.pending import (
    Approval,
    PendingCall,
    RefusedError,
    confirmation_of,
    digest_of_call,
    rejected,
)
from pegboard.dispatch.approval.request import Answer, ApprovalRequest, Later, Reject, RequestKind
from pegboard.dispatch.callbacks import Ask, texts
from pegboard.dispatch.events import ApprovalAnswered, ApprovalRequested, emit
from pegboard.dispatch.permissions.evaluation import Decision
from pegboard.dispatch.permissions.permissions import MOST_AT_ONCE, Permissions, ToolPolicy, policy_of
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.state import BATCH, CallState
from pegboard.json import digest_of, json_problems, json_text
from pegboard.timeout import Deadline, running_task
from pegboard.tools.call import CallError, Confirmation
from pegboard.tools.tool import Tool


def permit(state: CallState) -> Awaitable[None] | None:
    """Decides by the permission rules; fills in `state.asks` if the user has to be asked.

    Raises:
        CallError: `denied`.
    """
    services, tool = state.services, state.tool
    assert tool is not None
    permissions = services.current.permissions
    state.judged = None
    policy = permissions.policies.get(tool) or policy_of(permissions, tool)
    if not state.demands and (policy.conditions == () or policy.runs(state.arguments)):
        return None
    if tool.by_arguments or not (tool.confirms is tool.work_dir is tool.permission_values is None):
        return _decide_off_loop(state, permissions, policy)
    if _are_large(state.arguments):
        return state.services.threads.run(_decide, state, permissions, policy)
    _decide(state, permissions, policy)
    return None


async def _decide_off_loop(state: CallState, permissions: Permissions, policy: ToolPolicy) -> None:
    """Decides in a thread within a time limit, as the tool's own functions are called."""
    try:
        async with asyncio.timeout(state.services.limits.callback_timeout):
            await state.services.threads.run(_decide, state, permissions, policy)
    except TimeoutError:
        text = f"{policy.spec.name} was not run: checking whether it needs confirmation took too long."
        raise CallError("denied", text) from None


def _are_large(arguments: Mapping[str, Any]) -> bool:
    """Whether the arguments are too large to match against rules on the event loop."""
    left = MOST_AT_ONCE
    for value in arguments.values():
        items: Sequence[Any] = cast("list[Any]", value) if isinstance(value, list) else (value,)
        left -= 10 * len(items) + sum(len(each) for each in items if isinstance(each, str))
    return left < 0


def _decide(state: CallState, permissions: Permissions, policy: ToolPolicy) -> None:
    granted, arguments, context = granted_to(state), state.arguments, state.request
    state.judged, state.access = policy.evaluation(arguments, context, granted), None
    decision = policy.decide(arguments, context, granted, state.judged)
    if decision.action == "deny":
        raise denial(permissions, asking_tool(state), decision)
    requests = [each for asked in state.demands if (each := _request_for(state, asked, granted)) is not None]
    if decision.action == "ask":
        facts = policy.request(state.judged, arguments, context, granted)
        requests.append(request_of(state, reason=decision.reason, **facts))
    if len(requests) > 1:  # named by the first, so that a grant for the call's own permission doesn't cover both
        state.asks = attrs.evolve(
            requests[0],
            patterns=tuple(dict.fromkeys(pattern for each in requests for pattern in each.patterns)),
            always=(),
            wider=(),
            reason=", ".join(dict.fromkeys(each.reason for each in requests)),
            metadata={name: value for each in requests for name, value in each.metadata.items()},
        )
    elif requests:
        state.asks = requests[0]


def _decide_asked(state: CallState, asked: Ask, granted: tuple[Rule, ...]) -> tuple[Decision, str | None]:
    """The rules' decision on an `Ask` of a call or its callback; and the text of exactly this for a grant."""
    policy = policy_of(state.services.current.permissions, asking_tool(state))
    folders = policy.folders(state.arguments, state.request)
    return policy.asked(asked.permission, asked.patterns, folders, granted)


def _request_for(
    state: CallState, asked: Ask, granted: tuple[Rule, ...], subject: RequestKind = "call", **facts: Any
) -> ApprovalRequest | None:
    """The approval request for an `Ask`, or `None` if the rules allow it. A question has no "always".

    Raises:
        RefusedError: `denied`.
    """
    decision, exact = _decide_asked(state, asked, granted)
    if decision.action == "deny":
        raise denial(state.services.current.permissions, asking_tool(state), decision, asked.permission)
    if decision.action == "allow":
        return None
    allowed = (*granted, *(Rule(asked.permission, each, "allow") for each in asked.always))
    is_enough = _decide_asked(state, asked, allowed)[0].action == "allow"
    return request_of(
        state,
        permission=asked.permission,
        patterns=asked.patterns,
        always=() if exact is None or subject == "question" else (exact,),
        wider=asked.always if is_enough else (),
        reason=decision.reason,
        metadata=asked.metadata,
        subject=subject,
        **facts,
    )


def denial(permissions: Permissions, tool: Tool, decision: Decision, permission: str | None = None) -> RefusedError:
    """The error of a denied call: its text is for the model; its detail, with the rule, for the operator.

    Args:
        permissions: The permissions that decided.
        tool: The called tool.
        decision: The decision.
        permission: The requested permission, if it isn't the tool's own.
    """
    permission = permission or tool.spec.permission or tool.name
    if decision.rule is None and permissions.mode == "plan":
        why = "in plan mode only read-only tools run"
    elif decision.rule is None or decision.rule.action == "ask":
        why = f"the permission {permission!r} is required, and the user isn't asked in this mode"
    else:
        why = f"the permission {permission!r} is denied for this call"
        if decision.rule.reason:
            why += f" ({decision.rule.reason.rstrip('.')})"
    if decision.line:
        why += f"; {decision.line}"
    detail = f"{tool.name}: {decision.reason}" + (f" ({decision.rule})" if decision.rule else "")
    text = f"{tool.name} was not run: {why}. Continue without it, or tell the user what you need."
    return RefusedError("denied", text, detail=detail)


def asking_tool(state: CallState) -> Tool:
    """The call's tool, which is found before anything is asked."""
    assert state.tool is not None
    return state.tool


def granted_to(state: CallState) -> tuple[Rule, ...]:
    """The grants of this call's session, as rules."""
    return state.services.grants.rules(session_key(state.request), tool_key(asking_tool(state)))


def request_of(state: CallState, **facts: Any) -> ApprovalRequest:
    """The approval request for this call; it holds the arguments as JSON text, so that they can't change.

    Args:
        state: The call.
        facts: The other attributes of the request, `permission` at least.
    """
    tool, context = asking_tool(state), state.request
    text = str(json_text(dict(state.arguments)))
    return ApprovalRequest(
        attrs.evolve(state.call, name=tool.name, arguments=text),
        digest_of_call(tool_key(tool), json.loads(text)),
        presets=tool.presets_of(state.arguments),
        tool=tool,
        user=context.user,
        session=context.session,
        **facts,
    )


def deadline_of(state: CallState) -> Deadline:
    """The deadline of a running call; its first step may ask the user, which pauses it before its start."""
    if state.deadline is None:
        grace, watchdog = state.services.limits.grace, state.services.watchdog
        state.deadline = Deadline(running_task(), None, grace, watchdog, state.call.name, state.made_context)
    return state.deadline


def runs_in_thread(state: CallState) -> bool:
    """Whether the call's tool runs in a thread, which has a portal to the loop."""
    made = state.made_context
    return made is not None and made.internals.portal is not None


@contextmanager
def paused_deadlines(state: CallState) -> Generator[None]:
    """Context that pauses the time limits of a call, its callback and its enclosing calls.

    Those in another event loop, such as one that a tool runs in its thread, go on.
    """
    loop, paused, call = asyncio.get_running_loop(), list[Deadline](), state
    while call is not None:
        if call.since is not None and not runs_in_thread(call):
            deadline_of(call)  # in its first step it has none yet
        paused += [each for each in (call.deadline, call.callback) if each and each.task.get_loop() is loop]
        call = call.around
    for deadline in paused:
        deadline.pause()
    try:
        yield
    finally:
        for deadline in paused:
            deadline.resume()


async def ask_person(
    state: CallState, request: ApprovalRequest, decide: Callable[[tuple[Rule, ...]], Decision]
) -> Answer:
    """Asks the user; fills in `state.context.confirmation`, or `state.pending` and `state.ends`.

    Args:
        state: The call.
        request: The request.
        decide: Gives the rules' decision under the session's grants.

    Returns:
        `Once`, `Always`; for a question also `Reject`.

    Raises:
        CallError: `rejected`; `denied`, without an approver or an answer; `confirmation_required`, if the answer
            comes later.
    """
    if state.held is not None:
        await state.held.wait()
    services, own = state.services, state.services.approver
    approvers = cast("Sequence[Any]", () if own is None else own if isinstance(own, Sequence) else (own,))
    before = granted_to(state), services.current.permissions

    def covered() -> bool:  # by rules or grants added since the request
        granted = granted_to(state)
        return (granted, services.current.permissions) != before and decide(granted).action == "allow"

    facts = {name: getattr(request, name) for name in ("permission", "patterns", "reason", "hint")}
    emit(state, ApprovalRequested, request=request.id, **facts)
    with paused_deadlines(state):
        answer, shown = await services.approvals.ask(
            request,
            state.context,
            (*(link.function for link in services.callbacks.get("approve_call", ())), *approvers),
            covered=covered,
            grants=services.grants,
            seconds=services.limits.approval_timeout,
        )
    emit(state, ApprovalAnswered, request=request.id, answer=answer.to_json()["answer"])
    if isinstance(answer, Later):
        raise _suspended(state, shown)
    if isinstance(answer, Reject) and request.subject != "question":
        if services.limits.rejection_ends_turn and not answer.feedback and answer.along_with is None:
            state.ends = "rejected"
        raise rejected(request.call.name, answer)
    if not isinstance(answer, Reject):  # rules and symbolic links may have changed since
        decision = await services.threads.run(decide, granted_to(state))
        if decision.action == "deny":
            permissions = services.current.permissions
            raise denial(permissions, asking_tool(state), decision, request.permission)
    state.context.confirmation = (
        confirmation_of(shown, answer, _history(state), _stored(state)) or state.context.confirmation
    )
    return answer


def _suspended(state: CallState, request: ApprovalRequest, kept: Any = None) -> CallError:
    """Fills in `state.pending`, as the answer to this request comes later.

    The error isn't a `ToolError`, which tools may catch to continue without the permission.
    """
    state.pending = PendingCall.of(
        request,
        tool_key(asking_tool(state)),
        created=time.time(),
        approved=state.approval is not None,
        earlier=_history(state),
        once=_once(state, request),
        own_rules=state.services.current.are_own,
        kept=_stored(state) if kept is None else kept,
    )
    text = f"{request.call.name} is waiting for the user's answer. Don't call it again until then."
    return CallError("confirmation_required", text)


def _stored(state: CallState) -> Any:
    """The value that the call stored when it was suspended; it stays until the call stores another."""
    return None if state.context.confirmation is None else state.context.confirmation.kept


def _once(state: CallState, request: ApprovalRequest) -> str:
    """See `PendingCall.once`: `""` if the call can't be identified, as generated ids repeat in each message.

    A call without an id is identified by its place in its message.
    """
    context, call = state.request, state.call.id or state.index
    message = None if (context.message or "").startswith(BATCH) else context.message
    if message is None and (not state.call.id or _MADE_ID.fullmatch(state.call.id)):
        return ""
    place = [context.user, context.session, context.invocation, message, call, request.digest]
    asked = [request.subject, request.permission, list(request.patterns), request.hint]
    return digest_of([*place, *asked, [each.to_json() for each in _history(state)]])


def _history(state: CallState) -> tuple[Confirmation, ...]:
    """The answers to this call so far, the latest first."""
    return () if state.context.confirmation is None else state.context.confirmation.history()


_MADE_ID: Final = re.compile(r"call_\d+")
QUESTION: Final = "confirmation"
"""The permission of a question; its pattern is the tool's name."""

MOST_HINT: Final = 10_000


async def ask_inside(state: CallState, asked: Ask) -> None:
    """Returns if the rules or the user allow a running call's `Ask`.

    If the call was resumed with a later answer, that answer is used, once.

    Args:
        state: The call.
        asked: The request; without `arguments`.

    Raises:
        RefusedError: `denied` or `rejected`; a `ToolError`, so that the tool may continue without it.
        CallError: `confirmation_required`: the answer comes later.
    """
    request = _request_for(state, asked, granted_to(state), "permission")
    if request is not None and not _was_allowed(state, asked.permission, asked.patterns):
        await ask_person(state, request, lambda granted: _decide_asked(state, asked, granted)[0])


def allows_inside(state: CallState, permission: str, subject: str) -> bool:
    """Whether the rules let a running call access something; see `ToolContext.allows`."""
    permissions = state.services.current.permissions
    if state.access is None or state.access[0] is not permissions:
        policy = policy_of(permissions, asking_tool(state))
        state.access = permissions, policy.access(state.arguments, state.request, granted_to(state), state.judged)
    return state.access[1](permission, subject)


async def confirm_inside(state: CallState, hint: str, payload: Any = None) -> Confirmation:
    """The user's answer to a question of a running call, yes or no.

    If the call was resumed with a later answer, that answer is returned.

    Args:
        state: The call.
        hint: The question; different for each question of a call.
        payload: JSON data for the user.

    Raises:
        RefusedError: `denied`, as by a rule or without an approver.
        CallError: `confirmation_required`: the answer comes later.
        ValueError: An empty or very long hint, or a payload that isn't JSON.
        TypeError: A hint that isn't a string.
    """
    hint = _checked_question(hint, payload)
    known = state.context.confirmation and state.context.confirmation.to_question(hint)
    if known:
        return known
    asked = Ask(QUESTION, (asking_tool(state).name,))
    request = _request_for(state, asked, granted_to(state), "question", hint=hint, payload=payload)
    if request is None:
        return Confirmation(hint, confirmed=True, payload=payload)
    await ask_person(state, request, lambda granted: _decide_asked(state, asked, granted)[0])
    assert state.context.confirmation is not None
    return state.context.confirmation


def suspend_inside(state: CallState, hint: str, payload: Any, kept: Any, request: str | None) -> NoReturn:
    """Suspends a running call until a question is answered, without asking it now; see `ToolContext.suspend`.

    Raises:
        CallError: `confirmation_required`, always.
        ValueError, TypeError: As `confirm_inside`.
    """
    hint = _checked_question(hint, {"payload": payload, "kept": kept})
    facts = {"permission": QUESTION, "patterns": (asking_tool(state).name,), "subject": "question"}
    asked = request_of(state, **facts, hint=hint, payload=payload, **({} if request is None else {"id": request}))
    raise _suspended(state, asked, kept)


def _checked_question(hint: str, payload: Any) -> str:
    (hint,) = texts("hint", [hint])
    if len(hint) > MOST_HINT:
        raise ValueError(f"the hint has {len(hint):,} characters; at most {MOST_HINT:,} are taken")
    if faults := json_problems(payload):
        raise ValueError(f"the payload must be JSON: {faults[0]}")
    return hint


def _was_allowed(state: CallState, permission: str, patterns: tuple[str, ...]) -> bool:
    """Whether an answer that the call was resumed with allows this; each is used once."""
    if state.answers is None:
        state.answers = list(reversed(_history(state)))
    for answer in state.answers:
        if answer.confirmed and answer.to_permission(permission, patterns):
            state.answers.remove(answer)
            return True
    return False


def approve(state: CallState) -> Awaitable[None] | None:
    """Asks the user if `permit` requires it; fills in `state.approval`, or `state.pending` and `state.ends`.

    A call that was approved in an earlier turn isn't asked about again.

    Raises:
        CallError: `rejected`; `denied`, without an approver or an answer; `confirmation_required`, where the answer
            comes later.
    """
    if state.asks is None or state.approval is not None:
        return None
    return _approve(state, state.asks)


def consume_approval(state: CallState) -> Awaitable[None] | None:
    """Consumes the approval right before the call runs; the arguments become the approved ones.

    The rules decide again, as permissions, grants and paths may have changed while the call waited.

    Raises:
        CallError: `denied`: the call differs from the approved one, the approval was used, or a needed one is missing.
    """
    if state.approval is not None:
        assert state.tool is not None
        state.arguments = state.approval.consume(state.tool, state.arguments)
    elif state.asks is not None:
        raise CallError("denied", f"{state.call.name} was not run: it isn't approved. Ask again.")
    return decide_again(state)


def decide_again(state: CallState) -> Awaitable[None] | None:
    """Repeats the decision of `permit` right before the tool runs, as anything may have changed since."""
    state.asks = None
    deciding = permit(state)
    return _check_approved(state) if deciding is None else _check_approved_after(deciding, state)


async def _check_approved_after(deciding: Awaitable[None], state: CallState) -> None:
    await deciding
    _check_approved(state)


def _check_approved(state: CallState) -> None:
    name, approval = state.call.name, state.approval
    if state.asks is not None and approval is None:
        text = f"{name} was not run: it needs approval after a change of permissions or files. Call it again."
        raise CallError("denied", text)
    shown = () if approval is None else approval.patterns
    if state.asks is not None and shown and not {*state.asks.patterns} <= {*shown}:
        text = f"{name} was not run: its target has changed since the approval. Ask again."
        raise CallError("denied", text)


async def _approve(state: CallState, request: ApprovalRequest) -> None:
    tool, context = asking_tool(state), state.request
    arguments = request.arguments

    def decide(granted: tuple[Rule, ...]) -> Decision:
        own = state.services.current.permissions.decide(tool, arguments, grants=granted, context=context)
        demanded = (_decide_asked(state, each, granted)[0] for each in state.demands)
        return min((own, *demanded), key=lambda each: ("deny", "ask", "allow").index(each.action))

    await ask_person(state, request, decide)
    state.approval = Approval(request)
