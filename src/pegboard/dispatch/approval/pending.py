"""`PendingCall`, `PendingCalls`: calls that wait for an answer which comes in another turn or process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self

import attrs
from attrs import field, frozen

from pegboard.dispatch.approval.digest import digest_of_parts
from pegboard.dispatch.approval.request import ApprovalRequest, Subject, preview_json
from pegboard.dispatch.approval.signature import signature_of, signed_by
from pegboard.errors import PendingError
from pegboard.schema.json import json_text
from pegboard.tools.call import ToolCall
from pegboard.tools.confirmation import Confirmation
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Preview
from pegboard.typing import JsonMapping, JsonObject

VERSION: Final = 1
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_CALLS: Final = 1_000
MOST_SECONDS: Final = 30 * 24 * 3600.0
"""How long a call may wait for its answer."""


@frozen
class PendingCall:
    """A call that waits for an answer, with all that it takes to run it later, elsewhere.

    Attributes:
        id: Of the request; nobody can guess it, and one answer to it counts.
        call: The call; its arguments are the judged ones, as JSON text.
        spec_digest: Of what the tool said of itself.
        digest: Of tool and arguments; what an approval is bound to.
        permission: What is asked for.
        patterns: What it is asked for.
        always: What an answer "always" would allow.
        reason: Why it is asked.
        subject: `"call"`, or from inside the call `"permission"` or `"question"`.
        hint: The question, in the tool's words, or `""`.
        payload: JSON data for whoever answers, or `None`.
        preview: What the call would do, or `None`.
        user: For whom the call runs, or `None`.
        session: The conversation's id, or `None`.
        created: When, in seconds since 1970 (UTC).
        approved: Whether the call itself was approved before it asked from inside.
        earlier: What was answered to the same call before, the latest first.
    """

    id: str
    call: ToolCall
    spec_digest: str
    digest: str
    permission: str
    created: float
    patterns: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    reason: str = ""
    subject: Subject = "call"
    hint: str = ""
    payload: Any = None
    preview: Preview | None = None
    user: str | None = None
    session: str | None = None
    approved: bool = False
    earlier: tuple[Confirmation, ...] = ()

    @classmethod
    def of(
        cls,
        request: ApprovalRequest,
        spec_digest: str,
        *,
        created: float,
        approved: bool = False,
        earlier: tuple[Confirmation, ...] = (),
    ) -> Self:
        """What has to be kept of a request whose answer comes later."""
        facts = {name: getattr(request, name) for name in _OF_THE_REQUEST}
        return cls(spec_digest=spec_digest, created=created, approved=approved, earlier=earlier, **facts)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, read anew each time."""
        return json.loads(self.arguments_text)

    @property
    def arguments_text(self) -> str:
        """The same as JSON text."""
        assert isinstance(self.call.arguments, str)
        return self.call.arguments

    def is_for(self, request: ReadonlyContext) -> bool:
        """Whether it was asked in this session, for this user."""
        return (self.session, self.user) == (request.session, request.user)

    def to_json(self) -> JsonObject:
        """All facts by name; the arguments as an object."""
        data = {attribute.name: getattr(self, attribute.name) for attribute in attrs.fields(PendingCall)}
        call = {**self.call.to_json(), "arguments": self.arguments}
        earlier = [one.to_json() for one in self.earlier]
        texts = {"patterns": list(self.patterns), "always": list(self.always)}
        return {**data, **texts, "call": call, "preview": preview_json(self.preview), "earlier": earlier}

    @classmethod
    def from_json(cls, data: JsonMapping) -> PendingCall:
        """Reads what `to_json` writes, from a source that isn't trusted.

        Raises:
            PendingError: It isn't a pending call, or its digest isn't that of its tool and arguments.
        """
        from pegboard.dispatch.approval.structured import structured

        read = structured(_Written, dict(data) if isinstance(data, Mapping) else data, "a pending call")  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        facts: dict[str, Any] = {name: getattr(read, name) for name in _NAMES}
        arguments = read.call.get("arguments")
        if not isinstance(arguments, dict):
            raise PendingError("not a pending call: call.arguments: must be an object")
        if digest_of_parts(read.spec_digest, arguments) != read.digest:  # pyright: ignore[reportUnknownArgumentType]
            raise PendingError("not a pending call: its tool or arguments were changed, for its digest is another")
        try:
            facts["call"] = ToolCall.from_json({**read.call, "arguments": str(json_text(arguments))})
        except ValueError as error:
            raise PendingError(f"not a pending call: call.{error}") from None
        return cls(**facts)


@frozen
class _Written:
    """A pending call as `to_json` writes it."""

    id: str
    call: dict[str, Any]
    spec_digest: str
    digest: str
    permission: str
    created: float
    patterns: tuple[str, ...]
    always: tuple[str, ...]
    reason: str
    subject: Subject
    hint: str
    payload: Any
    preview: Preview | None
    user: str | None
    session: str | None
    approved: bool
    earlier: tuple[Confirmation, ...]


_OF_THE_REQUEST: Final = tuple(
    name for name in (attribute.name for attribute in attrs.fields(PendingCall)) if hasattr(ApprovalRequest, name)
)
_NAMES: Final = tuple(attribute.name for attribute in attrs.fields(_Written))


def _unique(given: Iterable[PendingCall]) -> tuple[PendingCall, ...]:
    calls = tuple(given)
    if len({call.id for call in calls}) < len(calls):
        raise PendingError("two pending calls have the same id")
    if len(calls) > MOST_CALLS:
        raise PendingError(f"{len(calls):,} pending calls; at most {MOST_CALLS:,} are taken together")
    return calls


@frozen
class PendingCalls:
    """The calls of one turn that wait for an answer.

    Attributes:
        calls: In call order.
    """

    calls: tuple[PendingCall, ...] = field(default=(), converter=_unique)

    def __iter__(self) -> Iterator[PendingCall]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def to_json(self) -> JsonObject:
        """`{"version": 1, "calls": [...]}`."""
        return {"version": VERSION, "calls": [call.to_json() for call in self.calls]}

    @classmethod
    def from_json(cls, data: JsonMapping) -> PendingCalls:
        """Reads what `to_json` writes, from a source that isn't trusted; a signature isn't looked at.

        Raises:
            PendingError: It isn't that, or is of another version.
        """
        facts: Any = data if isinstance(data, Mapping) else {}  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        version, calls = facts.get("version"), facts.get("calls")
        if type(version) is not int or version != VERSION:
            raise PendingError(f"pending calls of version {version!r:.40}; this pegboard knows version {VERSION}")
        if facts.keys() - {"version", "calls", "signature"} or not isinstance(calls, list):
            raise PendingError("not pending calls: there must be 'version', 'calls' (a list), and nothing else")
        return cls(PendingCall.from_json(call) for call in calls)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def dumps(self, key: str | bytes | None = None) -> str:
        """The pending calls as JSON text, for a file, a database or a client.

        Args:
            key: A secret of at least 16 bytes: with it, what comes back can be told from what was forged.

        Raises:
            ValueError: The key is too short.
        """
        data = self.to_json()
        if key is not None:
            data["signature"] = signature_of(data, key)
        return json.dumps(data, ensure_ascii=False, allow_nan=False)

    @classmethod
    def loads(cls, text: str | bytes, key: str | bytes | None = None) -> PendingCalls:
        """Reads what `dumps` writes, from a source that isn't trusted.

        Args:
            text: At most 16 MiB.
            key: The secret that it was written with; then what isn't signed by it is refused.

        Raises:
            PendingError: It can't be read, is of another version, or isn't signed by this key.
            ValueError: The key is too short.
        """
        from pegboard.dispatch.approval.structured import parsed

        data = parsed(text, MOST_BYTES, "pending calls")
        if key is not None and not signed_by(data, key):
            raise PendingError("the pending calls aren't signed with this key, or were changed since")
        return cls.from_json(data)
