"""Callbacks, plain or async: wrappers, argument matching, and whether they may block."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from attrs import Factory, field

from pegboard.typing import frozen

F = TypeVar("F", bound=Callable[..., Any])
_QUICK: Final = "__pegboard_quick__"
_READ_ONLY: Final = "__pegboard_read_only__"
_WRAPPED: Final = "__pegboard_wrapped__"
ONLY: Final = "__pegboard_only__"  # attribute of a callback with the names of its tools, set by `when`


def nonblocking(function: F) -> F:
    """Decorator for a plain callback that never blocks: it is called on the event loop, without a thread.

    A marked callback that does block stops every call on the loop. Async callbacks don't need the mark.

        @nonblocking
        def only_reads(tool):
            return None if tool.spec.annotations.read_only_hint else Deny("nothing may be changed now.")

    Raises:
        TypeError: The callable takes no attributes, such as one written in C; wrap it in a function.
    """
    return _mark(function, _QUICK)


def _mark(function: F, mark: str) -> F:
    try:
        setattr(function, mark, True)
    except AttributeError:
        raise TypeError(f"{_name_of(function)} can't be marked; wrap it in a function") from None
    return function


def read_only(function: F) -> F:
    """Decorator for a `before_tool` or `approve_call` callback that changes nothing: `registry.decide` calls it, too.

    Below `@hookimpl`, as `nonblocking`. Of a callback without the mark it isn't known what it would say, so that
    `decide` answers `ask`. Raises as `nonblocking` does.
    """
    return _mark(function, _READ_ONLY)


def is_read_only(function: Callable[..., Any]) -> bool:
    """Whether a callback is marked as `read_only`."""
    function = getattr(function, _WRAPPED, function)
    return any(getattr(each, _READ_ONLY, False) for each in (function, _body_of(function)))


def when(where: str | Callable[..., bool]) -> Callable[[F], F]:
    """Decorator that limits a call hook to tools matching a predicate; hosts use `add_callback(..., where=...)`.

    @hookimpl
    @when("tag:network")
    def pegboard_before_tool(context): ...

    For `check_tools` it is a quick function of the configuration: whether there is something to check now. While there
    isn't, a call without resolved tools resolves nothing. Above a method it is a method; one that raises counts as yes.
    """

    def marked(function: F) -> F:
        setattr(function, ONLY, where)
        return function

    return marked


def is_due(function: Callable[..., Any], config: Any) -> bool:
    """Whether a `check_tools` callback has something to check now."""
    function = getattr(function, _WRAPPED, function)
    condition: Callable[..., bool] | None = getattr(function, ONLY, None)
    owner = getattr(function, "__self__", None)
    try:
        return condition is None or bool(condition(config) if owner is None else condition(owner, config))
    except Exception:  # noqa: BLE001  the check itself says what is wrong
        return True


def may_block(function: Callable[..., Any]) -> bool:
    """Whether a callback has to run off the event loop: it is plain and not marked as `nonblocking`."""
    function = getattr(function, _WRAPPED, function)
    is_quick = any(getattr(each, _QUICK, False) for each in (function, _body_of(function)))
    return not is_quick and CallableKind.of(function) is not CallableKind.ASYNC


def _body_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a call runs: inside any partials, or an object's `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    is_itself = inspect.isroutine(function) or isinstance(function, type)
    return function if is_itself else type(function).__call__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class CallableKind(enum.Enum):
    """Kind of a callable, by what a call returns."""

    PLAIN = "plain"
    ASYNC = "async"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"

    @classmethod
    def of(cls, function: Callable[..., Any]) -> CallableKind:
        """The kind of a function; a callable object is classified by its `__call__`."""
        function = _body_of(function)
        if inspect.iscoroutinefunction(function):
            return cls.ASYNC
        if inspect.isasyncgenfunction(function):
            return cls.ASYNC_GENERATOR
        return cls.GENERATOR if inspect.isgeneratorfunction(function) else cls.PLAIN


@frozen
class Callback:
    """One callback of a chain.

    Attributes:
        function: Plain or async.
        owner: The plugin or host that registered it, for error messages.
        where: Predicate on tool and context that selects the calls it runs for; `None` selects all.
        blocking: Whether it has to run off the event loop; by default derived from the function.
        plugin: The name of the plugin that registered it; `"host"` for the host.
    """

    function: Callable[..., Any]
    owner: str = "the host"
    where: Callable[[Any, Any], bool] | None = None
    blocking: bool = field(default=Factory(lambda self: may_block(self.function), takes_self=True), eq=False)
    plugin: str = "host"


class ChainError(Exception):
    """A callback of a chain failed; `__cause__` is the exception that it raised.

    Attributes:
        callback: The callback.
    """

    def __init__(self, callback: Callback, error: BaseException) -> None:
        self.callback = callback
        super().__init__(f"{_name_of(callback.function)} of {callback.owner}: {error!r}")


async def maybe_await(answer: Any) -> Any:
    """The answer, awaited if it is awaitable."""
    return await answer if inspect.isawaitable(answer) else answer


def accept_keywords(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Adapter that takes values for all of `names`, in order, and passes `function` those it has parameters for.

    It is `function` itself if its parameters are exactly `names`, in order. Raises `TypeError` if a parameter without a
    default isn't in `names`, or one that is in them is positional-only.
    """
    try:
        parameters = tuple(inspect.signature(function).parameters.values())
    except ValueError as error:  # some callables written in C
        raise TypeError(f"{_name_of(function)} has no signature to read; wrap it in a function") from error
    if len(names) == 1 and [each.kind for each in parameters] == [inspect.Parameter.POSITIONAL_ONLY]:
        return function  # such as a list's `append`: with one value the name doesn't matter
    may_have = f"it may have {', '.join(names)}"
    takes: list[str] = []
    for each in parameters:
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            takes.extend(names)
        elif each.kind is not inspect.Parameter.VAR_POSITIONAL:
            if each.default is inspect.Parameter.empty and each.name not in names:
                raise TypeError(f"{_name_of(function)} has a parameter {each.name!r}; {may_have}")
            if each.kind is inspect.Parameter.POSITIONAL_ONLY and each.name in names:
                raise TypeError(f"{_name_of(function)} has {each.name!r} by position only; {may_have}, by name")
            takes.append(each.name)
    ordinary = inspect.Parameter.POSITIONAL_OR_KEYWORD
    if tuple(each.name for each in parameters if each.kind is ordinary) == tuple(names):
        return function
    places = tuple((name, place) for place, name in enumerate(names) if name in takes)

    def call(*values: Any) -> Any:
        return function(**{name: values[place] for name, place in places})

    call.__qualname__ = _name_of(function)
    setattr(call, _WRAPPED, function)
    return call


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", function))
