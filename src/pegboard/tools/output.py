"""`Output`: what a return type says of a tool's results."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, get_args, get_origin

from attrs import frozen

from pegboard.errors import DefinitionError
from pegboard.schema.json import JsonText, json_text
from pegboard.tools.content import CONTENT_TYPES, ToolResult
from pegboard.tools.handler import Flavour, Unstructure
from pegboard.tools.signature import EMPTY

_UNIONS: Final = (typing.Union, types.UnionType)
_AWAITABLES: Final = (collections.abc.Awaitable, collections.abc.Coroutine)
_ITERATORS: Final = (collections.abc.Iterator, collections.abc.Generator)
_ASYNC_ITERATORS: Final = (
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
)
_LISTS: Final = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
_NONE: Final = type(None)
_READY: Final = (ToolResult, *CONTENT_TYPES)
"""What is a result, or a part of one, already."""

_SILENT: Final = (EMPTY, Any, object, _NONE, str, bytes, bytearray, typing.NoReturn, typing.Never, *_READY)
"""What says nothing of structured results: text and bytes become content as they are."""


@frozen
class Output:
    """What a return type says of a tool's results.

    Attributes:
        annotation: The type of the value that is turned into the result; `EMPTY` where it says nothing.
        schema: The JSON Schema of the structured result, an object's; `None` where the type says nothing.
        is_wrapped: Whether the value stands in the structured result as `{"result": value}`, because MCP wants
            an object and its type is none.
    """

    annotation: Any = EMPTY
    schema: JsonText | None = None
    is_wrapped: bool = False

    def make_unstructure(self) -> Callable[[], Unstructure | None]:
        """Makes the way back to JSON, when it is first asked for."""
        return partial(_unstructurer, self.annotation)


def _unstructurer(annotation: Any) -> Unstructure | None:
    if annotation is EMPTY:
        return None
    from pegboard.schema.unstructure import unstructurer

    return unstructurer(annotation)


NO_OUTPUT: Final = Output()


@frozen
class Returned:
    """What calling a function gives.

    Attributes:
        flavour: Settled once, by its code, else by its return type: a plain function may give a coroutine.
        annotation: The type of what the result is made of: what is awaited, what a generator returns, or the list
            of its items; `EMPTY` where nothing is said.
    """

    flavour: Flavour
    annotation: Any


def returned_by(function: Callable[..., Any], returns: Any) -> Returned:
    """What calling `function`, annotated to return `returns`, gives."""
    flavour = Flavour.of(function)
    origin: Any = get_origin(returns)
    parts: tuple[Any, ...] = get_args(returns)
    if flavour is Flavour.PLAIN:
        flavour = _flavour_of_type(origin or returns)
    if flavour is Flavour.ASYNC and origin in _AWAITABLES:
        return Returned(flavour, parts[-1])
    if flavour is Flavour.GENERATOR:
        returned = parts[2] if len(parts) > 2 else _NONE
        value = _list_of(parts) if returned in (None, _NONE) else returned
        return Returned(flavour, value)
    return Returned(flavour, _list_of(parts) if flavour is Flavour.ASYNC_GENERATOR else returns)


def _flavour_of_type(origin: Any) -> Flavour:
    if origin in _AWAITABLES:
        return Flavour.ASYNC
    if origin in _ASYNC_ITERATORS:
        return Flavour.ASYNC_GENERATOR
    return Flavour.GENERATOR if origin in _ITERATORS else Flavour.PLAIN


def _list_of(parts: tuple[Any, ...]) -> Any:
    """The list of a generator's items, whose type is the first argument of its own; text is an item like others."""
    if not parts or parts[0] in (Any, object, _NONE) or _is_ready(parts[0]):
        return EMPTY
    return list[parts[0]]


_known: Final[dict[Hashable, Output]] = {}
_MOST_KNOWN: Final = 1024


def output_of(annotation: Any, *, tool: str) -> Output:
    """What the type of a result says.

    Raises:
        DefinitionError: The type can't be written as JSON Schema.
    """
    spoken = _spoken(annotation)
    if spoken is EMPTY:
        return NO_OUTPUT
    try:
        return _known_output(spoken)
    except DefinitionError as error:
        raise DefinitionError(
            error.message,
            tool=tool,
            parameter=".".join(part for part in ("return", error.parameter) if part),
            annotation=error.annotation,
            hint="Annotate what it really gives back, or pass output_schema=None.",
        ) from None


def _spoken(annotation: Any) -> Any:
    """The part of a type that says something of structured results, `EMPTY` where none does."""
    origin = get_origin(annotation)
    parts: tuple[Any, ...] = get_args(annotation)
    if annotation is None or annotation in _SILENT or isinstance(annotation, typing.TypeVar):
        return EMPTY
    if origin is typing.Annotated:
        return EMPTY if _spoken(parts[0]) is EMPTY else annotation
    if origin in _UNIONS:
        members = [each for each in parts if each not in _READY]
        if all(_spoken(each) is EMPTY for each in members):
            return EMPTY
        return typing.Union[tuple(members)]  # noqa: UP007  (made of a list)
    if origin in _LISTS and any(_is_ready(each) for each in parts):
        return EMPTY
    return annotation


def _is_ready(annotation: Any) -> bool:
    """Whether a list's items are content already, or may be."""
    members = get_args(annotation) if get_origin(annotation) in _UNIONS else (annotation,)
    return any(each in _READY for each in members)


def _known_output(annotation: Any) -> Output:
    """What a type says, worked out once."""
    from pegboard.schema.types import annotation_key

    key = annotation_key(annotation)  # annotations that differ may be equal: int | str and str | int
    known = _known.get(key)
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[key] = _output_of_type(annotation)
    return known


def _output_of_type(annotation: Any) -> Output:
    from pegboard.schema.types import Property, object_schema, schema_of

    schema = schema_of(annotation)
    if schema.get("type") == "object":
        return Output(annotation, json_text(schema))
    return Output(annotation, json_text(object_schema([Property("result", annotation)])), is_wrapped=True)
