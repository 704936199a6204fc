"""`Limits` of calls, and `ResultLimits` of what the model gets of a result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from attrs import field

from pegboard.errors import at_least, one_of
from pegboard.typing import frozen

Keep: TypeAlias = Literal["head", "tail", "middle"]
"""The part of a long text that is used: the beginning, the end, or both ends without the middle."""

TokenCounter: TypeAlias = Callable[[str], int]  # the tokens of a text: at most one per byte
BYTES_A_TOKEN: Final = 4  # the estimate without a counter: English text and code have three to five
AT_LEAST_ONE: Final = at_least(1, or_none=True)
_NOT_NEGATIVE: Final = at_least(0, or_none=True)


@frozen
class ResultLimits:
    """Limits on the size of the result that the model gets; the first one reached applies, `None` is no limit.

    The note about the omitted part, and how to read on, isn't counted.

    Attributes:
        lines: The maximum lines of text.
        bytes: The maximum bytes of text, in UTF-8.
        tokens: The maximum tokens of text.
        keep: The part that is used: `"head"`, `"tail"`, or `"middle"` for both ends without the middle.
        count_tokens: Counts the tokens of a text; `None` estimates four bytes per token. Called off the event loop.
        media_bytes: The maximum bytes of images, audio and files, all of a result's together. Content beyond it becomes
            an attachment.
        small: Texts with at most this many characters are within the limits.
    """

    lines: int | None = field(default=2_000, validator=AT_LEAST_ONE)
    bytes: int | None = field(default=51_200, validator=AT_LEAST_ONE)
    tokens: int | None = field(default=None, validator=AT_LEAST_ONE)
    keep: Keep = field(default="head", validator=one_of("head", "tail", "middle"))
    count_tokens: TokenCounter | None = None
    media_bytes: int | None = field(default=10_485_760, validator=AT_LEAST_ONE)
    small: int = field(init=False, repr=False, eq=False, default=0)

    def __attrs_post_init__(self) -> None:
        # A character is at most one line and four bytes, each of which is at most one token.
        most = (self.lines, self.bytes and self.bytes // 4, self.tokens and self.tokens // 4)
        object.__setattr__(self, "small", min((each for each in most if each is not None), default=sys.maxsize))


DEFAULT_RESULT_LIMITS: Final = ResultLimits()
"""2,000 lines or 50 KiB of text, from the head, and 10 MiB of other content."""


@frozen
class Limits:
    """Default limits of calls, for tools that don't declare their own.

    Attributes:
        timeout: Seconds for one call; `None` is no limit.
        expose_errors: Whether the text of unexpected exceptions reaches the model.
        argument_bytes: The maximum size of the arguments as JSON text.
        argument_nodes: The maximum number of values in the arguments.
        coerce: Whether arguments may be converted to the schema's types (on a copy, reported).
        repair: Whether a tool name with other case or a small typo is corrected, if only one name can be meant.
        results: Limits on a result's text.
        callback_timeout: Seconds for one callback.
        approval_timeout: Seconds for a person's answer; no answer means no.
        rejection_ends_turn: Whether a person's no without feedback ends the turn.
        max_concurrency: The maximum number of concurrent calls of the registry; `None` is no limit.
        depth: The maximum depth of tools calling tools.
        grace: Seconds that a cancelled coroutine has for cleanup.
        predicate_timeout: Seconds for the functions of predicates, for all tools of a resolution together.
        toolset_timeout: Seconds for all toolsets of a resolution, which run concurrently.

    Raises:
        TypeError: A limit isn't a number.
        ValueError: A negative time or size, or a count below 1.
    """

    timeout: float | None = field(default=120.0, validator=_NOT_NEGATIVE)
    expose_errors: bool = False
    argument_bytes: int = field(default=1_000_000, validator=_NOT_NEGATIVE)
    argument_nodes: int = field(default=100_000, validator=_NOT_NEGATIVE)
    coerce: bool = False
    repair: bool = True
    results: ResultLimits = DEFAULT_RESULT_LIMITS
    callback_timeout: float = field(default=30.0, validator=_NOT_NEGATIVE)
    approval_timeout: float = field(default=300.0, validator=_NOT_NEGATIVE)
    rejection_ends_turn: bool = True
    max_concurrency: int | None = field(default=None, validator=AT_LEAST_ONE)
    depth: int = field(default=8, validator=AT_LEAST_ONE)
    grace: float = field(default=1.0, validator=_NOT_NEGATIVE)
    predicate_timeout: float = field(default=5.0, validator=_NOT_NEGATIVE)
    toolset_timeout: float = field(default=30.0, validator=_NOT_NEGATIVE)


DEFAULT_LIMITS: Final = Limits()
