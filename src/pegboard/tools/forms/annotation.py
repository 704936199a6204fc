"""Annotations as keys and as names."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Hashable
from typing import Any, Final

_ANNOTATED: Final[Any] = type(typing.Annotated[int, ""])
_LITERAL: Final[Any] = typing.Literal
_ODD: Final = re.compile(r"[^A-Za-z0-9_]+")
_MODULE: Final = re.compile(r"\b(?:[A-Za-z_]\w*\.)+")


def annotation_key(annotation: Any) -> Hashable:
    """What is equal for annotations that mean the same, and only for those.

    Python calls `int | str` and `str | int` equal, and `Annotated` with equal bounds; but the order of a union
    says which member is tried first, and metadata is what it is. A key with an `id` in it is good as long as its
    annotation lives.
    """
    if isinstance(annotation, type):
        return annotation
    # Read off directly: `typing.get_origin` and `get_args` take several times as long.
    arguments: tuple[Any, ...] | None = getattr(annotation, "__args__", None)
    if arguments is None:
        return annotation if isinstance(annotation, Hashable) else id(annotation)
    if type(annotation) is types.UnionType:
        return (typing.Union, *map(annotation_key, arguments))
    origin = annotation.__origin__
    if type(annotation) is _ANNOTATED:
        return (_ANNOTATED, annotation_key(origin), *[_metadata_key(each) for each in annotation.__metadata__])
    if origin is _LITERAL:
        return (origin, *[(type(each).__name__, each) for each in arguments])
    return (origin, *map(annotation_key, arguments))


def _metadata_key(metadata: object) -> Hashable:
    return metadata if type(metadata) is str else id(metadata)


def annotation_name(annotation: Any) -> str:
    """A name for `$defs`: `Node`, `Box_int`."""
    return _ODD.sub("_", annotation_text(annotation)).strip("_")


def annotation_text(annotation: Any) -> str:
    """An annotation as one writes it, without modules: `Box[int]`."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation.__name__
    return _MODULE.sub("", repr(annotation))


def marker_text(marker: object) -> str:
    """A marker of `Annotated`, by its class where it doesn't show itself."""
    text = repr(marker)
    return type(marker).__name__ if " object at 0x" in text else text
