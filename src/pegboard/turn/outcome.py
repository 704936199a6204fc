"""`TurnOutcome`: what came of a turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import attrs
from attrs import field, frozen

from pegboard.dispatch.approval.pending import PendingCalls, signature_of, signed_by
from pegboard.dispatch.approval.request import parsed
from pegboard.errors import PendingError
from pegboard.messages.message import Message
from pegboard.messages.response import NO_USAGE, ModelResponse, Usage
from pegboard.tools.actions import Actions
from pegboard.typing import JsonObject

VERSION: Final = 1
MOST_BYTES: Final = 256 * 1024 * 1024
"""Of the text of an outcome: a conversation may hold pictures."""

Ended: TypeAlias = Literal[
    "answered",
    "results",
    "stopped",
    "suspended",
    "limit",
    "cut_off",
    "rejected",
    "escalated",
    "transferred",
    "interrupted",
    "cancelled",
    "aborted",
    "fatal",
    "failed",
]
"""Why a turn ended: the model answered and calls nothing; the results speak for themselves (`skip_summarization`); a
stop condition; calls wait for an approval; a limit; the answer was cut off, or broke off; a person rejected a call; a
tool escalated, or handed over to another agent; the host or the user broke in; whoever waited was cancelled; a callback
aborted it; a tool ended it; the model, a processor or a callback failed."""

ENDS: Final = get_args(Ended)


@frozen
class TurnOutcome:
    """What came of a turn. Its history is complete however the turn ended: each call has its one result.

    Attributes:
        messages: The whole conversation, those that the turn began with included.
        ended: Why it ended.
        response: The model's last answer, or `None` where it gave none.
        began: How many messages there were when the turn began.
        usage: What all its answers used together.
        rounds: How often the model was asked.
        calls: How many calls it made.
        actions: What its calls asked the host for, merged.
        state: The session's state after it.
        pending: The calls that wait for an approval; `resume_turn` goes on with their answers.
        detail: More on why it ended (which limit, which reason), for people; or `None`.
        invocation: The turn's id.
        error: What ended it, or `None`; isn't written to JSON.
    """

    messages: tuple[Message, ...]
    ended: Ended = "answered"
    response: ModelResponse | None = field(default=None, repr=False)
    began: int = 0
    usage: Usage = NO_USAGE
    rounds: int = 0
    calls: int = 0
    actions: Actions = field(factory=Actions)
    state: Mapping[str, Any] = field(factory=dict[str, Any], repr=False)
    pending: PendingCalls = field(factory=PendingCalls)
    detail: str | None = None
    invocation: str | None = None
    error: BaseException | None = field(default=None, eq=False)

    @property
    def text(self) -> str:
        """The words of the model's last answer."""
        return "" if self.response is None else self.response.text

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """What the turn has added to the conversation."""
        return self.messages[self.began :]

    def evolve(self, **changes: Any) -> TurnOutcome:
        """An outcome with some attributes changed."""
        return attrs.evolve(self, **changes)

    def to_json(self) -> JsonObject:
        """All facts by name, for another process; see `from_json`."""
        data: JsonObject = {
            "version": VERSION,
            "ended": self.ended,
            "messages": [message.to_json() for message in self.messages],
            "response": None if self.response is None else self.response.to_json(),
            "usage": self.usage.to_json(),
            "actions": self.actions.to_json(),
            "state": dict(self.state),
            "pending": self.pending.to_json(),
        }
        return {**data, **{name: getattr(self, name) for name in _PLAIN}}

    @classmethod
    def from_json(cls, data: object) -> TurnOutcome:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            PendingError: It is no outcome of a turn, or of another version.
        """
        try:
            return _read(data)
        except ValueError as error:
            raise PendingError(f"not the outcome of a turn: {error}") from None

    def dumps(self, key: str | bytes | None = None) -> str:
        """The outcome as JSON text, for a file, a database or a client.

        Args:
            key: A secret of at least 16 bytes: with it, what comes back can be told from what was forged.

        Raises:
            ValueError: The key is too short, the state holds what JSON can't say, or there is more than `loads` takes.
        """
        try:
            data = self.to_json()
            if key is not None:
                data["signature"] = signature_of(data, key)
            text = json.dumps(data, allow_nan=False)
        except RecursionError:
            raise ValueError("something in the outcome is nested too deep to be written") from None
        if len(text) > MOST_BYTES:
            raise ValueError(f"the outcome takes {len(text):,} bytes; at most {MOST_BYTES:,} are read back")
        return text

    @classmethod
    def loads(cls, text: str | bytes, key: str | bytes | None = None) -> TurnOutcome:
        """Reads what `dumps` writes, from a source that isn't trusted.

        Args:
            text: At most 256 MiB.
            key: The secret that it was written with; then what isn't signed by it is refused.

        Raises:
            PendingError: It can't be read, is of another version, or isn't signed by this key.
            ValueError: The key is too short.
        """
        data = parsed(text, MOST_BYTES, "the outcome of a turn")
        if key is not None and not signed_by(data, key):
            raise PendingError("the outcome isn't signed with this key, or was changed since")
        return cls.from_json(data)


_PLAIN: Final = ("began", "rounds", "calls", "detail", "invocation")


def _read(data: object) -> TurnOutcome:
    from pegboard.messages.message import count, items, mapping, members, text

    read = members(data, "outcome")
    if read.get("version") != VERSION:
        raise ValueError(f"version {read.get('version')!r:.40}; this pegboard knows version {VERSION}")
    ended = text(read, "ended", "answered")
    if ended not in ENDS:
        raise ValueError(f"ended: must be one of {', '.join(ENDS)}, got {ended!r:.80}")
    response = read.get("response")
    messages = tuple(Message.from_json(each) for each in items(read, "messages"))
    return TurnOutcome(
        messages=messages,
        ended=cast("Ended", ended),
        response=None if response is None else ModelResponse.from_json(response),
        usage=Usage.from_json(read.get("usage", {})),
        actions=Actions.from_json(mapping(read, "actions")),
        state=mapping(read, "state"),
        pending=PendingCalls.from_json(mapping(read, "pending")),
        began=min(count(read, "began"), len(messages)),
        rounds=count(read, "rounds"),
        calls=count(read, "calls"),
        detail=text(read, "detail", None),
        invocation=text(read, "invocation", None),
    )


__all__ = ["ENDS", "Ended", "TurnOutcome"]
