"""Asking: whether a call runs, is denied, or asks the user; and the requests that it makes while it runs.

One flow with three verbs: `decide` by the rules, `ask` the user, `check_answer` right before the tool runs.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn, cast

import attrs
from attrs import define, field

from pegboard.callbacks import maybe_await
from pegboard.dispatch.approval.grants import session_key, tool_key
from pegboard.dispatch.approval.pending import (
    Approval,
    ApprovalState,
    PendingCall,
    RefusedError,
    ResumedCall,
    confirmation_of,
    digest_of_call,
    rejection_error,
)
from pegboard.dispatch.approval.request import Answer, ApprovalRequest, Later, Reject, Subject
from pegboard.dispatch.callbacks import Ask, texts
from pegboard.dispatch.events import ApprovalAnswered, ApprovalRequested, emit
from pegboard.dispatch.permissions.evaluation import Decision, Evaluation
from pegboard.dispatch.permissions.permissions import DEFAULT_PERMISSIONS, MOST_AT_ONCE, Access, Permissions, policy_of
from pegboard.dispatch.permissions.rule import Folders, Rule
from pegboard.dispatch.running import pause_deadlines
from pegboard.dispatch.state import BATCH, HERE, CallState
from pegboard.errors import ToolError, detail_of, log_failure
from pegboard.json import digest_of, json_problems, json_text
from pegboard.tools.call import CallError, Confirmation
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject

QUESTION: Final = "confirmation"  # the permission of a question; its pattern is the tool's name
MOST_HINT: Final = 10_000
_GENERATED_ID: Final = re.compile(r"(call_\d+)?(/\d+)*")  # also of calls inside a call without an id of its own


def _are_large(arguments: Mapping[str, Any]) -> bool:
    """Whether the arguments are too large to match against rules on the event loop."""
    left = MOST_AT_ONCE
    for value in arguments.values():
        items: Sequence[Any] = cast("list[Any]", value) if isinstance(value, list) else (value,)
        left -= 10 * len(items) + sum(len(each) for each in items if isinstance(each, str))
    return left < 0


def denial(permissions: Permissions, tool: Tool, decision: Decision, permission: str | None = None) -> RefusedError:
    """The error of a call that is denied a permission, by default its tool's own.

    Its text is for the model; its detail, with the rule, for the operator.
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


@define(eq=False)
class Asking(ApprovalState):
    """The state of a call's approval, with the flow over it: what the call asks the rules and the user."""

    state: CallState
    demands: tuple[Ask, ...] = field(default=(), init=False)  # the `Ask`s of callbacks
    evaluation: Evaluation | None = field(default=None, init=False)  # by which it runs or asks, with the resolved paths
    _folders: Folders | None = field(default=None, init=False)  # with the paths that `ToolPolicy.runs` has resolved
    _access: Access | None = field(default=None, init=False)
    _answers: list[Confirmation] | None = field(default=None, init=False)  # unused ones that the call was resumed with
    _granted: tuple[Rule, ...] = field(default=(), init=False)  # read last, from a store whose `rules` is async

    @property
    def tool(self) -> Tool:
        """The call's tool, which is found before anything is asked."""
        assert self.state.tool is not None
        return self.state.tool

    @property
    def permissions(self) -> Permissions:
        """The current permissions."""
        return self.state.settings.current.permissions or DEFAULT_PERMISSIONS

    async def decide(self) -> None:
        """Decides by the permission rules: raises a denial, or sets `request` if the user has to be asked."""
        state, tool = self.state, self.tool
        await self.read_grants()
        policy = policy_of(self.permissions, tool)
        self.request = self.evaluation = self._access = None
        if not self.demands and policy.conditions is not None:
            self._folders = Folders([state.request.work_dir or "."])
            if policy.runs(state.arguments, state.request, self._folders):
                return
        has_functions = tool.by_arguments or not (tool.confirms is tool.work_dir is tool.permission_values is None)
        if has_functions or _are_large(state.arguments):
            try:  # in a thread and within a time limit, as the tool's own functions are called
                async with asyncio.timeout(state.settings.limits.callback_timeout):
                    self.evaluation, self.request = await state.runtime.threads.run(self._evaluate)
            except TimeoutError:
                text = f"{tool.name} was not run: checking whether it needs confirmation took too long."
                raise CallError("denied", text) from None
        else:
            self.evaluation, self.request = self._evaluate()

    async def ask(self, subject: Subject, demand: Ask | None = None, **facts: Any) -> Confirmation | None:
        """Asks the user, unless the rules allow it by now or an answer is there already; returns if it is allowed.

        Without a demand it asks about the call itself, and sets `approval`; else about a permission or question of the
        running call, with the further attributes of a question's request. The answer also becomes the context's
        `confirmation`; it is `None` if none was needed, or for a yes to the call without a payload.

        Raises:
            RefusedError: `denied` or `rejected`; a `ToolError`, so that a running tool may continue without it.
            CallError: `confirmation_required`: the answer comes later.
        """
        state, limits, context = self.state, self.state.settings.limits, self.state.context
        needed = partial(self._request_for, demand, subject, **facts) if demand else lambda: self._evaluate()[1]
        await self.read_grants()
        request = self.request if demand is None else needed()
        if request is None or (demand is None and self.approval is not None):
            return None
        if demand is not None and subject == "permission" and self._consume_answer(demand):
            return None
        if (hold_until := state.position.hold_until) is not None:
            await hold_until.wait()
        answer, shown = await self._ask_approvers(request, needed)
        if isinstance(answer, Later):
            raise self._leave_pending(shown)
        if isinstance(answer, Reject) and subject != "question":
            if limits.rejection_ends_turn and not answer.feedback and answer.rejected_with is None:
                state.end_turn("rejected")
            raise rejection_error(request.call.name, answer)
        if not isinstance(answer, Reject):
            await self.read_grants()
            await state.runtime.threads.run(needed)  # raises a denial by rules or links that have changed since
        latest = context.confirmation
        confirmation = confirmation_of(shown, answer, self._history(), latest and latest.stored)
        context.confirmation = confirmation or latest
        if demand is None:
            self.approval = Approval(request)
        return confirmation

    async def _ask_approvers(
        self, request: ApprovalRequest, needed: Callable[[], ApprovalRequest | None]
    ) -> tuple[Answer, ApprovalRequest]:
        """The user's answer, and the request as shown; `Once` once nothing is `needed`, by new rules or grants."""
        state, settings, before = self.state, self.state.settings, (self.grants(), self.permissions)

        async def covered() -> bool:
            with suppress(RefusedError):
                await self.read_grants()
                return (self.grants(), self.permissions) != before and needed() is None
            return False

        own = settings.approver
        approvers = cast("Sequence[Any]", () if own is None else own if isinstance(own, Sequence) else (own,))
        facts = {name: getattr(request, name) for name in ("permission", "patterns", "reason", "hint")}
        emit(state, ApprovalRequested, request=request.id, **facts)
        with pause_deadlines(state):
            answer, shown = await state.runtime.approvals.ask(
                request,
                state.context,
                (*(link.function for link in state.snapshot.callbacks.get("approve_call", ())), *approvers),
                covered=covered,
                grants=state.runtime.grants,
                seconds=settings.limits.approval_timeout,
                until=settings.ask_until,
            )
        emit(state, ApprovalAnswered, request=request.id, answer=answer.to_json()["answer"])
        return answer, shown

    async def check_answer(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Uses up the approval right before the call runs, and decides again; returns the arguments to run.

        Raises `denied` if the call differs from the approved one, or its approval was used or is missing.
        """
        if self.approval is not None:
            arguments = self.approval.consume(self.tool, arguments)
        elif self.request is not None:
            raise CallError("denied", f"{self.state.name} was not run: it isn't approved. Ask again.")
        await self.decide_again()
        return arguments

    async def decide_again(self) -> None:
        """Repeats `decide` right before the tool runs: permissions, grants and paths may have changed since."""
        await self.decide()
        request, approval = self.request, self.approval
        if request is None or (approval and {*request.patterns} <= {*(approval.patterns or request.patterns)}):
            return
        why = "it needs approval after a change of permissions or files. Call it again."
        if approval is not None:
            why = "its target has changed since the approval. Ask again."
        raise CallError("denied", f"{self.state.name} was not run: {why}")

    def grants(self) -> tuple[Rule, ...]:
        """The grants of the session, as rules; the last read ones of an async store. Raises as `read_grants`."""
        if self.state.runtime.awaits_grants:
            return self._granted
        try:
            return cast("tuple[Rule, ...]", self._read())
        except Exception as error:
            raise self._reading_failure(error) from error

    async def read_grants(self) -> None:
        """Reads the grants of a store that is async. If it fails, raises `not_executed`, or a running call's denial."""
        if self.state.runtime.awaits_grants:
            try:
                self._granted = await maybe_await(self._read())
            except Exception as error:
                raise self._reading_failure(error) from error

    def _read(self) -> tuple[Rule, ...] | Awaitable[tuple[Rule, ...]]:
        return self.state.runtime.grants.rules(session_key(self.state.request), tool_key(self.tool))

    def _reading_failure(self, error: Exception) -> CallError:
        """The error if the store of grants failed; not in its words, as a call that only read has changed nothing."""
        log_failure("reading grants", error)
        hint = (error.hint if isinstance(error, ToolError) else None) or "Try again later."
        why, detail, name = f"what the user has allowed can't be read. {hint}", detail_of(error), self.state.name
        if self.state.started_at is None:
            return CallError("not_executed", f"{name} was not run, so nothing was changed: {why}", detail=detail)
        return RefusedError("denied", f"{name} isn't allowed to go on with this: {why}", detail=detail)

    def _evaluate(self) -> tuple[Evaluation, ApprovalRequest | None]:
        """The rules' evaluation of the call, and the request if the user has to be asked; raises a denial."""
        arguments, context = self.state.arguments, self.state.request
        granted, permissions = self.grants(), self.permissions
        policy = policy_of(permissions, self.tool)
        evaluation = policy.evaluation(arguments, context, granted)
        decision = policy.decide(arguments, context, granted, evaluation)
        if decision.action == "deny":
            raise denial(permissions, self.tool, decision)
        demands = (*self.demands, *(Ask(name, (text,)) for name, text in self.tool.asks.items()))
        requests = [each for demand in demands if (each := self._request_for(demand, "call")) is not None]
        if decision.action == "ask":
            facts = policy.request(evaluation, arguments, context, granted)
            requests.append(self._make_request(reason=decision.reason, **facts))
        if len(requests) < 2:
            return evaluation, requests[0] if requests else None
        # Under the permission of the first, so that a grant for the call's own permission doesn't cover all.
        return evaluation, attrs.evolve(
            requests[0],
            patterns=tuple(dict.fromkeys(pattern for each in requests for pattern in each.patterns)),
            always=(),
            wider=(),
            reason=", ".join(dict.fromkeys(each.reason for each in requests)),
            metadata={name: value for each in requests for name, value in each.metadata.items()},
        )

    def _request_for(self, demand: Ask, subject: Subject, **facts: Any) -> ApprovalRequest | None:
        """The request for a demand, `None` if the rules allow it; raises a denial. A question has no "always"."""
        policy, granted = policy_of(self.permissions, self.tool), self.grants()
        folders = policy.folders(self.state.arguments, self.state.request)
        decide = partial(policy.decide_inner, demand.permission, demand.patterns, folders)
        decision, exact = decide(granted)
        if decision.action == "deny":
            raise denial(self.permissions, self.tool, decision, demand.permission)
        if decision.action == "allow":
            return None
        allowed = (*granted, *(Rule(demand.permission, each, "allow") for each in demand.always))
        return self._make_request(
            permission=demand.permission,
            patterns=demand.patterns,
            always=() if exact is None or subject == "question" else (exact,),
            wider=demand.always if decide(allowed)[0].action == "allow" else (),
            reason=decision.reason,
            metadata=demand.metadata,
            subject=subject,
            **facts,
        )

    def _make_request(self, **facts: Any) -> ApprovalRequest:
        """An approval request for this call; it holds the arguments as JSON text, so that they can't change."""
        state, tool = self.state, self.tool
        text = str(json_text(dict(state.arguments)))
        return ApprovalRequest(
            attrs.evolve(state.call, name=tool.name, arguments=text),
            digest_of_call(tool_key(tool), json.loads(text)),
            presets=tool.presets_of(state.arguments),
            tool=tool,
            user=state.request.user,
            session=state.request.session,
            agent=state.request.branch,
            **facts,
        )

    def check(self, demand: Ask) -> None:
        """Raises `RefusedError` if the rules deny the running call this permission; doesn't ask the user."""
        self._request_for(demand, "permission")

    @property
    def access(self) -> Access:
        """What the rules let the running call access; see `ToolContext.allows`."""
        state, policy = self.state, policy_of(self.permissions, self.tool)
        if self._access is None or self._access.policy is not policy:
            granted, judged = self.grants(), self.evaluation
            if judged is None and policy.conditions and policy.tool.spec.permission_arguments:  # they alone let it run
                judged = policy.evaluation(state.arguments, state.request, granted, self._folders)
            self._access = Access(policy, state.arguments, state.request, granted, judged)
        return self._access

    async def confirm(self, hint: str, payload: Any = None) -> Confirmation:
        """The user's answer to a question of the running call, yes or no; asks only if it wasn't resumed with one.

        Raises a denial, as by a rule or without an approver; `confirmation_required` if the answer comes later; or
        `ValueError` or `TypeError` for a hint that is empty, very long or no string, or a payload that isn't JSON.
        """
        hint, latest = _check_question(hint, payload), self.state.context.confirmation
        return (
            (latest and latest.to_question(hint))
            or await self.ask("question", Ask(QUESTION, (self.tool.name,)), hint=hint, payload=payload)
            or Confirmation(hint, confirmed=True, payload=payload)  # the rules allow it
        )

    def suspend(self, hint: str, payload: Any, stored: Any, request: str | None) -> NoReturn:
        """Suspends the running call until a question is answered, without asking it now; see `ToolContext.suspend`.

        Raises `confirmation_required`, always, or as `confirm` for an invalid question.
        """
        hint = _check_question(hint, {"payload": payload, "stored": stored})
        facts = {"permission": QUESTION, "patterns": (self.tool.name,), "subject": "question"}
        own_id = {} if request is None else {"id": request}
        raise self._leave_pending(self._make_request(**facts, hint=hint, payload=payload, **own_id), stored)

    def _leave_pending(self, request: ApprovalRequest, stored: Any = None) -> CallError:
        """Sets `pending`, as the answer to this request comes later; returns the error that ends the run.

        The error isn't a `ToolError`, which tools may catch to continue without the permission.
        """
        latest = self.state.context.confirmation
        self.pending = PendingCall.of(
            request,
            tool_key(self.tool),
            created=time.time(),
            approved=self.approval is not None,
            earlier=self._history(),
            question_key=self._question_key(request),
            has_own_permissions=self.state.settings.current.are_own,
            stored=latest and latest.stored if stored is None else stored,  # it stays until the call stores another
        )
        text = f"{request.call.name} is waiting for the user's answer. Don't call it again until then."
        return CallError("confirmation_required", text)

    def _history(self) -> tuple[Confirmation, ...]:
        """The answers to this call so far, the latest first."""
        confirmation = self.state.context.confirmation
        return () if confirmation is None else confirmation.history()

    def _consume_answer(self, demand: Ask) -> bool:
        """Uses up an answer that the call was resumed with and that allows this; false if there is none."""
        if self._answers is None:
            self._answers = list(reversed(self._history()))
        for answer in self._answers:
            if answer.confirmed and answer.to_permission(demand.permission, demand.patterns):
                self._answers.remove(answer)
                return True
        return False

    def _question_key(self, request: ApprovalRequest) -> str:
        """See `PendingCall.question_key`."""
        identity = _identity_of(self.state)
        facts = [request.digest, request.subject, request.permission, list(request.patterns), request.hint]
        return "" if identity is None else digest_of([*identity, *facts, [each.to_json() for each in self._history()]])

    def close(self) -> None:
        """Drops the ended call, which refers to this, so that no cycle is left."""
        if hasattr(self, "state"):
            del self.state


def _identity_of(state: CallState) -> list[Any] | None:
    """What identifies a model's call in every process: its id, or its place in its message if it has none.

    `None` if nothing does: without a message, generated ids aren't unique.
    """
    context = state.request
    message = None if (context.message or "").startswith(BATCH) else context.message
    if message is None and _GENERATED_ID.fullmatch(state.id):
        return None
    return [context.user, context.session, context.invocation, message, state.id or state.position.index]


def execution_key(state: CallState, attempt: int) -> str | None:
    """`ExecutionRequest.key` of an attempt of a call."""
    identity, answers, call = _identity_of(state), list[JsonObject](), state
    if identity is None or state.id[:1] in ("", "/"):
        return None  # the place of a call without an id is another once it is resumed
    while call is not None:  # an enclosing call that runs again after an answer makes its calls again
        if call.made_context is not None and (confirmation := call.made_context.confirmation) is not None:
            answers += [each.to_json() for each in confirmation.history()]
        call = call.enclosing
    return digest_of([*identity, state.context.tool, attempt, answers])


def asking_of(state: CallState, demands: tuple[Ask, ...] = (), no_run_error: CallError | None = None) -> Asking:
    """The call's `Asking`, made if there is none, with these demands of callbacks, or this error."""
    if state.asking is None:
        state.asking = Asking(state)
    asking = cast("Asking", state.asking)
    asking.demands, asking.no_run_error = asking.demands + demands, no_run_error or asking.no_run_error
    return asking


async def resume(state: CallState, resumed: ResumedCall) -> CallError | None:
    """Begins a resumed call with its answer; returns the error of one that was rejected or can't run.

    If the answer was used before, the tool's executor may have a run of the call: the error is stored for `run.attach`,
    which looks for that run.
    """
    runtime, tool = state.runtime, None
    with suppress(CallError):
        tool = state.snapshot.find(state.name)
    try:
        approval, confirmation = await resumed.authorize(runtime.grants, state.request, tool, runtime.threads.run)
    except CallError as error:
        runs_elsewhere = tool is not None and tool.policy.executor not in HERE
        if error.kind == "unknown_outcome" and runs_elsewhere and not resumed.is_refusal:
            state.context.confirmation = resumed.confirmation
            asking_of(state, no_run_error=error)
            return None
        feedback = isinstance(resumed.answer, Reject) and resumed.answer.feedback
        if error.kind == "rejected" and not feedback and state.settings.limits.rejection_ends_turn:
            state.end_turn("rejected")
        return error
    except Exception as error:  # noqa: BLE001  a host's store
        log_failure("marking an approval as used", error)
        return CallError("denied", f"{state.name} was not run: its approval can't be marked as used.")
    asking_of(state).approval, state.context.confirmation = approval, confirmation
    return None


def _check_question(hint: str, payload: Any) -> str:
    (hint,) = texts("hint", [hint])
    if len(hint) > MOST_HINT:
        raise ValueError(f"the hint has {len(hint):,} characters; at most {MOST_HINT:,} are taken")
    if faults := json_problems(payload):
        raise ValueError(f"the payload must be JSON: {faults[0]}")
    return hint
