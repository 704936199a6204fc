"""The types that services are provided and asked for by."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_origin

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
