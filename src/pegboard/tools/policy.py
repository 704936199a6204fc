"""What stands beside a spec: the tool's origin, its policy, the limits on its results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import attrs
from attrs import Factory, field, frozen

Keep: TypeAlias = Literal["head", "tail", "middle"]
"""Which part stays: the beginning, the end, or both ends without the middle."""

TokenCounter: TypeAlias = Callable[[str], int]
"""How many tokens a text has: at most one a byte."""

BYTES_A_TOKEN: Final = 4
"""The estimate without a counter: English text and code have three to five."""

_MOST_BYTES_A_CHARACTER: Final = 4
_at_least_one: Final = attrs.validators.optional(attrs.validators.ge(1))


def _small(limits: ResultLimits) -> int:
    lines, most, tokens = limits.lines, limits.bytes, limits.tokens
    return min(
        sys.maxsize if lines is None else lines,
        sys.maxsize if most is None else most // _MOST_BYTES_A_CHARACTER,
        sys.maxsize if tokens is None else tokens // _MOST_BYTES_A_CHARACTER,
    )


@frozen
class ResultLimits:
    """How much of a result the model gets; whatever limit is hit first holds, `None` is none.

    The words that say what was left out, and how to read on, come on top.

    Attributes:
        lines: How many lines of text.
        bytes: How many bytes of text, in UTF-8.
        tokens: How many tokens of text.
        keep: Which part stays: `"head"`, `"tail"`, or `"middle"` for both ends without the middle.
        count_tokens: Counts the tokens of a text; `None` takes four bytes for one. Called off the event loop.
        media_bytes: How many bytes of pictures, sounds and files, all of a result's together. What goes beyond it
            becomes an attachment.
        small: Texts of so many characters are surely within the limits.
    """

    lines: int | None = field(default=2_000, validator=_at_least_one)
    bytes: int | None = field(default=51_200, validator=_at_least_one)
    tokens: int | None = field(default=None, validator=_at_least_one)
    keep: Keep = field(default="head", validator=attrs.validators.in_(("head", "tail", "middle")))
    count_tokens: TokenCounter | None = None
    media_bytes: int | None = field(default=10_485_760, validator=_at_least_one)
    small: int = field(init=False, repr=False, eq=False, default=Factory(_small, takes_self=True))


DEFAULT_RESULT_LIMITS: Final = ResultLimits()
"""2,000 lines or 50 KiB of text, 10 MiB of anything else, and the head stays."""

ConflictPolicy: TypeAlias = Literal["error", "keep", "replace", "shadow", "prefix"]
"""Two tools of one name: raise, keep the earlier, take the later, take the later until it is disposed, or prefix the
later's name with its plugin's."""


@frozen
class Origin:
    """Who brought a tool.

    Attributes:
        plugin: The plugin's name (its entry point's), or `None` for the host program.
        distribution: The installed distribution, or `None`.
        version: The distribution's version, or `None`.
        toolset: The toolset that offered the tool at this resolution, or `None`.
        trusted: Whether the annotations may be believed; those of an untrusted origin only add caution.
    """

    plugin: str | None = None
    distribution: str | None = None
    version: str | None = None
    toolset: str | None = None
    trusted: bool = True

    def __str__(self) -> str:
        if self.plugin is None:
            source = "the host"
        elif self.distribution is None:
            source = f"plugin {self.plugin!r}"
        else:
            source = f"plugin {self.plugin!r} ({self.distribution} {self.version or '?'})"
        return f"{source}, toolset {self.toolset!r}" if self.toolset else source


HOST: Final = Origin()
LEAST_MEMORY: Final = 64 << 20
"""Bytes that a child process needs for Python itself and what a tool imports."""


@frozen
class Policy:
    """How calls of a tool are treated; `None` leaves it to the registry.

    Attributes:
        timeout: Seconds that one call may take.
        coerce: Whether arguments may be converted to the schema's types (on a copy, reported).
        expose_errors: Whether the text of unexpected exceptions reaches the model.
        retries: How often a failed call of an idempotent tool is tried again.
        max_concurrency: How many calls of the tool may run at once.
        result_limits: How much of a result the model gets.
        executor: Where the handler runs: `"loop"`, `"thread"`, `"process"` (a child process, by pegboard-processes),
            or the name of another executor of a plugin or the host; `None` is in the loop where it is async,
            else in a thread.
        memory_limit: Bytes of memory that a call in a child process may use, all of the process counted.

    Raises:
        ValueError: A `max_concurrency` below 1: no call would ever run. A `memory_limit` below 64 MiB: Python itself
            would have no room.
    """

    timeout: float | None = None
    coerce: bool | None = None
    expose_errors: bool | None = None
    retries: int = 0
    max_concurrency: int | None = field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))
    result_limits: ResultLimits | None = None
    executor: str | None = None
    memory_limit: int | None = field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(LEAST_MEMORY))
    )


DEFAULT_POLICY: Final = Policy()


@frozen
class Limits:
    """What calls may use, where their tool declares nothing else.

    Attributes:
        timeout: Seconds for one call; `None` is no limit.
        expose_errors: Whether the text of unexpected exceptions reaches the model.
        argument_bytes: How long the JSON text of the arguments may be.
        argument_nodes: How many values the arguments may hold.
        coerce: Whether arguments may be converted to the schema's types (on a copy, reported).
        repair: Whether a name in another case, or with one near miss, is taken for the one that was meant.
        results: How long a result's text may be.
        callback_timeout: Seconds for one callback.
        approval_timeout: Seconds that a person may take for an answer; no answer is no.
        rejection_ends_turn: Whether a person's no without a word of feedback ends the turn.
        max_concurrency: How many calls of the registry may run at once; `None` is no limit.
        depth: How many calls deep tools may call tools.
        grace: Seconds that a cancelled coroutine has to tidy up.
    """

    timeout: float | None = 120.0
    expose_errors: bool = False
    argument_bytes: int = 1_000_000
    argument_nodes: int = 100_000
    coerce: bool = False
    repair: bool = True
    results: ResultLimits = DEFAULT_RESULT_LIMITS
    callback_timeout: float = 30.0
    approval_timeout: float = 300.0
    rejection_ends_turn: bool = True
    max_concurrency: int | None = None
    depth: int = 8
    grace: float = 1.0


DEFAULT_LIMITS: Final = Limits()
