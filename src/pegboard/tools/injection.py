"""Injected parameters: `Injected[...]` is filled by the host's services, and the model never sees it."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin

from attrs import frozen

from pegboard.errors import FatalToolError, MissingServiceError, ToolError
from pegboard.tools.state import CallContext

T = TypeVar("T")
Kind: TypeAlias = type[T] | Callable[..., T]
"""The type of a service, for checkers: some refuse a protocol or an abstract class where `type[T]` alone stands."""

_NO_CLASSES: Final = (types.UnionType, Annotated)  # classes by name, but nothing is of them


def class_of_kind(kind: Any) -> Any:
    """`Repository` of `Repository[User]`; anything else as it is."""
    return get_origin(kind) or kind


def is_kind(kind: Any) -> bool:
    """Whether services can be provided for it: a class or protocol, perhaps with its parameters filled in."""
    cls = class_of_kind(kind)
    return isinstance(cls, type) and cls not in _NO_CLASSES


def name_of_kind(kind: Any) -> str:
    """`Database`, `Repository[User]`, for people."""
    return kind.__qualname__ if isinstance(kind, type) else str(kind)


@frozen
class _Marker:
    def __repr__(self) -> str:
        return "injected"


_INJECTED: Final = _Marker()
Injected: TypeAlias = Annotated[T, _INJECTED]
"""`db: Injected[Database]`: filled with what `registry.provide(Database, ...)` gave; hidden from the model.

With a default, the tool also runs where none is provided.
"""


@frozen
class Injection:
    """A parameter that a service fills.

    Attributes:
        name: The parameter's name.
        kind: The type of the service.
        is_optional: Whether the parameter has a default, which stands where the service isn't provided.
    """

    name: str
    kind: Any
    is_optional: bool = False


def injected_kind(annotation: Any) -> Any:
    """The type of the service that a parameter's annotation asks for; `None` where it asks for none."""
    if get_origin(annotation) is Annotated:
        kind, *markers = get_args(annotation)
        return _without_none(kind) if _INJECTED in markers else injected_kind(kind)
    return next((kind for each in _members(annotation) if (kind := injected_kind(each)) is not None), None)


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (typing.Union, types.UnionType) else ()


def _without_none(kind: Any) -> Any:
    """`Database` of `Database | None`."""
    kinds = [each for each in _members(kind) if each is not type(None)]
    return kinds[0] if len(kinds) == 1 else kind


async def opened(injects: Sequence[Injection], context: CallContext) -> None:
    """Opens what the parameters of a tool need, so that binding finds it.

    Args:
        injects: Of the tool's handler.
        context: Of the call; `close_services` closes what was opened.

    Raises:
        ToolError: It isn't provided, or it can't be opened. The model learns that the tool isn't set up, the operator
            what to provide (from `__cause__`).
        FatalToolError: A factory ends the turn.
    """
    for each in injects:
        try:
            if context.provides(each.kind) or not each.is_optional:
                await context.use(each.kind)
        except MissingServiceError as error:
            text = f"{context.tool} isn't set up here, so it can't run. Do without it, or say so."
            raise ToolError(text) from error
        except (ToolError, FatalToolError):
            raise
        except Exception as error:
            text = f"{context.tool} can't run now: something that it needs can't be opened."
            raise ToolError(text) from error


def filled(injects: Sequence[Injection], context: CallContext) -> dict[str, Any]:
    """What the parameters get, by name, once it is `opened`.

    Where it isn't provided: `None`, as in a context that was made for a check; nothing for one with a default.
    """
    values: dict[str, Any] = {}
    for each in injects:
        if context.provides(each.kind):
            values[each.name] = context.service(each.kind)
        elif not each.is_optional:
            values[each.name] = None
    return values


__all__ = [
    "Injected",
    "Injection",
    "Kind",
    "class_of_kind",
    "filled",
    "injected_kind",
    "is_kind",
    "name_of_kind",
    "opened",
]
