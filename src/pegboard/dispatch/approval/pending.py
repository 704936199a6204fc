"""Pending calls: calls that wait for an answer from another turn or process, and how they are resumed."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, ClassVar, Final, Self, TypeAlias

import attrs
from attrs import define, field, frozen

from pegboard.callbacks import maybe_await
from pegboard.dispatch.approval.grants import Grants, session_key, tool_key
from pegboard.dispatch.approval.request import (
    Always,
    Answer,
    ApprovalRequest,
    Later,
    Once,
    Reject,
    answer_from_json,
    parse_untrusted,
)
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import PendingError, ToolError, tuple_of
from pegboard.json import canonical_json, digest_of, is_object, json_problems, json_text
from pegboard.schema.converter import ALWAYS, JsonRecord, json_key, known_keys, read_by, read_record
from pegboard.tools.call import CallError, Confirmation, ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool
from pegboard.typing import JsonMapping, JsonObject


def digest_of_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """`"sha256:..."` over a tool, as `tool_key` gives it, and over the arguments as JSON, however that is written."""
    return digest_of({"tool": tool, "arguments": dict(arguments)})


SHORTEST_KEY: Final = 16
_PURPOSE: Final = b"pegboard pending calls\n"  # is signed first, so that no other text signed with the key is valid
VERSION: Final = 2
_KNOWN_VERSIONS: Final = (1, VERSION)  # version 1 had its keys in snake_case


class SignedRecord(JsonRecord):
    """Record that leaves this process as JSON text, optionally signed: what comes back isn't trusted."""

    __slots__ = ()
    called: ClassVar[str]  # what errors call it
    most_bytes: ClassVar[int]  # of its text

    def to_json(self) -> JsonObject:
        """All attributes as JSON, for another process, and the `version` of the format; see `from_json`."""
        return {"version": VERSION, **super().to_json()}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Reads what `to_json` writes, from an untrusted source; a signature isn't looked at, unknown keys are ignored.

        Raises:
            PendingError: It isn't that, or is of an unknown version.
        """
        version = data.get("version") if is_object(data) else None
        if type(version) is not int or version not in _KNOWN_VERSIONS:
            raise PendingError(f"not {cls.called}: version {version!r:.40}; this pegboard knows version {VERSION}")
        try:
            return read_record(cls, data, cls.called)
        except ValueError as error:
            raise PendingError(f"not {cls.called}: {error}") from None

    def dumps(self, key: str | bytes | None = None) -> str:
        """Its JSON as text, for a file, a database or a client.

        Args:
            key: A secret of at least 16 bytes: with it, `loads` finds what was forged or changed.

        Raises:
            ValueError: The key is too short, something isn't JSON, or the text is longer than `loads` takes.
        """
        try:
            data = self.to_json()
            if key is not None:
                data["signature"] = _signature(data, key)
            text = json.dumps(data, allow_nan=False)
        except RecursionError:
            raise ValueError(f"something in {self.called} is nested too deep to be written") from None
        if len(text) > self.most_bytes:
            raise ValueError(f"{self.called}: {len(text):,} bytes, at most {self.most_bytes:,} are read back")
        return text

    @classmethod
    def loads(cls, text: str | bytes, key: str | bytes | None = None) -> Self:
        """Reads what `dumps` writes, from a source that isn't trusted.

        Args:
            text: At most 16 MiB for pending calls, 256 MiB for the outcome of a turn.
            key: The secret that it was written with; text that isn't signed with it is refused.

        Raises:
            PendingError: It can't be read, is of another version, or isn't signed with this key.
            ValueError: The key is too short.
        """
        data = parse_untrusted(text, cls.most_bytes, cls.called)
        if key is not None:
            import hmac

            signed: dict[str, Any] = data if isinstance(data, dict) else {}  # pyright: ignore[reportUnknownVariableType]
            given = str(signed.get("signature")).encode("utf-8", "surrogatepass")
            if not hmac.compare_digest(given, _signature(signed, key).encode()):
                raise PendingError(f"{cls.called}: not signed with this key, or changed since")
        return cls.from_json(data)


def _signature(data: JsonMapping, key: str | bytes) -> str:
    """`"hmac-sha256:"` and the signature in hexadecimal; the data's own `"signature"` doesn't count."""
    import hmac

    secret = key.encode() if isinstance(key, str) else key
    if len(secret) < SHORTEST_KEY:
        raise ValueError(f"a key must have at least {SHORTEST_KEY} bytes; take 32 random ones")
    text = canonical_json({name: value for name, value in data.items() if name != "signature"})
    signature = hmac.digest(secret, _PURPOSE + text.encode("utf-8", "surrogatepass"), "sha256")
    return f"hmac-sha256:{signature.hex()}"


@frozen(eq=False)
class Approval:
    """Single-use approval of a call, bound to the tool, its origin and the arguments."""

    request: ApprovalRequest  # the one that was answered: about the call, or what it asked once it was approved
    _spent: Lock = field(factory=Lock, init=False, repr=False)

    @property
    def patterns(self) -> tuple[str, ...]:
        """What the call touches, as it was shown; `()` if that was in an earlier request."""
        return self.request.patterns if self.request.subject == "call" else ()

    def consume(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Uses up the approval right before the call runs; raises `denied` if it was used, or is for something else.

        Returns the arguments to run, parsed again from what was approved, so that no other reference to them exists.
        """
        if not self._spent.acquire(blocking=False):  # never released: an atomic test-and-set
            raise CallError("denied", f"{tool.name} was not run: its approval has been used. Ask again.")
        try:
            matches = digest_of_call(tool_key(tool), arguments) == self.request.digest
        except (TypeError, ValueError, RecursionError):
            matches = False  # what isn't JSON any more was never approved
        if not matches:
            raise CallError("denied", f"{tool.name} was not run: it isn't what was approved any more. Ask again.")
        return self.request.arguments


MOST_CALLS: Final = 1_000
MOST_SECONDS: Final = 30 * 24 * 3600.0  # how long a call may wait for its answer


@frozen
class PendingCall(ApprovalRequest):
    """Call that waits for an answer: what was asked, with all that it takes to run it later, elsewhere.

    Its `tool` is `None`, and it has no `metadata`.

    Attributes:
        spec_digest: Of the tool's spec and its origin, as `tool_key` gives it.
        created: When, in seconds since 1970 (UTC).
        approved: Whether the call itself was approved before it asked from inside.
        earlier: The earlier answers to the same call, the latest first.
        question_key: Key of this question about the model's call, the same each time the call is suspended with it, so
            that only one answer is used. `""` if the call's id doesn't identify it.
        has_own_permissions: Whether its batch had permissions of its own, which have to be passed again to resume it.
        stored: The tool's own JSON data for its next run; not shown.
    """

    spec_digest: str = field(kw_only=True)
    created: float = field(kw_only=True)
    approved: bool = False
    earlier: tuple[Confirmation, ...] = ()
    question_key: str = field(default="", metadata=json_key("once"))
    has_own_permissions: bool = field(default=False, metadata=json_key("ownRules"))
    stored: Any = field(default=None, repr=False, metadata=json_key("kept"))

    @classmethod
    def of(cls, request: ApprovalRequest, spec_digest: str, **facts: Any) -> Self:
        """The pending call of a request whose answer comes later; `facts` are its further attributes."""
        shared = attrs.asdict(request, recurse=False, filter=lambda each, _: each.name not in ("tool", "metadata"))
        return cls(spec_digest=spec_digest, **facts, **shared)

    def is_for(self, request: ReadonlyContext) -> bool:
        """Whether it was asked in this session, for this user."""
        return (self.session, self.user) == (request.session, request.user)

    @classmethod
    def from_json(cls, data: JsonMapping) -> PendingCall:
        """Reads what `to_json` writes, from a source that isn't trusted.

        Raises:
            PendingError: It isn't a pending call, or its digest isn't that of its tool and arguments.
        """
        if is_object(data):  # the keys of version 0.1
            data = {"ownRules" if key == "own_rules" else key: value for key, value in data.items()}
        try:
            pending = read_record(cls, data, "call")
        except ValueError as error:
            raise PendingError(f"not a pending call: {error}") from None
        arguments = pending.call.arguments
        faults = [*json_problems(data), *(f"{key}: unknown key" for key in data.keys() - known_keys(cls))]
        if "id" not in data:
            faults.append("id: missing")
        if faults or not isinstance(arguments, dict):
            raise PendingError(f"not a pending call: {(*faults, 'call.arguments: must be an object')[0]}")
        if digest_of_call(pending.spec_digest, arguments) != pending.digest:
            raise PendingError("not a pending call: its digest isn't that of its tool and arguments")
        return attrs.evolve(pending, call=attrs.evolve(pending.call, arguments=str(json_text(arguments))))


read_by(PendingCall, PendingCall.from_json)


def _check_calls(_self: PendingCalls, _attribute: Any, calls: tuple[PendingCall, ...]) -> None:
    if len({call.id for call in calls}) < len(calls):
        raise PendingError("two pending calls have the same id")
    if len(calls) > MOST_CALLS:
        raise PendingError(f"{len(calls):,} pending calls; at most {MOST_CALLS:,} are taken together")


@frozen
class PendingCalls(SignedRecord):
    """The pending calls of one turn.

    Attributes:
        calls: In call order.
    """

    called: ClassVar = "pending calls"
    most_bytes: ClassVar = 16 * 1024 * 1024
    calls: tuple[PendingCall, ...] = field(
        default=(), converter=tuple_of("calls", PendingCall), validator=_check_calls, metadata=ALWAYS
    )

    def __iter__(self) -> Iterator[PendingCall]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Reads `{"version": 2, "calls": [...]}`, from a source that isn't trusted; a signature isn't looked at.

        Raises:
            PendingError: It isn't that, or is of another version.
        """
        pending = super().from_json(data)
        if data.keys() - {"version", "calls", "signature"} or not isinstance(data.get("calls"), list):
            raise PendingError("not pending calls: there must be 'version', 'calls' (a list), and nothing else")
        return pending


@define(eq=False)
class ApprovalState:
    """The state of a call's approval; `Asking` is the flow over it."""

    request: ApprovalRequest | None = field(default=None, init=False)  # which the call needs to run, by the rules
    approval: Approval | None = field(default=None, init=False)
    no_run_error: CallError | None = field(default=None, init=False)  # raised if no other process has a run of it
    pending: PendingCall | None = field(default=None, init=False)  # what waits for an answer that comes later

    def replace_pending(self, pending: PendingCall | None) -> None:
        """Leaves the call pending as this one, or (`None`) not at all."""
        self.pending = pending


class RefusedError(CallError, ToolError):
    """A call, or what it asked for while it ran, wasn't allowed. A tool may catch it, and go on without that."""


def rejection_error(name: str, answer: Reject) -> RefusedError:
    """The error for a person's rejection."""
    other, why = answer.rejected_with, f": {answer.feedback}" if answer.feedback else "."
    what = f"this call of {name}" if other is None else f"a call of {other}, and this call of {name} with it"
    return RefusedError("rejected", f"The user rejected {what}{why}")


def confirmation_of(
    request: ApprovalRequest, answer: Answer, earlier: Sequence[Confirmation] = (), stored: Any = None
) -> Confirmation | None:
    """The answer as the tool gets it; `None` for a yes to the call itself without a payload."""
    payload = answer.payload if isinstance(answer, Once) else None
    if request.subject == "call" and payload is None:
        return None
    confirmed, feedback = (False, answer.feedback) if isinstance(answer, Reject) else (True, None)
    hint, permission, patterns = "", None, ()
    if request.subject == "question":
        hint, payload = request.hint, request.payload if payload is None else payload
    elif request.subject == "permission":
        permission, patterns = request.permission, request.patterns
    return Confirmation(hint, confirmed, payload, feedback, permission, patterns, stored=stored).after(earlier)


def rules_of(request: ApprovalRequest, answer: Always) -> list[Rule]:
    """The grants of an "always" answer, as rules."""
    patterns, is_exact = answer.patterns or request.always, answer.patterns is None
    return [Rule(request.permission, each, "allow", literal=is_exact) for each in patterns]


CONFIRMATION_CALL: Final = "pegboard_request_confirmation"
MOST_RESULT: Final = 1024 * 1024  # bytes of JSON text


def confirmation_call(pending: PendingCall) -> ToolCall:
    """The virtual call for a pending one; its id is the pending call's, so that the result leads back to it.

    Its arguments: `{"originalCall": {"id", "name", "arguments"}, "hint", "payload", "digest"}`.
    """
    call = pending.call
    original = {"id": call.id, "name": call.name, "arguments": pending.arguments}
    hint = pending.hint or f"Please approve or reject the call of {call.name}."
    facts = {"originalCall": original, "hint": hint, "payload": pending.payload, "digest": pending.digest}
    return ToolCall(CONFIRMATION_CALL, facts, pending.id)


def original_call_from(call: ToolCall | JsonMapping) -> ToolCall:
    """Reads the model's own call from a virtual one.

    Args:
        call: A virtual call, or its JSON (`{"id", "name", "arguments"}`); arguments may be JSON text.

    Raises:
        PendingError: It isn't a virtual call, or holds no call.
    """
    facts = _object(call.to_json() if isinstance(call, ToolCall) else call, "call")
    if facts.get("name") != CONFIRMATION_CALL:
        raise PendingError(f"a call of {facts.get('name')!r:.80}, not of {CONFIRMATION_CALL}")
    original = _object(_object(facts.get("arguments"), "arguments").get("originalCall"), "originalCall")
    try:
        return ToolCall.from_json(original)
    except ValueError as error:
        raise PendingError(f"originalCall: {error}") from None


def answer_from_result(result: ToolResult | JsonMapping | str | bytes) -> Answer:
    """Reads a client's answer from the result of a virtual call.

    Args:
        result: `{"confirmed": true or false, "payload"?, "feedback"?}`: as a mapping, as JSON text, or in a
            `ToolResult`, as its structured content or its text.

    Returns:
        `Once` with the payload, or `Reject` with the feedback.

    Raises:
        PendingError: It isn't an answer; `confirmed` must be a boolean.
    """
    given: Any = result
    if isinstance(result, ToolResult):
        if result.is_error:
            raise PendingError("the client returned an error instead of an answer")
        given = result.text if result.structured_content is None else result.structured_content
    facts = _object(given, "answer")
    confirmed, payload, feedback = facts.pop("confirmed", None), facts.pop("payload", None), facts.pop("feedback", None)
    if not isinstance(confirmed, bool) or facts:
        raise PendingError("not an answer: 'confirmed' must be true or false; besides it only 'payload' or 'feedback'")
    answer = {"answer": "once", "payload": payload} if confirmed else {"answer": "reject", "feedback": feedback}
    return answer_from_json(answer)


def _object(value: Any, what: str) -> dict[str, Any]:
    """An object, or its JSON text."""
    if isinstance(value, str | bytes):
        value = parse_untrusted(value, MOST_RESULT, f"an object ({what})")
    if not isinstance(value, Mapping):
        raise PendingError(f"{what}: must be an object, not {type(value).__name__}")
    return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


Answers: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Answers by the pending call's id: each an `Answer`, or its JSON."""

MOST_SHOWN: Final = 80  # characters of the id of an ignored answer


@frozen
class ResumedCall:
    """Pending call with its answer: `Once`, `Always` or `Reject`."""

    pending: PendingCall
    answer: Answer

    @property
    def is_refusal(self) -> bool:
        """Whether the call doesn't run; "no" to a question of the tool's is just the answer."""
        return isinstance(self.answer, Reject) and self.pending.subject != "question"

    async def authorize(
        self, grants: Grants, context: ReadonlyContext, tool: Tool | None, run: Callable[..., Awaitable[Any]]
    ) -> tuple[Approval | None, Confirmation | None]:
        """Records the answer as used and returns what lets the call run. `run` runs what may write a file in a thread.

        That is the approval, if the call itself was approved, and `confirmation`. If the tool's definition has changed
        since, nothing is granted, and the approval, bound to the former definition, won't match. Raises `rejected`; or
        `unknown_outcome`, if the answer was used before, perhaps by a process that ended while the tool ran.
        """
        pending, answer = self.pending, self.answer
        for each in filter(None, (pending.id, pending.question_key)):
            if not await maybe_await(await run(grants.consume, each)):
                why = "its approval was used before, and the outcome isn't known here"
                text = f"{pending.call.name} was not run again: {why}. Find out what it has done before asking again."
                raise CallError("unknown_outcome", text)
        if isinstance(answer, Reject) and self.is_refusal:
            raise rejection_error(pending.call.name, answer)
        if isinstance(answer, Always) and tool is not None and tool_key(tool) == pending.spec_digest:
            facts = session_key(context), tool_key(tool), rules_of(pending, answer), answer.seconds
            await maybe_await(await run(grants.add, *facts))
        approval = Approval(pending) if pending.approved or pending.subject == "call" else None
        return approval, self.confirmation

    @property
    def confirmation(self) -> Confirmation | None:
        """The answer for `context.confirmation`; `None` for a yes to the call without a payload."""
        return confirmation_of(self.pending, self.answer, self.pending.earlier, self.pending.stored)


def match_answers(
    pending: PendingCalls, answers: Answers, context: ReadonlyContext, *, now: float | None = None
) -> tuple[dict[str, ResumedCall], tuple[str, ...]]:
    """Matches answers with the calls that wait for them in this session, for this user. Changes nothing.

    Answers may come in parts, in any order, and repeatedly: the first that can be read counts for its call. An "always"
    as JSON, which may be a client's, is ignored if it has patterns, as these may allow more; `Always(patterns)` isn't.
    Whether an answer was used in an earlier resumption is checked by `Grants.consume`. Calls of another session or user
    are left, and so are those that have waited for more than 30 days at the time `now`, in seconds since 1970.

    Returns the calls to resume by the pending call's id, in call order; and the ids of answers that changed nothing:
    unknown, repeated, unreadable or too late.
    """
    oldest = (time.time() if now is None else now) - MOST_SECONDS
    waiting = {call.id for call in pending if call.is_for(context) and call.created >= oldest}
    taken: dict[str, Answer] = {}
    ignored: list[str] = []
    pairs: Any = answers.items() if isinstance(answers, Mapping) else answers  # pyright: ignore[reportUnknownVariableType]
    for id_, given in pairs:
        answer = _read_answer(given) if isinstance(id_, str) and id_ in waiting and id_ not in taken else None
        if answer is None:
            ignored.append(str(id_)[:MOST_SHOWN])
        elif not isinstance(answer, Later):
            taken[id_] = answer
    return {call.id: ResumedCall(call, taken[call.id]) for call in pending if call.id in taken}, tuple(ignored)


def _read_answer(given: Any) -> Answer | None:
    """The answer, if it is one; as JSON it may be a client's, and so can't set patterns."""
    if isinstance(given, Once | Always | Reject | Later):
        return given
    try:
        answer = answer_from_json(given)
    except PendingError:
        return None
    return None if isinstance(answer, Always) and answer.patterns is not None else answer
