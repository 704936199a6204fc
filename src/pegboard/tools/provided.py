"""`Provided`: a service as the host provides it: a value, or what makes one."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from attrs import frozen

from pegboard.tools.service_kind import class_of_kind, is_kind, name_of_kind

if TYPE_CHECKING:
    from pegboard.tools.context import ToolContext

ServiceScope: TypeAlias = Literal["call", "registry"]
"""How long what a factory made is kept: for one call, or until the registry is closed."""

Maker: TypeAlias = "Callable[[ToolContext], Any]"

_CONTEXT: Final = "context"
_REQUIRED: Final = inspect.Parameter.empty
_STARRED: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@frozen(eq=False)
class Provided:
    """A service as the host provides it.

    Attributes:
        kind: The type that it is asked for by.
        value: The value, where it isn't made.
        make: Makes it: the context -> the value, an awaitable of it, or a context manager; or `None`.
        scope: How long what is made is kept.
        blocking: Whether a plain factory may block, and so runs off the event loop.
        enter: Whether a context manager that the factory gives is entered.
    """

    kind: Any
    value: Any = None
    make: Maker | None = None
    scope: ServiceScope = "call"
    blocking: bool = True
    enter: bool = True

    @property
    def name(self) -> str:
        """The type's name, for people."""
        return name_of_kind(self.kind)


def provided(
    kind: Any, thing: Any, *, scope: ServiceScope | None = None, blocking: bool = True, enter: bool = True
) -> Provided:
    """What a host says, made sense of.

    A value of the type is kept as it is, and so is whatever can't be called. What can be called makes the value.

    Args:
        kind: A class or protocol, perhaps with its parameters filled in (`Repository[User]`).
        thing: The value, or a factory: plain, async, a generator (plain or async) that yields the value and goes on
            to close it, or giving a context manager. It gets the context if it has a required parameter, or one
            called `context`.
        scope: How long what a factory made is kept: `"call"`, by default, or `"registry"`.
        blocking: `False` for a plain factory that never waits: it runs on the event loop.
        enter: Whether a context manager that the factory gives is entered, and left at the end.

    Raises:
        TypeError: `kind` is no type, `scope` is none, or the factory asks for what it can't get.
    """
    if not is_kind(kind):
        raise TypeError(f"a service is provided for a class or protocol, not for {kind!r:.80}")
    if scope not in (None, "call", "registry"):
        raise TypeError(f'scope is "call" or "registry", not {scope!r:.80}')
    if not _is_factory(kind, thing):
        return Provided(kind, thing)
    parameter = _context_parameter(thing, kind)
    if parameter is not None and scope == "registry":
        what = f"the factory of {name_of_kind(kind)} takes {parameter.name}"
        raise TypeError(f"{what}; it makes one for all calls of the registry, so it gets no call's context")
    return Provided(kind, None, _maker(_managed(thing), parameter), scope or "call", blocking, enter)


def _is_factory(kind: Any, thing: Any) -> bool:
    if not callable(thing):
        return False
    if inspect.isroutine(thing) or isinstance(thing, type | functools.partial):  # pyright: ignore[reportUnknownArgumentType]
        return not _is_instance(thing, kind)  # pyright: ignore[reportUnknownArgumentType]
    # Of a protocol nobody can tell at run time who keeps to it; what is no function is meant to.
    return not (getattr(class_of_kind(kind), "_is_protocol", False) or _is_instance(thing, kind))


def _is_instance(thing: object, kind: Any) -> bool:
    try:
        return isinstance(thing, class_of_kind(kind))
    except TypeError:  # a protocol that isn't runtime_checkable
        return False


def _managed(factory: Callable[..., Any]) -> Callable[..., Any]:
    """A generator as what gives a context manager; anything else as it is."""
    from pegboard.tools.handler import Flavour

    flavour = Flavour.of(factory)
    if flavour is Flavour.GENERATOR:
        return contextlib.contextmanager(factory)
    return contextlib.asynccontextmanager(factory) if flavour is Flavour.ASYNC_GENERATOR else factory


def _context_parameter(factory: Any, kind: Any) -> inspect.Parameter | None:
    """The parameter that gets the context: the one that must be filled, else one of that name."""
    try:
        every = [*inspect.signature(factory).parameters.values()]
    except ValueError:  # some that are written in C
        return None
    parameters = [each for each in every if each.kind not in _STARRED]
    required = [each for each in parameters if each.default is _REQUIRED]
    if len(required) > 1:
        names = ", ".join(each.name for each in required)
        raise TypeError(f"the factory of {name_of_kind(kind)} takes {names}; it gets nothing but the context")
    return next(iter(required), None) or next((each for each in parameters if each.name == _CONTEXT), None)


def _maker(factory: Callable[..., Any], parameter: inspect.Parameter | None) -> Maker:
    if parameter is None:
        return lambda _context: factory()
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        return factory
    name = parameter.name
    return lambda context: factory(**{name: context})


__all__ = ["Provided", "ServiceScope", "provided"]
