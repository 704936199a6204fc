"""`Work`: what is known of one call while the stages take it from the model's words to its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from attrs import define, frozen

from pegboard.chains import Link
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ErrorKind, ToolResult
from pegboard.tools.context import ToolContext

if TYPE_CHECKING:
    from pegboard.dispatch.threads import Threads
    from pegboard.tools.tool import Tool


class CallError(Exception):
    """Ends the way forward of one call: an error result that says why, unless a callback recovers.

    Attributes:
        kind: Why.
        text: For the model: what happened, and what to do.
        detail: For the operator, or `None`.
        problems: For invalid arguments: `"path: reason"` each.
    """

    def __init__(
        self, kind: ErrorKind, text: str, *, detail: str | None = None, problems: tuple[str, ...] = ()
    ) -> None:
        self.kind: ErrorKind = kind
        self.text = text
        self.detail = detail
        self.problems = problems
        super().__init__(text)

    def result(self) -> ToolResult:
        """The error result that this error becomes."""
        return ToolResult.error(self.kind, self.text, detail=self.detail)


@frozen
class Callbacks:
    """The chains round one call, plugins' first, in the order in which they are asked."""

    before: tuple[Link, ...] = ()
    after: tuple[Link, ...] = ()
    on_error: tuple[Link, ...] = ()


NO_CALLBACKS: Final = Callbacks()


@frozen
class Limits:
    """What one call may use, where its tool says nothing else.

    Attributes:
        timeout: Seconds for one call; `None` is no limit.
        expose_errors: Whether the text of unexpected exceptions reaches the model.
        argument_bytes: How long the JSON text of the arguments may be.
    """

    timeout: float | None = 120.0
    expose_errors: bool = False
    argument_bytes: int = 1_000_000


DEFAULT_LIMITS: Final = Limits()


@frozen(eq=False)
class Surroundings:
    """What all calls of one registry share.

    Attributes:
        find: Gives the tool of a name, or raises `CallError`.
        callbacks: The chains round each call.
        limits: What a call may use.
        threads: Where plain functions run.
        observe: Told of what only the operator should see: who failed, and how.
    """

    find: Callable[[str], Tool]
    threads: Threads
    callbacks: Callbacks = NO_CALLBACKS
    limits: Limits = DEFAULT_LIMITS
    observe: Callable[[str, BaseException], None] | None = None

    def finding(self, find: Callable[[str], Tool]) -> Surroundings:
        """The same, with another way to find tools."""
        return Surroundings(find, self.threads, self.callbacks, self.limits, self.observe)


NO_ARGUMENTS: Final[Mapping[str, Any]] = MappingProxyType({})


@define(eq=False)
class Work:
    """One call on its way. Each stage fills in its own part and changes no other's.

    Attributes:
        call: What the model asked for.
        context: What the tool gets to know.
        around: What all calls share.
        tool: By `find`.
        arguments: By `parse`, and by `before` where a callback changes them.
        parsed: By `parse`: whether the arguments were read from text, and so are JSON for sure.
        changed: By `before`: whether a callback changed the arguments.
        value: By `run`: what the function gave back.
        result: By `shape`; or by a callback that answers.
        error: What ended the way forward, until a callback recovers.
        fatal: What ends the turn once every call has its result.
    """

    call: ToolCall
    context: ToolContext
    around: Surroundings
    tool: Tool | None = None
    arguments: Mapping[str, Any] = NO_ARGUMENTS
    parsed: bool = False
    changed: bool = False
    value: Any = None
    result: ToolResult | None = None
    error: BaseException | None = None
    fatal: BaseException | None = None
