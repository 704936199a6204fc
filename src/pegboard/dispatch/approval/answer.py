"""What a person may answer: `Once`, `Always`, `Reject`, or `Later`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from pegboard.errors import PendingError
from pegboard.schema.json import json_faults
from pegboard.typing import JsonMapping, JsonObject

MOST_PATTERNS: Final = 200
MOST_PATTERN: Final = 4_096
MOST_FEEDBACK: Final = 20_000
LONGEST_SECONDS: Final = 366 * 24 * 3600.0


def _check_json(_self: object, _attribute: object, value: Any) -> None:
    if faults := json_faults(value):
        raise ValueError(f"a payload must be JSON: {faults[0]}")


def _patterns(value: Iterable[str] | str | None) -> tuple[str, ...] | None:
    return None if value is None else (value,) if isinstance(value, str) else tuple(value)


def _check_patterns(_self: object, _attribute: object, value: Any) -> None:
    if value is not None and not 0 < len(value) <= MOST_PATTERNS:
        raise ValueError(f"patterns must be 1 to {MOST_PATTERNS}, got {len(value)}; None takes those proposed")
    for pattern in value or ():
        if not isinstance(pattern, str) or not 0 < len(pattern) <= MOST_PATTERN:
            raise ValueError(f"a pattern must be a text of 1 to {MOST_PATTERN} characters, got {pattern!r:.80}")


def _check_seconds(_self: object, _attribute: object, value: Any) -> None:
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 < value <= LONGEST_SECONDS:
        raise ValueError(f"seconds must be more than 0 and at most a year's, got {value!r:.80}")


def _check_feedback(_self: object, _attribute: object, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or len(value) > MOST_FEEDBACK):
        raise ValueError(f"feedback must be a text of at most {MOST_FEEDBACK:,} characters, got {value!r:.80}")


@frozen
class Once:
    """Yes, this time.

    Attributes:
        payload: JSON data for the tool, which finds it in `context.confirmation`; or `None`.
    """

    payload: Any = field(default=None, validator=_check_json)

    def to_json(self) -> JsonObject:
        """`{"answer": "once", "payload"?}`."""
        return _written("once", payload=self.payload)


@frozen
class Always:
    """Yes, and for these patterns from now on, in this session.

    Attributes:
        patterns: What is allowed; `None` takes what the request proposes.
        seconds: For how long; `None` for as long as the session lasts.
    """

    patterns: tuple[str, ...] | None = field(default=None, converter=_patterns, validator=_check_patterns)
    seconds: float | None = field(default=None, validator=_check_seconds)

    def to_json(self) -> JsonObject:
        """`{"answer": "always", "patterns"?, "seconds"?}`."""
        return _written("always", patterns=self.patterns and [*self.patterns], seconds=self.seconds)


@frozen
class Reject:
    """No; what else waits in this session is rejected with it.

    Attributes:
        feedback: What the model shall do instead; without it the turn ends.
        along_with: By the board: the tool whose rejection took this call along, or `None`.
    """

    feedback: str | None = field(default=None, validator=_check_feedback)
    along_with: str | None = None

    def to_json(self) -> JsonObject:
        """`{"answer": "reject", "feedback"?}`."""
        return _written("reject", feedback=self.feedback)


@frozen
class Later:
    """The answer comes in another turn or process; until then the call is suspended."""

    def to_json(self) -> JsonObject:
        """`{"answer": "later"}`."""
        return _written("later")


Answer: TypeAlias = Once | Always | Reject | Later

_KINDS: Final[Mapping[str, tuple[type[Answer], frozenset[str]]]] = {
    "once": (Once, frozenset({"payload"})),
    "always": (Always, frozenset({"patterns", "seconds"})),
    "reject": (Reject, frozenset({"feedback"})),
    "later": (Later, frozenset()),
}


def answer_from_json(data: JsonMapping) -> Answer:
    """Reads what an answer's `to_json` writes, from a source that isn't trusted.

    Raises:
        PendingError: It isn't an answer.
    """
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        raise PendingError(f"an answer is an object, not {data!r:.80}")
    facts = dict(data)
    word = facts.pop("answer", None)
    if not isinstance(word, str) or word not in _KINDS:
        raise PendingError(f"there is no answer {word!r:.80}; there are {', '.join(_KINDS)}")
    kind, known = _KINDS[word]
    if unknown := facts.keys() - known:
        raise PendingError(f"the answer {word!r} has no {min(map(str, unknown))!r:.80}")
    if isinstance(facts.get("patterns"), str):
        raise PendingError("patterns must be a list of texts")
    try:
        return kind(**facts)
    except (TypeError, ValueError) as error:
        raise PendingError(f"not an answer: {error}") from None


def _written(word: str, **facts: Any) -> JsonObject:
    return {"answer": word, **{name: value for name, value in facts.items() if value is not None}}
