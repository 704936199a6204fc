"""Callbacks, plain or async: the members of chains."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from attrs import Factory, field, frozen

F = TypeVar("F", bound=Callable[..., Any])
_QUICK: Final = "__pegboard_quick__"
_BEHIND: Final = "__pegboard_behind__"
ONLY: Final = "__pegboard_only__"


def quick(function: F) -> F:
    """Marks a plain callback as one that never waits: it is called on the event loop, which saves it a thread.

    A callback that does wait then holds up every call of the loop. Async callbacks need no such word.

        @quick
        def only_reads(tool):
            return None if tool.spec.annotations.read_only_hint else Deny("nothing may be changed now.")

    Raises:
        TypeError: The function can't be marked, as one written in C; wrap it in one that can.
    """
    try:
        setattr(function, _QUICK, True)
    except AttributeError:
        raise TypeError(f"{_name_of(function)} can't be marked as quick; wrap it in a function") from None
    return function


def only(where: str) -> Callable[[F], F]:
    """Limits a hook round calls to the tools that fit a predicate; `add_callback(..., where=...)` does so for a host's.

    @hookimpl
    @only("tag:network")
    def pegboard_before_tool(context): ...
    """

    def marked(function: F) -> F:
        setattr(function, ONLY, where)
        return function

    return marked


def may_block(function: Callable[..., Any]) -> bool:
    """Whether a callback has to be called off the event loop: it is plain, and doesn't say that it is quick."""
    function = getattr(function, _BEHIND, function)
    is_quick = any(getattr(each, _QUICK, False) for each in (function, _body_of(function)))
    return not is_quick and Flavour.of(function) is not Flavour.ASYNC


def _body_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a call runs: the function inside of partial ones, or an object's `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    is_itself = inspect.isroutine(function) or isinstance(function, type)
    return function if is_itself else type(function).__call__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Flavour(enum.Enum):
    """Kind of a callable, by what calling it gives."""

    PLAIN = "plain"
    ASYNC = "async"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Flavour:
        """Settled once, at definition; callable objects are classified by their `__call__`."""
        function = _body_of(function)
        if inspect.iscoroutinefunction(function):
            return cls.ASYNC
        if inspect.isasyncgenfunction(function):
            return cls.ASYNC_GENERATOR
        return cls.GENERATOR if inspect.isgeneratorfunction(function) else cls.PLAIN


@frozen
class Callback:
    """One member of a chain.

    Attributes:
        function: Plain or async.
        owner: What brought it, for error messages.
        where: Whether it is asked about calls of a tool, given with the context; `None`: about all calls.
        blocking: Whether it has to be called off the event loop; settled once, by what the function is.
    """

    function: Callable[..., Any]
    owner: str = "the host"
    where: Callable[[Any, Any], bool] | None = None
    blocking: bool = field(default=Factory(lambda self: may_block(self.function), takes_self=True), eq=False)


class ChainError(Exception):
    """A member of a chain failed; `__cause__` is what it raised.

    Attributes:
        callback: The member.
    """

    def __init__(self, callback: Callback, error: BaseException) -> None:
        self.callback = callback
        super().__init__(f"{_name_of(callback.function)} of {callback.owner}: {error!r}")


async def settle(answer: Any) -> Any:
    """The answer itself, awaited where it has to be."""
    return await answer if inspect.isawaitable(answer) else answer


def by_name(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """A callable that takes all of `names` in order and hands `function` those that it asks for, by name.

    Args:
        function: Takes some of `names`; other parameters need defaults.
        names: What the chain offers.

    Returns:
        `function` itself where it takes exactly `names`, in order.

    Raises:
        TypeError: A required parameter isn't among `names`, or is taken by position only.
    """
    parameters = _parameters(function)
    if len(names) == 1 and [each.kind for each in parameters] == [inspect.Parameter.POSITIONAL_ONLY]:
        return function  # such as a list's `append`: what there is to take is no question
    there_are = f"there are {', '.join(names)}"
    for each in parameters:
        if each.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        if each.default is inspect.Parameter.empty and each.name not in names:
            raise TypeError(f"{_name_of(function)} asks for {each.name!r}; {there_are}")
        if each.kind is inspect.Parameter.POSITIONAL_ONLY and each.name in names:
            raise TypeError(f"{_name_of(function)} asks for {each.name!r} by position only; {there_are}, by name")
    if tuple(parameter.name for parameter in parameters if parameter.kind is _ORDINARY) == tuple(names):
        return function
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    asked = names if takes_all else [parameter.name for parameter in parameters if parameter.kind in _NAMED]
    places = tuple((name, place) for place, name in enumerate(names) if name in asked)

    def call(*values: Any) -> Any:
        return function(**{name: values[place] for name, place in places})

    call.__qualname__ = _name_of(function)
    setattr(call, _BEHIND, function)
    return call


_ORDINARY: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_NAMED: Final = (_ORDINARY, inspect.Parameter.KEYWORD_ONLY)


def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except ValueError as error:  # some that are written in C
        raise TypeError(f"{_name_of(function)} has no signature to read; wrap it in a function") from error


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", function))
